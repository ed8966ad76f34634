package logicalvolume

import (
	"context"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// accessTypeOfSnapshot is spec.accessType of a VolumeSnapshot's LogicalVolume. No PersistentVolume has its handle.
const accessTypeOfSnapshot = "ro"

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list

// unbound returns an error if a bound PersistentVolume has the logical volume as its handle, or if that cannot be
// determined. The CSI controller deletes a LogicalVolume after its PersistentVolume was released. Any other deletion,
// for example of the CRD, must not remove data that a claim still uses.
func (r *remover) unbound(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	volume := &corev1.PersistentVolume{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: lv.Name}, volume)
	if client.IgnoreNotFound(err) != nil {
		return status.Errorf(codes.Unavailable,
			"read PersistentVolume %s, which may use the logical volume: %v", lv.Name, err)
	}
	if err == nil && refersTo(volume, lv) {
		return inUse(volume)
	}
	if lv.Spec.AccessType == accessTypeOfSnapshot {
		return nil
	}
	return r.unboundInList(ctx, lv)
}

func refersTo(volume *corev1.PersistentVolume, lv *topolvmv1.LogicalVolume) bool {
	source := volume.Spec.CSI
	return source != nil && view.IsDriver(source.Driver) && source.VolumeHandle == identity.Name(lv)
}

// inUse returns an error unless the phase shows that no claim is bound. An empty phase does not show that.
func inUse(volume *corev1.PersistentVolume) error {
	switch volume.Status.Phase {
	case corev1.VolumeReleased, corev1.VolumeFailed, corev1.VolumeAvailable:
		return nil
	}
	claim := "no claim"
	if ref := volume.Spec.ClaimRef; ref != nil {
		claim = fmt.Sprintf("claim %s/%s", ref.Namespace, ref.Name)
	}
	return status.Errorf(codes.FailedPrecondition,
		"PersistentVolume %s (phase %q, %s) uses the logical volume, so it is not removed: delete the claim if the "+
			"data is not needed, "+
			"or see the how-to page about half-deleted installations", volume.Name, volume.Status.Phase, claim)
}
