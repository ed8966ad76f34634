package operand

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
)

// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmdeviceapprovals,verbs=list;delete

// deleteApprovals deletes the LVMDeviceApprovals for the device class of an LVMVolumeGroup that is being deleted, so
// that a new device class with this name does not use devices that nobody has approved for it. The caller has checked
// that no node is a member: a device that is only missing keeps its node a member, and so its approval. Approvals that
// were created after the deletion was requested stay, because they can be for the new device class.
func (r Reconciler) deleteApprovals(ctx context.Context, group *lvmv1alpha1.LVMVolumeGroup) error {
	var old []lvmv1alpha1.LVMDeviceApproval
	err := paging.Each(ctx, r.Live, &lvmv1alpha1.LVMDeviceApprovalList{},
		func(page *lvmv1alpha1.LVMDeviceApprovalList) {
			for i := range page.Items {
				a := &page.Items[i]
				if a.Spec.DeviceClassName == group.Name && a.CreationTimestamp.Before(group.DeletionTimestamp) {
					old = append(old, *a)
				}
			}
		}, client.InNamespace(group.Namespace))
	if err != nil {
		return fmt.Errorf("LVMVolumeGroup %s: list the LVMDeviceApprovals for its device class: %w", group.Name, err)
	}
	for i := range old {
		uid := old[i].UID
		err := r.Client.Delete(ctx, &old[i], client.Preconditions{UID: &uid})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue // Somebody has deleted it, and perhaps created another one.
		}
		if err != nil {
			return fmt.Errorf("LVMVolumeGroup %s: delete LVMDeviceApproval %s for its device class: %w", group.Name,
				old[i].Name, err)
		}
		log.FromContext(ctx).Info("deleted the approval of a device with its device class", "deviceClass", group.Name,
			"name", old[i].Name, "node", old[i].Spec.NodeName, "device", old[i].Spec.Device)
	}
	return nil
}
