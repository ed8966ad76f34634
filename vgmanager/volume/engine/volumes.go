package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// Provisioner creates and extends volumes, and changes their tags.
type Provisioner struct{ *node }

// NewVolume describes a volume to create.
type NewVolume struct {
	// Class is the device class, "" for the default one. OptionClass replaces its lvcreate options, if it is not "".
	Class, Name, OptionClass string
	// Size is in bytes.
	Size int64
	Tags []string
}

// CreateLV creates a volume. If the class already has a volume with the name and the requested size, CreateLV returns
// that volume. The size in the response is the actual size, rounded up to whole extents of the volume group. The
// device number is 0, because no caller uses it and it would require another report.
//
// A tag with the Spread of the volume keeps it apart from the others of its group.
//
// Reasons: ResourceExhausted (this node cannot provide the volume now, another node may: unknown class, not enough free
// space, or none apart from its group, pool nearly full, missing device), InvalidArgument, AlreadyExists, and those
// of fault.Of.
func (p *Provisioner) CreateLV(ctx context.Context, in NewVolume) (*lvm.LV, error) {
	if err := checkRequest(in.Name, in.Size); err != nil {
		return nil, err
	}
	var made *lvm.LV
	err := p.admitted(ctx, in.Class, func(v view.Class) (err error) {
		made, err = p.createIn(ctx, v, in)
		return err
	})
	if err != nil {
		return nil, asResourceExhausted(err)
	}
	return made, nil
}

// asResourceExhausted returns ResourceExhausted for errors that prevent a new volume on this node but may not on
// another. The scheduler then selects a node again. If another command has locked the volume group, the reason does not
// change, because the lock is temporary.
func asResourceExhausted(err error) error {
	if err == nil || errors.Is(err, lvm.ErrBusy) {
		return err
	}
	switch fault.ReasonOf(err) {
	case fault.NotFound, fault.FailedPrecondition, fault.Unavailable:
		return fault.Wrap(fault.ResourceExhausted, err)
	}
	return err
}

func (p *Provisioner) createIn(ctx context.Context, v view.Class, in NewVolume) (*lvm.LV, error) {
	options, err := v.CreateOptions(in.OptionClass)
	if err != nil {
		return nil, err
	}
	size := lvm.Bytes(in.Size).RoundUp(v.VG.ExtentSize)
	present, err := p.present(ctx, v, in.Name)
	if err != nil {
		return nil, err
	}
	if present != nil {
		if err := unlessCopying(v, present); err != nil {
			return nil, err
		}
		err := requireSame(v, present, size)
		unused := slices.Contains(in.Tags, wellknown.NewTag) && slices.Contains(present.Tags, wellknown.NewTag)
		if err == nil && unused && !v.Zeroes() {
			return nil, fault.Wrap(fault.Aborted, fmt.Errorf("logical volume %s/%s: %w", v.VG.Name, present.Name,
				ErrUnfinished))
		}
		if err == nil {
			err = p.reload(ctx, v, present)
		}
		if err == nil && unused {
			err = p.checkUnused(ctx, v, present)
		}
		return present, err
	}
	return p.createNew(ctx, v, in, size, options)
}

// createNew creates a volume that does not exist.
func (p *Provisioner) createNew(ctx context.Context, v view.Class, in NewVolume, size lvm.Bytes,
	options []string) (*lvm.LV, error) {
	if err := v.AdmitNamespace(in.Tags, size); err != nil {
		return nil, err
	}
	devices, err := v.AdmitNew(in.Name, in.Tags, size, options)
	if err != nil {
		return nil, err
	}
	if err := p.create(ctx, v, in, size, options, devices); err != nil {
		return nil, fault.Of(err)
	}
	if err := p.checkEmpty(ctx, v, in.Name); err != nil {
		return nil, err
	}
	log.FromContext(ctx).Info("created a logical volume", "deviceClass", v.Config.Name, "lv", in.Name,
		"size", int64(size))
	p.watchers.Changed()
	if len(options) > 0 {
		return p.created(ctx, v, in.Name)
	}
	return &lvm.LV{Name: in.Name, Size: size}, nil
}

