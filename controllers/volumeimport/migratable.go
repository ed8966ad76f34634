package volumeimport

import (
	"context"
	"fmt"
	"slices"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/topolvm/legacy"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

// migrationFacts is what decides whether a PersistentVolume of the earlier driver can be migrated.
type migrationFacts struct {
	pv *corev1.PersistentVolume
	// claim is nil if the claim of the PersistentVolume does not exist.
	claim *corev1.PersistentVolumeClaim
	// old is nil if the LogicalVolume of the earlier driver does not exist.
	old *earlierv1.LogicalVolume
	// drivers are those that the kubelet of the node has.
	drivers []string
	// pod is a Pod that uses the claim, or nil.
	pod *corev1.Pod
}

// facts reads the facts from the API server. If one cannot be read, it returns an error.
func (m migrations) facts(ctx context.Context, pv *corev1.PersistentVolume) (migrationFacts, error) {
	facts := migrationFacts{pv: pv}
	var err error
	if facts.old, err = legacy.Get(ctx, m.live, pv.Name); err != nil {
		return facts, err
	}
	if facts.drivers, err = m.driversOf(ctx, v1alpha1.NodeOfEarlierVolume(pv)); err != nil {
		return facts, err
	}
	reference := pv.Spec.ClaimRef
	if reference == nil {
		return facts, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err = m.live.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, claim)
	switch {
	case err == nil && claim.UID == reference.UID:
		facts.claim = claim
	case err != nil && !apierrors.IsNotFound(err):
		return facts, fmt.Errorf("read claim %s: %w", claimOf(pv), err)
	}
	pods, err := (&job{Controller: m.Controller}).podsIn(ctx, reference.Namespace)
	if err != nil {
		return facts, err
	}
	for i := range pods {
		if relocate.Runs(&pods[i]) && relocate.Uses(&pods[i], reference.Name) {
			facts.pod = &pods[i]
		}
	}
	return facts, nil
}

// migrationProblem returns why a PersistentVolume cannot be migrated, and what to do, or "".
func migrationProblem(f migrationFacts) string {
	for _, problem := range []string{claimProblem(f), earlierProblem(f), useProblem(f)} {
		if problem != "" {
			return problem
		}
	}
	if !slices.Contains(f.drivers, v1alpha1.DriverName) {
		return withoutDriver(f.pv)
	}
	return ""
}

func withoutDriver(pv *corev1.PersistentVolume) string {
	return withoutAgent(v1alpha1.NodeOfEarlierVolume(pv), pv.Spec.CSI.VolumeHandle)
}

func withoutAgent(node, volume string) string {
	return fmt.Sprintf("the kubelet of node %s does not have the driver %s: add a device class for the volume "+
		"group of logical volume %s to the LVMCluster, and check the vg-manager Pod of the node", node,
		v1alpha1.DriverName, volume)
}

func withoutNode(pv *corev1.PersistentVolume) string {
	return fmt.Sprintf("PersistentVolume %s has no node affinity with the key %s, so its node is not known", pv.Name,
		v1alpha1.EarlierTopologyNodeKey)
}

// claimProblem returns why the PersistentVolume or its claim cannot be used for this driver, or "".
func claimProblem(f migrationFacts) string {
	switch {
	case !f.pv.DeletionTimestamp.IsZero():
		return fmt.Sprintf("PersistentVolume %s is being deleted", f.pv.Name)
	case f.claim == nil || f.claim.Spec.VolumeName != f.pv.Name:
		return fmt.Sprintf("no claim is bound to PersistentVolume %s: only volumes of claims are migrated. If its "+
			"data is not needed, delete it", f.pv.Name)
	case !f.claim.DeletionTimestamp.IsZero():
		return fmt.Sprintf("claim %s is being deleted", claimOf(f.pv))
	case v1alpha1.NodeOfEarlierVolume(f.pv) == "":
		return withoutNode(f.pv)
	case f.pv.Spec.CSI.FSType == "btrfs":
		return fmt.Sprintf("claim %s has a btrfs file system, which is not supported: copy its data to a new claim",
			claimOf(f.pv))
	}
	return ""
}

// earlierProblem returns why the LogicalVolume of the earlier driver is not the one of the PersistentVolume, or "".
func earlierProblem(f migrationFacts) string {
	handle, node := f.pv.Spec.CSI.VolumeHandle, v1alpha1.NodeOfEarlierVolume(f.pv)
	switch {
	case f.old == nil:
		return fmt.Sprintf("LogicalVolume %s of the API group %s does not exist, so the device class of logical "+
			"volume %s is not known: set the reclaim policy of PersistentVolume %s to Retain, delete claim %s and the "+
			"PersistentVolume, and import the logical volume with kubectl lvms import", f.pv.Name,
			v1alpha1.EarlierDriverName, handle, f.pv.Name, claimOf(f.pv))
	case f.old.Status.VolumeID != handle:
		return fmt.Sprintf("LogicalVolume %s of the API group %s is for another volume (%q) than the PersistentVolume "+
			"of the same name (%q)", f.old.Name, v1alpha1.EarlierDriverName, f.old.Status.VolumeID, handle)
	case f.old.Spec.NodeName != node:
		return fmt.Sprintf("LogicalVolume %s of the API group %s is on node %s, but the PersistentVolume of the same "+
			"name on node %s", f.old.Name, v1alpha1.EarlierDriverName, f.old.Spec.NodeName, node)
	}
	return ""
}

// useProblem returns why a volume may be in use, or "".
func useProblem(f migrationFacts) string {
	switch {
	case f.pod != nil:
		return fmt.Sprintf("Pod %s/%s uses claim %s: delete the Pod, for example by scaling its workload to 0",
			f.pod.Namespace, f.pod.Name, claimOf(f.pv))
	case slices.Contains(f.drivers, v1alpha1.EarlierDriverName):
		return stillRuns(v1alpha1.NodeOfEarlierVolume(f.pv))
	}
	return ""
}

func stillRuns(node string) string {
	return fmt.Sprintf("the kubelet of node %s has the driver %s, so its node service still runs: stop TopoLVM. If "+
		"no Pod of it is left, delete its socket in plugins_registry in the kubelet's directory on the node", node,
		v1alpha1.EarlierDriverName)
}

// claimOf returns the claim of a PersistentVolume as NAMESPACE/NAME, or "".
func claimOf(pv *corev1.PersistentVolume) string {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name
}
