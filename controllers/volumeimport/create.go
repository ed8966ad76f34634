package volumeimport

import (
	"context"
	"fmt"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport/stagesecret"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// job is the import of volumes of a device class to a node. group is the UUID of their volume group.
type job struct {
	*Controller
	node, class, group string
	// forLegacy is true if the LogicalVolumes are for PersistentVolumes of the earlier driver.
	forLegacy bool
	// groups are the volume groups of each node. pods are the Pods of each namespace.
	groups map[string][]v1alpha1.VGStatus
	pods   map[string][]corev1.Pod
}

// volume performs the next steps for a volume. It returns nil if all its objects are on the node.
func (j *job) volume(ctx context.Context, v v1alpha1.RecoveryVolume) error {
	if v.FromNode != "" {
		return j.move(ctx, v)
	}
	// The claim is first: if it cannot be created, nothing else is.
	claim, err := j.claim(ctx, v)
	if err != nil {
		return err
	}
	if err := j.logicalVolume(ctx, v); err != nil {
		return err
	}
	return j.persistentVolume(ctx, v, claim)
}

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;create

// claim returns the claim of a volume. It creates the claim if it does not exist.
func (j *job) claim(ctx context.Context, v v1alpha1.RecoveryVolume) (*corev1.PersistentVolumeClaim, error) {
	namespace, name, _ := strings.Cut(v.Claim, "/")
	claim := &corev1.PersistentVolumeClaim{}
	err := j.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, claim)
	if err == nil {
		return claim, j.accept(v, claim)
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read claim %s: %w", v.Claim, err)
	}
	claim = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			// The name of the volume prevents that another one is provisioned.
			VolumeName: v.PersistentVolume, VolumeMode: ptr.To(modeOf(v)),
			StorageClassName: ptr.To(wellknown.StorageClassName(j.class)),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: sizeOf(v)}},
		},
	}
	switch err := j.client.Create(ctx, claim); {
	case apierrors.IsAlreadyExists(err):
		return nil, waiting("claim %s of volume %s was created at the same time", v.Claim, v.Name)
	case apierrors.IsNotFound(err):
		return nil, blocked("claim %s of volume %s cannot be created: create namespace %s", v.Claim, v.Name, namespace)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return nil, blocked("claim %s of volume %s cannot be created: %v", v.Claim, v.Name, err)
	case err != nil:
		return nil, fmt.Errorf("create claim %s: %w", v.Claim, err)
	}
	return claim, nil
}

// accept returns why an existing claim cannot get the volume, or nil.
func (j *job) accept(v v1alpha1.RecoveryVolume, claim *corev1.PersistentVolumeClaim) error {
	request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	size := sizeOf(v)
	switch {
	case !claim.DeletionTimestamp.IsZero():
		return waiting("claim %s of volume %s is being deleted", v.Claim, v.Name)
	case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != v.PersistentVolume:
		return blocked("claim %s of volume %s is bound to PersistentVolume %s: give the volume another claim, with "+
			"claims in another LVMRecovery, or delete the claim if its data is not needed", v.Claim, v.Name,
			claim.Spec.VolumeName)
	case ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) != modeOf(v):
		return blocked(
			"claim %s exists with volumeMode %s, but volume %s has %s: delete the claim, or give the volume "+
				"another one, with claims in another LVMRecovery", v.Claim,
			ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem), v.Name, described(v))
	case claim.Spec.VolumeName == "" && request.Cmp(size) > 0:
		return blocked("claim %s exists and requests %s, more than the %s of volume %s: delete the claim, or give the "+
			"volume another one, with claims in another LVMRecovery", v.Claim, request.String(), size.String(), v.Name)
	}
	return nil
}

func described(v v1alpha1.RecoveryVolume) string {
	if v.FSType == "" {
		return "no file system that is known"
	}
	return "an " + v.FSType + " file system"
}

func modeOf(v v1alpha1.RecoveryVolume) corev1.PersistentVolumeMode {
	if v.FSType == "" {
		return corev1.PersistentVolumeBlock
	}
	return corev1.PersistentVolumeFilesystem
}

