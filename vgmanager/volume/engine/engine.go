// Package lvmd is the engine behind TopoLVM's CSI driver on a node. It maps device classes to logical volumes and
// capacity.
//
// It implements the services of TopoLVM's lvmd. The agent calls it in its own process; `lvms lvmd` serves it on a
// socket (server.go). In contrast to TopoLVM's embedded lvmd, it accepts new device classes at run time, notifies every
// watcher of every change, and needs two processes to create a volume: one report and one lvcreate. It checks lvmd.yaml
// with its own code (check.go), because no strict decoder reports both line and key of an error.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// Reader reads the state of the volume groups on the node.
type Reader interface {
	// Recent returns a report that is not older than maxAge and includes every change of this process.
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
	// Report returns a report that is read after the call.
	Report(ctx context.Context) (*lvm.Report, error)
}

// Changer changes logical volumes.
type Changer interface {
	Apply(ctx context.Context, c lvm.Change) error
	ThinPoolResume(ctx context.Context, vg, name string) (done bool, err error)
}

// LVM is the part of lvm.LVM that the engine uses.
type LVM interface {
	Reader
	Changer
}

const (
	// viewAge is the maximum age of a report that answers a request. The report includes every change of this
	// process, and the agent renews it once a minute. The age only matters for changes by other programs: a refused
	// request is retried with a new report.
	viewAge = 75 * time.Second
	// refreshAge is the maximum age of the capacity that watchers have.
	refreshAge = time.Minute
	// semaphoreTimeout is how long a request waits for earlier requests.
	semaphoreTimeout = 2 * time.Minute
)

// Engine creates, changes and lists the logical volumes of the node's device classes. It is safe for concurrent use.
type Engine struct {
	proto.UnimplementedLVServiceServer
	proto.UnimplementedVGServiceServer

	lvm  LVM
	path string

	// classes is read by every request and replaced as a whole.
	classes atomic.Pointer[classSet]
	// publishing is held while the classes and their file change.
	publishing sync.Mutex
	file       Config
	// content is the file's content that was read or written last, or nil.
	content []byte
	// invalid is why the shared file is not valid, or nil.
	invalid error
	// shared: see ShareFile.
	shared bool

	// admitting is held for a volume group from the check for free space until the command ends, so that two requests
	// cannot use the same free space.
	admitting turns

	// kernel provides state that changes without LVM, such as the pool usage. If nil, the report provides it.
	kernel Kernel
	// holdUnformatted keeps the formatting of a volume from beginning, or is nil (HoldUnformattedWith).
	holdUnformatted func(name, uuid string, tags []string) (release func(), err error)
	// users describes what uses a device, or is nil (UsersWith).
	users    func(ctx context.Context, number string) string
	removals removals
	watchers watchers
}

// New returns an engine with the device classes of the file at path. The file does not have to exist. With an empty
// path, the engine keeps its classes only in memory. If kernel is nil, the pool usage is from the last report.
func New(l LVM, kernel Kernel, path string) (*Engine, error) {
	e := &Engine{lvm: l, kernel: kernel, path: path}
	if path != "" {
		if err := e.load(); err != nil {
			return nil, err
		}
	}
	e.classes.Store(e.loaded())
	return e, nil
}

// load reads the file.
func (e *Engine) load() error {
	config, data, err := readConfig(e.path)
	if err != nil {
		return err
	}
	e.file, e.content = config, data
	return nil
}

// loaded returns the classes of the file.
func (e *Engine) loaded() *classSet {
	set := &classSet{classes: slices.Clone(e.file.DeviceClasses), options: map[string][]string{}}
	for i := range set.classes {
		c := &set.classes[i]
		c.ExistingVolumeGroup = c.ExistingVolumeGroup || e.shared && c.VolumeGroupUUID == ""
	}
	for _, o := range e.file.OptionClasses {
		set.options[o.Name] = o.Options
	}
	return set
}

// ShareFile tells the engine that other programs, such as MicroShift, write the file too. Until a class of them, which
// has no UUID of the volume group, is published, only the logical volumes of claims in its volume group are used. Start
// reads the file again after it has changed.
func (e *Engine) ShareFile() {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	e.shared = true
	e.classes.Store(e.loaded())
}

// Reload reads the file again if another program has changed it. If it cannot be read, or is not valid, the classes
// stay, and Reload returns an error once for each content. A file that does not exist changes nothing.
func (e *Engine) Reload() error {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	before := e.content
	err := e.readAgain()
	if err != nil && errors.Is(err, e.invalid) && bytes.Equal(before, e.content) {
		return nil
	}
	return err
}

