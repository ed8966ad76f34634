// Package lvmd is the engine behind TopoLVM's CSI driver on a node: device classes become logical volumes and capacity.
//
// It stands behind TopoLVM's own seam, the gRPC client interfaces of its lvmd, and runs in the process that calls it.
// Other than TopoLVM's embedded lvmd it takes new device classes while it runs, tells every watcher about every change,
// and needs two processes for a volume: one report and one lvcreate. The form of lvmd.yaml is checked by hand
// (check.go): no strict decoder names line and key of what is wrong.
package lvmd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Reader reads the state of the node's volume groups.
type Reader interface {
	// Recent returns a report that includes every change of this process and is not older than maxAge.
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
	// Report returns a report whose reading began after the call.
	Report(ctx context.Context) (*lvm.Report, error)
}

// Creator makes logical volumes.
type Creator interface {
	LVCreateThick(ctx context.Context, o lvm.ThickOptions) error
	LVCreateThin(ctx context.Context, o lvm.ThinOptions) error
	LVCreateSnapshot(ctx context.Context, o lvm.SnapshotOptions) error
}

// Changer changes and removes logical volumes.
type Changer interface {
	LVExtend(ctx context.Context, o lvm.LVExtendOptions) error
	LVRemove(ctx context.Context, vg string, names ...string) error
	LVActivate(ctx context.Context, vg, name string) error
	LVChangeTags(ctx context.Context, o lvm.LVTagOptions) error
}

// LVM is what the engine needs of LVM.
type LVM interface {
	Reader
	Creator
	Changer
}

const (
	// viewAge is how old a report may be that a request is answered from. It has every change of this process in it,
	// and the agent reads it again once a minute. It only matters for changes by other programs: what is refused
	// because of it is looked at again first.
	viewAge = 75 * time.Second
	// refreshAge is how old the capacity that watchers were told may become.
	refreshAge = time.Minute
	// turnTimeout is how long a request waits for the ones before it.
	turnTimeout = 2 * time.Minute
)

// Engine makes, changes and lists the logical volumes of the node's device classes. It is safe for concurrent use.
type Engine struct {
	lvm  LVM
	path string

	// classes is read by every request and replaced as a whole.
	classes atomic.Pointer[classSet]
	// publishing is held while the classes and their file change.
	publishing sync.Mutex
	file       Config

	// admitting is held from the check for free space to the end of the command, so that two requests cannot both take
	// the last of it.
	admitting turn

	// kernel is asked for what changes without LVM; nil for what the report says.
	kernel   Kernel
	removals removals
	watchers watchers
}

var (
	_ proto.LVServiceClient = (*Engine)(nil)
	_ proto.VGServiceClient = (*Engine)(nil)
)

// New returns an engine with the device classes of the file at path, which need not exist. An empty path is for an
// engine that keeps its classes in memory only. Without a kernel to ask, how full a pool is stands in the last report.
func New(l LVM, kernel Kernel, path string) (*Engine, error) {
	e := &Engine{lvm: l, kernel: kernel, path: path, admitting: newTurn()}
	if path != "" {
		config, err := readConfig(path)
		if err != nil {
			return nil, err
		}
		e.file = config
	}
	set := &classSet{classes: e.file.DeviceClasses, options: map[string][]string{}}
	for _, o := range e.file.OptionClasses {
		set.options[o.Name] = o.Options
	}
	e.classes.Store(set)
	return e, nil
}

// Class returns a published class by its name.
func (e *Engine) Class(name string) (DeviceClass, bool) {
	c, ok := e.classes.Load().find(name)
	if !ok || name == "" {
		return DeviceClass{}, false
	}
	return *c, true
}

// Publish adds a class, or replaces the one of its name, in the file and for all requests that begin afterwards.
// A class that is the default takes that from the others: while the default moves, two may ask for it.
func (e *Engine) Publish(class DeviceClass) error {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	classes := slices.Clone(e.classes.Load().classes)
	at := slices.IndexFunc(classes, func(c DeviceClass) bool { return c.Name == class.Name })
	if at < 0 {
		classes, at = append(classes, class), len(classes)
	}
	classes[at] = class
	for i := range classes {
		classes[i].Default = classes[i].Default && (!class.Default || i == at)
	}
	return e.setClasses(classes)
}

// Withdraw takes a class out. Requests for it get NotFound from then on. To withdraw a class that is not there is no
// error.
func (e *Engine) Withdraw(name string) error {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	classes := slices.DeleteFunc(slices.Clone(e.classes.Load().classes),
		func(c DeviceClass) bool { return c.Name == name })
	return e.setClasses(classes)
}

// SetClasses replaces all classes.
func (e *Engine) SetClasses(classes []DeviceClass) error {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	return e.setClasses(slices.Clone(classes))
}

// setClasses writes the file first: if that fails nothing has changed, and the caller tries again.
func (e *Engine) setClasses(classes []DeviceClass) error {
	if err := validate(classes); err != nil {
		return err
	}
	slices.SortFunc(classes, func(a, b DeviceClass) int { return strings.Compare(a.Name, b.Name) })
	if e.path != "" {
		config := e.file
		config.DeviceClasses = classes
		if err := writeConfig(e.path, config); err != nil {
			return err
		}
		e.file = config
	}
	e.classes.Store(e.classes.Load().with(classes))
	e.watchers.notify()
	return nil
}

