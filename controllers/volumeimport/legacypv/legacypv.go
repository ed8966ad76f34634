// Package legacypv says what can be done with a PersistentVolume of TopoLVM before 0.15: whether its volume can be
// served, migrated to this driver or deleted, and why not. It reads nothing.
package legacypv

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// ProvisionedBy has the driver whose provisioner created a PersistentVolume, and deletes its volume.
	ProvisionedBy = "pv.kubernetes.io/provisioned-by"
	// ProvisionerFinalizer keeps a PersistentVolume until its volume is deleted (HonorPVReclaimPolicy, KEP-2644).
	ProvisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
)

// Facts is what decides whether a PersistentVolume of the earlier driver can be migrated.
type Facts struct {
	PV *corev1.PersistentVolume
	// Claim is nil if the claim of the PersistentVolume does not exist.
	Claim *corev1.PersistentVolumeClaim
	// Old is nil if the LogicalVolume of the earlier driver does not exist.
	Old *earlierv1.LogicalVolume
	// Drivers are those that the kubelet of the node has.
	Drivers []string
	// Pod is a Pod that uses the claim, or nil.
	Pod *corev1.Pod
}

// MigrationProblem returns why a PersistentVolume cannot be migrated, and what to do, or "".
func (f Facts) MigrationProblem() string {
	for _, problem := range []string{f.claimProblem(), f.logicalVolumeProblem(), f.UseProblem()} {
		if problem != "" {
			return problem
		}
	}
	if !slices.Contains(f.Drivers, wellknown.DriverName) {
		return withoutDriver(f.PV)
	}
	return ""
}

// ServingProblem returns why no LogicalVolume can be created for a volume of the earlier driver, or "".
func (f Facts) ServingProblem() string {
	node := view.NodeOfEarlierVolume(f.PV)
	switch {
	case node == "":
		return withoutNode(f.PV)
	case f.logicalVolumeProblem() != "":
		return f.logicalVolumeProblem()
	case !f.Old.DeletionTimestamp.IsZero():
		return fmt.Sprintf("LogicalVolume %s of the API group %s is being deleted: migrate the volume", f.Old.Name,
			wellknown.EarlierDriverName)
	case !slices.Contains(f.Drivers, wellknown.DriverName):
		return withoutDriver(f.PV)
	}
	return ""
}

// UnknownVolume returns why the logical volume of a PersistentVolume is not known, or "".
func UnknownVolume(pv *corev1.PersistentVolume, old *earlierv1.LogicalVolume) string {
	const otherwise = ": set its reclaim policy to Retain and delete the PersistentVolume; its logical volume is " +
		"then listed as an orphan"
	node := view.NodeOfEarlierVolume(pv)
	switch {
	case node == "":
		return withoutNode(pv) + otherwise
	case old == nil:
		return fmt.Sprintf("LogicalVolume %s of the API group %s does not exist, so the device class of logical "+
			"volume %s on node %s is not known%s", pv.Name, wellknown.EarlierDriverName, pv.Spec.CSI.VolumeHandle, node,
			otherwise)
	}
	if problem := (Facts{PV: pv, Old: old}).logicalVolumeProblem(); problem != "" {
		return problem + otherwise
	}
	return ""
}

// claimProblem returns why the PersistentVolume or its claim cannot be used for this driver, or "".
func (f Facts) claimProblem() string {
	switch {
	case !f.PV.DeletionTimestamp.IsZero():
		return fmt.Sprintf("PersistentVolume %s is being deleted", f.PV.Name)
	case f.Claim == nil || f.Claim.Spec.VolumeName != f.PV.Name:
		return fmt.Sprintf("no claim is bound to PersistentVolume %s: only volumes of claims are migrated. If its "+
			"data is not needed, delete it", f.PV.Name)
	case !f.Claim.DeletionTimestamp.IsZero():
		return fmt.Sprintf("claim %s is being deleted", ClaimOf(f.PV))
	case view.NodeOfEarlierVolume(f.PV) == "":
		return withoutNode(f.PV)
	case f.PV.Spec.CSI.FSType == "btrfs":
		return fmt.Sprintf("claim %s has a btrfs file system, which is not supported: copy its data to a new claim",
			ClaimOf(f.PV))
	}
	return ""
}

// logicalVolumeProblem returns why the LogicalVolume of the earlier driver is not the one of the PersistentVolume, or
// "".
func (f Facts) logicalVolumeProblem() string {
	handle, node := f.PV.Spec.CSI.VolumeHandle, view.NodeOfEarlierVolume(f.PV)
	switch {
	case f.Old == nil:
		return fmt.Sprintf("LogicalVolume %s of the API group %s does not exist, so the device class of logical "+
			"volume %s is not known: set the reclaim policy of PersistentVolume %s to Retain, delete claim %s and the "+
			"PersistentVolume, and import the logical volume with kubectl lvms import", f.PV.Name,
			wellknown.EarlierDriverName, handle, f.PV.Name, ClaimOf(f.PV))
	case f.Old.Status.VolumeID != handle:
		return fmt.Sprintf("LogicalVolume %s of the API group %s is for another volume (%q) than the PersistentVolume "+
			"of the same name (%q)", f.Old.Name, wellknown.EarlierDriverName, f.Old.Status.VolumeID, handle)
	case f.Old.Spec.NodeName != node:
		return fmt.Sprintf("LogicalVolume %s of the API group %s is on node %s, but the PersistentVolume of the same "+
			"name on node %s", f.Old.Name, wellknown.EarlierDriverName, f.Old.Spec.NodeName, node)
	}
	return ""
}

