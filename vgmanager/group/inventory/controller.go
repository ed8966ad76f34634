package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host/lvmsource"
)

// Reports reads LVM.
type Reports interface {
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
}

// Devices reads the block devices of the node.
type Devices interface {
	Recent(ctx context.Context, maxAge time.Duration) ([]device.Device, error)
	Resolve(path string) (device.Number, error)
	Probe(ctx context.Context, d device.Device, ignore ...string) []device.Reason
}

// Health is the health of devices between two observations.
type Health interface {
	Failing() map[device.Number]error
}

// Options configures a Reconciler.
type Options struct {
	Client client.Client
	// Node is the name of this node.
	Node string
	// Namespace is the namespace of the product's objects.
	Namespace string
	// Cluster is the identity of the Kubernetes cluster. FormerCluster is the one with which an earlier version tagged
	// volume groups, or "".
	Cluster, FormerCluster string
	LVM                    Reports
	Devices                Devices
	Health                 Health
	// Source returns whose LVM is used.
	Source func(ctx context.Context) (lvmsource.Source, error)
}

// Reconciler keeps the list of devices in the node status up to date.
type Reconciler struct {
	Options
	now  func() time.Time
	wake chan event.GenericEvent
	last atomic.Int64 // time of the last call of Wake or Changed, in nanoseconds of Unix time
	// updating runs the observations, which may never end.
	updating *bounded.Calls
	// settling: an observation is scheduled for a change by this agent.
	settling atomic.Bool
	// probed are the results of reading devices that have no other reasons, by device number. Such a device is read
	// again only after its digest changed or a new observation was requested.
	probed map[device.Number]probe
	// unread: the last observation left devices to be read, because they were more than maxProbes.
	unread atomic.Bool
}

type probe struct {
	digest  string
	at      time.Time
	reasons []device.Reason
	// transient: the reasons do not last, and the device is read again in each observation.
	transient bool
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{
		Options: o, now: time.Now, wake: make(chan event.GenericEvent, 1), probed: map[device.Number]probe{},
		updating: bounded.New(updateTimeout, 1),
	}
}

const (
	// resync is the interval of observations without an event.
	resync = time.Minute
	// maxAge is the maximum age of a report. It is less than resync, and shared with the volume groups.
	maxAge = 50 * time.Second
	// whileWaiting is the delay while the operator must create the node status.
	whileWaiting = 10 * time.Second
	// afterConflict gives the cache time to catch up.
	afterConflict = time.Second
	// settling is the delay after a change by this agent. More changes usually follow, and each ends with an
	// observation whose result is shared.
	settling = 2 * time.Second
)

// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroups,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroupnodestatuses,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmvolumegroupnodestatuses/status,verbs=patch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmdeviceapprovals,verbs=list;watch

// Reconcile writes the list of devices if it changed.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	nodeStatus := &v1alpha1.LVMVolumeGroupNodeStatus{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Node}, nodeStatus)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: whileWaiting}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read node status %s: %w", r.Node, err)
	}
	next, seen := r.updateWithin(ctx, nodeStatus)
	if seen == nil {
		r.noteTime(nodeStatus, next)
	}
	if err := r.write(ctx, nodeStatus, next); apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("write the list of devices to node status %s: %w", r.Node, err)
	}
	if seen != nil {
		return ctrl.Result{}, seen
	}
	if r.unread.Load() {
		return ctrl.Result{RequeueAfter: settling}, nil
	}
	return ctrl.Result{RequeueAfter: resync}, nil
}

// updateTimeout is the time limit of an observation. It exceeds the sum of all limits within the observation.
const updateTimeout = 4 * time.Minute

// updateWithin returns the status after an observation. If the observation does not end in time, the status reports
// that, and no other observation starts meanwhile.
func (r *Reconciler) updateWithin(ctx context.Context,
	before *v1alpha1.LVMVolumeGroupNodeStatus) (*v1alpha1.LVMVolumeGroupNodeStatus, error) {
	type answer struct {
		status *v1alpha1.LVMVolumeGroupNodeStatus
		err    error
	}
	got, err := bounded.Do(ctx, r.updating, r.Node, func(ctx context.Context) answer {
		next := before.DeepCopy()
		return answer{next, r.update(ctx, next)}
	})
	if err == nil {
		return got.status, got.err
	}
	err = fmt.Errorf("the node agent %w: see its log, and on the node: "+
		"ps -eo pid,etime,stat,wchan,args | grep -E 'lvm|lsblk|wipefs'", err)
	next := before.DeepCopy()
	r.markFailed(next, err)
	return next, err
}

