// Package volumegroup reconciles the volume groups of this node with the LVMVolumeGroups.
//
// Each reconcile observes the node (observe.go), computes a plan without side effects (package plan), performs at most
// one kind of change (act.go), and writes the status once (status.go).
package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/taint"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/attempts"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/fsjobs"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/hiddenpvs"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/orphanremoval"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/existing"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/poolmetadata"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/restore"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// Reports reads LVM.
type Reports interface {
	Report(ctx context.Context) (*lvm.Report, error)
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
}

// Changes makes changes.
type Changes interface {
	Apply(ctx context.Context, c lvm.Change) error
	// SetHealthy sets whether commands for volumes of a group may name the group's devices. Set it after the group
	// was observed and found healthy.
	SetHealthy(vg string, healthy bool)
	// AcceptLoss sets the missing physical volumes of a group whose removal was requested.
	AcceptLoss(vg string, pvs []string)
}

// Labels reads what is on devices, even if LVM does not list them.
type Labels interface {
	// ReadLabels reads the labels of physical volumes.
	ReadLabels(ctx context.Context, devices ...string) ([]lvm.LabeledPV, error)
	// ReadDevices reads the volume groups.
	ReadDevices(ctx context.Context, devices ...string) (*lvm.Report, error)
	LabelCheck(ctx context.Context, device string) error
}

// Kernel reads what the kernel supports and what a thin pool has in it.
type Kernel interface {
	CheckRAID(ctx context.Context) error
	ThinDeviceIDs(ctx context.Context, vg, pool string) (map[string]uint64, error)
}

// LVM is the part of lvmexec.LVM that the reconciler uses.
type LVM interface {
	Reports
	Changes
	Labels
	restore.Metadata
	Kernel
}

// DeviceList lists the block devices of the node.
type DeviceList interface {
	List(ctx context.Context) ([]device.Device, error)
	Recent(ctx context.Context, maxAge time.Duration) ([]device.Device, error)
	Resolve(path string) (device.Number, error)
}

// Mappings are the devices of the device mapper.
type Mappings interface {
	Below(number device.Number) ([]device.Number, error)
	Mapped(vgUUID string) ([]string, error)
	Unmap(ctx context.Context, names ...string) error
}

// Contents reads what is on devices.
type Contents interface {
	Probe(ctx context.Context, d device.Device, ignore ...string) []device.Reason
	Content(ctx context.Context, d device.Device) ([]device.Signature, []device.Reason)
	LastMount(ctx context.Context, d device.Device) (time.Time, error)
}

// Devices are the block devices of the node.
type Devices interface {
	DeviceList
	Mappings
	Contents
	Wipe(ctx context.Context, o device.WipeOptions) (device.WipeResult, []device.Reason, error)
}

// Health is the health of devices and volumes between two observations.
type Health interface {
	// Failing returns the physical volumes that return errors or do not respond.
	Failing() map[device.Number]error
	// Suspended returns the logical volumes that have been suspended for longer than LVM's operations take.
	Suspended() map[device.Number]bool
	// Unknown returns why the health of a volume group, or of some of its volumes, is not known. It returns nil if it
	// is known.
	Unknown(group string) error
}

// Classes manages the device classes in which volumes can be created.
type Classes interface {
	Class(name string) (deviceclass.Class, bool)
	Publish(class deviceclass.Class) error
	Withdraw(name string) error
	// EraseVolume erases a volume if its class requires that. It returns the progress, or "" if this is complete.
	EraseVolume(ctx context.Context, eraser engine.Eraser, class, name string) (progress string, err error)
}