// ErrUnfinished is returned for a volume that was never used and may not have been wiped, because the process or the
// node may have stopped during the command that created it. The volume may contain data of a removed volume. A caller
// that has not yet reported the volume calls Discard.
var ErrUnfinished = errors.New("an earlier attempt to create it may have been interrupted")

// Discard removes a volume that has NewTag, so that it can be recreated. It returns FailedPrecondition if the volume
// does not have the tag. If the volume does not exist, it is not an error. It reads a new report first.
func (p *Provisioner) Discard(ctx context.Context, class, name string) error {
	leave, err := p.enter(ctx, class)
	if err != nil {
		return err
	}
	defer leave()
	v, err := p.locate(ctx, class, p.lvm.Report)
	if err != nil {
		return err
	}
	lv := v.Volume(name)
	if lv == nil {
		return nil
	}
	if !slices.Contains(lv.Tags, wellknown.NewTag) {
		return fault.New(fault.FailedPrecondition,
			"logical volume %s/%s may have been used, so it is not recreated", v.VG.Name, name)
	}
	log.FromContext(ctx).Info("recreating a logical volume that was never used and may have data of a removed one",
		"deviceClass", v.Config.Name, "lv", name)
	return fault.Of(p.lvm.Apply(ctx, lvm.LVRemove{VG: v.VG.Name, Names: []string{name}}))
}

func (p *Provisioner) create(ctx context.Context, v view.Class, in NewVolume, size lvm.Bytes,
	options, devices []string) error {
	if v.Pool == nil {
		return p.lvm.Apply(ctx, lvm.LVCreateThick{
			VG: v.VG.Name, Name: in.Name, Size: size, Tags: in.Tags, Options: options, Devices: devices,
		})
	}
	return p.lvm.Apply(ctx, lvm.LVCreateThin{
		VG: v.VG.Name, Pool: v.Pool.Name, PoolZeroes: v.Pool.Zeroes, Name: in.Name, VirtualSize: size,
		Tags: in.Tags, Options: options,
	})
}

// created reads the size of a new volume that was created with options, because stripes and RAID round it up further.
func (p *Provisioner) created(ctx context.Context, v view.Class, name string) (*lvm.LV, error) {
	report, err := p.view(ctx)
	if err != nil {
		return nil, fault.Of(err)
	}
	if now, err := view.Of(v.Set, v.Config, report); err == nil {
		if lv := now.Volume(name); lv != nil {
			return lv, nil
		}
	}
	return nil, fault.New(fault.Internal, "logical volume %s/%s was created or extended, but no longer exists",
		v.VG.Name, name)
}

// unlessCopying returns an error if a volume does not have all data of its source yet: it is not the one of a request.
func unlessCopying(v view.Class, lv *lvm.LV) error {
	if !lvtag.IsCopying(lv.Tags) {
		return nil
	}
	return fault.New(fault.FailedPrecondition, "logical volume %s/%s does not have all data of its source yet",
		v.VG.Name, lv.Name)
}

// requireSame returns AlreadyExists if a volume is not the one of a request.
func requireSame(v view.Class, lv *lvm.LV, size lvm.Bytes) error {
	pool := ""
	if v.Pool != nil {
		pool = v.Pool.Name
	}
	if lv.Attr.IsThinPool() || lv.PoolName != pool || lv.Size < size {
		return fault.New(fault.AlreadyExists, "logical volume %s/%s already exists with other properties",
			v.VG.Name, lv.Name)
	}
	return nil
}