// observationInterval is how old lastObserved may become before it is written although nothing else has changed. It is
// coarse, so that the agents of a thousand nodes write twice a second together.
const observationInterval = v1alpha1.ObservationLimit / 3

// noteTime sets the time of the observation if the status changes anyway or its time is old.
func (r *Reconciler) noteTime(before, next *v1alpha1.LVMVolumeGroupNodeStatus) {
	last := before.Status.LastObserved
	if last != nil && r.now().Sub(last.Time) < observationInterval &&
		equality.Semantic.DeepEqual(before.Status, next.Status) {
		return
	}
	now := metav1.NewTime(r.now().Truncate(time.Second))
	next.Status.LastObserved = &now
}

// update updates the devices in the status. If the node cannot be observed, the list stays and a condition reports the
// error.
func (r *Reconciler) update(ctx context.Context, nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus) error {
	source, err := r.Source(ctx)
	if err != nil {
		r.markFailed(nodeStatus, err)
		return err
	}
	nodeStatus.Status.LVM = describe(source)
	in, err := r.observe(ctx, nodeStatus.Spec.DeviceLabels)
	if err != nil {
		r.markFailed(nodeStatus, err)
		return err
	}
	in.Before = nodeStatus.Status.Devices
	in.Known = map[string][]v1alpha1.PhysicalVolumeStatus{}
	for _, entry := range nodeStatus.Status.NodeStatus {
		in.Known[entry.Group()] = entry.PhysicalVolumes
	}
	nodeStatus.Status.Devices, nodeStatus.Status.DevicesOmitted = Build(in)
	meta.SetStatusCondition(&nodeStatus.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDevicesObserved, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDevicesObserved,
	})
	return nil
}

func describe(source lvmsource.Source) *v1alpha1.NodeLVM {
	status := &v1alpha1.NodeLVM{Source: v1alpha1.LVMSourceHost, Version: source.Version}
	if source.Image {
		status.Source = v1alpha1.LVMSourceImage
	}
	return status
}

func (r *Reconciler) markFailed(nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, err error) {
	meta.SetStatusCondition(&nodeStatus.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDevicesObserved, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonObservationFailed,
		Message: fmt.Sprintf("the devices of node %s could not be read, so the list is from an earlier observation: %v",
			r.Node, err),
	})
}

// observe observes the node, whose devices have labels.
func (r *Reconciler) observe(ctx context.Context, labels []v1alpha1.DeviceLabels) (Input, error) {
	woken := time.Unix(0, r.last.Load())
	age := min(maxAge, max(0, r.now().Sub(woken)))
	report, err := r.LVM.Recent(ctx, age)
	if err != nil {
		return Input{}, err
	}
	devices, err := r.Devices.Recent(ctx, age)
	if err != nil {
		return Input{}, err
	}
	devices = selection.WithLabels(devices, labels)
	classes, err := r.classes(ctx, report, devices)
	if err != nil {
		return Input{}, err
	}
	failing := r.Health.Failing()
	return Input{
		Devices: devices, Report: report, Node: r.Node, Clusters: []string{r.Cluster, r.FormerCluster},
		Classes: classes, Labels: labels, Failing: failing, Now: r.now(),
		Probed: r.probe(ctx, devices, state.PhysicalVolumes(report), woken),
	}, nil
}