// Options configures a Reconciler.
type Options struct {
	Client client.Client
	// Live reads from the API server, not from a cache.
	Live     client.Reader
	Recorder events.EventRecorder
	// Node is the name of this node.
	Node string
	// Cluster is the identity of the Kubernetes cluster. FormerCluster is the one with which an earlier version tagged
	// volume groups, or "".
	Cluster, FormerCluster string
	// Namespace is the namespace of the product's objects.
	Namespace string
	LVM       LVM
	Devices   Devices
	Classes   Classes
	// Eraser erases logical volumes. It is the one that the reconciler of LogicalVolumes uses.
	Eraser engine.Eraser
	Health Health
	// Inspect checks and reads the metadata of a thin pool.
	Inspect func(ctx context.Context, pool thinmeta.Pool) (*thinmeta.Metadata, error)
	// Salvage writes the metadata that Inspect found to a file, and returns its devices.
	Salvage func(ctx context.Context, pool thinmeta.Pool, file string) (map[uint64]thinmeta.Device, error)
	// IsBlank returns true if the first block of the metadata of a thin pool, on a device, has only zeros.
	IsBlank func(ctx context.Context, device string) (bool, error)
	// FileSystems are the mounted file systems of the node.
	FileSystems fsjobs.FileSystems
	// Checker checks and repairs the file systems that are not mounted.
	Checker fsjobs.Checker
	// Peers reads what the node statuses list about the devices of this node, as ReadPeers does. It is called right
	// before devices are taken.
	Peers func(ctx context.Context, devices []device.Device) (*state.Peers, error)
	// Orphans returns the orphans of a class. If it is nil, there are none.
	Orphans func(class string) []v1alpha1.OrphanStatus
	// Changed is called after each change on the node.
	Changed func()
	// StatusChanged is called after each change of the status of a volume group: its volumes may have the same problem.
	StatusChanged func()
	// StateDir is a directory on the node that outlives the agent. It also has lvmd.yaml.
	StateDir string
}

// Reconciler reconciles the volume groups of one node. It reconciles one at a time, so it needs no locks.
type Reconciler struct {
	Options
	objects    *clusterobjects.Objects
	entries    *statusEntries
	events     *eventLog
	recoveries *recoveries
	known      *knownDevices
	hidden     *hiddenpvs.Groups
	moves      *moves
	group      *groupChanges
	wiper      *wiper
	pools      *poolmetadata.Pools
	restores   *restore.Restores
	orphans    *orphanremoval.Removal
	trims      *fsjobs.Trims
	checks     *fsjobs.Checks
	// unsettled has the volume groups whose last reconcile planned a change.
	unsettled map[string]bool
	// failures are the changes that failed at their last attempt, by device class.
	failures map[string][]state.Failure
	now      func() time.Time
	pause    func(time.Duration)
	wake     waker
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	r := &Reconciler{Options: o, unsettled: map[string]bool{}, failures: map[string][]state.Failure{}, now: time.Now,
		pause: time.Sleep, wake: newWaker()}
	now := func() time.Time { return r.now() } // a test can set another clock later
	r.objects = &clusterobjects.Objects{Client: o.Client, Live: o.Live, Node: o.Node, Namespace: o.Namespace}
	r.entries = &statusEntries{Objects: r.objects, memberships: map[string]membership{}}
	r.events = &eventLog{recorder: o.Recorder, node: o.Node, namespace: o.Namespace}
	r.recoveries = &recoveries{Objects: r.objects, recorder: o.Recorder, plans: newRecoveryPlans(o.StateDir),
		now: now}
	r.known = &knownDevices{names: map[string]string{}, firstSeen: map[device.Number]time.Time{}, now: now}
	r.hidden = &hiddenpvs.Groups{LVM: o.LVM, Now: now}
	r.moves = &moves{progress: map[string]move{}, now: now}
	r.pools = &poolmetadata.Pools{LVM: o.LVM, Read: o.Inspect, SalvageTo: o.Salvage, IsBlank: o.IsBlank,
		StateDir: o.StateDir, Faults: map[string]error{}, Inspections: poolmetadata.NewInspections(),
		Attempts: attempts.All{}, Now: now, Wake: r.Wake}
	r.restores = &restore.Restores{LVM: o.LVM, Devices: o.Devices, Objects: r.objects, Pools: r.pools,
		StateDir: o.StateDir, Sequences: restore.NewSequences(o.StateDir), Verified: map[string][]string{},
		Replacements: map[string]restore.Replacement{}}
	r.wiper = &wiper{lvm: o.LVM, devices: o.Devices, objects: r.objects, entries: r.entries, events: r.events,
		records: newWipeRecords(o.StateDir), stateDir: o.StateDir, now: now}
	r.group = &groupChanges{lvm: o.LVM, classes: o.Classes, objects: r.objects, events: r.events, pools: r.pools,
		moves: r.moves, attempts: r.pools.Attempts, released: newReleases(o.StateDir),
		additions: newAdditions(o.StateDir), removed: newRemovals(o.StateDir), wipes: r.wiper.records, now: now}
	r.orphans = &orphanremoval.Removal{LVM: o.LVM, Classes: o.Classes, Eraser: o.Eraser, Objects: r.objects,
		Emit: r.events.emit, Orphans: o.Orphans, Erasing: map[string][]string{}, Now: now}
	r.trims = &fsjobs.Trims{LVM: o.LVM, FileSystems: o.FileSystems, Runs: fsjobs.NewRuns[state.Trim](), Now: now,
		Wake: r.Wake}
	r.checks = &fsjobs.Checks{LVM: o.LVM, Checker: o.Checker, Runs: fsjobs.NewRuns[state.FileSystemRun](), Now: now,
		Pause: func(d time.Duration) { r.pause(d) }, Wake: r.Wake}
	return r
}

