package relocate

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

func TestAPersistentVolumeChangesOnlyItsNode(t *testing.T) {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "u", ResourceVersion: "5", Labels: map[string]string{"a": "b"},
			Finalizers: []string{"kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"}},
		Spec: corev1.PersistentVolumeSpec{NodeAffinity: Affinity("old"), StorageClassName: "s",
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Name: "data", UID: "c", ResourceVersion: "7"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{VolumeHandle: "h"}}}}
	moved := PersistentVolume(pv, "new")
	switch {
	case view.NodeOfVolume(moved) != "new" || view.NodeOfVolume(pv) != "old":
		t.Errorf("got the nodes %s and %s", view.NodeOfVolume(moved), view.NodeOfVolume(pv))
	case moved.Name != pv.Name || moved.UID != "" || moved.ResourceVersion != "" || pv.Labels[corev1.LabelHostname] != "":
		t.Errorf("got the metadata %+v, and the original is %+v", moved.ObjectMeta, pv.ObjectMeta)
	case moved.Labels["a"] != "b" || moved.Labels[corev1.LabelHostname] != "new":
		t.Errorf("got the labels %v", moved.Labels)
	case !slices.Equal(moved.Finalizers, []string{"external-provisioner.volume.kubernetes.io/finalizer"}):
		t.Errorf("got the finalizers %v", moved.Finalizers)
	case moved.Spec.ClaimRef.ResourceVersion != "" || moved.Spec.ClaimRef.UID != "c" ||
		pv.Spec.ClaimRef.ResourceVersion != "7":
		t.Errorf("got the claim %+v", moved.Spec.ClaimRef)
	case moved.Spec.CSI.VolumeHandle != "h" ||
		moved.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		t.Errorf("got the spec %+v", moved.Spec)
	}
}

func TestPodsThatUseAClaim(t *testing.T) {
	of := func(source corev1.VolumeSource) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}}
	}
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	ephemeral := of(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	if !Uses(of(claim("data")), "data") || Uses(of(claim("other")), "data") || !Uses(ephemeral, "p-v") ||
		Uses(ephemeral, "v") {
		t.Error("the claims of a Pod are not those in its volumes")
	}
	for phase, runs := range map[corev1.PodPhase]bool{"": true, corev1.PodPending: true, corev1.PodRunning: true,
		corev1.PodUnknown: true, corev1.PodSucceeded: false, corev1.PodFailed: false} {
		if got := Runs(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}}); got != runs {
			t.Errorf("a Pod in phase %q runs: %v", phase, got)
		}
	}
}

func TestAnObjectThatMayNotExist(t *testing.T) {
	present := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	reader := memory.Builder().WithObjects(present).Build()
	if got, err := Get(t.Context(), reader, client.ObjectKey{Name: "a"}, &corev1.Node{}); err != nil || got == nil ||
		got.Name != "a" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := Get(t.Context(), reader, client.ObjectKey{Name: "b"}, &corev1.Node{}); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	failing := interceptor.NewClient(reader, interceptor.Funcs{Get: func(context.Context, client.WithWatch,
		client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("timeout")
	}})
	got, err := Get(t.Context(), failing, client.ObjectKey{Name: "a"}, &corev1.Node{})
	if err == nil || err.Error() != "read *v1.Node /a: timeout" || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
