// Package volumegroup keeps the volume groups of this node as the LVMVolumeGroups want them.
//
// It observes, plans and acts: one look at the node, a pure decision, at most one kind of change, one write of status.
package volumegroup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/taint"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

// Reports reads LVM.
type Reports interface {
	Report(ctx context.Context) (*lvm.Report, error)
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
}

// Groups changes volume groups.
type Groups interface {
	VGCreate(ctx context.Context, o lvm.VGCreateOptions) error
	VGExtend(ctx context.Context, o lvm.VGExtendOptions) error
	VGChangeTags(ctx context.Context, o lvm.VGTagOptions) error
	VGActivate(ctx context.Context, name string) error
	VGReduce(ctx context.Context, o lvm.VGReduceOptions) error
	VGReduceMissing(ctx context.Context, name string) error
	VGRemove(ctx context.Context, name string) error
	// NameDevices tells whether the devices of a group may be named to commands for its volumes: it was looked at, and
	// is well.
	NameDevices(vg string, well bool)
	// AcceptLoss names the missing physical volumes of a group whose removal somebody asked for.
	AcceptLoss(vg string, pvs []string)
}

// Pools changes thin pools.
type Pools interface {
	LVCreateThinPool(ctx context.Context, o lvm.ThinPoolOptions) error
	LVExtend(ctx context.Context, o lvm.LVExtendOptions) error
	ThinPoolMetadataExtend(ctx context.Context, vg, pool string, add lvm.Bytes) error
	LVDeactivate(ctx context.Context, vg, name string) error
	ThinPoolRemove(ctx context.Context, vg, name string) error
}

// Mirrors keeps the redundancy of volumes.
type Mirrors interface {
	CheckRAID(ctx context.Context) error
	LVRepair(ctx context.Context, vg, name string) error
	LVRefresh(ctx context.Context, vg, name string) error
}

// Moves empties physical volumes.
type Moves interface {
	PVSetAllocatable(ctx context.Context, o lvm.PVAllocatableOptions) error
	PVMoveStart(ctx context.Context, o lvm.PVMoveOptions) error
	PVMoveResume(ctx context.Context) error
	PVMoveAbort(ctx context.Context, source string) error
}

// Labels reads and removes the labels of physical volumes.
type Labels interface {
	// ReadLabels reads them from the devices themselves, whether or not LVM lists them.
	ReadLabels(ctx context.Context, devices ...string) ([]lvm.LabeledPV, error)
	PVRemove(ctx context.Context, device string) error
	DevicesFileAdd(ctx context.Context, device string) error
	DevicesFileRemove(ctx context.Context, device string) error
}

// LVM is what the reconciler needs of LVM.
type LVM interface {
	Reports
	Groups
	Pools
	Mirrors
	Moves
	Labels
}

// Devices are the block devices of the node.
type Devices interface {
	List(ctx context.Context) ([]device.Device, error)
	Recent(ctx context.Context, maxAge time.Duration) ([]device.Device, error)
	Resolve(path string) (device.Number, error)
	Below(number device.Number) ([]device.Number, error)
	Probe(ctx context.Context, d device.Device, ignore ...string) []device.Reason
	Wipe(ctx context.Context, o device.WipeOptions) (device.WipeResult, []device.Reason, error)
}

// Health is what is known about devices and volumes between two looks.
type Health interface {
	// Failing are the physical volumes that give errors or do not answer.
	Failing() map[device.Number]error
	// Suspended are the logical volumes that have been suspended for longer than LVM's own work takes.
	Suspended() map[device.Number]bool
	// Unknown is why nothing is known about the health of a volume group, or of some of its volumes; nil if all is
	// known.
	Unknown(group string) error
}

// Classes are the device classes in which volumes can be made.
type Classes interface {
	Class(name string) (lvmd.DeviceClass, bool)
	Publish(class lvmd.DeviceClass) error
	Withdraw(name string) error
}

// Options are what a Reconciler needs.
type Options struct {
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live     client.Reader
	Recorder events.EventRecorder
	// Node is the name of this node.
	Node string
	// Cluster is the identity of the Kubernetes cluster.
	Cluster string
	// Namespace of the product's objects.
	Namespace string
	LVM       LVM
	Devices   Devices
	Classes   Classes
	Health    Health
	// Orphans returns the logical volumes of a class without an object, and the objects without a logical volume; nil
	// for none.
	Orphans func(class string) []v1alpha1.OrphanStatus
	// Changed is called after each change on the node.
	Changed func()
	// StateDir is a directory of the node that outlives the agent: the one of lvmd.yaml.
	StateDir string
}

