package volumegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
)

// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmrecoveries,verbs=list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmrecoveries/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=list

// recoveries returns the LVMRecoveries of a device class on this node that have not ended, the oldest first.
func (r *Reconciler) recoveries(ctx context.Context, class string) ([]v1alpha1.LVMRecovery, error) {
	list := &v1alpha1.LVMRecoveryList{}
	if err := r.Client.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("list LVMRecoveries: %w", err)
	}
	open := slices.DeleteFunc(list.Items, func(o v1alpha1.LVMRecovery) bool {
		return o.Spec.NodeName != r.Node || o.Spec.DeviceClassName != class || !o.DeletionTimestamp.IsZero() ||
			o.Status.Phase == v1alpha1.RecoverySucceeded || o.Status.CompletionTime != nil
	})
	slices.SortFunc(open, func(a, b v1alpha1.LVMRecovery) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return open, nil
}

// reportRecoveries writes the status of the LVMRecoveries of a device class. Only the first one is carried out
// (recoveryPlans.next).
func (r *Reconciler) reportRecoveries(ctx context.Context, w plan.Desired, first *v1alpha1.LVMRecovery,
	open []v1alpha1.LVMRecovery, o outcome) error {
	now := metav1.NewTime(r.now())
	for i := range open {
		recovery := &open[i]
		if i > 0 {
			why := fmt.Sprintf("waiting for LVMRecovery %s, which is older", open[0].Name)
			if err := r.writeRecovery(ctx, recovery, plan.RejectedRecovery(recovery, why, now)); err != nil {
				return err
			}
			continue
		}
		status := o.RecoveryStatus(w, first, r.volumesOf(ctx, w), now)
		if p := status.Plan; p != nil && (first.Status.Plan == nil || first.Status.Plan.ID != p.ID) {
			if err := r.addClaims(ctx, p); err != nil {
				return err
			}
			if w.Check != nil { // the message names the claims
				withClaims := first.DeepCopy()
				withClaims.Status = status
				status = o.RecoveryStatus(w, withClaims, nil, now)
			}
		}
		if err := r.plans.add(w.Name, recovery.UID, status.Plan); err != nil {
			return err
		}
		if err := r.writeRecovery(ctx, recovery, status); err != nil {
			return err
		}
	}
	return nil
}

// rejectRecoveries reports why LVMRecoveries of a device class have no effect.
func (r *Reconciler) rejectRecoveries(ctx context.Context, class, why string) error {
	open, err := r.recoveries(ctx, class)
	if err != nil {
		return err
	}
	for i := range open {
		status := plan.RejectedRecovery(&open[i], why, metav1.NewTime(r.now()))
		if err := r.writeRecovery(ctx, &open[i], status); err != nil {
			return err
		}
	}
	return nil
}

// writeRecovery writes a status if it changed, and emits an event if the phase changed. The optimistic lock prevents
// that a plan replaces one that the cache does not have yet.
func (r *Reconciler) writeRecovery(ctx context.Context, before *v1alpha1.LVMRecovery,
	status v1alpha1.LVMRecoveryStatus) error {
	if equality.Semantic.DeepEqual(before.Status, status) {
		return nil
	}
	after := before.DeepCopy()
	after.Status = status
	err := r.Client.Status().Patch(ctx, after,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("LVMRecovery %s: write the status: %w", before.Name, err)
	}
	if err == nil && before.Status.Phase != status.Phase {
		r.Recorder.Eventf(after, nil, corev1.EventTypeNormal, string(plan.RecoveryEvent(status.Phase)), "Recover",
			"%s", text.Truncate(status.Message, maxNote))
	}
	return nil
}

// volumesOf returns the volumes of a device class on this node according to the API, without their claims.
func (r *Reconciler) volumesOf(ctx context.Context, w plan.Desired) []v1alpha1.RecoveryVolume {
	var list []v1alpha1.RecoveryVolume
	for _, volume := range r.volumes(ctx) {
		if volume.Spec.DeviceClass == w.Name || volume.Spec.DeviceClass == "" && w.Spec.Default {
			list = append(list, v1alpha1.RecoveryVolume{Name: volume.Status.VolumeID, Size: volume.Spec.Size.Value()})
		}
	}
	return list
}

// addClaims adds the claims to the lost, damaged, mounted and checked volumes of a new plan. It reads all
// PersistentVolumes once, because a plan can have many volumes. A failed read is an error, so that no plan without
// claims is approved.
func (r *Reconciler) addClaims(ctx context.Context, p *v1alpha1.RecoveryPlan) error {
	if len(p.LostVolumes)+len(p.DamagedVolumes)+len(p.MountedVolumes)+len(p.CheckedVolumes) == 0 {
		return nil
	}
	claims := map[string]string{}
	err := paging.Each(ctx, r.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			source, claim := list.Items[i].Spec.CSI, list.Items[i].Spec.ClaimRef
			if source != nil && v1alpha1.IsDriver(source.Driver) && claim != nil {
				claims[source.VolumeHandle] = claim.Namespace + "/" + claim.Name
			}
		}
	})
	if err != nil {
		return fmt.Errorf("read the claims of the volumes in a plan: %w", err)
	}
	for _, volumes := range [][]v1alpha1.RecoveryVolume{p.LostVolumes, p.DamagedVolumes, p.MountedVolumes,
		p.CheckedVolumes} {
		for i := range volumes {
			if claim, bound := claims[volumes[i].Name]; bound {
				volumes[i].Claim = claim
			}
		}
	}
	return nil
}

// concerned returns the request for the device class of an LVMRecovery of this node.
func (r *Reconciler) concerned(_ context.Context, object client.Object) []reconcile.Request {
	recovery, is := object.(*v1alpha1.LVMRecovery)
	if !is || recovery.Spec.NodeName != r.Node {
		return nil
	}
	return []reconcile.Request{{
		NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: recovery.Spec.DeviceClassName}}}
}
