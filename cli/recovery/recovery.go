package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// recoveryRequest is a recovery that is requested.
type recoveryRequest struct {
	action  v1alpha1.RecoveryAction
	at      session.Target
	volumes []string
	claims  []v1alpha1.RecoveryClaim
}

// object returns the LVMRecovery. The API server gives it a name.
func (r recoveryRequest) object() *v1alpha1.LVMRecovery {
	return &v1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.at.Namespace,
			GenerateName: strings.ToLower(r.at.Node + "-" + r.at.Class + "-")},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: r.at.Node, DeviceClassName: r.at.Class, Action: r.action,
			Volumes: r.volumes, Claims: r.claims},
	}
}

// isSame returns true if a recovery does what is requested.
func (r recoveryRequest) isSame(recovery *v1alpha1.LVMRecovery) bool {
	sorted := func(volumes []string) []string { return slices.Sorted(slices.Values(volumes)) }
	claims := func(claims []v1alpha1.RecoveryClaim) []v1alpha1.RecoveryClaim {
		return slices.SortedFunc(slices.Values(claims), func(a, b v1alpha1.RecoveryClaim) int {
			return cmp.Compare(a.Volume, b.Volume)
		})
	}
	return recovery.Spec.Action == r.action && slices.Equal(sorted(recovery.Spec.Volumes), sorted(r.volumes)) &&
		slices.Equal(claims(recovery.Spec.Claims), claims(r.claims))
}

// isApproved returns true if the current plan is approved.
func isApproved(recovery *v1alpha1.LVMRecovery) bool {
	return recovery.Status.Plan != nil && recovery.Spec.ApprovedPlan == recovery.Status.Plan.ID
}

// needsApproval returns true if the current plan waits for its approval.
func needsApproval(recovery *v1alpha1.LVMRecovery) bool {
	return recovery.Status.Phase == v1alpha1.RecoveryAwaitingApproval && recovery.Status.Plan != nil &&
		!isApproved(recovery)
}

// openRecovery returns the recovery of a device class on a node that is next, because it is the oldest that has not
// ended, or nil.
func openRecovery(recoveries []v1alpha1.LVMRecovery, at session.Target) *v1alpha1.LVMRecovery {
	var oldest *v1alpha1.LVMRecovery
	for i := range recoveries {
		r := &recoveries[i]
		if r.Namespace != at.Namespace || r.Spec.NodeName != at.Node || r.Spec.DeviceClassName != at.Class ||
			verdict.HasEnded(r) || r.DeletionTimestamp != nil {
			continue
		}
		if oldest == nil || isBefore(r, oldest) {
			oldest = r
		}
	}
	return oldest
}

func isBefore(a, b *v1alpha1.LVMRecovery) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// recoveryName returns how messages name an LVMRecovery.
func recoveryName(r *v1alpha1.LVMRecovery) string { return "LVMRecovery " + r.Namespace + "/" + r.Name }

// cancellation returns the command that cancels a recovery.
func cancellation(r *v1alpha1.LVMRecovery) string {
	return fmt.Sprintf("kubectl -n %s delete lvmrecovery %s", r.Namespace, r.Name)
}

