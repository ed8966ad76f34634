package volumeimport

import (
	"context"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// restores gives LogicalVolumes that Velero or OADP restored the logical volumes of their PersistentVolumes. Such an
// object has another UID than before, and no status. The node agent finds the logical volume by its tags and creates
// nothing, but it must not choose which volume an object has. The PersistentVolume decides.
type restores struct{ *Controller }

// withoutPersistentVolume is the delay before the PersistentVolume of a LogicalVolume is read again.
const withoutPersistentVolume = 30 * time.Second

// Reconcile sets the import annotation of a LogicalVolume to the volume handle of its PersistentVolume.
func (r restores) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	lv := &topolvmv1.LogicalVolume{}
	if err := r.client.Get(ctx, request.NamespacedName, lv); err != nil || !isWithoutVolume(lv) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pv := &corev1.PersistentVolume{}
	if err := r.live.Get(ctx, request.NamespacedName, pv); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read PersistentVolume %s: %w", lv.Name, err)
	}
	source := pv.Spec.CSI
	if source == nil || source.Driver != v1alpha1.DriverName || source.VolumeHandle == "" ||
		source.VolumeHandle == string(lv.UID) || !isOn(pv, lv.Spec.NodeName) {
		return reconcile.Result{RequeueAfter: withoutPersistentVolume}, nil
	}
	// The agent refuses a volume that belongs to another LogicalVolume.
	before := lv.DeepCopy()
	if lv.Annotations == nil {
		lv.Annotations = map[string]string{}
	}
	lv.Annotations[v1alpha1.ImportAnnotation] = source.VolumeHandle
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, lv, patch); apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("set annotation %s of LogicalVolume %s: %w", v1alpha1.ImportAnnotation,
			lv.Name, err)
	}
	log.FromContext(ctx).Info("a restored LogicalVolume gets the volume of its PersistentVolume", "lv",
		source.VolumeHandle, "node", lv.Spec.NodeName)
	return reconcile.Result{}, nil
}

// isWithoutVolume reports whether a node agent waits for something before it creates the volume of a LogicalVolume.
func isWithoutVolume(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	return ok && lv.Status.VolumeID == "" && lv.Status.Code == codes.Unavailable && lv.DeletionTimestamp.IsZero() &&
		lv.Annotations[v1alpha1.ImportAnnotation] == ""
}

func (r restores) setupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("volumerestore").
		Watches(&topolvmv1.LogicalVolume{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.NewPredicateFuncs(isWithoutVolume))).
		Complete(r)
}
