package lvmcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/apply"
	"github.com/lvm-storage/lvm-operator/internal/condition"
	"github.com/lvm-storage/lvm-operator/internal/event"
)

// waitInterval is the time until a reconcile that waits runs again. In most cases a watch triggers it earlier.
const waitInterval = 10 * time.Second

// Controller reconciles the LVMCluster.
type Controller struct {
	client   client.Client
	live     client.Reader
	applier  *apply.Applier
	emitter  *event.Emitter
	options  Options
	managers []Manager
	now      func() time.Time
}

// New returns a Controller. The client may read from a cache; live must not.
func New(c client.Client, live client.Reader, recorder event.Recorder, options Options) *Controller {
	return &Controller{
		client:   c,
		live:     live,
		applier:  apply.New(c, fieldOwner, predecessor),
		emitter:  event.NewEmitter(recorder),
		options:  options,
		managers: newManagers(options),
		now:      time.Now,
	}
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters,namespace=openshift-lvm-storage,verbs=list;watch;patch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters/status,namespace=openshift-lvm-storage,verbs=patch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters/finalizers,namespace=openshift-lvm-storage,verbs=update
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims,verbs=list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// report is the result of a reconcile: the conditions, the rest of the status, and when to reconcile again.
type report struct {
	conditions *condition.Accumulator
	state      lvmv1alpha1.LVMState
	classes    []lvmv1alpha1.DeviceClassStatus
	overview   *overview // nil if the node statuses could not be read
	outcome    outcome
	gone       bool
	// again is the time after which to reconcile without a change; 0 for never.
	again time.Duration
	// observed reports whether the nodes could be read, so that obstacles lists the reasons against an upgrade.
	observed  bool
	obstacles []string
}

// Reconcile applies the operands of the LVMCluster, or deletes them, and writes the status once.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster := &lvmv1alpha1.LVMCluster{}
	err := c.client.Get(ctx, request.NamespacedName, cluster)
	r := Reconciler{Client: c.client, Live: c.live, Applier: c.applier, Options: c.options}
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, errors.Join(r.releaseLeft(ctx, request.Namespace),
			c.options.UpgradeGate.SetUpgradeable(ctx, nil))
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("LVMCluster %s: read: %w", request.NamespacedName, err)
	}
	var done report
	if cluster.DeletionTimestamp.IsZero() {
		done = c.create(ctx, r, cluster)
	} else {
		done = c.finalize(ctx, r, cluster)
	}
	if done.gone {
		c.emitter.Forget(cluster)
		return reconcile.Result{}, c.options.UpgradeGate.SetUpgradeable(ctx, nil)
	}
	done.conclude(cluster)
	c.emit(cluster, done)
	err = c.writeStatus(ctx, cluster, done)
	if done.observed {
		err = errors.Join(err, c.options.UpgradeGate.SetUpgradeable(ctx, done.obstacles))
	}
	result := done.outcome.result()
	if result.RequeueAfter == 0 {
		result.RequeueAfter = done.again
	}
	return result, errors.Join(done.outcome.err(), err)
}

// create calls every manager to apply its operands, also if others fail.
func (c *Controller) create(ctx context.Context, r Reconciler, cluster *lvmv1alpha1.LVMCluster) report {
	done := report{conditions: newConditions(cluster), classes: cluster.Status.DeviceClassStatuses}
	done.outcome.add("finalizer", c.protect(ctx, cluster))
	seen, err := r.observe(ctx, cluster)
	volumeGroups := ""
	if err != nil {
		done.outcome.add("observation", err)
	} else {
		seen.Time = c.now()
		r.Seen, done.again = seen, seen.nextStale()
		c.ensureCreated(ctx, r, cluster, &done.outcome)
		volumeGroups = c.volumeGroups(cluster, seen, &done)
		done.observed, done.obstacles = true, upgradeObstacles(seen)
		c.emitLeaving(cluster, seen)
	}
	done.outcome.add("rights", c.options.Rights.Err())
	done.outcome.report(done.conditions)
	done.state = summarize(done.outcome, volumeGroups)
	return done
}

func (c *Controller) ensureCreated(ctx context.Context, r Reconciler, cluster *lvmv1alpha1.LVMCluster, o *outcome) {
	if len(o.failures) > 0 {
		return // an LVMCluster without the finalizer must not own anything
	}
	for _, manager := range c.managers {
		o.add(manager.GetName(), manager.EnsureCreated(r, ctx, cluster))
	}
}