// Start tells the watchers the capacity once a minute until ctx ends, since other programs change it too. It implements
// manager.Runnable.
func (e *Engine) Start(ctx context.Context) error {
	ticker := time.NewTicker(refreshAge)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			e.watchers.notify()
		}
	}
}

// NeedLeaderElection tells the manager that every node runs its engine.
func (e *Engine) NeedLeaderElection() bool { return false }

// turn is a mutex that a caller does not wait for longer than it has time.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// enter waits for the turn: as long as ctx allows, and at most turnTimeout.
func (t turn) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.Errorf(status.FromContextError(ctx.Err()).Code(),
			"another request for volumes of this node has not ended: %v", ctx.Err())
	}
}

func (t turn) leave() { <-t }

// located is a device class with what LVM says about it.
type located struct {
	class *DeviceClass
	set   *classSet
	vg    *lvm.VG
	pool  *lvm.ThinPool // nil for a thick class
	fill  fill
}

// reader is one of the ways to get a report.
type reader func(ctx context.Context) (*lvm.Report, error)

// view answers from what is known.
func (e *Engine) view(ctx context.Context) (*lvm.Report, error) { return e.lvm.Recent(ctx, viewAge) }

// locate finds a class, its volume group and its pool.
func (e *Engine) locate(ctx context.Context, name string, read reader) (located, error) {
	set := e.classes.Load()
	class, ok := set.find(name)
	if !ok {
		return located{}, status.Errorf(codes.NotFound, "device class %q is not known on this node", name)
	}
	report, err := read(ctx)
	if err != nil {
		return located{}, statusOf(err)
	}
	l, err := resolve(set, class, report)
	if err == nil {
		l.now(ctx, e.kernel)
	}
	return l, err
}

// with takes a step on a class as the view has it. If the step is refused, or LVM has another opinion than the view,
// the step is taken once more on a report read again: other programs change volume groups too, and a disk may have got
// another name.
func (e *Engine) with(ctx context.Context, class string, step func(l located) error) error {
	err := e.once(ctx, class, e.view, step)
	if err == nil || !mayBeOutdated(err) || ctx.Err() != nil {
		return err
	}
	return e.once(ctx, class, e.lvm.Report, step)
}

func (e *Engine) once(ctx context.Context, class string, read reader, step func(l located) error) error {
	l, err := e.locate(ctx, class, read)
	if err != nil {
		return err
	}
	return step(l)
}

// mayBeOutdated tells whether an error may come of a view that is no longer true. What took its time is not tried
// again, nor is a request for which LVM was already read a second time.
func mayBeOutdated(err error) bool {
	if errors.Is(err, lvm.ErrBusy) || errors.Is(err, lvm.ErrRunning) || errors.Is(err, lvm.ErrInUse) ||
		errors.Is(err, lvm.ErrMissingPV) {
		return false
	}
	switch status.Code(err) {
	case codes.NotFound, codes.AlreadyExists, codes.ResourceExhausted, codes.FailedPrecondition, codes.OutOfRange,
		codes.InvalidArgument,
		codes.Unavailable, codes.Internal:
		return true
	}
	return false
}

func resolve(set *classSet, class *DeviceClass, report *lvm.Report) (located, error) {
	l := located{class: class, set: set, vg: report.VG(class.VolumeGroup)}
	named := report.Named(class.VolumeGroup)
	switch {
	case len(named) > 1:
		return l, status.Errorf(codes.Unavailable, "device class %s: %d volume groups of this node have the name %s: "+
			"detach the disks of the other, or rename it", class.Name, len(named), class.VolumeGroup)
	case l.vg == nil:
		return l, status.Errorf(codes.Unavailable,
			"device class %s: volume group %s is not there: are its disks attached?", class.Name, class.VolumeGroup)
	case class.VolumeGroupUUID != "" && l.vg.UUID != class.VolumeGroupUUID:
		return l, status.Errorf(codes.Unavailable,
			"device class %s: volume group %s (%s) is not there, and %s is another of its name: "+
				"are its disks attached?", class.Name, class.VolumeGroup, class.VolumeGroupUUID, l.vg.UUID)
	}
	if isThin(class) {
		if l.pool = l.vg.ThinPool(class.ThinPoolConfig.Name); l.pool == nil {
			return l, status.Errorf(codes.Unavailable, "device class %s: volume group %s has no thin pool %s",
				class.Name, class.VolumeGroup, class.ThinPoolConfig.Name)
		}
		l.fill = fill{data: l.pool.DataPercent, metadata: l.pool.MetadataPercent}
	}
	return l, nil
}

// volume returns a volume of the class by name. Thick and thin volumes of one volume group have one name space.
func (l located) volume(name string) *lvm.LV {
	lv := l.vg.LV(name)
	if lv == nil || lv.Attr.IsThinPool() {
		return nil
	}
	return lv
}

// statusOf is the one table from errors of LVM to gRPC codes. The cause stays in it.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code: codeOf(err), err: err}
}

// codedError is an error with a gRPC code.
type codedError struct {
	code codes.Code
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }

func (e *codedError) Unwrap() error { return e.err }

// GRPCStatus makes it known to gRPC.
func (e *codedError) GRPCStatus() *status.Status { return status.New(e.code, e.err.Error()) }
