//go:build env

package lvmcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
)

// approve creates LVMDeviceApprovals for a device class, with the names.
func (w *world) approve(class string, names ...string) {
	w.Helper()
	for _, name := range names {
		approval := &lvmv1alpha1.LVMDeviceApproval{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.cluster.Namespace},
			Spec: lvmv1alpha1.LVMDeviceApprovalSpec{NodeName: "a", DeviceClassName: class, Device: "/dev/" + name,
				Fingerprint: "v1-" + strings.Repeat("0", 32), ApprovedBy: "ann"},
		}
		w.make(approval)
		w.Cleanup(func() { _ = client.IgnoreNotFound(w.api.Delete(w.Context(), approval)) })
	}
}

// approvals returns the names of the LVMDeviceApprovals.
func (w *world) approvals() []string {
	w.Helper()
	list := &lvmv1alpha1.LVMDeviceApprovalList{}
	w.must(w.api.List(w.Context(), list, client.InNamespace(w.cluster.Namespace)))
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func (w *world) wantApprovals(when string, names ...string) {
	w.Helper()
	if got := w.approvals(); !slices.Equal(got, names) {
		w.Errorf("%s: got the LVMDeviceApprovals %q, want %q", when, got, names)
	}
}

// untilTheNextSecond waits until what is created or deleted has a later time than what exists: the API server stores
// times in seconds.
func (w *world) untilTheNextSecond() {
	now := time.Now()
	time.Sleep(now.Truncate(time.Second).Add(time.Second).Sub(now))
}

// TestApprovalsAreDeletedWithTheirDeviceClass: as long as a node has a part of the device class, for example because a
// disk is missing, its approvals stay.
func TestApprovalsAreDeletedWithTheirDeviceClass(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	w.approve("vg1", "one", "two")
	w.approve("vg2", "other")
	group := &lvmv1alpha1.LVMVolumeGroup{}
	w.must(w.get(group, "vg1"))
	w.untilTheNextSecond()
	w.must(w.asServiceAccount("lvms-operator").Delete(t.Context(), group))
	w.approve("vg1", "later")
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
	}
	w.wantApprovals("nodes have a part of it", "later", "one", "other", "two")

	w.playRemoval("vg1")
	down := errors.New("the API server is down")
	fail := func(failing string) {
		w.spy.Fail = func(verb string, object any) error {
			_, isList := object.(*lvmv1alpha1.LVMDeviceApprovalList)
			_, isOne := object.(*lvmv1alpha1.LVMDeviceApproval)
			if verb == failing && (isList || isOne) {
				return down
			}
			return nil
		}
	}
	for _, verb := range []string{"list", "delete"} {
		fail(verb)
		if err := w.release(w.spy); !errors.Is(err, down) || !w.exists(group, "vg1") {
			t.Errorf("%s fails: got %v", verb, err)
		}
		w.wantApprovals(verb+" fails", "later", "one", "other", "two")
	}
	w.spy.Fail = nil
	for range 2 {
		w.must(w.release(w.spy))
	}
	if w.exists(group, "vg1") {
		t.Errorf("the LVMVolumeGroup stays, with %v", group.Finalizers)
	}
	w.wantApprovals("no node has a part of it", "later", "other")
}

// TestApprovalsAreDeletedWithTheLVMCluster uses the permissions of the operator.
func TestApprovalsAreDeletedWithTheLVMCluster(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	w.approve("vg1", "one")
	w.approve("vg2", "other")
	w.untilTheNextSecond()
	w.must(w.api.Delete(t.Context(), w.cluster))
	for range 3 {
		_, err := w.reconcile()
		w.must(err)
	}
	w.wantApprovals("nodes have a part of it", "one", "other")
	w.playRemoval("vg1")
	for range 3 {
		_, err := w.reconcile()
		w.must(err)
	}
	w.wantApprovals("no node has a part of it", "other")
}
