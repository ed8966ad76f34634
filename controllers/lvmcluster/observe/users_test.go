package observe

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

func TestTheReclaimPolicyRetainIsNamed(t *testing.T) {
	volume := func(name string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: "id-" + name}}}}
	}
	live := memory.Builder().WithObjects(
		volume("deleted", corev1.PersistentVolumeReclaimDelete),
		volume("kept", corev1.PersistentVolumeReclaimRetain)).Build()
	users, err := usersOf(t.Context(), live, scope{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := users.String(), "2 PersistentVolumes: deleted, kept (reclaim policy Retain)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