// ResizeLV extends a volume to a size in bytes. If the volume has the requested size or more, it does not change. It
// returns the actual size.
func (p *Provisioner) ResizeLV(ctx context.Context, class, name string, size int64) (actual int64, err error) {
	if err := checkRequest(name, size); err != nil {
		return 0, err
	}
	err = p.admitted(ctx, class, func(v view.Class) (err error) {
		actual, err = p.resizeIn(ctx, v, name, size)
		return err
	})
	if err != nil {
		return 0, err
	}
	return actual, nil
}

// refuseFenced returns FailedPrecondition if a volume cannot be extended because it is fenced.
func refuseFenced(v view.Class, lv *lvm.LV) error {
	fence := lvtag.FencedBy(lv.Tags)
	if fence == "" {
		return nil
	}
	if clone, is := strings.CutPrefix(fence, wellknown.CloneFencePrefix); is {
		return fault.New(fault.FailedPrecondition, "logical volume %s/%s is not extended while it is copied to "+
			"the LogicalVolume with the UID %s, a clone of it: it is extended when that is complete, or after the "+
			"clone's claim is deleted", v.VG.Name, lv.Name, clone)
	}
	return fault.New(fault.FailedPrecondition, "logical volume %s/%s is not extended while it is moved to another "+
		"node by the VolumeMove with the UID %s: it is extended there, or here after the VolumeMove is deleted",
		v.VG.Name, lv.Name, fence)
}

func (p *Provisioner) resizeIn(ctx context.Context, v view.Class, name string, bytes int64) (int64, error) {
	lv, err := find(v, name)
	if err != nil {
		return 0, err
	}
	size := lvm.Bytes(bytes).RoundUp(v.VG.ExtentSize)
	if size <= lv.Size {
		return int64(lv.Size), p.reload(ctx, v, lv)
	}
	if err := refuseFenced(v, lv); err != nil {
		return 0, err
	}
	if err := v.AdmitNamespace(lv.Tags, size-lv.Size); err != nil {
		return 0, err
	}
	devices, err := v.AdmitGrowth(lv, size-lv.Size)
	if err != nil {
		return 0, err
	}
	if err := p.lvm.Apply(ctx, lvm.LVExtend{VG: v.VG.Name, Name: lv.Name, Size: size,
		Devices: devices}); err != nil {
		return 0, fault.Of(err)
	}
	log.FromContext(ctx).Info("extended a logical volume", "deviceClass", v.Config.Name, "lv", lv.Name,
		"size", int64(size))
	p.watchers.Changed()
	if lv.IsRAID() || lv.SegType == "striped" {
		grown, err := p.created(ctx, v, lv.Name)
		if err != nil {
			return 0, err
		}
		return int64(grown.Size), nil
	}
	return int64(size), nil
}

// CopyTarget describes the logical volume to which a volume is copied.
type CopyTarget struct {
	Class, Name, OptionClass string
	// UID is the UID of its object.
	UID string
	// Size is in bytes. The logical volume can have more.
	Size int64
	// Tags and Source are for a new one: the tags that identify its object, and the source of the first round.
	Tags   []string
	Source string
}

// EnsureTarget creates the logical volume of a target, or extends it. It returns ErrNotTarget (FailedPrecondition) if
// there is another one with its name. The other errors are those of CreateLV and ResizeLV.
func (p *Provisioner) EnsureTarget(ctx context.Context, t CopyTarget) error {
	if err := checkRequest(t.Name, t.Size); err != nil {
		return err
	}
	return p.admitted(ctx, t.Class, func(v view.Class) error { return p.ensureTargetIn(ctx, v, t) })
}

