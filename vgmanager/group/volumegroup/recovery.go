package volumegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmrecoveries,verbs=list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,namespace=openshift-lvm-storage,resources=lvmrecoveries/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=list

// recoveries are the LVMRecoveries of this node.
type recoveries struct {
	*clusterobjects.Objects
	recorder events.EventRecorder
	plans    recoveryPlans
	now      func() time.Time
}

// open returns the LVMRecoveries of a device class on this node that have not ended, the oldest first.
func (c *recoveries) open(ctx context.Context, class string) ([]v1alpha1.LVMRecovery, error) {
	list := &v1alpha1.LVMRecoveryList{}
	if err := c.Client.List(ctx, list, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("list LVMRecoveries: %w", err)
	}
	open := slices.DeleteFunc(list.Items, func(o v1alpha1.LVMRecovery) bool {
		return o.Spec.NodeName != c.Node || o.Spec.DeviceClassName != class || !o.DeletionTimestamp.IsZero() ||
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

// report writes the status of the LVMRecoveries of a device class. Only the first one is carried out
// (recoveryPlans.next).
func (c *recoveries) report(ctx context.Context, d state.Desired, first *v1alpha1.LVMRecovery,
	open []v1alpha1.LVMRecovery, o outcome) error {
	now := metav1.NewTime(c.now())
	for i := range open {
		recovery := &open[i]
		if i > 0 {
			why := fmt.Sprintf("waiting for LVMRecovery %s, which is older", open[0].Name)
			if err := c.write(ctx, recovery, plan.RejectedRecovery(recovery, why, now)); err != nil {
				return err
			}
			continue
		}
		status := plan.RecoveryStatus(o.Outcome, d, first, c.VolumesOf(ctx, d), now)
		if p := status.Plan; p != nil && (first.Status.Plan == nil || first.Status.Plan.ID != p.ID) {
			if err := c.AddClaims(ctx, p); err != nil {
				return err
			}
			if d.Open.Check != nil { // the message names the claims
				withClaims := first.DeepCopy()
				withClaims.Status = status
				status = plan.RecoveryStatus(o.Outcome, d, withClaims, nil, now)
			}
		}
		if err := c.plans.add(d.Name, recovery.UID, status.Plan); err != nil {
			return err
		}
		if err := c.write(ctx, recovery, status); err != nil {
			return err
		}
	}
	return nil
}

// reject reports why LVMRecoveries of a device class have no effect.
func (c *recoveries) reject(ctx context.Context, class, why string) error {
	open, err := c.open(ctx, class)
	if err != nil {
		return err
	}
	for i := range open {
		status := plan.RejectedRecovery(&open[i], why, metav1.NewTime(c.now()))
		if err := c.write(ctx, &open[i], status); err != nil {
			return err
		}
	}
	return nil
}

// write writes a status if it changed, and emits an event if the phase changed. The optimistic lock prevents
// that a plan replaces one that the cache does not have yet.
func (c *recoveries) write(ctx context.Context, before *v1alpha1.LVMRecovery,
	status v1alpha1.LVMRecoveryStatus) error {
	if equality.Semantic.DeepEqual(before.Status, status) {
		return nil
	}
	after := before.DeepCopy()
	after.Status = status
	err := c.Client.Status().Patch(ctx, after,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("LVMRecovery %s: write the status: %w", before.Name, err)
	}
	if err == nil && before.Status.Phase != status.Phase {
		c.recorder.Eventf(after, nil, corev1.EventTypeNormal, string(state.RecoveryEvent(status.Phase)), "Recover",
			"%s", text.Truncate(status.Message, maxNote))
	}
	return nil
}

// concerned returns the request for the device class of an LVMRecovery of this node.
func (c *recoveries) concerned(_ context.Context, object client.Object) []reconcile.Request {
	recovery, is := object.(*v1alpha1.LVMRecovery)
	if !is || recovery.Spec.NodeName != c.Node {
		return nil
	}
	return []reconcile.Request{{
		NamespacedName: client.ObjectKey{Namespace: c.Namespace, Name: recovery.Spec.DeviceClassName}}}
}