// volumeGroups sets the device class statuses and VolumeGroupsReady, and returns the reason of that condition.
func (c *Controller) volumeGroups(cluster *lvmv1alpha1.LVMCluster, seen Observation, done *report) string {
	classes, err := deviceClassStatuses(cluster, seen)
	if err != nil {
		done.outcome.add("status", err)
		return ""
	}
	o := overviewOf(classes)
	done.overview = &o
	if done.classes, err = fit(classes); err != nil {
		done.outcome.add("status", err)
		return ""
	}
	return reportVolumeGroups(done.conditions, cluster, seen, classes)
}

// protect adds the finalizer to the LVMCluster.
func (c *Controller) protect(ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	if controllerutil.ContainsFinalizer(cluster, lvmv1alpha1.LVMClusterFinalizer) {
		return nil
	}
	before := cluster.DeepCopy()
	controllerutil.AddFinalizer(cluster, lvmv1alpha1.LVMClusterFinalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, cluster, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("LVMCluster %s: add finalizer: %w", cluster.Name, err)
	}
	return nil
}

// writeStatus writes the status if it has changed.
func (c *Controller) writeStatus(ctx context.Context, cluster *lvmv1alpha1.LVMCluster, done report) error {
	before := cluster.DeepCopy()
	cluster.Status = lvmv1alpha1.LVMClusterStatus{
		Ready:               done.state == lvmv1alpha1.LVMStatusReady,
		State:               done.state,
		ObservedGeneration:  cluster.Generation,
		Conditions:          done.conditions.Merge(before.Status.Conditions, metav1.NewTime(c.now())),
		VolumeGroups:        before.Status.VolumeGroups,
		Size:                before.Status.Size,
		Free:                before.Status.Free,
		DeviceClassStatuses: done.classes,
	}
	if done.overview != nil {
		done.overview.write(&cluster.Status)
	}
	if equality.Semantic.DeepEqual(before.Status, cluster.Status) {
		return nil
	}
	if before.Status.State != cluster.Status.State {
		log.FromContext(ctx).Info("state of the LVMCluster changed", "from", before.Status.State, "to",
			cluster.Status.State)
	}
	err := c.client.Status().Patch(ctx, cluster, client.MergeFrom(before), client.FieldOwner(fieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("LVMCluster %s: write status: %w", cluster.Name, err)
	}
	return nil
}

// result returns when to reconcile again.
func (o *outcome) result() reconcile.Result {
	if len(o.failures) == 0 && len(o.waits) > 0 {
		return reconcile.Result{RequeueAfter: waitInterval}
	}
	return reconcile.Result{}
}

// err joins all failures into one error, which triggers the back-off.
func (o *outcome) err() error {
	if len(o.failures) == 0 {
		return nil
	}
	return errors.New(strings.Join(o.failures, "; "))
}

// emit emits events for changes of the state.
func (c *Controller) emit(cluster *lvmv1alpha1.LVMCluster, done report) {
	deleting := !cluster.DeletionTimestamp.IsZero()
	switch {
	case deleting:
		c.emitter.Emit(cluster, eventDeletionPending,
			strings.Join(slices.Concat(done.outcome.failures, done.outcome.waits), "; "))
	case len(done.outcome.failures) > 0:
		c.emitter.Emit(cluster, eventIncomplete, strings.Join(done.outcome.failures, "; "))
	case done.state == lvmv1alpha1.LVMStatusFailed || done.state == lvmv1alpha1.LVMStatusDegraded:
		problems, _ := done.problems()
		c.emitter.Emit(cluster, eventVolumeGroups, problems)
	case done.state == lvmv1alpha1.LVMStatusReady:
		c.emitter.Clear(cluster, eventIncomplete.Reason, eventVolumeGroups.Reason)
		if cluster.Status.State != "" && !cluster.Status.Ready {
			c.emitter.Clear(cluster, eventSuccess.Reason)
			c.emitter.Emit(cluster, eventSuccess, success(cluster))
		}
	}
}

func success(cluster *lvmv1alpha1.LVMCluster) string {
	if len(cluster.Spec.Storage.DeviceClasses) == 0 {
		return "all operands are running; without device classes, the devices of the nodes are only listed"
	}
	return "all operands are running, and all volume groups are ready"
}

// problems returns the message of VolumeGroupsReady, and whether the condition is True.
func (d report) problems() (message string, none bool) {
	for _, condition := range d.conditions.Merge(nil, metav1.Time{}) {
		if condition.Type == lvmv1alpha1.ConditionVolumeGroupsReady {
			return condition.Message, condition.Status == metav1.ConditionTrue
		}
	}
	return "", false
}

func (c *Controller) emitLeaving(cluster *lvmv1alpha1.LVMCluster, seen Observation) {
	for _, leaving := range seen.Leaving {
		if !leaving.Users.None() {
			c.emitter.Emit(cluster, eventClassInUse, leaving.VolumeGroup.Name, leaving.Users)
		}
	}
}