// readAgain reads the shared file again if another program has changed it. While the file is not valid, each call
// returns an error, and the classes stay.
func (e *Engine) readAgain() error {
	if e.path == "" || !e.shared {
		return nil
	}
	data, err := readLimited(e.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if bytes.Equal(data, e.content) {
		return e.invalid
	}
	e.content = data
	config, err := parseConfig(e.path, data)
	if err != nil {
		e.invalid = fmt.Errorf("the device classes that were read before stay, and the file is not changed until it "+
			"is valid: %w", err)
		return e.invalid
	}
	e.file, e.invalid = config, nil
	e.classes.Store(e.loaded())
	e.watchers.notify()
	return nil
}

// Class returns a published class by name.
func (e *Engine) Class(name string) (DeviceClass, bool) {
	c, ok := e.classes.Load().find(name)
	if !ok || name == "" {
		return DeviceClass{}, false
	}
	return *c, true
}

// VolumeGroups returns the names of the volume groups of all classes.
func (e *Engine) VolumeGroups() []string {
	var names []string
	for _, c := range e.classes.Load().classes {
		names = append(names, c.VolumeGroup)
	}
	return names
}

// UsesExisting returns true if a published class uses a volume group with this name that an administrator created.
func (e *Engine) UsesExisting(vg string) bool {
	return slices.ContainsFunc(e.classes.Load().classes,
		func(c DeviceClass) bool { return c.ExistingVolumeGroup && c.VolumeGroup == vg })
}

// Publish adds or replaces a class, in the file and for all requests that start afterwards. If the class is the
// default, the other classes lose that flag: while the default changes, two classes may request it. A shared file that
// is not valid is not overwritten: Publish returns why.
func (e *Engine) Publish(class DeviceClass) error {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	if err := e.readAgain(); err != nil {
		return err
	}
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

// Withdraw removes a class. Later requests for it return NotFound. If the class does not exist, it is not an error.
// Like Publish, it does not overwrite a shared file that is not valid.
func (e *Engine) Withdraw(name string) error {
	e.publishing.Lock()
	defer e.publishing.Unlock()
	if err := e.readAgain(); err != nil {
		return err
	}
	classes := slices.DeleteFunc(slices.Clone(e.classes.Load().classes),
		func(c DeviceClass) bool { return c.Name == name })
	return e.setClasses(classes)
}

// setClasses replaces all classes. It writes the file first. If that fails, nothing has changed and the caller can
// retry.
func (e *Engine) setClasses(classes []DeviceClass) error {
	if err := validate(classes); err != nil {
		return err
	}
	slices.SortFunc(classes, func(a, b DeviceClass) int { return strings.Compare(a.Name, b.Name) })
	if e.path != "" {
		config := e.file
		config.DeviceClasses = classes
		data, err := writeConfig(e.path, config)
		if err != nil {
			return err
		}
		e.file, e.content, e.invalid = config, data, nil
	}
	e.classes.Store(e.classes.Load().with(classes))
	e.watchers.notify()
	return nil
}

// Start notifies the watchers once a minute until ctx ends, because other programs change the capacity too, and reads a
// shared file again that has changed. It implements manager.Runnable.
func (e *Engine) Start(ctx context.Context) error {
	ticker := time.NewTicker(refreshAge)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := e.Reload(); err != nil {
				log.FromContext(ctx).Error(err, "failed to read the changed device classes of the node")
			}
			e.watchers.notify()
		}
	}
}

// NeedLeaderElection returns false, because the engine runs on every node.
func (e *Engine) NeedLeaderElection() bool { return false }

// turns are the semaphores of volume groups, by name.
type turns struct {
	mu     sync.Mutex
	groups map[string]semaphore
}

func (t *turns) of(group string) semaphore {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.groups[group] == nil {
		if t.groups == nil {
			t.groups = map[string]semaphore{}
		}
		t.groups[group] = make(semaphore, 1)
	}
	return t.groups[group]
}

// enter waits until no other request admits volumes to the volume group of a class: a command that takes long in one
// group does not stop the others. The caller calls leave. A class that is not known has a turn too.
func (e *Engine) enter(ctx context.Context, class string) (leave func(), err error) {
	group := ""
	if c, known := e.classes.Load().find(class); known {
		group = c.VolumeGroup
	}
	turn := e.admitting.of(group)
	return turn.leave, turn.enter(ctx)
}

