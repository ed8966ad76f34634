package engine

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// volumeNamePattern matches the volume names that LVM accepts. A name cannot start with a dash, so that it cannot be
// an option of a command.
var volumeNamePattern = regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}$`)

func checkName(name string) error {
	if !volumeNamePattern.MatchString(name) {
		return status.Errorf(codes.InvalidArgument, "%q is not a valid name of a logical volume", name)
	}
	return nil
}

// checkRequest returns an error if the name or size is invalid.
func checkRequest(name string, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	if size <= 0 {
		return status.Errorf(codes.InvalidArgument, "the size of a volume must be positive, not %d", size)
	}
	return nil
}

// CreateLV creates a volume. If the class already has a volume with the name and the requested size, CreateLV returns
// that volume. The size in the response is the actual size, rounded up to whole extents of the volume group. The
// device number is 0, because no caller uses it and it would require another report.
//
// A tag with the Spread of the volume keeps it apart from the others of its group.
//
// Codes: ResourceExhausted (this node cannot provide the volume now, another node may: unknown class, not enough free
// space, or none apart from its group, pool nearly full, missing device), InvalidArgument, AlreadyExists, and the codes
// of codeTable.
func (e *Engine) CreateLV(ctx context.Context, in *proto.CreateLVRequest) (*proto.CreateLVResponse, error) {
	if err := checkRequest(in.GetName(), in.GetSizeBytes()); err != nil {
		return nil, err
	}
	leave, err := e.enter(ctx, in.GetDeviceClass())
	if err != nil {
		return nil, err
	}
	defer leave()
	var response *proto.CreateLVResponse
	err = e.withFreshRetry(ctx, in.GetDeviceClass(), func(l classView) (err error) {
		response, err = e.createIn(ctx, l, in)
		return err
	})
	if err != nil {
		return nil, asResourceExhausted(err)
	}
	return response, nil
}

func (e *Engine) createIn(ctx context.Context, l classView,
	in *proto.CreateLVRequest) (*proto.CreateLVResponse, error) {
	options, err := l.options(in.GetLvcreateOptionClass())
	if err != nil {
		return nil, err
	}
	size := lvm.Bytes(in.GetSizeBytes()).RoundUp(l.vg.ExtentSize)
	present, err := e.present(ctx, l, in.GetName())
	if err != nil {
		return nil, err
	}
	if present != nil {
		if err := unlessCopying(l, present); err != nil {
			return nil, err
		}
		response, err := existing(l, present, size)
		unused := slices.Contains(in.GetTags(), TagNew) && slices.Contains(present.Tags, TagNew)
		if err == nil && unused && !l.zeroed() {
			return nil, &codedError{code: codes.Aborted,
				err: fmt.Errorf("logical volume %s/%s: %w", l.vg.Name, present.Name, ErrUnfinished)}
		}
		if err == nil {
			err = e.reload(ctx, l, present)
		}
		if err == nil && unused {
			err = e.checkUnused(ctx, l, present)
		}
		return response, err
	}
	return e.createNew(ctx, l, in, size, options)
}

// createNew creates a volume that does not exist.
func (e *Engine) createNew(ctx context.Context, l classView, in *proto.CreateLVRequest, size lvm.Bytes,
	options []string) (*proto.CreateLVResponse, error) {
	if err := l.admitNamespace(in.GetTags(), size); err != nil {
		return nil, err
	}
	devices, err := l.admitNew(in, size, options)
	if err != nil {
		return nil, err
	}
	if err := e.create(ctx, l, in, size, options, devices); err != nil {
		return nil, statusOf(err)
	}
	if err := e.checkEmpty(ctx, l, in.GetName()); err != nil {
		return nil, err
	}
	log.FromContext(ctx).Info("created a logical volume", "deviceClass", l.class.Name, "lv", in.GetName(),
		"size", int64(size))
	e.watchers.notify()
	if len(options) > 0 {
		return e.created(ctx, l, in.GetName())
	}
	return &proto.CreateLVResponse{Volume: &proto.LogicalVolume{Name: in.GetName(), SizeBytes: int64(size)}}, nil
}

// TagNew marks a volume from its creation until its first use. Discard can remove a volume with this tag, so that it
// is recreated. A request for a volume with this tag removes the tag (TagLV).
const TagNew = "lvms.new"

// ErrUnfinished is returned for a volume that was never used and may not have been wiped, because the process or the
// node may have stopped during the command that created it. The volume may contain data of a removed volume. A caller
// that has not yet reported the volume calls Discard.
var ErrUnfinished = errors.New("an earlier attempt to create it may have been interrupted")

// Discard removes a volume that has TagNew, so that it can be recreated. It returns FailedPrecondition if the volume
// does not have the tag. If the volume does not exist, it is not an error. It reads a new report first.
func (e *Engine) Discard(ctx context.Context, class, name string) error {
	leave, err := e.enter(ctx, class)
	if err != nil {
		return err
	}
	defer leave()
	l, err := e.locate(ctx, class, e.lvm.Report)
	if err != nil {
		return err
	}
	lv := l.volume(name)
	if lv == nil {
		return nil
	}
	if !slices.Contains(lv.Tags, TagNew) {
		return status.Errorf(codes.FailedPrecondition,
			"logical volume %s/%s may have been used, so it is not recreated", l.vg.Name, name)
	}
	log.FromContext(ctx).Info("recreating a logical volume that was never used and may have data of a removed one",
		"deviceClass", l.class.Name, "lv", name)
	return statusOf(e.lvm.Apply(ctx, lvm.LVRemove{VG: l.vg.Name, Names: []string{name}}))
}

// zeroed returns true if new volumes read as zeroes.
func (l classView) zeroed() bool { return l.pool != nil && l.pool.Zeroes }

func (e *Engine) create(ctx context.Context, l classView, in *proto.CreateLVRequest, size lvm.Bytes,
	options, devices []string) error {
	if l.pool == nil {
		return e.lvm.Apply(ctx, lvm.LVCreateThick{
			VG: l.vg.Name, Name: in.GetName(), Size: size, Tags: in.GetTags(), Options: options, Devices: devices,
		})
	}
	return e.lvm.Apply(ctx, lvm.LVCreateThin{
		VG: l.vg.Name, Pool: l.pool.Name, PoolZeroes: l.pool.Zeroes, Name: in.GetName(), VirtualSize: size,
		Tags: in.GetTags(), Options: options,
	})
}

// created reads the size of a new volume that was created with options, because stripes and RAID round it up further.
func (e *Engine) created(ctx context.Context, l classView, name string) (*proto.CreateLVResponse, error) {
	report, err := e.view(ctx)
	if err != nil {
		return nil, statusOf(err)
	}
	if now, err := resolve(l.set, l.class, report); err == nil {
		if lv := now.volume(name); lv != nil {
			return &proto.CreateLVResponse{Volume: message(lv)}, nil
		}
	}
	return nil, status.Errorf(codes.Internal, "logical volume %s/%s was created or extended, but no longer exists",
		l.vg.Name, name)
}

// unlessCopying returns an error if a volume does not have all data of its source yet: it is not the one of a request.
func unlessCopying(l classView, lv *lvm.LV) error {
	if !IsCopying(lv.Tags) {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s does not have all data of its source yet",
		l.vg.Name, lv.Name)
}

// existing handles a request for a volume that exists.
func existing(l classView, lv *lvm.LV, size lvm.Bytes) (*proto.CreateLVResponse, error) {
	pool := ""
	if l.pool != nil {
		pool = l.pool.Name
	}
	if lv.Attr.IsThinPool() || lv.PoolName != pool || lv.Size < size {
		return nil, status.Errorf(codes.AlreadyExists, "logical volume %s/%s already exists with other properties",
			l.vg.Name, lv.Name)
	}
	return &proto.CreateLVResponse{Volume: message(lv)}, nil
}

// options returns the lvcreate options of the option class if name is set, otherwise those of the device class.
func (l classView) options(name string) ([]string, error) {
	if name == "" {
		return l.class.CreateOptions(), nil
	}
	options, ok := l.set.options[name]
	if !ok {
		return nil, status.Errorf(codes.InvalidArgument, "lvcreate option class %q does not exist on this node", name)
	}
	return options, nil
}

// admit returns ResourceExhausted if the size does not fit, so that the provisioner selects another node. where says
// where the room is.
func (l classView) admit(size, room lvm.Bytes, where string) error {
	if size <= room {
		return nil
	}
	return status.Errorf(codes.ResourceExhausted, "device class %s: %d bytes are requested, but only %d are free %s",
		l.class.Name, size, room, where)
}

// admitThin returns ResourceExhausted if the thin volumes of the class cannot have more bytes.
func (l classView) admitThin(more lvm.Bytes) error {
	return l.admit(more, l.freeSpace(), "in volume group "+l.vg.Name)
}

// admitNew returns an error if a new volume does not fit, and otherwise the devices to pass to LVM.
func (l classView) admitNew(in *proto.CreateLVRequest, size lvm.Bytes, options []string) ([]string, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	if err := l.suspendedPool(); err != nil {
		return nil, err
	}
	if err := l.refuseThinSpread(in.GetTags()); err != nil {
		return nil, err
	}
	if l.pool != nil {
		return nil, l.admitThin(size)
	}
	layout, err := lvm.NewLayout(options)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "device class %s: %v", l.class.Name, err)
	}
	image := imageExtents(layout, size, l.vg.ExtentSize)
	whole := lvm.Bytes(image*int64(layout.Data)) * l.vg.ExtentSize
	return l.admitApart(deviceclass.SpreadOf(in.GetTags()), in.GetName(), whole,
		func(on diskSet) placement { return l.placeNew(layout, image, on) })
}

// admitGrowth returns an error if a volume cannot be extended by more, and otherwise the devices to pass to LVM.
func (l classView) admitGrowth(lv *lvm.LV, more lvm.Bytes) ([]string, error) {
	if err := l.open(); err != nil {
		return nil, err
	}
	if l.pool != nil {
		return nil, l.admitThin(more)
	}
	return l.admitApart(deviceclass.SpreadOf(lv.Tags), lv.Name, more,
		func(on diskSet) placement { return l.placeGrowth(lv, on) })
}

// ResizeLV extends a volume. If the volume has the requested size or more, it does not change. The response has the
// actual size.
func (e *Engine) ResizeLV(ctx context.Context, in *proto.ResizeLVRequest) (*proto.ResizeLVResponse, error) {
	if err := checkRequest(in.GetName(), in.GetSizeBytes()); err != nil {
		return nil, err
	}
	leave, err := e.enter(ctx, in.GetDeviceClass())
	if err != nil {
		return nil, err
	}
	defer leave()
	var actual int64
	err = e.withFreshRetry(ctx, in.GetDeviceClass(), func(l classView) (err error) {
		actual, err = e.resizeIn(ctx, l, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &proto.ResizeLVResponse{SizeBytes: actual}, nil
}

// refuseFenced returns FailedPrecondition if a volume cannot be extended because it is fenced.
func (l classView) refuseFenced(lv *lvm.LV) error {
	fence := FencedBy(lv.Tags)
	if fence == "" {
		return nil
	}
	if clone, is := strings.CutPrefix(fence, CloneFence); is {
		return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s is not extended while it is copied to "+
			"the LogicalVolume with the UID %s, a clone of it: it is extended when that is complete, or after the "+
			"clone's claim is deleted", l.vg.Name, lv.Name, clone)
	}
	return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s is not extended while it is moved to another "+
		"node by the VolumeMove with the UID %s: it is extended there, or here after the VolumeMove is deleted",
		l.vg.Name, lv.Name, fence)
}

func (e *Engine) resizeIn(ctx context.Context, l classView, in *proto.ResizeLVRequest) (int64, error) {
	lv := l.volume(in.GetName())
	if lv == nil {
		return 0, status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, in.GetName())
	}
	size := lvm.Bytes(in.GetSizeBytes()).RoundUp(l.vg.ExtentSize)
	if size <= lv.Size {
		return int64(lv.Size), e.reload(ctx, l, lv)
	}
	if err := l.refuseFenced(lv); err != nil {
		return 0, err
	}
	if err := l.admitNamespace(lv.Tags, size-lv.Size); err != nil {
		return 0, err
	}
	devices, err := l.admitGrowth(lv, size-lv.Size)
	if err != nil {
		return 0, err
	}
	if err := e.lvm.Apply(ctx, lvm.LVExtend{VG: l.vg.Name, Name: lv.Name, Size: size,
		Devices: devices}); err != nil {
		return 0, statusOf(err)
	}
	log.FromContext(ctx).Info("extended a logical volume", "deviceClass", l.class.Name, "lv", lv.Name,
		"size", int64(size))
	e.watchers.notify()
	if lv.IsRAID() || lv.SegType == "striped" {
		grown, err := e.created(ctx, l, lv.Name)
		return grown.GetVolume().GetSizeBytes(), err
	}
	return int64(size), nil
}
