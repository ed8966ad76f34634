// Package verdict says what the reasons of problems mean: whether data is at risk, what to do, and which runbook
// explains it. The plugin of kubectl and must-gather use the same table.
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
)

// Meaning is what a reason means for an administrator.
type Meaning struct {
	// Action is what to do, as docs/reference/conditions.md says. If it is empty, the message of the problem says it.
	Action string
	// Endangers: data is lost, at risk or cannot be used.
	Endangers bool
	// Runbook is the name of a file in monitoring/runbooks, without .md, or "".
	Runbook string
}

const (
	wait         = "Wait."
	repairAction = "Run `kubectl lvms repair`, which creates an LVMRecovery with the action RepairThinPool."
)

var meanings = map[string]Meaning{
	v1alpha1.ReasonResourcesSyncIncomplete: {Action: "Resolve the errors in the message; the operator tries again."},
	v1alpha1.ReasonReconciliationInProgress: {Action: "Wait; if it lasts for more than a few minutes, check the " +
		"objects in the message."},
	v1alpha1.ReasonDeletionPending: {Action: "Wait, or delete the claims, volumes and snapshots in the message."},
	v1alpha1.ReasonVGReadinessInProgress: {Action: "Wait; if devices must be approved, review them and run " +
		"`kubectl lvms approve`; if a device class selects no node, correct its nodeSelector, the labels of the " +
		"nodes, or tolerations."},
	v1alpha1.ReasonVGsFailed:       {},
	v1alpha1.ReasonVGsDegraded:     {},
	v1alpha1.ReasonNotObserved:     {Action: "Wait; if it lasts, see the log of the operator."},
	v1alpha1.ReasonObjectsBlocked:  {},
	v1alpha1.ReasonCreatingObjects: {Action: wait},
	v1alpha1.ReasonObservationFailed: {Action: "See the kernel's log of the node, and the log of its vg-manager " +
		"Pod."},
	v1alpha1.ReasonObservationOutdated: {Action: "Check the vg-manager Pod of the node and its log."},
	v1alpha1.ReasonNotEvaluated:        {Action: "See the state of the volume group."},
	v1alpha1.ReasonDeviceMissing: {Action: "Attach the device again. If it is lost, run `kubectl lvms forget`, " +
		"which creates an LVMRecovery with the action RemoveLostDevices.",
		Endangers: true, Runbook: "LVMSDeviceMissing"},
	v1alpha1.ReasonDeviceFailing: {Action: "Save the data and replace the device.",
		Endangers: true, Runbook: "LVMSDeviceFailing"},
	v1alpha1.ReasonMetadataAreaFull: {Action: "Delete volumes or snapshots, or use another device class.",
		Runbook: "LVMSVolumeGroupMetadataFull"},
	v1alpha1.ReasonDeviceShrunk: {Action: "Make the device as large as it was, or save the data and replace it.",
		Endangers: true},
	v1alpha1.ReasonDuplicatePV:          {Action: "Detach the copy that the message names.", Endangers: true},
	v1alpha1.ReasonDuplicateVolumeGroup: {Endangers: true},
	v1alpha1.ReasonVolumesBroken:        {Endangers: true},
	v1alpha1.ReasonMetadataReplaced: {Action: "Run `kubectl lvms restore-metadata`, which searches later " +
		"metadata, or, if the present metadata is right, `kubectl lvms accept-metadata`.", Endangers: true},
	v1alpha1.ReasonVolumesSuspended: {Action: "Wait a minute; if it lasts, find the process that works on the " +
		"volumes, or run `dmsetup resume` on the node.", Endangers: true},
	v1alpha1.ReasonThinPoolFailed:     {Endangers: true},
	v1alpha1.ReasonThinPoolNeedsCheck: {Action: repairAction, Endangers: true},
	v1alpha1.ReasonThinPoolReadOnly:   {Action: repairAction, Endangers: true},
	v1alpha1.ReasonThinPoolOutOfData:  {Endangers: true, Runbook: "LVMSThinPoolDataFull"},
	v1alpha1.ReasonThinPoolOutOfMetadata: {Action: repairAction,
		Endangers: true, Runbook: "LVMSThinPoolMetadataFull"},
	v1alpha1.ReasonThinPoolMisconfigured: {},
	v1alpha1.ReasonThinPoolCannotGrow: {Action: "Add a device to the device class, or delete volumes and " +
		"snapshots."},
	v1alpha1.ReasonRAIDFailed: {Action: "Attach the devices again, or restore from a backup.",
		Endangers: true, Runbook: "LVMSRAIDFailed"},
	v1alpha1.ReasonRAIDDegraded: {Action: "Replace the device.", Runbook: "LVMSRAIDDegraded"},
	v1alpha1.ReasonRAIDSyncing:  {Action: wait},

	string(v1alpha1.LVMStatusProgressing): {Action: "Wait; if it lasts for more than a few minutes, check the " +
		"objects in the message."},
	string(v1alpha1.LVMStatusDegraded): {},
	string(v1alpha1.LVMStatusFailed):   {},
	string(v1alpha1.LVMStatusUnknown):  {Action: "See the log of the operator."},

	string(v1alpha1.RecoveryNotApplicable):    {},
	string(v1alpha1.RecoveryPreparing):        {},
	string(v1alpha1.RecoveryAwaitingApproval): {},
	string(v1alpha1.RecoveryRunning):          {},
	// The recovery has ended. It is not a problem.
	string(v1alpha1.RecoverySucceeded): {},

	string(v1alpha1.MovePending): {},
	string(v1alpha1.MoveCopying): {Action: wait},
	string(v1alpha1.MoveWaitingForPods): {Action: "End the Pods that the VolumeMove names, for example with " +
		"`kubectl drain`."},
	string(v1alpha1.MoveSwitching): {},
	// The volume is on the target node. It is not a problem.
	string(v1alpha1.MoveKeepingSource): {},
	string(v1alpha1.MoveCompleted):     {},

	NoCluster: {Action: "Create an LVMCluster."},
	OperatorDown: {Action: "Check the Pods of the operator in the namespace and their logs; if the Deployment " +
		"does not exist, install LVM Storage again."},
	SpecNotObserved: {Action: "Wait; if it lasts, see the log of the operator."},
	VolumeFailed:    {},
	VolumeAbnormal:  {},
	NotPlanned:      {Action: "Wait; if it lasts, check the vg-manager Pod of the node and its log."},
}

// Of returns the meaning of a reason. A reason that is not known has none.
func Of(reason string) Meaning { return meanings[reason] }

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

// Action returns what to do about a problem. The messages of the product end with it if its reason has no action.
func Action(reason, message string) string {
	if reason == v1alpha1.ReasonDeviceMissing {
		return missingAction(message)
	}
	if action := Of(reason).Action; action != "" {
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
	return Of(v1alpha1.ReasonDeviceMissing).Action
}

func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }
