// Package volumehealth writes what the node agents report about volumes to the status of their claims (KEP-1432). No
// component of Kubernetes 1.37 does that yet. It has no effect unless the feature gate CSIVolumeHealth of the API
// server is enabled: the API server drops the field otherwise.
package volumehealth

import (
	"context"
	"fmt"
	"slices"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Controller writes the health of the volume of one claim at a time.
type Controller struct {
	client client.Client
	live   client.Reader
	nameOf func(id string) string
	now    func() time.Time
}

// New returns a Controller. live reads from the API server: the cache has no objects that are settled. nameOf
// returns the name of the LogicalVolume of a volume, or "".
func New(c client.Client, live client.Reader, nameOf func(id string) string) *Controller {
	return &Controller{client: c, live: live, nameOf: nameOf, now: time.Now}
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims/status,verbs=patch

// Reconcile writes the health of the volume of a claim to the claim.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.live.Get(ctx, request.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	lv, err := c.volumeOf(ctx, claim)
	if err != nil || lv == nil {
		return reconcile.Result{}, err
	}
	after := claim.DeepCopy()
	after.Status.HealthStatus = c.healthStatus(view.Health(lv), claim.Status.HealthStatus)
	if isSame(after.Status.HealthStatus, claim.Status.HealthStatus) {
		return reconcile.Result{}, nil
	}
	err = c.client.Status().Patch(ctx, after, client.MergeFrom(claim))
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("write the health of volume %s to claim %s/%s: %w", lv.Status.VolumeID,
			claim.Namespace, claim.Name, err)
	}
	return reconcile.Result{}, nil
}

// volumeOf returns the LogicalVolume of the PersistentVolume that is bound to a claim, or nil. The copy of a move is
// for the same claim, and is not bound.
func (c *Controller) volumeOf(ctx context.Context,
	claim *corev1.PersistentVolumeClaim) (*topolvmv1.LogicalVolume, error) {
	if claim.Spec.VolumeName == "" {
		return nil, nil
	}
	volume := &corev1.PersistentVolume{}
	if err := c.live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	source, ref := volume.Spec.CSI, volume.Spec.ClaimRef
	if source == nil || ref == nil || ref.UID != claim.UID {
		return nil, nil
	}
	name := c.nameOf(source.VolumeHandle)
	if name == "" {
		return nil, nil // It is another driver's, or has just been deleted.
	}
	lv := &topolvmv1.LogicalVolume{}
	if err := c.live.Get(ctx, client.ObjectKey{Name: name}, lv); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if lv.Status.VolumeID != source.VolumeHandle {
		return nil, nil
	}
	return lv, nil
}

// healthStatus returns the status for conditions, or nil if there are none. The time is that of the first status
// with the same ones.
func (c *Controller) healthStatus(conditions []health.Condition,
	before *corev1.VolumeHealthStatus) *corev1.VolumeHealthStatus {
	if len(conditions) == 0 {
		return nil
	}
	status := &corev1.VolumeHealthStatus{HealthConditions: conditions, LastTransitionTime: metav1.NewTime(c.now())}
	if before != nil && slices.EqualFunc(conditions, before.HealthConditions,
		func(a, b health.Condition) bool { return a.Status == b.Status && a.Reason == b.Reason }) {
		status.LastTransitionTime = before.LastTransitionTime
	}
	return status
}

func isSame(a, b *corev1.VolumeHealthStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.HealthConditions, b.HealthConditions)
}

// SetupWithManager starts the controller with the manager. LogicalVolumes that are not healthy, and claims that say
// so, are not settled, so they are in the cache. When a LogicalVolume is healthy again, it settles, which is a
// deletion here.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	isUnhealthy := predicate.NewPredicateFuncs(func(o client.Object) bool {
		claim, ok := o.(*corev1.PersistentVolumeClaim)
		return ok && claim.Status.HealthStatus != nil
	})
	return builder.ControllerManagedBy(mgr).
		Named("volumehealth").
		Watches(&topolvmv1.LogicalVolume{}, handler.EnqueueRequestsFromMapFunc(c.claimOf)).
		Watches(&corev1.PersistentVolumeClaim{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(isUnhealthy)).
		Complete(adapt.Reconciler(c))
}

// claimOf returns a request for the claim of a LogicalVolume if one of both says that the volume is not healthy.
func (c *Controller) claimOf(ctx context.Context, o client.Object) []reconcile.Request {
	lv, ok := o.(*topolvmv1.LogicalVolume)
	if !ok {
		return nil
	}
	key, known := view.ClaimKey(lv)
	if !known {
		return nil
	}
	if lv.Annotations[wellknown.HealthAnnotation] == "" {
		claim := &corev1.PersistentVolumeClaim{}
		if err := c.client.Get(ctx, key, claim); err != nil || claim.Status.HealthStatus == nil {
			return nil // A claim that says something is in the cache.
		}
	}
	return []reconcile.Request{{NamespacedName: key}}
}
