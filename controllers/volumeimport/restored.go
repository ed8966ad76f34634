package volumeimport

import (
	"context"
	"fmt"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// restores gives LogicalVolumes that Velero or OADP restored the logical volumes of their PersistentVolumes. Such an
// object has another UID than before, and no status. The node agent finds the logical volume by its tags and creates
// nothing, but it must not choose which volume an object has. The PersistentVolume decides. A VolumeSnapshot has none:
// its LogicalVolume gets the snapshot that the agent found, unless another object has it.
type restores struct{ *Controller }

// withoutPersistentVolume is the delay before the PersistentVolume of a LogicalVolume is read again.
const withoutPersistentVolume = 30 * time.Second

// existingVolumeInUse is a Warning event on the LogicalVolume: it was restored for a VolumeSnapshot, and another object
// has its logical volume. Nothing is created.
// What to do: if the VolumeSnapshot is not needed, delete the LogicalVolume, which deletes no data.
var existingVolumeInUse = event.Warning("ExistingVolumeInUse", "Import",
	"logical volume %s on node %s was created for an earlier LogicalVolume of this name, but %s has it now. Nothing "+
		"is created. If the VolumeSnapshot is not needed, delete this LogicalVolume, which deletes no data")

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list

// Reconcile sets the import annotation of a LogicalVolume to the volume handle of its PersistentVolume, or to the
// existing snapshot.
func (r restores) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	lv := &topolvmv1.LogicalVolume{}
	if err := r.client.Get(ctx, request.NamespacedName, lv); err != nil || !isWithoutVolume(lv) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	volume, err := r.volumeOf(ctx, lv)
	if err != nil {
		return reconcile.Result{}, err
	}
	if volume == "" {
		return reconcile.Result{RequeueAfter: withoutPersistentVolume}, nil
	}
	// The agent refuses a volume that belongs to another LogicalVolume.
	before := lv.DeepCopy()
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.ImportAnnotation, volume)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, lv, patch); apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("set annotation %s of LogicalVolume %s: %w", wellknown.ImportAnnotation,
			lv.Name, err)
	}
	log.FromContext(ctx).Info("a restored LogicalVolume gets its existing logical volume", "lv", volume, "node",
		lv.Spec.NodeName)
	return reconcile.Result{}, nil
}

// volumeOf returns the existing logical volume for a LogicalVolume, or "" if it is not known yet.
func (r restores) volumeOf(ctx context.Context, lv *topolvmv1.LogicalVolume) (string, error) {
	pv := &corev1.PersistentVolume{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(lv), pv)
	switch {
	case apierrors.IsNotFound(err):
		return r.snapshotOf(ctx, lv)
	case err != nil:
		return "", fmt.Errorf("read PersistentVolume %s: %w", lv.Name, err)
	}
	source := pv.Spec.CSI
	if source == nil || source.Driver != wellknown.DriverName || source.VolumeHandle == string(lv.UID) ||
		!isOn(pv, lv.Spec.NodeName) {
		return "", nil
	}
	return source.VolumeHandle, nil
}

// snapshotOf returns the snapshot that the node agent found for the LogicalVolume of a VolumeSnapshot, or "" if it
// found none, or another object has it.
func (r restores) snapshotOf(ctx context.Context, lv *topolvmv1.LogicalVolume) (string, error) {
	volume := view.ExistingVolume(lv)
	if volume == "" || !strings.HasPrefix(lv.Name, wellknown.SnapshotPrefix) {
		return "", nil
	}
	owner, err := r.ownerOf(ctx, volume, lv.Name)
	if err != nil || owner == "" {
		return volume, err
	}
	e := existingVolumeInUse
	r.recorder.Eventf(lv, nil, e.Type, e.Reason, e.Action, e.Text, volume, lv.Spec.NodeName, owner)
	return "", nil
}

// ownerOf returns the object that has a logical volume, other than a LogicalVolume with this name, or "". It reads the
// objects from the API server, because the cache can be outdated.
func (r restores) ownerOf(ctx context.Context, volume, name string) (owner string, err error) {
	err = paging.Each(ctx, r.live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			if lv := &list.Items[i]; lv.Name != name && (volume == string(lv.UID) || volume == lv.Status.VolumeID ||
				volume == view.Import(lv)) {
				owner = fmt.Sprintf("LogicalVolume %s of node %s", lv.Name, lv.Spec.NodeName)
			}
		}
	})
	if err != nil || owner != "" {
		return owner, err
	}
	err = paging.Each(ctx, r.live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			source := list.Items[i].Spec.CSI
			if source != nil && source.Driver == wellknown.DriverName && source.VolumeHandle == volume {
				owner = "PersistentVolume " + list.Items[i].Name
			}
		}
	})
	return owner, err
}

// isWithoutVolume reports whether a node agent waits for something before it creates the volume of a LogicalVolume.
func isWithoutVolume(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	return ok && lv.Status.VolumeID == "" && lv.Status.Code == codes.Unavailable && lv.DeletionTimestamp.IsZero() &&
		view.Import(lv) == ""
}

func (r restores) setupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("volumerestore").
		Watches(&topolvmv1.LogicalVolume{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.NewPredicateFuncs(isWithoutVolume))).
		Complete(adapt.Reconciler(r))
}
