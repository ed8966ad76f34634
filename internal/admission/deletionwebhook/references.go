package deletionwebhook

import (
	"context"
	"errors"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/snapshotref"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// accessTypeOfSnapshot is spec.accessType of a VolumeSnapshot's LogicalVolume.
const accessTypeOfSnapshot = "ro"

// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims;pods,verbs=list
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=list
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=list
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=list
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=volumemoves,namespace=openshift-lvm-storage,verbs=list

// search finds what refers to a LogicalVolume.
type search struct {
	live      client.Reader
	namespace string
	lv        *topolvmv1.LogicalVolume

	// found has the kind, namespace and name of what refers to it.
	found []string
	// volumes has the names that its PersistentVolumes have or had.
	volumes sets.Set[string]
	// claimed: its claim, or another one with the name of it, exists.
	claimed bool
}

// references returns what refers to a LogicalVolume. It returns an error if one of the kinds cannot be read.
func (v *Validator) references(ctx context.Context, lv *topolvmv1.LogicalVolume) ([]string, error) {
	s := &search{live: v.Live, namespace: v.Namespace, lv: lv, volumes: sets.New(lv.Name)}
	if group := view.GroupPending(lv); group != "" {
		s.add("group snapshot", group+", which is being created")
	}
	// LogicalVolumes and claims are created before the PersistentVolumes of their volumes, but the claims are needed
	// last: they have the names of PersistentVolumes.
	for _, find := range []func(context.Context) error{s.logicalVolumes, s.volumeMoves, s.persistentVolumes, s.claims,
		s.pods, s.attachments, s.snapshots} {
		if err := find(ctx); err != nil {
			return nil, err
		}
	}
	return s.found, nil
}

func (s *search) add(kind, name string) { s.found = append(s.found, kind+" "+name) }

// logicalVolumes finds copies of the volume that are not complete, and other objects of the same volume.
func (s *search) logicalVolumes(ctx context.Context) error {
	return paging.Each(ctx, s.live, &topolvmv1.LogicalVolumeList{}, func(page *topolvmv1.LogicalVolumeList) {
		for i := range page.Items {
			other := &page.Items[i]
			if other.UID == s.lv.UID {
				continue
			}
			if other.Status.VolumeID == s.lv.Status.VolumeID && other.Spec.NodeName == s.lv.Spec.NodeName {
				s.add("LogicalVolume", other.Name+", which has the same volume")
			}
			if other.Spec.Source == s.lv.Name && other.Status.VolumeID == "" && other.DeletionTimestamp.IsZero() {
				s.add("LogicalVolume", other.Name+", which is being copied from it")
			}
		}
	})
}

// volumeMoves finds the VolumeMove for which the LogicalVolume was created, or is fenced.
func (s *search) volumeMoves(ctx context.Context) error {
	uids := []string{view.Move(s.lv), fence.Holder(s.lv)}
	return paging.Each(ctx, s.live, &v1alpha1.VolumeMoveList{}, func(page *v1alpha1.VolumeMoveList) {
		for i := range page.Items {
			if slices.Contains(uids, string(page.Items[i].UID)) {
				s.add("VolumeMove", page.Items[i].Namespace+"/"+page.Items[i].Name)
			}
		}
	}, client.InNamespace(s.namespace))
}

// persistentVolumes finds all that have the handle of the volume, in any phase.
func (s *search) persistentVolumes(ctx context.Context) error {
	return paging.Each(ctx, s.live, &corev1.PersistentVolumeList{}, func(page *corev1.PersistentVolumeList) {
		for i := range page.Items {
			volume := &page.Items[i]
			source := volume.Spec.CSI
			switch {
			case source != nil && view.IsDriver(source.Driver) && source.VolumeHandle == s.lv.Status.VolumeID:
				s.add("PersistentVolume", volume.Name)
				s.volumes.Insert(volume.Name)
			case volume.Name == s.lv.Name:
				s.volumes.Delete(volume.Name) // the PersistentVolume of another volume
			}
		}
	})
}

// claims finds the claim for which the LogicalVolume was created, and those that are bound to a PersistentVolume of it,
// even if that does not exist anymore.
func (s *search) claims(ctx context.Context) error {
	own, _ := view.ClaimKey(s.lv)
	return paging.Each(ctx, s.live, &corev1.PersistentVolumeClaimList{}, func(page *corev1.PersistentVolumeClaimList) {
		for i := range page.Items {
			claim := &page.Items[i]
			if claim.Namespace == own.Namespace && claim.Name == own.Name {
				s.claimed = true
			}
			if wellknown.ClaimVolumePrefix+string(claim.UID) == s.lv.Name || s.volumes.Has(claim.Spec.VolumeName) {
				s.add("PersistentVolumeClaim", claim.Namespace+"/"+claim.Name)
			}
		}
	})
}

// pods finds those that use the claim for which the LogicalVolume was created, although it does not exist anymore. If a
// claim with its name exists, Pods refer to that one, and claims has found it if it is the one of this LogicalVolume.
func (s *search) pods(ctx context.Context) error {
	claim, known := view.ClaimKey(s.lv)
	if !known || s.claimed || s.isSnapshot() {
		return nil
	}
	return paging.Each(ctx, s.live, &corev1.PodList{}, func(page *corev1.PodList) {
		for i := range page.Items {
			if pod := &page.Items[i]; isRunning(pod) && usesClaim(pod, claim.Name) {
				s.add("Pod", pod.Namespace+"/"+pod.Name)
			}
		}
	}, client.InNamespace(claim.Namespace))
}

func isRunning(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// usesClaim reports whether a Pod has a volume of a claim, or of a generic ephemeral volume whose claim has this name.
func usesClaim(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool {
		source := volume.PersistentVolumeClaim
		isEphemeral := volume.Ephemeral != nil && pod.Name+"-"+volume.Name == claim
		return isEphemeral || source != nil && source.ClaimName == claim
	})
}

// attachments finds the VolumeAttachments of its PersistentVolumes.
func (s *search) attachments(ctx context.Context) error {
	return paging.Each(ctx, s.live, &storagev1.VolumeAttachmentList{}, func(page *storagev1.VolumeAttachmentList) {
		for i := range page.Items {
			attachment := &page.Items[i]
			source := attachment.Spec.Source
			named := source.PersistentVolumeName != nil && s.volumes.Has(*source.PersistentVolumeName)
			inline := source.InlineVolumeSpec != nil && source.InlineVolumeSpec.CSI != nil &&
				source.InlineVolumeSpec.CSI.VolumeHandle == s.lv.Status.VolumeID
			if view.IsDriver(attachment.Spec.Attacher) && (named || inline) {
				s.add("VolumeAttachment", attachment.Name)
			}
		}
	})
}

// snapshots finds VolumeSnapshotContents, which each snapshot of a group has too. A cluster without the VolumeSnapshot
// API has none, but whether the API was removed for a moment is not known.
func (s *search) snapshots(ctx context.Context) error {
	err := snapshotref.Each(ctx, s.live, func(content snapshotref.Content) {
		if slices.Contains(content.Volumes, s.lv.Status.VolumeID) || slices.Contains(content.Volumes, s.lv.Name) {
			s.add("VolumeSnapshotContent", content.Name)
		}
	})
	if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return err
	}
	if s.isSnapshot() {
		return errors.New("it is a snapshot, and the cluster does not have the VolumeSnapshot API")
	}
	return nil
}

func (s *search) isSnapshot() bool {
	return s.lv.Spec.AccessType == accessTypeOfSnapshot || strings.HasPrefix(s.lv.Name, wellknown.SnapshotPrefix)
}