// Reconciler keeps the volume groups of one node. It reconciles one at a time, so it needs no locks of its own.
type Reconciler struct {
	Options
	released releases
	removed  removals
	wipes    wipeRecords
	// names are the last known devices of physical volumes, by UUID.
	names map[string]string
	// unsettled are the volume groups whose last reconcile found something to do.
	unsettled map[string]bool
	firstSeen map[device.Number]time.Time
	moves     map[string]move
	// labels are those of hidden devices, as they were last read.
	labels labelCache
	// parts are the device classes that this process may change something for.
	parts map[string]part
	now   func() time.Time
	wake  waker
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{
		Options: o, released: releases{dir: o.StateDir}, removed: removals{dir: o.StateDir},
		wipes: wipeRecords{dir: o.StateDir}, names: map[string]string{},
		unsettled: map[string]bool{}, firstSeen: map[device.Number]time.Time{}, moves: map[string]move{},
		parts: map[string]part{}, now: time.Now, wake: newWaker(),
	}
}

// The times after which a reconcile comes again.
const (
	// afterChange is short: there may be more to do.
	afterChange = 100 * time.Millisecond
	// afterConflict lets the cache catch up.
	afterConflict = time.Second
	// whileWaiting is for something that another program or a user is about to do.
	whileWaiting = 10 * time.Second
	// resync is how often the truth is looked at when nothing happens: disks come, go and fail without an event.
	resync = time.Minute
	// maxAge of a look that may lead to nothing. It is less than resync, so that each look is a new one, but the volume
	// groups of a node share it.
	maxAge = 50 * time.Second
	// sameLook is how old a look may be that leads to something that takes nothing away. It has the last change in it
	// that was made through this LVM, and devices that are to be used are read in any case.
	sameLook = 2 * time.Second
	// moveStalls is after how long without progress a move of extents is taken to have lost the process that polls it.
	// LVM's poller looks every 5 s; a disk that needs longer than this for a percent gets a second poller, which does
	// no harm.
	moveStalls = 2 * time.Minute
)

// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroupnodestatuses,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroupnodestatuses/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,namespace=openshift-lvm-storage,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get
// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=configmaps,resourceNames=lvms-wiped-devices,verbs=get

// Reconcile brings the volume group of one LVMVolumeGroup one step further.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.LVMVolumeGroup{}
	err := r.Client.Get(ctx, req.NamespacedName, object)
	switch {
	case apierrors.IsNotFound(err):
		err = r.dropPart(ctx, req.NamespacedName)
	case err == nil:
		var result ctrl.Result
		if result, err = r.reconcile(ctx, object); err == nil {
			return result, nil
		}
	}
	if apierrors.IsConflict(err) {
		// The cache was behind; what was done on the node is done, and is seen again.
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) reconcile(ctx context.Context, object *v1alpha1.LVMVolumeGroup) (ctrl.Result, error) {
	nodeStatus, err := r.nodeStatus(ctx, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !object.DeletionTimestamp.IsZero() {
		// The nodeSelector has no say here: what this node made it removes, even if it is no longer selected.
		ours, err := r.takesPart(ctx, object, nodeStatus)
		if !ours || err != nil {
			return ctrl.Result{}, err
		}
		return r.step(ctx, object, nodeStatus)
	}
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: r.Node}, node); err != nil {
		return ctrl.Result{}, fmt.Errorf("node %s: %w", r.Node, err)
	}
	_, selected, err := Applies(&object.Spec, node)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("LVMVolumeGroup %s: %w", object.Name, err)
	}
	if !selected || taint.Untolerated(node, object.Spec.Tolerations) != nil {
		if ours, err := r.takesPart(ctx, object, nodeStatus); !ours || err != nil {
			return ctrl.Result{}, err
		}
	}
	if nodeStatus.Name == "" {
		// The operator makes it, and a change on the node that nobody can see is not made.
		return ctrl.Result{RequeueAfter: whileWaiting}, nil
	}
	nodeStatus, err = r.takePart(ctx, object, nodeStatus)
	if nodeStatus == nil || err != nil {
		return ctrl.Result{}, err
	}
	return r.step(ctx, object, nodeStatus)
}

// outcome is what one step came to.
type outcome struct {
	seen Seen
	plan Plan
	// blind: the node could not be looked at, so seen and plan are empty.
	blind bool
	// acted: the plan's action was carried out.
	acted bool
	err   error
}

// accepted are the lost physical volumes that the volume group may be changed without.
func (o outcome) accepted(w Wanted) []string {
	if o.blind {
		return nil
	}
	return acceptedLosses(w, o.seen)
}

