package observe

import (
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func TestTheReclaimPolicyRetainIsNamed(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topolvmv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	volume := func(name string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: lvmv1alpha1.DriverName, VolumeHandle: "id-" + name}}}}
	}
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		volume("deleted", corev1.PersistentVolumeReclaimDelete),
		volume("kept", corev1.PersistentVolumeReclaimRetain)).Build()
	users, err := AllUsers(t.Context(), live)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := users.String(), "2 PersistentVolumes: deleted, kept (reclaim policy Retain)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
