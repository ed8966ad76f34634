package engine

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/classes"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// LVM is the part of lvmexec.LVM that the engine uses.
type LVM interface {
	// Recent returns a report that is not older than maxAge and includes every change of this process.
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
	// Report returns a report that is read after the call.
	Report(ctx context.Context) (*lvm.Report, error)
	Apply(ctx context.Context, c lvm.Change) error
	ThinPoolResume(ctx context.Context, vg, name string) (done bool, err error)
}

// Kernel reads the current state of volumes from the kernel. devicemapper.Reader implements it without a process.
type Kernel interface {
	view.Pools
	Volume(ctx context.Context, vg, lv string) (devicemapper.Device, error)
	// Size returns the size of a device in bytes, by MAJOR:MINOR.
	Size(number string) (int64, error)
	// MappedSectors returns how many sectors of an active thin volume have blocks in its pool.
	MappedSectors(ctx context.Context, vg, lv string) (uint64, error)
}

const (
	// viewAge is the maximum age of a report that answers a request. The report includes every change of this
	// process, and the agent renews it once a minute. The age only matters for changes by other programs: a refused
	// request is retried with a new report.
	viewAge = 75 * time.Second
	// semaphoreTimeout is how long a request waits for earlier requests.
	semaphoreTimeout = 2 * time.Minute
)

// node is what the parts of the engine share.
type node struct {
	lvm LVM
	// kernel provides state that changes without LVM, such as the pool usage. If nil, the report provides it.
	kernel  Kernel
	classes *classes.Registry
	// admitting is held for a volume group from the check for free space until the command ends, so that two requests
	// cannot use the same free space.
	admitting turns
	watchers  Watchers
}

// enter waits until no other request admits volumes to the volume group of a class: a command that takes long in one
// group does not stop the others. The caller calls leave. A class that is not known has a turn too.
func (n *node) enter(ctx context.Context, class string) (leave func(), err error) {
	group := ""
	if c, known := n.classes.Current().Find(class); known {
		group = c.VolumeGroup
	}
	turn := n.admitting.of(group)
	return turn.leave, turn.enter(ctx)
}

// reader reads a report.
type reader func(ctx context.Context) (*lvm.Report, error)

// view returns the cached report if it is recent enough.
func (n *node) view(ctx context.Context) (*lvm.Report, error) { return n.lvm.Recent(ctx, viewAge) }

// conditionAge is the maximum age of a report for the health of a volume. The agent reads a report once a minute, so
// a request for the health starts no process.
const conditionAge = 2 * time.Minute

// recent returns the cached report if it is not older than conditionAge.
func (n *node) recent(ctx context.Context) (*lvm.Report, error) {
	return n.lvm.Recent(ctx, conditionAge)
}

// locate finds a class, its volume group and its thin pool.
func (n *node) locate(ctx context.Context, name string, read reader) (view.Class, error) {
	set := n.classes.Current()
	class, ok := set.Find(name)
	if !ok {
		return view.Class{}, fault.New(fault.NotFound, "device class %q is not set up on this node", name)
	}
	report, err := read(ctx)
	if err != nil {
		return view.Class{}, fault.Of(err)
	}
	v, err := view.Of(set, class, report)
	if err == nil {
		v.ReadPool(ctx, n.kernel)
	}
	return v, err
}

// withFreshRetry runs step on a class with the cached report. If step is refused, or LVM contradicts the report, it
// runs step once more with a new report, because other programs change volume groups and disks can get another name.
func (n *node) withFreshRetry(ctx context.Context, class string, step func(v view.Class) error) error {
	err := n.attempt(ctx, class, n.view, step)
	if err == nil || !mayBeOutdated(err) || ctx.Err() != nil {
		return err
	}
	return n.attempt(ctx, class, n.lvm.Report, step)
}

func (n *node) attempt(ctx context.Context, class string, read reader, step func(v view.Class) error) error {
	v, err := n.locate(ctx, class, read)
	if err != nil {
		return err
	}
	if err := n.resumePool(ctx, v); err != nil {
		return err
	}
	return step(v)
}

// mayBeOutdated returns true if an outdated report can be the cause of an error. It returns false for errors that
// took long, and for errors of requests that already read a new report.
func mayBeOutdated(err error) bool {
	if errors.Is(err, lvm.ErrBusy) || errors.Is(err, lvm.ErrRunning) || errors.Is(err, lvm.ErrInUse) ||
		errors.Is(err, lvm.ErrMissingPV) {
		return false
	}
	switch fault.ReasonOf(err) {
	case fault.NotFound, fault.AlreadyExists, fault.ResourceExhausted, fault.FailedPrecondition, fault.OutOfRange,
		fault.InvalidArgument, fault.Unavailable, fault.Internal:
		return true
	}
	return false
}

