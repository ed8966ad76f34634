package volumegroup

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
)

// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmdeviceapprovals,verbs=get;list;watch

// ApprovalSelector returns a selector for the LVMDeviceApprovals of a node. It returns nil if the API server does not
// support it, because Kubernetes is older than 1.31 and ignores selectableFields.
func ApprovalSelector(ctx context.Context, live client.Reader, namespace, node string) (fields.Selector, error) {
	selector := fields.OneTermEqualSelector("spec.nodeName", node)
	err := live.List(ctx, &v1alpha1.LVMDeviceApprovalList{}, client.MatchingFieldsSelector{Selector: selector},
		client.InNamespace(namespace), client.Limit(1))
	if apierrors.IsBadRequest(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the LVMDeviceApprovals of node %s: %w", node, err)
	}
	return selector, nil
}

// approvals returns the approvals for a device class on this node, or none if it requires none.
func (r *Reconciler) approvals(ctx context.Context, w plan.Desired) ([]v1alpha1.LVMDeviceApproval, error) {
	if w.Spec.Approval == "" {
		return nil, nil
	}
	list := &v1alpha1.LVMDeviceApprovalList{}
	if err := r.Client.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("list the LVMDeviceApprovals for device class %s: %w", w.Name, err)
	}
	return plan.ApprovalsFor(list.Items, r.Node, w.Name), nil
}

// confirmApproved reads the approvals of devices from the API server, because the cache may not know yet that one was
// deleted. It returns an error if a device is not approved.
func (r *Reconciler) confirmApproved(ctx context.Context, w plan.Desired, s plan.NodeState,
	devices ...device.Device) error {
	used, err := plan.UsedApprovals(w, s, devices)
	if err != nil {
		return err
	}
	for i := range used {
		live := &v1alpha1.LVMDeviceApproval{}
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(&used[i]), live)
		switch {
		case apierrors.IsNotFound(err) || err == nil && (live.UID != used[i].UID || !live.DeletionTimestamp.IsZero()):
			return fmt.Errorf("device %s of node %s is not used: LVMDeviceApproval %s was deleted", devices[i].Name,
				w.Node, used[i].Name)
		case err != nil:
			return fmt.Errorf("read LVMDeviceApproval %s before device %s of node %s is used: %w", used[i].Name,
				devices[i].Name, w.Node, err)
		}
	}
	return nil
}

// approvalEvents emits events for devices that began to wait for an approval, or that changed since they were approved.
func (r *Reconciler) approvalEvents(w plan.Desired, before, after v1alpha1.VGStatus) {
	if waiting := plan.NewlyExcluded(before, after, device.AwaitingApproval); len(waiting) > 0 {
		r.emit(w, corev1.EventTypeNormal, plan.EventDeviceAwaitsApproval, fmt.Sprintf(
			"node %s has devices that wait for an approval for device class %s: %s: review them and run "+
				"kubectl lvms approve --node %s", r.Node, w.Name, strings.Join(waiting, ", "), r.Node))
	}
	if changed := plan.NewlyExcluded(before, after, device.ChangedSinceReview); len(changed) > 0 {
		r.emit(w, corev1.EventTypeWarning, plan.EventDeviceChanged, fmt.Sprintf(
			"devices of node %s have changed since they were approved for device class %s, and are left alone: %s: "+
				"find out what changed them, and approve them again", r.Node, w.Name, strings.Join(changed, ", ")))
	}
}

// approved returns the request for the device class of an LVMDeviceApproval of this node.
func (r *Reconciler) approved(_ context.Context, object client.Object) []reconcile.Request {
	approval, is := object.(*v1alpha1.LVMDeviceApproval)
	if !is || approval.Spec.NodeName != r.Node {
		return nil
	}
	return []reconcile.Request{{
		NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: approval.Spec.DeviceClassName}}}
}
