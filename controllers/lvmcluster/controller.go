// Package lvmcluster reconciles the LVMCluster. Package observe reads the state of the cluster, package operand keeps
// the operands, and package status computes the status. The reconciler calls them in order, writes the status and the
// events, and deletes the LVMCluster when nothing uses its storage.
package lvmcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/status"
	"github.com/lvm-storage/lvm-operator/internal/cluster/olm"
	"github.com/lvm-storage/lvm-operator/internal/cluster/permissions"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
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
	managers []operand.Manager
	upgrade  upgradeGate
	use      observe.Use
	now      func() time.Time
}

// Options of the controller.
type Options struct {
	operand.Options
	// Namespace is the namespace of the operator, of the LVMCluster and of its namespaced operands.
	Namespace string
	// UpgradeGate sets whether OLM may upgrade the operator; nil without OLM.
	UpgradeGate *olm.Gate
	// OtherTargets are the namespaces that the OperatorGroup selects if that of the operator is not one of them, else
	// "".
	OtherTargets string
	// Permissions reports the permissions that the operator lacks; nil disables the check.
	Permissions *permissions.Watch
}

// New returns a Controller. The client may read from a cache; live must not.
func New(c client.Client, live client.Reader, recorder event.Recorder, options Options) *Controller {
	return &Controller{
		client:   c,
		live:     live,
		applier:  operand.NewApplier(c),
		emitter:  event.NewEmitter(recorder),
		options:  options,
		managers: operand.Managers(options.Options),
		now:      time.Now,
	}
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters,namespace=openshift-lvm-storage,verbs=list;watch;patch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters/status,namespace=openshift-lvm-storage,verbs=patch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters/finalizers,namespace=openshift-lvm-storage,verbs=update
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims,verbs=list
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents;volumesnapshots,verbs=list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// result is what a reconcile found out besides the status.
type result struct {
	// deleted reports whether the LVMCluster no longer exists.
	deleted bool
	// requeueAfter is the time after which to reconcile without a change; 0 for never.
	requeueAfter time.Duration
	// observed reports whether the nodes could be read, so that obstacles lists the reasons against an upgrade.
	observed  bool
	obstacles []string
}

// Reconcile applies the operands of the LVMCluster, or deletes them, and writes the status once.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cluster := &lvmv1alpha1.LVMCluster{}
	err := c.client.Get(ctx, request.NamespacedName, cluster)
	r := operand.Reconciler{Client: c.client, Live: c.live, Applier: c.applier, Options: c.options.Options,
		Use: &c.use, Now: c.now()}
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, errors.Join(r.ReleaseOrphans(ctx, request.Namespace),
			c.options.UpgradeGate.SetUpgradeable(ctx, nil))
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("LVMCluster %s: read: %w", request.NamespacedName, err)
	}
	report := status.New(cluster)
	var done result
	if cluster.DeletionTimestamp.IsZero() {
		done = c.create(ctx, r, cluster, report)
	} else {
		done = c.finalize(ctx, r, cluster, report)
	}
	if done.deleted {
		c.use = observe.Use{}
		c.emitter.Forget(cluster)
		return reconcile.Result{}, c.options.UpgradeGate.SetUpgradeable(ctx, nil)
	}
	report.SetReady()
	c.emit(cluster, report)
	err = c.writeStatus(ctx, cluster, report)
	if done.observed {
		err = errors.Join(err, c.options.UpgradeGate.SetUpgradeable(ctx, done.obstacles))
	}
	if len(report.Failures) == 0 && len(report.Waits) > 0 {
		done.requeueAfter = waitInterval
	}
	return reconcile.Result{RequeueAfter: done.requeueAfter}, errors.Join(report.Err(), err)
}

// create calls every manager to apply its operands, also if others fail.
func (c *Controller) create(ctx context.Context, r operand.Reconciler, cluster *lvmv1alpha1.LVMCluster,
	report *status.Report) result {
	done := result{}
	c.emitNotChecked(cluster)
	report.Add("finalizer", c.addFinalizer(ctx, cluster))
	current, err := c.use.Read(ctx, c.client, c.live, cluster, r.Now)
	if err != nil {
		report.Add("observation", err)
	} else {
		current.Time = c.now()
		r.Current = current
		c.ensureCreated(ctx, r, cluster, report)
		report.SetVolumeGroupsReady(current)
		done = result{requeueAfter: current.NextStale(), observed: true,
			obstacles: c.upgrade.obstacles(current, c.now())}
		c.emitClassesInUse(cluster, current)
	}
	report.Add("permissions", c.options.Permissions.Err())
	report.SetResourcesAvailable()
	return done
}

func (c *Controller) ensureCreated(ctx context.Context, r operand.Reconciler, cluster *lvmv1alpha1.LVMCluster,
	report *status.Report) {
	if len(report.Failures) > 0 {
		return // an LVMCluster without the finalizer must not own anything
	}
	for _, manager := range c.managers {
		report.Add(manager.GetName(), manager.EnsureCreated(r, ctx, cluster))
	}
}

// addFinalizer adds the finalizer to the LVMCluster.
func (c *Controller) addFinalizer(ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	if controllerutil.ContainsFinalizer(cluster, wellknown.LVMClusterFinalizer) {
		return nil
	}
	before := cluster.DeepCopy()
	controllerutil.AddFinalizer(cluster, wellknown.LVMClusterFinalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, cluster, patch, client.FieldOwner(operand.FieldOwner)); err != nil {
		return fmt.Errorf("LVMCluster %s: add finalizer: %w", cluster.Name, err)
	}
	return nil
}

// writeStatus writes the status if it has changed.
func (c *Controller) writeStatus(ctx context.Context, cluster *lvmv1alpha1.LVMCluster, report *status.Report) error {
	before := cluster.DeepCopy()
	cluster.Status = report.Status(metav1.NewTime(c.now()))
	if equality.Semantic.DeepEqual(before.Status, cluster.Status) {
		return nil
	}
	if before.Status.State != cluster.Status.State {
		log.FromContext(ctx).Info("state of the LVMCluster changed", "from", before.Status.State, "to",
			cluster.Status.State)
	}
	err := c.client.Status().Patch(ctx, cluster, client.MergeFrom(before), client.FieldOwner(operand.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("LVMCluster %s: write status: %w", cluster.Name, err)
	}
	return nil
}
