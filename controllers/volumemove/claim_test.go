package volumemove

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

// setPhase sets the phase of the claim, if it exists.
func (w *world) setPhase(phase corev1.PersistentVolumeClaimPhase) {
	w.Helper()
	if claim := w.claim(); claim != nil {
		claim.Status.Phase = phase
		w.must(w.api.Status().Update(w.Context(), claim))
	}
}

func (w *world) claim() *corev1.PersistentVolumeClaim {
	w.Helper()
	claim, err := relocate.Get(w.Context(), w.api, client.ObjectKey{Namespace: w.name, Name: "data"},
		&corev1.PersistentVolumeClaim{})
	w.must(err)
	return claim
}

// bind binds a claim that was changed, like kube-controller-manager.
func (w *world) bind() {
	w.Helper()
	pv, err := relocate.Get(w.Context(), w.api, client.ObjectKey{Name: w.pv()}, &corev1.PersistentVolume{})
	w.must(err)
	if claim := w.claim(); claim != nil && pv != nil && claim.Status.Phase == corev1.ClaimLost &&
		claim.Annotations[wellknown.RecreatedVolumeAnnotation] == string(pv.UID) {
		w.setPhase(corev1.ClaimBound)
	}
}
