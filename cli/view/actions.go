package view

import (
	"cmp"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
)

// The reasons of problems that are not the reason of a condition.
const (
	reasonNoCluster       = "NoLVMCluster"
	reasonOperatorDown    = "OperatorUnavailable"
	reasonSpecNotObserved = "SpecNotObserved"
	reasonOrphan          = "Orphan"
	reasonVolumeFailed    = "VolumeFailed"
	reasonVolumeAbnormal  = "VolumeAbnormal"
	reasonNotPlanned      = "NotPlanned"
)

const (
	wait         = "Wait."
	repairAction = "Run `kubectl lvms repair`, which creates an LVMRecovery with the action RepairThinPool."
)

// actions has what to do for each reason, as docs/reference/conditions.md says. If a reason is not in it, or its action
// is empty, the message says what to do.
var actions = map[string]string{
	v1alpha1.ReasonResourcesSyncIncomplete: "Resolve the errors in the message; the operator tries again.",
	v1alpha1.ReasonReconciliationInProgress: "Wait; if it lasts for more than a few minutes, check the objects " +
		"in the message.",
	v1alpha1.ReasonDeletionPending: "Wait, or delete the claims, volumes and snapshots in the message.",
	v1alpha1.ReasonVGReadinessInProgress: "Wait; if devices must be approved, review them and run `kubectl lvms " +
		"approve`; if a device class selects no node, correct its nodeSelector, the labels of the nodes, or " +
		"tolerations.",
	v1alpha1.ReasonVGsFailed:           "",
	v1alpha1.ReasonVGsDegraded:         "",
	v1alpha1.ReasonNotObserved:         "Wait; if it lasts, see the log of the operator.",
	v1alpha1.ReasonObjectsBlocked:      "",
	v1alpha1.ReasonCreatingObjects:     wait,
	v1alpha1.ReasonObservationFailed:   "See the kernel's log of the node, and the log of its vg-manager Pod.",
	v1alpha1.ReasonObservationOutdated: "Check the vg-manager Pod of the node and its log.",
	v1alpha1.ReasonNotEvaluated:        "See the state of the volume group.",
	v1alpha1.ReasonDeviceMissing: "Attach the device again. If it is lost, run `kubectl lvms forget`, which creates " +
		"an LVMRecovery with the action RemoveLostDevices.",
	v1alpha1.ReasonDeviceFailing:        "Save the data and replace the device.",
	v1alpha1.ReasonMetadataAreaFull:     "Delete volumes or snapshots, or use another device class.",
	v1alpha1.ReasonDeviceShrunk:         "Make the device as large as it was, or save the data and replace it.",
	v1alpha1.ReasonDuplicatePV:          "Detach the copy that the message names.",
	v1alpha1.ReasonDuplicateVolumeGroup: "",
	v1alpha1.ReasonVolumesBroken:        "",
	v1alpha1.ReasonMetadataReplaced: "Run `kubectl lvms restore-metadata`, which searches later metadata, or, if the " +
		"present metadata is right, `kubectl lvms accept-metadata`.",
	v1alpha1.ReasonVolumesSuspended: "Wait a minute; if it lasts, find the process that works on the volumes, or run " +
		"`dmsetup resume` on the node.",
	v1alpha1.ReasonThinPoolFailed:        "",
	v1alpha1.ReasonThinPoolNeedsCheck:    repairAction,
	v1alpha1.ReasonThinPoolReadOnly:      repairAction,
	v1alpha1.ReasonThinPoolOutOfData:     "",
	v1alpha1.ReasonThinPoolOutOfMetadata: repairAction,
	v1alpha1.ReasonThinPoolMisconfigured: "",
	v1alpha1.ReasonThinPoolCannotGrow:    "Add a device to the device class, or delete volumes and snapshots.",
	v1alpha1.ReasonRAIDFailed:            "Attach the devices again, or restore from a backup.",
	v1alpha1.ReasonRAIDDegraded:          "Replace the device.",
	v1alpha1.ReasonRAIDSyncing:           wait,

	string(v1alpha1.LVMStatusProgressing): "Wait; if it lasts for more than a few minutes, check the objects " +
		"in the message.",
	string(v1alpha1.LVMStatusDegraded): "",
	string(v1alpha1.LVMStatusFailed):   "",
	string(v1alpha1.LVMStatusUnknown):  "See the log of the operator.",

	string(v1alpha1.RecoveryNotApplicable):    "",
	string(v1alpha1.RecoveryPreparing):        "",
	string(v1alpha1.RecoveryAwaitingApproval): "",
	string(v1alpha1.RecoveryRunning):          "",
	// The recovery has ended. It is not a problem.
	string(v1alpha1.RecoverySucceeded): "",

	string(v1alpha1.MovePending):        "",
	string(v1alpha1.MoveCopying):        wait,
	string(v1alpha1.MoveWaitingForPods): "End the Pods that the VolumeMove names, for example with `kubectl drain`.",
	string(v1alpha1.MoveSwitching):      "",
	// The volume is on the target node. It is not a problem.
	string(v1alpha1.MoveKeepingSource): "",
	string(v1alpha1.MoveCompleted):     "",

	reasonNoCluster: "Create an LVMCluster.",
	reasonOperatorDown: "Check the Pods of the operator in the namespace and their logs; if the Deployment does not " +
		"exist, install LVM Storage again.",
	reasonSpecNotObserved: "Wait; if it lasts, see the log of the operator.",
	reasonVolumeFailed:    "",
	reasonVolumeAbnormal:  "",
	reasonNotPlanned:      "Wait; if it lasts, check the vg-manager Pod of the node and its log.",
}

// orphanActions has what to do for each kind of orphan.
var orphanActions = map[v1alpha1.OrphanKind]string{
	v1alpha1.OrphanLogicalVolume: "If you need the data, run `kubectl lvms import`; otherwise, run " +
		"`kubectl lvms orphans delete`.",
	v1alpha1.OrphanObject: "If another node has the volume, which is then an orphan of the kind OtherNode there, " +
		"import it on that node. Otherwise, attach the disks with the volume again, or restore the data from a " +
		"backup to a new claim and delete the old one.",
	v1alpha1.OrphanOtherNode: "Do not delete the claim. Run `kubectl lvms import`, which moves the objects to this node " +
		"and changes no data.",
	v1alpha1.OrphanUnclaimed: "If you need the data, create an LVMRecovery with the action ImportVolumes; otherwise, " +
		"delete the LogicalVolume, and its data: kubectl delete logicalvolume NAME.",
}

// deviceActions has what to do for a device in a state that needs attention.
var deviceActions = map[v1alpha1.DeviceState]string{
	v1alpha1.DeviceFailing: "See the kernel's log of the node, and replace the device.",
	v1alpha1.DeviceUnknown: "See the kernel's log of the node; repair or detach the device.",
}

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

// missingAction returns what to do about a missing device.
func missingAction(message string) string {
	for _, m := range missingActions {
		if strings.Contains(message, m.text) {
			return cmp.Or(m.action, output.OneLine(message))
		}
	}
	return actions[v1alpha1.ReasonDeviceMissing]
}

// actionOf returns what to do about a problem. The messages of the product end with it if the table does not have it.
func actionOf(reason, message string) string {
	if reason == v1alpha1.ReasonDeviceMissing {
		return missingAction(message)
	}
	if action := actions[reason]; action != "" {
		return action
	}
	if message == "" {
		return "Wait; if it lasts, see the logs of the operator and of the vg-manager Pod of the node."
	}
	return output.OneLine(message)
}
