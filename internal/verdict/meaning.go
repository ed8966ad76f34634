// Package verdict decides what is wrong: from objects of the API, it makes a list of problems with their place, their
// severity, what to do, and the runbook that explains them. The plugin of kubectl and must-gather print this list.
package verdict

import (
	"cmp"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// The reasons of problems that are not the reason of a condition.
const (
	NoCluster       = "NoLVMCluster"
	OperatorDown    = "OperatorUnavailable"
	SpecNotObserved = "SpecNotObserved"
	VolumeFailed    = "VolumeFailed"
	VolumeAbnormal  = "VolumeAbnormal"
	NotPlanned      = "NotPlanned"

	// groupReason and orphanReason are the beginnings of reasons, before the state of a volume group and the kind of an
	// orphan.
	groupReason  = "VolumeGroup"
	orphanReason = "Orphan"
)

// meaning is what a reason means for an administrator.
type meaning struct {
	// action is what to do, as docs/reference/conditions.md says. If it is empty, the message of the problem says it.
	action string
	// severity is Warning if it is empty.
	severity Severity
	// runbook is the name of a file in monitoring/runbooks, without .md, or "".
	runbook string
}

const (
	wait         = "Wait."
	repairAction = "Run `kubectl lvms repair`, which creates an LVMRecovery with the action RepairThinPool."
)

var meanings = map[string]meaning{
	v1alpha1.ReasonResourcesSyncIncomplete: {action: "Resolve the errors in the message; the operator tries again."},
	v1alpha1.ReasonReconciliationInProgress: {action: "Wait; if it lasts for more than a few minutes, check the " +
		"objects in the message."},
	v1alpha1.ReasonDeletionPending: {action: "Wait, or delete the claims, volumes and snapshots in the message."},
	v1alpha1.ReasonVGReadinessInProgress: {action: "Wait; if devices must be approved, review them and run " +
		"`kubectl lvms approve`; if a device class selects no node, correct its nodeSelector, the labels of the " +
		"nodes, or tolerations."},
	v1alpha1.ReasonVGsFailed:       {},
	v1alpha1.ReasonVGsDegraded:     {},
	v1alpha1.ReasonNotObserved:     {action: "Wait; if it lasts, see the log of the operator."},
	v1alpha1.ReasonObjectsBlocked:  {},
	v1alpha1.ReasonCreatingObjects: {action: wait},
	v1alpha1.ReasonObservationFailed: {action: "See the kernel's log of the node, and the log of its vg-manager " +
		"Pod."},
	v1alpha1.ReasonObservationOutdated: {action: "Check the vg-manager Pod of the node and its log."},
	v1alpha1.ReasonNotEvaluated:        {action: "See the state of the volume group."},
	v1alpha1.ReasonDeviceMissing: {action: "Attach the device again. If it is lost, run `kubectl lvms forget`, " +
		"which creates an LVMRecovery with the action RemoveLostDevices.",
		severity: Critical, runbook: "LVMSDeviceMissing"},
	v1alpha1.ReasonDeviceFailing: {action: "Save the data and replace the device.",
		severity: Critical, runbook: "LVMSDeviceFailing"},
	v1alpha1.ReasonMetadataAreaFull: {action: "Delete volumes or snapshots, or use another device class.",
		runbook: "LVMSVolumeGroupMetadataFull"},
	v1alpha1.ReasonDeviceShrunk: {action: "Make the device as large as it was, or save the data and replace it.",
		severity: Critical},
	v1alpha1.ReasonDuplicatePV:          {action: "Detach the copy that the message names.", severity: Critical},
	v1alpha1.ReasonDuplicateVolumeGroup: {severity: Critical},
	v1alpha1.ReasonVolumesBroken:        {severity: Critical},
	v1alpha1.ReasonMetadataReplaced: {action: "Run `kubectl lvms restore-metadata`, which searches later " +
		"metadata, or, if the present metadata is right, `kubectl lvms accept-metadata`.", severity: Critical},
	v1alpha1.ReasonVolumesSuspended: {action: "Wait a minute; if it lasts, find the process that works on the " +
		"volumes, or run `dmsetup resume` on the node.", severity: Critical},
	v1alpha1.ReasonThinPoolFailed:     {severity: Critical},
	v1alpha1.ReasonThinPoolNeedsCheck: {action: repairAction, severity: Critical},
	v1alpha1.ReasonThinPoolReadOnly:   {action: repairAction, severity: Critical},
	v1alpha1.ReasonThinPoolOutOfData:  {severity: Critical, runbook: "LVMSThinPoolDataFull"},
	v1alpha1.ReasonThinPoolOutOfMetadata: {action: repairAction,
		severity: Critical, runbook: "LVMSThinPoolMetadataFull"},
	v1alpha1.ReasonThinPoolMisconfigured: {},
	v1alpha1.ReasonThinPoolCannotGrow: {action: "Add a device to the device class, or delete volumes and " +
		"snapshots."},
	v1alpha1.ReasonRAIDFailed: {action: "Attach the devices again, or restore from a backup.",
		severity: Critical, runbook: "LVMSRAIDFailed"},
	v1alpha1.ReasonRAIDDegraded: {action: "Replace the device.", runbook: "LVMSRAIDDegraded"},
	// Until it is done, the volume does not tolerate the loss of every device.
	v1alpha1.ReasonRAIDSyncing: {action: wait, severity: Info},

	string(v1alpha1.LVMStatusProgressing): {action: "Wait; if it lasts for more than a few minutes, check the " +
		"objects in the message."},
	string(v1alpha1.LVMStatusDegraded): {},
	string(v1alpha1.LVMStatusFailed):   {},
	string(v1alpha1.LVMStatusUnknown):  {action: "See the log of the operator."},

	string(v1alpha1.RecoveryNotApplicable):    {},
	string(v1alpha1.RecoveryPreparing):        {severity: Info},
	string(v1alpha1.RecoveryAwaitingApproval): {},
	string(v1alpha1.RecoveryRunning):          {severity: Info},
	// The recovery has ended. It is not a problem.
	string(v1alpha1.RecoverySucceeded): {},

	string(v1alpha1.MovePending): {},
	string(v1alpha1.MoveCopying): {action: wait},
	string(v1alpha1.MoveWaitingForPods): {action: "End the Pods that the VolumeMove names, for example with " +
		"`kubectl drain`."},
	string(v1alpha1.MoveSwitching): {},
	// The volume is on the target node. It is not a problem.
	string(v1alpha1.MoveKeepingSource): {},
	string(v1alpha1.MoveCompleted):     {},

	groupReason + string(v1alpha1.VGStatusProgressing): {severity: Info},
	groupReason + string(v1alpha1.VGStatusDegraded):    {runbook: "LVMSVolumeGroupDegraded"},
	groupReason + string(v1alpha1.VGStatusFailed):      {severity: Critical, runbook: "LVMSVolumeGroupFailed"},

	NoCluster: {action: "Create an LVMCluster.", severity: Info},
	OperatorDown: {action: "Check the Pods of the operator in the namespace and their logs; if the Deployment " +
		"does not exist, install LVM Storage again.", severity: Critical, runbook: "LVMSOperatorDown"},
	SpecNotObserved: {action: "Wait; if it lasts, see the log of the operator."},
	VolumeFailed:    {},
	VolumeAbnormal:  {},
	NotPlanned: {action: "Wait; if it lasts, check the vg-manager Pod of the node and its log.",
		severity: Info},
}

// afterDevice is the action for a thin pool in a volume group with a missing device, which the node agent does not
// repair.
const afterDevice = "First resolve the missing device. A thin pool is not repaired while a device of its volume " +
	"group is missing."

// missingActions are the actions for a missing device that replace the general one if the message has a text. The
// first that matches counts: the general action would delete volumes that can be kept.
var missingActions = []struct{ text, action string }{
	{"action: " + string(v1alpha1.RecoveryRestoreLabels) + "}", "The device is attached, and its LVM label was " +
		"overwritten. Do not restart the node. Run `kubectl lvms restore-labels`."},
	{"action: " + string(v1alpha1.RecoveryRestoreMetadata) + "}", "The devices are attached, and the volume group " +
		"was deleted. Run `kubectl lvms restore-metadata`."},
	{"run on the node: ", ""},
	{"action: " + string(v1alpha1.DeviceActionRemove) + "}", "Attach the device again. If it is lost, no volume is " +
		"lost: attach a new device if the device class has a raidConfig, and run `kubectl lvms remove` for the lost " +
		"one."},
}

// actionOf returns what to do about a problem. The messages of the product end with it if its reason has no action.
func actionOf(reason, message string) string {
	if reason == v1alpha1.ReasonDeviceMissing {
		return missingAction(message)
	}
	if action := meanings[reason].action; action != "" {
		return action
	}
	if message == "" {
		return "Wait; if it lasts, see the logs of the operator and of the vg-manager Pod of the node."
	}
	return oneLine(message)
}

// missingAction returns what to do about a missing device.
func missingAction(message string) string {
	for _, m := range missingActions {
		if strings.Contains(message, m.text) {
			return cmp.Or(m.action, oneLine(message))
		}
	}
	return meanings[v1alpha1.ReasonDeviceMissing].action
}

func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }
