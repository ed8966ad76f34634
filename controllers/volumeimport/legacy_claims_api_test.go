package volumeimport

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// newPendingWorld has a claim of the StorageClass "earlier", and nothing else of the earlier driver.
func newPendingWorld(t *testing.T, name string) *deletedWorld {
	t.Helper()
	w := &deletedWorld{servedWorld: newServedWorld(t, name)}
	w.removeEarlier()
	for _, class := range []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "earlier-" + name}, Provisioner: wellknown.EarlierDriverName,
			Parameters: map[string]string{wellknown.EarlierDeviceClassParameter: name}},
		{ObjectMeta: metav1.ObjectMeta{Name: "new-" + name}, Provisioner: wellknown.DriverName,
			Parameters: map[string]string{wellknown.DeviceClassParameter: name}},
	} {
		w.create(class)
		t.Cleanup(func() { _ = w.api.Delete(context.WithoutCancel(t.Context()), class) })
	}
	claim := newClaim(name, "wanted", "1Gi")
	claim.Spec.StorageClassName = ptr.To("earlier-" + name)
	w.create(claim)
	w.spy.Writes()
	return w
}

// TestAClaimOfAnEarlierStorageClassIsRefused: once, also on a cluster without anything else of the earlier driver.
func TestAClaimOfAnEarlierStorageClassIsRefused(t *testing.T) {
	w := newPendingWorld(t, "refused")
	if got, want := w.pass(), "Warning EarlierStorageClass no volume is created: StorageClass earlier-refused has the "+
		"provisioner topolvm.cybozu.com, which is only for existing volumes: delete the claim, and create it again "+
		"with StorageClass new-refused, which has the same device class (refused)"; got != want {
		t.Errorf("got the events %q, want %q", got, want)
	}
	if got := w.pass(); got != "" || len(w.spy.Writes()) > 0 {
		t.Errorf("the event is repeated: %s", got)
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "new-refused"}}
	w.must(w.api.Delete(t.Context(), class))
	if got := w.pass(); !strings.Contains(got, "no StorageClass of the provisioner topolvm.io has its device class") {
		t.Errorf("got the events %q", got)
	}
	claim := w.claim("wanted")
	claim.Finalizers = nil
	w.must(w.api.Update(t.Context(), claim))
	w.must(w.api.Delete(t.Context(), claim))
	if got := w.pass(); got != "" || len(w.runner.claims.refused) > 0 {
		t.Errorf("got the events %q, and %d claims are stored", got, len(w.runner.claims.refused))
	}
}

// TestAClaimOfAnEarlierStorageClassIsLeftToTopoLVM: its controller runs, or that is not known.
func TestAClaimOfAnEarlierStorageClassIsLeftToTopoLVM(t *testing.T) {
	w := newPendingWorld(t, "left")
	w.topolvmControllerPod()
	if got := w.pass(); got != "" {
		t.Errorf("got the events %q", got)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "topolvm-controller-0", Namespace: w.name}}
	w.must(w.api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	for name, matches := range map[string]func(object any) bool{
		"Pods":           func(o any) bool { _, is := o.(*corev1.PodList); return is },
		"claims":         func(o any) bool { _, is := o.(*corev1.PersistentVolumeClaimList); return is },
		"StorageClasses": func(o any) bool { _, is := o.(*storagev1.StorageClassList); return is },
		"LVMClusters":    func(o any) bool { _, is := o.(*v1alpha1.LVMClusterList); return is },
	} {
		w.spy.Fail = func(_ string, object any) error {
			if matches(object) {
				return errors.New("no answer")
			}
			return nil
		}
		_, err := w.runner.pass(t.Context())
		if got := w.sent(); got != "" || err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("%s: got %v and the events %q", name, err, got)
		}
	}
	w.spy.Fail = nil
	if got := w.pass(); !strings.Contains(got, "StorageClass new-left") {
		t.Errorf("got the events %q", got)
	}
}

// TestOtherClaimsAreNotRefused: they are bound, being deleted, or of another StorageClass.
func TestOtherClaimsAreNotRefused(t *testing.T) {
	w := newPendingWorld(t, "others")
	claim := w.claim("wanted")
	claim.Spec.VolumeName = "pv"
	w.must(w.api.Update(t.Context(), claim))
	other := newClaim(w.name, "other", "1Gi")
	other.Spec.StorageClassName = ptr.To("new-others")
	w.create(other)
	deleted := newClaim(w.name, "deleted", "1Gi")
	deleted.Spec.StorageClassName, deleted.Finalizers = ptr.To("earlier-others"), []string{"example.com/keep"}
	w.create(deleted)
	w.must(w.api.Delete(t.Context(), deleted))
	if got := w.pass(); got != "" {
		t.Errorf("got the events %q", got)
	}
}