// event is the reason of the event that tells of the outcome.
func (o outcome) event() EventReason {
	switch {
	case o.blind:
		return EventObserveFailed
	case o.err != nil:
		return failureEvents[o.plan.Action.Kind]
	}
	return o.plan.event()
}

// step looks, plans, acts and reports.
func (r *Reconciler) step(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus) (ctrl.Result, error) {
	w, err := r.wanted(ctx, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	before := entryOf(nodeStatus, w.Name)
	o := r.change(ctx, w, before)
	r.LVM.NameDevices(w.Name, !o.blind && o.err == nil && o.plan.State == v1alpha1.VGStatusReady &&
		len(o.plan.Problems) == 0)
	r.LVM.AcceptLoss(w.Name, o.accepted(w))
	if o.plan.Finished {
		return r.finish(ctx, object, nodeStatus)
	}
	r.nameVolumes(ctx, w, o.plan.Problems)
	return r.publish(ctx, object, nodeStatus, w, o)
}

// wanted is what a LVMVolumeGroup asks of this node, beside the other ones.
func (r *Reconciler) wanted(ctx context.Context, object *v1alpha1.LVMVolumeGroup) (Wanted, error) {
	node := &corev1.Node{}
	list := &v1alpha1.LVMVolumeGroupList{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: r.Node}, node); err != nil {
		return Wanted{}, fmt.Errorf("node %s: %w", r.Node, err)
	}
	if err := r.Client.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		return Wanted{}, fmt.Errorf("list LVMVolumeGroups: %w", err)
	}
	return NewWanted(object, list.Items, node, r.Cluster)
}

// additions are the changes that take nothing away from anybody.
var additions = []Kind{CreateVG, CreatePool, PublishClass}

// change looks, plans and acts. A look that may be up to a minute old leads to nothing: where there is something to do,
// the node is looked at again, and each device that is to be used is read. That a class is published changes nothing on
// the node, so what comes after it needs no other look.
func (r *Reconciler) change(ctx context.Context, w Wanted, before v1alpha1.VGStatus) outcome {
	age := min(maxAge, r.wake.age(r.now()))
	switch {
	case before.ObservedGeneration != w.Generation:
		// Somebody has just asked for this, perhaps for a disk that came a moment ago: look at the node as it is now.
		age = 0
	case r.unsettled[w.Name]:
		age = min(age, sameLook)
	}
	seen, err := r.observe(ctx, w, before, age)
	if err != nil {
		return outcome{blind: true, err: err}
	}
	plan := NewPlan(w, seen)
	enough := age <= sameLook && slices.Contains(additions, plan.Action.Kind)
	if age != 0 && !enough && (plan.Action.Kind != Nothing || plan.Finished) {
		if seen, err = r.observe(ctx, w, before, 0); err != nil {
			return outcome{blind: true, err: err}
		}
		plan = NewPlan(w, seen)
	}
	if len(plan.Action.Devices) > 0 {
		r.probe(ctx, &seen, plan.Action.Devices)
		plan = NewPlan(w, seen)
	}
	if plan.Action.Kind == PublishClass {
		if err := r.act(ctx, w, seen, plan.Action); err != nil {
			return outcome{seen: seen, plan: plan, err: err}
		}
		seen.Class = &plan.Action.Class
		plan = NewPlan(w, seen)
		r.changed()
	}
	r.unsettled[w.Name] = plan.Action.Kind != Nothing
	if plan.Action.Kind == Nothing {
		return outcome{seen: seen, plan: plan}
	}
	err = r.act(ctx, w, seen, plan.Action)
	r.changed()
	return outcome{seen: seen, plan: plan, acted: err == nil, err: err}
}

func (r *Reconciler) changed() {
	if r.Changed != nil {
		r.Changed()
	}
}

// publish writes the status, tells of a change and picks the time of the next look.
func (r *Reconciler) publish(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, w Wanted, o outcome) (ctrl.Result, error) {
	if nodeStatus.Name != "" {
		before, after, err := r.writeEntry(ctx, nodeStatus, w, o)
		if err != nil {
			return ctrl.Result{}, err
		}
		r.event(object, before, after, o.event())
	}
	switch {
	case o.err != nil:
		return ctrl.Result{}, fmt.Errorf("LVMVolumeGroup %s on node %s: %w", w.Name, w.Node, o.err)
	case o.acted:
		return ctrl.Result{RequeueAfter: afterChange}, nil
	case w.Deleting || o.plan.Waiting:
		return ctrl.Result{RequeueAfter: whileWaiting}, nil
	}
	return ctrl.Result{RequeueAfter: jitter(resync)}, nil
}

// jitter keeps the nodes of a cluster from looking at the API server in step.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d/10)))
}