// admitted runs a step that needs free space, while no other request admits volumes to the volume group of the class.
func (n *node) admitted(ctx context.Context, class string, step func(v view.Class) error) error {
	leave, err := n.enter(ctx, class)
	if err != nil {
		return err
	}
	defer leave()
	return n.withFreshRetry(ctx, class, step)
}

// onVolume runs a command on an existing volume. The command requires no free space, so it waits only for LVM's lock.
func (n *node) onVolume(ctx context.Context, class, name string,
	command func(v view.Class, lv *lvm.LV) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	return n.withFreshRetry(ctx, class, func(v view.Class) error {
		lv, err := find(v, name)
		if err != nil {
			return err
		}
		return command(v, lv)
	})
}

// find returns a volume by name, or NotFound.
func find(v view.Class, name string) (*lvm.LV, error) {
	lv := v.Volume(name)
	if lv == nil {
		return nil, fault.New(fault.NotFound, "logical volume %s/%s not found", v.VG.Name, name)
	}
	return lv, nil
}

// exclusively runs step with a new report while no volume is created, extended or removed. Like RemoveLV, it returns
// FailedPrecondition if the class is not known, because the volume may exist.
func (n *node) exclusively(ctx context.Context, class, name string, step func(v view.Class) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	leave, err := n.enter(ctx, class)
	if err != nil {
		return err
	}
	defer leave()
	if _, known := n.classes.Current().Find(class); !known {
		return fault.New(fault.FailedPrecondition, "device class %q is not set up on this node, so it is unknown "+
			"whether logical volume %s exists", class, name)
	}
	return n.attempt(ctx, class, n.lvm.Report, step)
}

// retag gives a logical volume the wanted tags instead of those that replaced selects. It does nothing if it has them.
func (n *node) retag(ctx context.Context, v view.Class, lv *lvm.LV, name string, wanted []string,
	replaced func(tag string) bool) error {
	o := lvm.LVChangeTags{VG: v.VG.Name, Name: name}
	for _, tag := range lv.Tags {
		if replaced(tag) && !slices.Contains(wanted, tag) {
			o.Remove = append(o.Remove, tag)
		}
	}
	for _, tag := range wanted {
		if !slices.Contains(lv.Tags, tag) {
			o.Add = append(o.Add, tag)
		}
	}
	if len(o.Add)+len(o.Remove) == 0 {
		return nil
	}
	return fault.Of(n.lvm.Apply(ctx, o))
}

// tagsOf implements Lister.TagsOf.
func (n *node) tagsOf(ctx context.Context, vg, name string) ([]string, error) {
	report, err := n.view(ctx)
	if err != nil {
		return nil, fault.Of(err)
	}
	group := report.VG(vg)
	if group == nil || group.LV(name) == nil {
		return nil, fault.New(fault.NotFound, "logical volume %s/%s not found", vg, name)
	}
	return slices.Clone(group.LV(name).Tags), nil
}

// activationError is the error of LVM when it could not activate a volume.
type activationError struct{ error }

// activeDevice returns the device of a volume, from the kernel. It activates the volume if necessary. It returns an
// activationError if LVM cannot do that.
func (n *node) activeDevice(ctx context.Context, v view.Class, lv *lvm.LV) (devicemapper.Device, error) {
	device, err := n.kernel.Volume(ctx, v.VG.Name, lv.Name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		if err := n.lvm.Apply(ctx, lvm.LVActivate{VG: v.VG.Name, Name: lv.Name}); err != nil {
			return device, &activationError{error: err}
		}
		device, err = n.kernel.Volume(ctx, v.VG.Name, lv.Name)
	}
	if err != nil {
		return device, fault.New(fault.Unavailable, "%v", err)
	}
	if want := "LVM-" + strings.ReplaceAll(v.VG.UUID+lv.UUID, "-", ""); device.UUID != want {
		return device, fault.New(fault.FailedPrecondition, "the device of logical volume %s/%s has the UUID %s, "+
			"not %s: another volume group with this name is active", v.VG.Name, lv.Name, device.UUID, want)
	}
	return device, nil
}

// volumeNamePattern matches the volume names that LVM accepts. A name cannot start with a dash, so that it cannot be
// an option of a command.
var volumeNamePattern = regexp.MustCompile(`^[A-Za-z0-9_+.][A-Za-z0-9_+.-]{0,126}$`)

func checkName(name string) error {
	if !volumeNamePattern.MatchString(name) {
		return fault.New(fault.InvalidArgument, "%q is not a valid name of a logical volume", name)
	}
	return nil
}

// checkRequest returns an error if the name or size is invalid.
func checkRequest(name string, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	if size <= 0 {
		return fault.New(fault.InvalidArgument, "the size of a volume must be positive, not %d", size)
	}
	return nil
}