// recoveryEffects are what the actions do and what they require, in sentences.
var recoveryEffects = map[v1alpha1.RecoveryAction][]string{
	v1alpha1.RecoveryRepairThinPool: {
		"The node agent waits until no Pod uses a volume of the thin pool, and checks the metadata of the pool: " +
			"delete these Pods, for example by scaling their Deployments to 0.",
		"A repair can lose volumes or some of their blocks. The plan lists them."},
	v1alpha1.RecoveryRemoveLostDevices: {
		"Missing devices are removed from the volume group, with the volumes that cannot be read without them. A " +
			"thin pool on a missing device is lost with all its volumes.",
		"If a device is only unplugged, attach it again instead: its data is still there.",
		"The plan lists the volumes that are lost. Volumes that are in use are not removed."},
	v1alpha1.RecoveryRestoreLabels: {
		"LVM's labels and metadata are written again to attached devices of the volume group whose labels were " +
			"overwritten. Volumes can be in use meanwhile: do not restart the node.",
		"The plan lists the devices, and the volumes that the restored metadata does not have."},
	v1alpha1.RecoveryRestoreMetadata: {
		"The metadata of a deleted volume group, or metadata that matches the volumes, is restored from LVM's " +
			"archive on the node. No Pod can use volumes of the group meanwhile.",
		"The plan names the file in the archive, and lists the volumes that it does not have."},
	v1alpha1.RecoveryAcceptMetadata: {
		"The present metadata of the volume group is used, although the node has seen a later change. No volume is " +
			"changed.",
		"What only the later metadata has is lost, because its space is used for new volumes. To search the later " +
			"metadata instead: kubectl lvms restore-metadata."},
	v1alpha1.RecoveryFreePoolSpace: {
		"The mounted file systems of the thin pool are trimmed, so that the pool gets back the blocks of deleted " +
			"files. No data is lost, and Pods continue to use the volumes. It can take hours."},
	v1alpha1.RecoveryDeleteOrphans: {
		"Logical volumes that no object of the cluster refers to are DELETED with their data: VOLUMES.",
		"If you may need the data, import them instead: kubectl lvms import."},
	v1alpha1.RecoveryImportVolumes: {
		"The claim, the PersistentVolume and the LogicalVolume of logical volumes are created again: VOLUMES.",
		"The objects of volumes whose disks came from another node are moved to this node. Nothing is written to the " +
			"volumes. The reclaim policy of new PersistentVolumes is Retain."},
	v1alpha1.RecoveryCheckFileSystems: {
		"File systems are checked while no Pod uses them: VOLUMES. Delete the Pods that use them, for example by " +
			"scaling their Deployments to 0. A Pod that needs one of them waits for the end of its check, which can " +
			"take hours.",
		"The check changes nothing. The plan lists what it finds, and a repair can remove damaged files: back up " +
			"what can still be read."},
}

// preview returns what a request creates, and what it leads to.
func (r recoveryRequest) preview() string {
	var text strings.Builder
	fmt.Fprintf(&text, "An LVMRecovery with the action %s is created in the namespace %s, for the device class %s on "+
		"the node %s.\n", r.action, r.at.Namespace, r.at.Class, r.at.Node)
	volumes := "all whose tags name a claim"
	if len(r.volumes) > 0 {
		volumes = strings.Join(r.volumes, ", ")
	}
	for _, effect := range recoveryEffects[r.action] {
		fmt.Fprintln(&text, "-", strings.ReplaceAll(effect, "VOLUMES", volumes))
	}
	for _, c := range r.claims {
		fmt.Fprintf(&text, "- The logical volume %s gets the claim %s/%s.\n", c.Volume, c.Namespace, c.Name)
	}
	fmt.Fprintln(&text, "- The node agent makes a plan. Nothing is changed on the node before you approve it.")
	return text.String()
}

// approvalPatch returns the approval of one plan. The API server applies it only while this object has this plan, so a
// plan that was not shown is not approved.
func approvalPatch(recovery *v1alpha1.LVMRecovery) []session.Operation {
	plan := recovery.Status.Plan.ID
	return []session.Operation{
		{Op: "test", Path: "/metadata/uid", Value: recovery.UID},
		{Op: "test", Path: "/status/plan/id", Value: plan},
		{Op: "add", Path: "/spec/approvedPlan", Value: plan},
	}
}

// recoveryProgress returns what a recovery does or waits for.
func recoveryProgress(r *v1alpha1.LVMRecovery) string {
	if r.Status.Phase == "" {
		return "the node agent of " + r.Spec.NodeName + " has not read the LVMRecovery yet"
	}
	if needsApproval(r) {
		return "the plan " + r.Status.Plan.ID + " awaits approval"
	}
	if r.Status.Phase == v1alpha1.RecoveryAwaitingApproval {
		return "the plan is approved, and the node agent of " + r.Spec.NodeName + " starts with it"
	}
	message := string(r.Status.Phase) + ": " + output.OneLine(r.Status.Message)
	for _, c := range r.Status.Conditions {
		if c.Type == v1alpha1.ConditionObjectsCreated && c.Status != metav1.ConditionTrue && c.Message != "" {
			message += "; " + output.OneLine(c.Message)
		}
	}
	return message
}