// Delays before the next reconcile.
const (
	// afterChange is short, because more changes may be necessary.
	afterChange = 100 * time.Millisecond
	// afterConflict gives the cache time to catch up.
	afterConflict = time.Second
	// whileWaiting is the delay while another program or a user must act.
	whileWaiting = 10 * time.Second
	// resync is the interval of observations without an event, because disks can appear, disappear and fail without
	// one.
	resync = time.Minute
	// maxAge is the maximum age of an observation that leads to no change. It is less than resync, so that each
	// resync observes again, but the volume groups of a node share an observation.
	maxAge = 50 * time.Second
	// maxAgeOfAdditions is the maximum age of an observation that leads to a change that removes nothing. The
	// observation includes the last change of this LVM, and devices to use are read again in any case.
	maxAgeOfAdditions = 2 * time.Second
	// moveStalls is the time without progress after which the agent assumes that no process polls a move. LVM polls
	// every 5 s. If a disk needs longer than this for one percent, a second process polls the move, which is
	// harmless.
	moveStalls = 2 * time.Minute
)

// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroupnodestatuses,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroupnodestatuses/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,namespace=openshift-lvm-storage,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get
// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=configmaps,resourceNames=lvms-wiped-devices,verbs=get

// Reconcile performs the next step for the volume group of one LVMVolumeGroup.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &v1alpha1.LVMVolumeGroup{}
	err := r.objects.Client.Get(ctx, req.NamespacedName, object)
	switch {
	case apierrors.IsNotFound(err):
		err = errors.Join(r.entries.leaveDeleted(ctx, req.NamespacedName),
			r.recoveries.reject(ctx, req.Name, fmt.Sprintf("device class %s does not exist", req.Name)))
	case err == nil:
		var result ctrl.Result
		if result, err = r.reconcile(ctx, object); err == nil {
			return result, nil
		}
	}
	if apierrors.IsConflict(err) {
		// The cache was outdated. Changes on the node are observed again.
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) reconcile(ctx context.Context, object *v1alpha1.LVMVolumeGroup) (ctrl.Result, error) {
	nodeStatus, err := r.entries.nodeStatus(ctx, r.objects.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !object.DeletionTimestamp.IsZero() {
		// The nodeSelector does not matter here: a node removes what it created, even if it is no longer selected.
		ours, err := r.entries.isMember(ctx, object, nodeStatus)
		if !ours || err != nil {
			return ctrl.Result{}, err
		}
		return r.step(ctx, object, nodeStatus)
	}
	node := &corev1.Node{}
	if err := r.objects.Client.Get(ctx, client.ObjectKey{Name: r.Node}, node); err != nil {
		return ctrl.Result{}, fmt.Errorf("read node %s: %w", r.Node, err)
	}
	_, selected, err := state.Applies(&object.Spec, node)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("LVMVolumeGroup %s: %w", object.Name, err)
	}
	if !selected || taint.Untolerated(node, object.Spec.Tolerations) != nil {
		ours, err := r.entries.isMember(ctx, object, nodeStatus)
		if err != nil {
			return ctrl.Result{}, err
		}
		if !ours {
			return ctrl.Result{}, r.recoveries.reject(ctx, object.Name,
				fmt.Sprintf("device class %s has no volume group on node %s", object.Name, r.Node))
		}
	}
	if nodeStatus.Name == "" {
		// The operator creates the node status. Without it, the agent does not change the node.
		return ctrl.Result{RequeueAfter: whileWaiting}, nil
	}
	nodeStatus, err = r.entries.join(ctx, object, nodeStatus)
	if nodeStatus == nil || err != nil {
		return ctrl.Result{}, err
	}
	return r.step(ctx, object, nodeStatus)
}

// outcome is the result of one step.
type outcome struct {
	state.Outcome
	// acted: the plan's action was performed.
	acted bool
}

