package clusterobjects

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
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

// Approvals returns the Approvals for a device class on this node, or none if it requires none.
func (o *Objects) Approvals(ctx context.Context, d state.Desired) ([]v1alpha1.LVMDeviceApproval, error) {
	if d.Spec.Approval == "" {
		return nil, nil
	}
	list := &v1alpha1.LVMDeviceApprovalList{}
	if err := o.Client.List(ctx, list, client.InNamespace(o.Namespace)); err != nil {
		return nil, fmt.Errorf("list the LVMDeviceApprovals for device class %s: %w", d.Name, err)
	}
	return selection.ApprovalsFor(list.Items, o.Node, d.Name), nil
}

// ConfirmApproved reads the approvals of devices from the API server, because the cache may not know yet that one was
// deleted. It returns an error if a device is not approved.
func (o *Objects) ConfirmApproved(ctx context.Context, d state.Desired, s state.NodeState,
	devices ...device.Device) error {
	used, err := selection.UsedApprovals(d, s, devices)
	if err != nil {
		return err
	}
	for i := range used {
		live := &v1alpha1.LVMDeviceApproval{}
		err := o.Live.Get(ctx, client.ObjectKeyFromObject(&used[i]), live)
		switch {
		case apierrors.IsNotFound(err) || err == nil && (live.UID != used[i].UID || !live.DeletionTimestamp.IsZero()):
			return fmt.Errorf("device %s of node %s is not used: LVMDeviceApproval %s was deleted", devices[i].Name,
				d.Node, used[i].Name)
		case err != nil:
			return fmt.Errorf("read LVMDeviceApproval %s before device %s of node %s is used: %w", used[i].Name,
				devices[i].Name, d.Node, err)
		}
	}
	return nil
}

// Approved returns the request for the device class of an LVMDeviceApproval of this node.
func (o *Objects) Approved(_ context.Context, object client.Object) []reconcile.Request {
	approval, is := object.(*v1alpha1.LVMDeviceApproval)
	if !is || approval.Spec.NodeName != o.Node {
		return nil
	}
	return []reconcile.Request{{
		NamespacedName: client.ObjectKey{Namespace: o.Namespace, Name: approval.Spec.DeviceClassName}}}
}
