package inventory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
)

func (b *bench) create(object client.Object) {
	b.Helper()
	if err := b.client.Create(b.Context(), object); err != nil {
		b.Fatal(err)
	}
}

// What the list shows as the fingerprint is what an approval needs.
func TestADeviceIsEligibleWithTheFingerprintOfTheList(t *testing.T) {
	b := newBench(t)
	b.create(&v1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: "ns"},
		Spec: v1alpha1.LVMVolumeGroupSpec{Approval: v1alpha1.ApprovalRequired}})
	eligibility := func() v1alpha1.DeviceEligibility {
		t.Helper()
		if err := b.reconcile(); err != nil {
			t.Fatal(err)
		}
		return b.status().Devices[0].Eligibility[0]
	}
	if e := eligibility(); e.Eligible || !slices.Equal(e.Reasons, []string{string(device.AwaitingApproval)}) {
		t.Errorf("got %+v", e)
	}
	shown := b.status().Devices[0]
	b.create(&v1alpha1.LVMDeviceApproval{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns"},
		Spec: v1alpha1.LVMDeviceApprovalSpec{NodeName: "n1", DeviceClassName: "vg1", Device: shown.ID,
			Fingerprint: shown.Fingerprint, ApprovedBy: "ann"}})
	if e := eligibility(); !e.Eligible || len(e.Reasons) > 0 {
		t.Errorf("approved: got %+v", e)
	}
	b.node.devices[0].Size++
	b.r.Wake()
	if e := eligibility(); e.Eligible || !slices.Equal(e.Reasons, []string{string(device.ChangedSinceReview)}) {
		t.Errorf("changed: got %+v", e)
	}
}

type withoutApprovals struct{ client.Client }

func (c withoutApprovals) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*v1alpha1.LVMDeviceApprovalList); is {
		return errors.New("timed out")
	}
	return c.Client.List(ctx, list, options...)
}

func TestApprovalsThatCannotBeReadAreNotNone(t *testing.T) {
	b := newBench(t)
	b.r.Client = withoutApprovals{b.client}
	if err := b.reconcile(); err == nil || !strings.Contains(err.Error(), "LVMDeviceApprovals") {
		t.Errorf("got %v", err)
	}
	if s := b.status(); !meta.IsStatusConditionFalse(s.Conditions, v1alpha1.ConditionDevicesObserved) {
		t.Errorf("got %+v", s.Conditions)
	}
}