// UseProblem returns why a volume may be in use, or "".
func (f Facts) UseProblem() string {
	switch {
	case f.Pod != nil:
		return fmt.Sprintf("Pod %s/%s uses claim %s: delete the Pod, for example by scaling its workload to 0",
			f.Pod.Namespace, f.Pod.Name, ClaimOf(f.PV))
	case slices.Contains(f.Drivers, wellknown.EarlierDriverName):
		return StillRuns(view.NodeOfEarlierVolume(f.PV))
	}
	return ""
}

func withoutDriver(pv *corev1.PersistentVolume) string {
	return WithoutAgent(view.NodeOfEarlierVolume(pv), pv.Spec.CSI.VolumeHandle)
}

// WithoutAgent says what to do if the kubelet of a node does not have this driver, which a volume needs.
func WithoutAgent(node, volume string) string {
	return fmt.Sprintf("the kubelet of node %s does not have the driver %s: add a device class for the volume "+
		"group of logical volume %s to the LVMCluster, and check the vg-manager Pod of the node", node,
		wellknown.DriverName, volume)
}

func withoutNode(pv *corev1.PersistentVolume) string {
	return fmt.Sprintf("PersistentVolume %s has no node affinity with the key %s, so its node is not known", pv.Name,
		wellknown.EarlierTopologyNodeKey)
}

// StillRuns says what to do because TopoLVM serves the earlier driver on a node.
func StillRuns(node string) string {
	return fmt.Sprintf("the kubelet of node %s has the driver %s, so its node service still runs: stop TopoLVM. If "+
		"no Pod of it is left, delete its socket in plugins_registry in the kubelet's directory on the node", node,
		wellknown.EarlierDriverName)
}

// ClaimOf returns the claim of a PersistentVolume as NAMESPACE/NAME, or "".
func ClaimOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name
}

// IsReleased reports whether the provisioner of the earlier driver would delete a PersistentVolume and its volume
// (sig-storage-lib-external-provisioner, shouldDelete).
func IsReleased(pv *corev1.PersistentVolume) bool {
	isDeleted := !pv.DeletionTimestamp.IsZero() && !slices.Contains(pv.Finalizers, ProvisionerFinalizer)
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == wellknown.EarlierDriverName && !isDeleted &&
		pv.Annotations[ProvisionedBy] == wellknown.EarlierDriverName && pv.Status.Phase == corev1.VolumeReleased &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// IsFor reports whether a LogicalVolume is for the volume of a PersistentVolume, also before the node agent has found
// it.
func IsFor(lv *topolvmv1.LogicalVolume, pv *corev1.PersistentVolume) bool {
	volume := cmp.Or(lv.Status.VolumeID, view.Import(lv))
	return pv != nil && volume == pv.Spec.CSI.VolumeHandle
}

// IsOf reports whether a PersistentVolume of the earlier driver is for the volume of a LogicalVolume.
func IsOf(pv *corev1.PersistentVolume, lv *topolvmv1.LogicalVolume) bool {
	source := pv.Spec.CSI
	return source != nil && source.Driver == wellknown.EarlierDriverName && source.VolumeHandle == lv.Status.VolumeID
}

// Import returns the import of the logical volume of a PersistentVolume of the earlier driver.
func Import(pv *corev1.PersistentVolume, old *earlierv1.LogicalVolume) v1alpha1.RecoveryVolume {
	return v1alpha1.RecoveryVolume{Name: pv.Spec.CSI.VolumeHandle, PersistentVolume: pv.Name, Claim: ClaimOf(pv),
		Size: old.Spec.Size.Value()}
}

// ForThisDriver returns a PersistentVolume of the earlier driver as it is created for this driver on its node.
func ForThisDriver(pv *corev1.PersistentVolume, node string) *corev1.PersistentVolume {
	migrated := relocate.PersistentVolume(pv, node)
	migrated.Spec.CSI.Driver = wellknown.DriverName
	migrated.Annotations = maps.Clone(migrated.Annotations)
	delete(migrated.Annotations, wellknown.MigrateAnnotation)
	delete(migrated.Annotations, wellknown.MigrationAnnotation)
	metav1.SetMetaDataAnnotation(&migrated.ObjectMeta, ProvisionedBy, wellknown.DriverName)
	metav1.SetMetaDataAnnotation(&migrated.ObjectMeta, wellknown.MigratedFromAnnotation, wellknown.EarlierDriverName)
	return migrated
}