func (p *Provisioner) ensureTargetIn(ctx context.Context, v view.Class, t CopyTarget) error {
	present, err := p.present(ctx, v, t.Name)
	if err != nil {
		return err
	}
	if present != nil {
		if err := requireTarget(v, present, t.UID); err != nil {
			return err
		}
		_, err := p.resizeIn(ctx, v, t.Name, t.Size)
		return err
	}
	options, err := v.CreateOptions(t.OptionClass)
	if err != nil {
		return err
	}
	tags := append(slices.Clone(t.Tags), wellknown.CopyingTag, wellknown.CopyOfTagPrefix+t.Source)
	if v.Zeroes() {
		tags = append(tags, wellknown.SparseTag)
	}
	_, err = p.createNew(ctx, v, NewVolume{Name: t.Name, Class: t.Class, Tags: tags},
		lvm.Bytes(t.Size).RoundUp(v.VG.ExtentSize), options)
	return err
}

// ActivateLV activates a volume, for example if LVM did not activate its volume group at boot.
func (p *Provisioner) ActivateLV(ctx context.Context, class, name string) error {
	return p.onVolume(ctx, class, name, func(v view.Class, _ *lvm.LV) error {
		if err := v.PoolActive(); err != nil {
			return fault.New(fault.Unavailable, "%v", err)
		}
		return fault.Of(p.lvm.Apply(ctx, lvm.LVActivate{VG: v.VG.Name, Name: name}))
	})
}

// TagLV adds and removes tags of a volume in one commit of LVM's metadata.
func (p *Provisioner) TagLV(ctx context.Context, class, name string, add, remove []string) error {
	return p.onVolume(ctx, class, name, func(v view.Class, _ *lvm.LV) error {
		return fault.Of(p.lvm.Apply(ctx, lvm.LVChangeTags{VG: v.VG.Name, Name: name, Add: add, Remove: remove}))
	})
}

// checkEmpty removes a new volume in a pool that zeroes new blocks, and returns Aborted, if the volume already has
// blocks: they are those of a thin device that LVM does not know, whose ID it has reused. The volume was created by
// this request, so nobody has used it. It is also removed if that cannot be read.
func (p *Provisioner) checkEmpty(ctx context.Context, v view.Class, name string) error {
	if p.kernel == nil || !v.Zeroes() {
		return nil
	}
	err := p.withoutBlocks(ctx, v, name)
	if err == nil {
		return nil
	}
	log.FromContext(ctx).Info("removing a new logical volume that may have data of a removed one", "deviceClass",
		v.Config.Name, "lv", name, "cause", err.Error())
	err = errors.Join(err, p.lvm.Apply(ctx, lvm.LVRemove{VG: v.VG.Name, Names: []string{name}}))
	return fault.New(fault.Aborted, "%v", err)
}

// errHasData is the error of a new volume with data.
var errHasData = errors.New("already has data of a removed volume")

// withoutBlocks returns an error unless a new thin volume has no blocks in its pool.
func (p *Provisioner) withoutBlocks(ctx context.Context, v view.Class, name string) error {
	mapped, err := p.kernel.MappedSectors(ctx, v.VG.Name, name)
	if err != nil || mapped == 0 {
		return err
	}
	return fmt.Errorf("the new logical volume %s/%s %w in thin pool %s, %d bytes: it is created again", v.VG.Name, name,
		errHasData, v.Pool.Name, mapped*512)
}

// checkUnused is checkEmpty for a volume with NewTag that an earlier request has created. It removes nothing: it
// returns ErrUnfinished. It activates the volume if the command that created it was interrupted before it did.
func (p *Provisioner) checkUnused(ctx context.Context, v view.Class, lv *lvm.LV) error {
	if p.kernel == nil || !v.Zeroes() {
		return nil
	}
	err := p.withoutBlocks(ctx, v, lv.Name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		if err := p.lvm.Apply(ctx, lvm.LVActivate{VG: v.VG.Name, Name: lv.Name}); err != nil {
			return fault.Of(err)
		}
		err = p.withoutBlocks(ctx, v, lv.Name)
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, errHasData):
		return fault.New(fault.Aborted, "%v", err)
	}
	return fault.Wrap(fault.Aborted, errors.Join(err, ErrUnfinished))
}
