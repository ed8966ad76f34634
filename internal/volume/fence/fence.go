// Package fence is what moves of volumes and clones of thick volumes have in common: a volume is closed (fenced) on its
// node while it is copied, and the copies wait for their turn in one queue.
//
//  1. The operator requests the fence with an annotation of the LogicalVolume, and a name that no other fence has.
//  2. The node agent confirms with another annotation that nobody can use the volume.
//  3. A copy has the name of the fence under which it was created. It is a copy of the volume as it is now only as long
//     as the volume has this fence.
//  4. The fence is a lease on progress: if nothing is copied for ProgressLimit, or one of the nodes is lost, and a Pod
//     waits for the volume, the operator withdraws the fence.
package fence

import (
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// OfClone returns the holder of a fence for a copy to the LogicalVolume with a UID. It is also in FencedTagPrefix.
func OfClone(target types.UID) string { return wellknown.CloneFencePrefix + string(target) }

// IsOfClone reports whether the holder of a fence is a clone, and not a VolumeMove.
func IsOfClone(holder string) bool { return strings.HasPrefix(holder, wellknown.CloneFencePrefix) }

// Request adds the request for a fence to a LogicalVolume as it was read. holder is the UID of a VolumeMove, or the
// OfClone of a clone, and target the name of the LogicalVolume of the clone. The resource version makes the name of
// each fence different from all others: only one patch of a version succeeds, and clocks can be set back.
func Request(volume *topolvmv1.LogicalVolume, holder, target string, now time.Time) {
	metav1.SetMetaDataAnnotation(&volume.ObjectMeta, wellknown.FenceAnnotation, holder)
	metav1.SetMetaDataAnnotation(&volume.ObjectMeta, wellknown.FenceTimeAnnotation,
		now.UTC().Format(time.RFC3339)+"/"+volume.ResourceVersion)
	delete(volume.Annotations, wellknown.UnfenceAnnotation)
	if target != "" {
		metav1.SetMetaDataAnnotation(&volume.ObjectMeta, wellknown.FenceForAnnotation, target)
	}
}

// Withdraw removes the request from a LogicalVolume. The node agent then opens the volume, and removes its annotations.
// It does so only for the fence that was withdrawn.
func Withdraw(volume *topolvmv1.LogicalVolume) {
	if holder := Holder(volume); holder != "" {
		volume.Annotations[wellknown.UnfenceAnnotation] = holder
	}
	delete(volume.Annotations, wellknown.FenceAnnotation)
	delete(volume.Annotations, wellknown.FenceTimeAnnotation)
	delete(volume.Annotations, wellknown.FenceForAnnotation)
}

// Remove removes everything about a fence from a LogicalVolume that leaves its node: the node agent of the new node
// knows nothing of the fence.
func Remove(volume *topolvmv1.LogicalVolume) {
	Withdraw(volume)
	delete(volume.Annotations, wellknown.FencedAnnotation)
	delete(volume.Annotations, wellknown.FenceErrorAnnotation)
	delete(volume.Annotations, wellknown.UnfenceAnnotation)
}

// Holder returns for what a fence of a volume is requested, or "".
func Holder(volume *topolvmv1.LogicalVolume) string {
	return volume.Annotations[wellknown.FenceAnnotation]
}

// Name returns the name of the fence of a volume, or of that under which a copy was created.
func Name(lv *topolvmv1.LogicalVolume) string { return lv.Annotations[wellknown.FenceTimeAnnotation] }

// Confirmed returns for what the node agent has closed a volume, or that the fence was lost; "" if it is not closed.
func Confirmed(volume *topolvmv1.LogicalVolume) string {
	return volume.Annotations[wellknown.FencedAnnotation]
}

// Problem returns why a volume could not be closed, or which fence of it nothing requests; or "".
func Problem(volume *topolvmv1.LogicalVolume) string {
	return volume.Annotations[wellknown.FenceErrorAnnotation]
}

// Withdrawn returns the holder whose fence of a volume was withdrawn, until the node agent has opened it; or "".
func Withdrawn(volume *topolvmv1.LogicalVolume) string {
	return volume.Annotations[wellknown.UnfenceAnnotation]
}

// ForClone returns the name of the LogicalVolume of the clone for which a volume is fenced, or "".
func ForClone(volume *topolvmv1.LogicalVolume) string {
	return volume.Annotations[wellknown.FenceForAnnotation]
}

// IsConfirmed reports whether a fence of a volume is requested for a holder, and the node agent has confirmed it.
func IsConfirmed(volume *topolvmv1.LogicalVolume, holder string) bool {
	return holder != "" && Holder(volume) == holder && Confirmed(volume) == holder
}

// Lost returns what Confirmed is after another program has removed the present fence of a volume.
func Lost(volume *topolvmv1.LogicalVolume) string { return wellknown.LostFencePrefix + Name(volume) }

// IsLost reports whether another program has removed the present fence of a volume. The node agent does not set it
// again: it must be withdrawn, and then requested again.
func IsLost(volume *topolvmv1.LogicalVolume) bool {
	return Name(volume) != "" && Confirmed(volume) == Lost(volume)
}

// Covers reports whether a copy was created under the present fence of a volume, so that the volume has not changed
// since then.
func Covers(volume *topolvmv1.LogicalVolume, holder string, copied *topolvmv1.LogicalVolume) bool {
	return IsConfirmed(volume, holder) && Name(volume) != "" && Name(copied) == Name(volume)
}

// Requested returns when the fence of a volume was requested; the zero time if it is not known, so that it is too long
// ago.
func Requested(volume *topolvmv1.LogicalVolume) time.Time {
	text, _, _ := strings.Cut(Name(volume), "/")
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}