// accepted returns the missing physical volumes whose loss is accepted, so that the volume group can be changed.
func (o outcome) accepted(d state.Desired) []string {
	if o.ObserveFailed {
		return nil
	}
	return members.AcceptedLosses(d, o.Node)
}

// step observes, plans, acts and reports.
func (r *Reconciler) step(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus) (ctrl.Result, error) {
	d, err := r.desired(ctx, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	recoveries, err := r.recoveries.open(ctx, d.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if d.UsesExisting() {
		if err := r.recoveries.reject(ctx, d.Name, existing.NoRecovery(d)); err != nil {
			return ctrl.Result{}, err
		}
		recoveries = nil
	}
	first, approved, err := r.recoveries.plans.next(ctx, d.Name, recoveries)
	if err != nil {
		return ctrl.Result{}, err
	}
	if first != nil {
		plan.Open(&d, first, approved)
		r.unsettled[d.Name] = true
	}
	before := entryOf(nodeStatus, d.Name)
	o := r.change(ctx, d, before)
	// The devices of a volume group of an administrator can change at any time, so LVM always looks for them.
	if !d.UsesExisting() {
		r.LVM.SetHealthy(d.Name, !o.ObserveFailed && o.Err == nil && o.Plan.State == v1alpha1.VGStatusReady &&
			len(o.Plan.Problems) == 0)
		r.LVM.AcceptLoss(d.Name, o.accepted(d))
	}
	// A recovery that cannot be reported must not keep the status of the volume group from being written.
	reported := errors.Join(r.recoveries.report(ctx, d, first, recoveries, o), r.pools.RemoveAbandoned(d))
	if o.Plan.Finished {
		result, err := r.finish(ctx, object, nodeStatus)
		return result, errors.Join(err, reported)
	}
	r.objects.NameVolumes(ctx, d, o.Plan.Problems)
	result, err := r.publish(ctx, object, nodeStatus, d, o)
	return result, errors.Join(err, reported)
}

// desired returns the desired state of a LVMVolumeGroup on this node, with the other LVMVolumeGroups considered.
func (r *Reconciler) desired(ctx context.Context, object *v1alpha1.LVMVolumeGroup) (state.Desired, error) {
	node := &corev1.Node{}
	list := &v1alpha1.LVMVolumeGroupList{}
	if err := r.objects.Client.Get(ctx, client.ObjectKey{Name: r.Node}, node); err != nil {
		return state.Desired{}, fmt.Errorf("read node %s: %w", r.Node, err)
	}
	if err := r.objects.Client.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		return state.Desired{}, fmt.Errorf("list LVMVolumeGroups: %w", err)
	}
	d, err := state.NewDesired(object, list.Items, node, state.Cluster{ID: r.Cluster, Former: r.FormerCluster})
	if err != nil {
		return d, err
	}
	d.Consent.Approvals, err = r.objects.Approvals(ctx, d)
	return d, err
}

func (r *Reconciler) changed() {
	if r.Changed != nil {
		r.Changed()
	}
}

// publish writes the status, emits an event for a change, and returns the delay before the next reconcile.
func (r *Reconciler) publish(ctx context.Context, object *v1alpha1.LVMVolumeGroup,
	nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, d state.Desired, o outcome) (ctrl.Result, error) {
	if nodeStatus.Name != "" {
		before, after, err := r.writeEntry(ctx, nodeStatus, d, o)
		if err != nil {
			return ctrl.Result{}, err
		}
		if r.StatusChanged != nil && (before.Status != after.Status || before.Reason != after.Reason) {
			r.StatusChanged()
		}
		r.events.changed(object, before, after, plan.Event(o.Outcome))
		r.events.approvals(d, before, after)
	}
	switch {
	case o.Err != nil:
		return ctrl.Result{}, fmt.Errorf("LVMVolumeGroup %s on node %s: %w", d.Name, d.Node, o.Err)
	case o.acted:
		return ctrl.Result{RequeueAfter: afterChange}, nil
	case d.Deleting || o.Plan.Waiting:
		return ctrl.Result{RequeueAfter: whileWaiting}, nil
	}
	return ctrl.Result{RequeueAfter: r.group.attempts.Delay(d.Name, r.now(), afterChange, jitter(resync))}, nil
}

// jitter spreads the reconciles of the nodes of a cluster over time.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Int64N(int64(d/10)))
}