// classes returns the device classes of this node, each with its observation.
func (r *Reconciler) classes(ctx context.Context, report *lvm.Report,
	devices []device.Device) ([]selection.ClassState, error) {
	node := &corev1.Node{}
	list := &v1alpha1.LVMVolumeGroupList{}
	err := errors.Join(r.Client.Get(ctx, client.ObjectKey{Name: r.Node}, node),
		r.Client.List(ctx, list, client.InNamespace(r.Namespace)))
	if err != nil {
		return nil, fmt.Errorf("read the device classes of node %s: %w", r.Node, err)
	}
	approvals := &v1alpha1.LVMDeviceApprovalList{}
	if err := r.Client.List(ctx, approvals, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("list the LVMDeviceApprovals of node %s: %w", r.Node, err)
	}
	seen := state.NewNodeSnapshot(report, devices, r.Health.Failing(), r.Devices.Resolve)
	cluster := state.Cluster{ID: r.Cluster, Former: r.FormerCluster}
	var classes []selection.ClassState
	for i := range list.Items {
		_, applies, err := state.Applies(&list.Items[i].Spec, node)
		if err != nil {
			return nil, fmt.Errorf("LVMVolumeGroup %s: %w", list.Items[i].Name, err)
		}
		if !applies || !list.Items[i].DeletionTimestamp.IsZero() {
			continue
		}
		d, err := state.NewDesired(&list.Items[i], list.Items, node, cluster)
		if err != nil {
			return nil, err
		}
		d.Consent.Approvals = selection.ApprovalsFor(approvals.Items, r.Node, d.Name)
		classes = append(classes, selection.ClassState{Desired: d, Node: seen.For(d)})
	}
	slices.SortFunc(classes, func(a, b selection.ClassState) int {
		return strings.Compare(a.Desired.Name,
			b.Desired.Name)
	})
	return classes, nil
}

// maxProbes is the maximum number of devices to read in one observation. If there are more, another observation follows
// soon.
const maxProbes = 32

// probe reads the devices that have no other reasons, so that a device is only reported as available after it was
// opened exclusively and found blank. Until then its state is Unknown. Devices are read in parallel, so that one that
// does not respond does not delay the others. Those that were never read, or not for the longest time, come first.
func (r *Reconciler) probe(ctx context.Context, devices []device.Device, pvs map[device.Number]device.PV,
	woken time.Time) map[device.Number][]device.Reason {
	results := map[device.Number][]device.Reason{}
	fresh := map[device.Number]probe{}
	var due []device.Device
	for _, d := range devices {
		if known := device.Explain(d, pvs); d.Type == "lvm" || stateOf(known) != v1alpha1.DeviceAvailable {
			continue
		}
		p, ok := r.probed[d.Number]
		if ok = ok && p.digest == device.Digest(d); ok {
			fresh[d.Number], results[d.Number] = p, p.reasons
		} else {
			results[d.Number] = []device.Reason{{Code: device.ProbeError, Message: "has not been read yet"}}
		}
		if !ok || p.transient || p.at.Before(woken) {
			due = append(due, d)
		}
	}
	slices.SortStableFunc(due, func(a, b device.Device) int {
		return fresh[a.Number].at.Compare(fresh[b.Number].at)
	})
	left := due[min(len(due), maxProbes):]
	due = due[:len(due)-len(left)]
	for i, reasons := range r.probeAll(ctx, due) {
		d := due[i]
		results[d.Number] = reasons
		fresh[d.Number] = probe{digest: device.Digest(d), at: r.now(), reasons: reasons,
			transient: slices.ContainsFunc(reasons, func(reason device.Reason) bool { return reason.Transient })}
	}
	r.probed = fresh
	r.unread.Store(slices.ContainsFunc(left, func(d device.Device) bool { return fresh[d.Number].at.Before(woken) }))
	return results
}

// probeAll reads devices in parallel and returns the results in their order.
func (r *Reconciler) probeAll(ctx context.Context, devices []device.Device) [][]device.Reason {
	results := make([][]device.Reason, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		all.Go(func() { results[i] = r.Devices.Probe(ctx, d) })
	}
	all.Wait()
	return results
}

func (r *Reconciler) write(ctx context.Context, before, after *v1alpha1.LVMVolumeGroupNodeStatus) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	return r.Client.Status().Patch(ctx, after,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// Changed requests an observation after this agent changed a volume group. It never blocks.
func (r *Reconciler) Changed() {
	r.last.Store(r.now().UnixNano())
	if r.settling.CompareAndSwap(false, true) {
		time.AfterFunc(settling, func() {
			r.settling.Store(false)
			r.ask()
		})
	}
}

// Wake requests an observation after a device was added, removed or changed. It never blocks.
func (r *Reconciler) Wake() {
	r.last.Store(r.now().UnixNano())
	r.ask()
}

func (r *Reconciler) ask() {
	select {
	case r.wake <- event.GenericEvent{Object: &v1alpha1.LVMVolumeGroupNodeStatus{}}:
	default:
		// A pending request also covers this one.
	}
}