// semaphore is a mutex with a time limit for the caller.
type semaphore chan struct{}

// enter acquires the turn. It waits until ctx ends, at most semaphoreTimeout.
func (t semaphore) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, semaphoreTimeout)
	defer cancel()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.Errorf(status.FromContextError(ctx.Err()).Code(),
			"waiting for another request for volumes of the volume group: %v", ctx.Err())
	}
}

func (t semaphore) leave() { <-t }

// classView is a device class with its volume group and thin pool in a report.
type classView struct {
	class *DeviceClass
	set   *classSet
	vg    *lvm.VG
	pool  *lvm.ThinPool // nil for a thick class
	fill  fill
	// unread is why the state of the pool in the kernel is not known: fill is that of the report.
	unread error
	// poolSuspended: the kernel has the pool suspended.
	poolSuspended bool
}

// reader reads a report.
type reader func(ctx context.Context) (*lvm.Report, error)

// view returns the cached report if it is recent enough.
func (e *Engine) view(ctx context.Context) (*lvm.Report, error) { return e.lvm.Recent(ctx, viewAge) }

// locate finds a class, its volume group and its thin pool.
func (e *Engine) locate(ctx context.Context, name string, read reader) (classView, error) {
	set := e.classes.Load()
	class, ok := set.find(name)
	if !ok {
		return classView{}, status.Errorf(codes.NotFound, "device class %q is not set up on this node", name)
	}
	report, err := read(ctx)
	if err != nil {
		return classView{}, statusOf(err)
	}
	l, err := resolve(set, class, report)
	if err == nil {
		l.now(ctx, e.kernel)
	}
	return l, err
}

// withFreshRetry runs step on a class with the cached report. If step is refused, or LVM contradicts the report, it
// runs step once more with a new report, because other programs change volume groups and disks can get another name.
func (e *Engine) withFreshRetry(ctx context.Context, class string, step func(l classView) error) error {
	err := e.attempt(ctx, class, e.view, step)
	if err == nil || !mayBeOutdated(err) || ctx.Err() != nil {
		return err
	}
	return e.attempt(ctx, class, e.lvm.Report, step)
}

func (e *Engine) attempt(ctx context.Context, class string, read reader, step func(l classView) error) error {
	l, err := e.locate(ctx, class, read)
	if err != nil {
		return err
	}
	if err := e.resumePool(ctx, l); err != nil {
		return err
	}
	return step(l)
}

// mayBeOutdated returns true if an outdated report can be the cause of an error. It returns false for errors that
// took long, and for errors of requests that already read a new report.
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

func resolve(set *classSet, class *DeviceClass, report *lvm.Report) (classView, error) {
	l := classView{class: class, set: set, vg: report.VG(class.VolumeGroup)}
	named := report.Named(class.VolumeGroup)
	switch {
	case len(named) > 1:
		return l, status.Errorf(codes.Unavailable, "device class %s: %d volume groups of this node have the name %s: "+
			"detach the disks of the one that does not belong here, or rename it",
			class.Name, len(named), class.VolumeGroup)
	case l.vg == nil:
		return l, status.Errorf(codes.Unavailable,
			"device class %s: volume group %s is missing: check that its disks are attached",
			class.Name, class.VolumeGroup)
	case class.VolumeGroupUUID != "" && l.vg.UUID != class.VolumeGroupUUID:
		return l, status.Errorf(codes.Unavailable,
			"device class %s: volume group %s (%s) is missing, and %s is another one with its name: "+
				"check that its disks are attached", class.Name, class.VolumeGroup, class.VolumeGroupUUID, l.vg.UUID)
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

// volume returns a volume of the volume group by name. Thick and thin volumes of a volume group share one name space.
func (l classView) volume(name string) *lvm.LV {
	lv := l.vg.LV(name)
	if lv == nil || lv.Attr.IsThinPool() || !l.mayUse(lv) {
		return nil
	}
	return lv
}

// mayUse returns false for a logical volume of somebody else in a volume group that an administrator created.
func (l classView) mayUse(lv *lvm.LV) bool {
	return !l.class.ExistingVolumeGroup || deviceclass.IsClaimed(lv.Name, lv.Tags)
}

// statusOf adds the gRPC code of codeTable to an error of LVM. The result wraps the error.
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

// GRPCStatus returns the status for gRPC.
func (e *codedError) GRPCStatus() *status.Status {
	return status.New(e.code, status.Convert(e.err).Message()) // without the code of another status
}