func sizeOf(v v1alpha1.RecoveryVolume) resource.Quantity {
	return *resource.NewQuantity(v.Size, resource.BinarySI)
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;create;patch

// logicalVolume creates the LogicalVolume of a volume, and waits until the node agent has found the logical volume.
func (j *job) logicalVolume(ctx context.Context, v v1alpha1.RecoveryVolume) error {
	lv := &topolvmv1.LogicalVolume{}
	err := j.live.Get(ctx, client.ObjectKey{Name: v.PersistentVolume}, lv)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read LogicalVolume %s: %w", v.PersistentVolume, err)
	}
	if apierrors.IsNotFound(err) {
		lv = &topolvmv1.LogicalVolume{
			ObjectMeta: metav1.ObjectMeta{Name: v.PersistentVolume, Annotations: map[string]string{
				wellknown.ImportAnnotation: v.Name, wellknown.ClaimAnnotation: v.Claim}},
			Spec: topolvmv1.LogicalVolumeSpec{Name: v.PersistentVolume, NodeName: j.node, DeviceClass: j.class,
				Size: sizeOf(v)},
		}
		if j.forLegacy {
			lv.Annotations[wellknown.EarlierDriverAnnotation] = wellknown.EarlierDriverName
		}
		if err := j.client.Create(ctx, lv); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create LogicalVolume %s: %w", v.PersistentVolume, err)
		}
		return waiting("volume %s: node %s has not found it yet", v.Name, j.node)
	}
	switch {
	case !lv.DeletionTimestamp.IsZero():
		return waiting("LogicalVolume %s of volume %s is being deleted", lv.Name, v.Name)
	case lv.Status.VolumeID == v.Name && lv.Spec.NodeName == j.node:
		return nil
	case lv.Status.VolumeID == "" && view.Import(lv) == v.Name && lv.Spec.NodeName == j.node:
		if lv.Status.Message != "" {
			return blocked("volume %s: node %s: %s", v.Name, j.node, lv.Status.Message)
		}
		return waiting("volume %s: node %s has not found it yet", v.Name, j.node)
	}
	return blocked("volume %s: LogicalVolume %s exists on node %s for another volume (%q)", v.Name, lv.Name,
		lv.Spec.NodeName, lv.Status.VolumeID)
}

// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch

// persistentVolume creates the PersistentVolume of a volume for its claim.
func (j *job) persistentVolume(ctx context.Context, v v1alpha1.RecoveryVolume,
	claim *corev1.PersistentVolumeClaim) error {
	pv := &corev1.PersistentVolume{}
	err := j.live.Get(ctx, client.ObjectKey{Name: v.PersistentVolume}, pv)
	if err == nil {
		if source := pv.Spec.CSI; source == nil || source.Driver != wellknown.DriverName ||
			source.VolumeHandle != v.Name {
			return blocked("volume %s: PersistentVolume %s exists for another volume", v.Name, pv.Name)
		}
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("read PersistentVolume %s: %w", v.PersistentVolume, err)
	}
	if pv, err = j.newPersistentVolume(ctx, v, claim); err != nil {
		return err
	}
	if err := j.client.Create(ctx, pv); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create PersistentVolume %s: %w", pv.Name, err)
	}
	return nil
}

// newPersistentVolume returns the PersistentVolume for a volume and its claim. Its reclaim policy is Retain: the volume
// was about to be lost once.
func (j *job) newPersistentVolume(ctx context.Context, v v1alpha1.RecoveryVolume,
	claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, error) {
	className := ptr.Deref(claim.Spec.StorageClassName, "")
	class := &storagev1.StorageClass{}
	if err := j.client.Get(ctx, client.ObjectKey{Name: className}, class); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read StorageClass %s: %w", className, err)
	}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: v.PersistentVolume,
			Labels:      map[string]string{corev1.LabelHostname: j.node},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": wellknown.DriverName}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: sizeOf(v)}, AccessModes: claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, StorageClassName: className,
			VolumeMode: ptr.To(modeOf(v)), MountOptions: slices.Clone(class.MountOptions),
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: wellknown.DriverName, VolumeHandle: v.Name, FSType: v.FSType}},
			NodeAffinity: relocate.Affinity(j.node),
		},
	}
	if err := stagesecret.Set(pv, class, claim); err != nil {
		return nil, blockedError(err.Error())
	}
	return pv, nil
}
