package rules

import "time"

// A state of redundancy (lvms_raid_health_status).
const raidFailed = "2"

func devices() Group {
	var (
		raid      = "max_over_time(lvms:raid:state" + window + ")"
		missing   = worst("lvms_volume_group_missing_devices")
		failing   = worst("lvms_volume_group_failing_devices")
		lost      = "(" + missing + " > 0)"
		redundant = "max " + byClass + "(lvms_raid_health_status)"
		// syncing matches redundancy that is being created while every device is present.
		syncing = "(max " + byClass + "(lvms_raid_sync_in_progress) == 1 and " + onClass + "(max " + byClass +
			"(lvms_raid_degraded_count) == 0))"
		where = "device class {{ $labels.device_class }} on node {{ $labels.node }}"
	)
	// A new volume is not in sync yet, which is not a problem.
	state := "(" + redundant + " == 1 and " + onClass + syncing + ") * 0\nor\n" + redundant
	return Group{Name: "lvms-devices", Records: []Record{{"lvms:raid:state", state}}, Alerts: []Alert{
		{
			Name: "LVMSDeviceMissing", Severity: Critical, For: time.Minute,
			Expr:    missing + " > 0\nunless " + onClass + redundant,
			Summary: "A device of " + where + " is missing.",
			Description: "The volume group of " + where + " lacks {{ $value }} of its devices. Volumes on them " +
				"cannot be read, and their data is lost if the devices do not return. Reconnect the devices. The " +
				"LVMVolumeGroupNodeStatus of the node names the devices and the affected claims.",
		},
		{
			Name: "LVMSDeviceFailing", Severity: Critical, For: time.Minute,
			Expr:    failing + " > 0\nunless " + onClass + lost + "\nunless " + onClass + "(" + raid + " > 0)",
			Summary: "A device of " + where + " is failing.",
			Description: "The number of failing devices in the volume group of " + where + " is {{ $value }}. " +
				"They report I/O errors or do not respond. Back up the volumes on them now, then replace them.",
		},
		{
			Name: "LVMSDeviceFailurePredicted", Severity: Warning, For: 5 * time.Minute,
			Expr: "min " + byDisk + "(min_over_time(lvms_device_smart_healthy" + window + ")) == 0\nunless on " +
				"(node, device) (max by (node, device) (max_over_time(lvms_device_state{state=~\"Missing|Failing\"}" +
				window + ")) == 1)",
			Summary: "SMART predicts the failure of disk {{ $labels.device }} on node {{ $labels.node }}.",
			Description: "Disk {{ $labels.device }} ({{ $labels.device_id }}) on node {{ $labels.node }} " +
				"predicts its failure (SMART) or reports a critical warning. It still works. Move its data to " +
				"another disk, then replace it.",
		},
		{
			Name: "LVMSRAIDFailed", Severity: Critical, For: time.Minute,
			Expr:    raid + " == " + raidFailed,
			Summary: "Volumes of " + where + " lost more devices than their redundancy tolerates.",
			Description: "More devices of " + where + " are missing or have failed than the redundancy " +
				"tolerates. The data of at least one volume cannot be read. Reconnect missing devices, or " +
				"restore the volumes from a backup.",
		},
		{
			Name: "LVMSRAIDDegraded", Severity: Critical, For: time.Minute,
			Expr:    raid + " == 1",
			Summary: "Volumes of " + where + " have reduced redundancy.",
			Description: "At least one volume of " + where + " lacks a copy. All data is available, but the loss " +
				"of another device can cause data loss. Replace the missing or failed device.",
		},
		{
			Name: "LVMSRAIDNotResyncing", Severity: Warning,
			Expr: "max " + byClass + "(lvms_raid_sync_percent) < 100 and " + onClass + "(max " + byClass +
				"(changes(lvms_raid_sync_percent[2h])) == 0)" +
				" and " + onClass + "(max " + byClass + "(lvms_raid_sync_percent offset 2h) < 100)\nunless " + onClass +
				"(" + raid + " > 0)",
			Summary: "The synchronization of volumes of " + where + " has stopped.",
			Description: "A volume of " + where + " is {{ $value }}% in sync, and has made no progress for 2 " +
				"hours. Until it is in sync, the loss of a device can cause data loss. Check the kernel log of " +
				"the node for disk errors.",
		},
		{
			Name: "LVMSRAIDSyncSlow", Severity: Info, For: 12 * time.Hour,
			Expr:    syncing,
			Summary: "Volumes of " + where + " have been synchronizing for 12 hours.",
			Description: "Volumes of " + where + " have been synchronizing for 12 hours. Until they are in sync, " +
				"they are slower and the loss of a device can cause data loss. Check that the sync percentage " +
				"increases.",
		},
		{
			Name: "LVMSVolumeGroupFailed", Severity: Critical, For: 5 * time.Minute,
			Expr: "max " + byClass + `(lvms_volume_group_state{state="Failed"}) == 1` + "\nunless " + onClass +
				lost + "\nunless " + onClass + "(" + raid + " == " + raidFailed + ")",
			Summary: "The volume group of " + where + " has failed.",
			Description: "The volume group of " + where + " cannot be created or used. The status of the " +
				"LVMCluster has the reason and what to do.",
		},
		{
			Name: "LVMSVolumeGroupDegraded", Severity: Warning, For: 10 * time.Minute,
			Expr: "max " + byClass + `(lvms_volume_group_state{state="Degraded"}) == 1` + "\nunless " + onClass + "(" +
				missing + " > 0 or " + failing + " > 0 or " + raid + " > 0 or " + syncing + ")" +
				"\nunless " + onClass + "(max_over_time(lvms:thinpool_data:level" + window +
				") > 0 or max_over_time(lvms:thinpool_metadata:level" + window + ") > 0)" +
				"\nunless " + onClass + "(max_over_time(" + metadataArea + window + ") >= " + near + ")",
			Summary: "The volume group of " + where + " is degraded.",
			Description: "The volume group of " + where + " serves its volumes, but needs attention. The status " +
				"of the LVMCluster has the reason and what to do.",
		},
		{
			Name: "LVMSFileSystemBroken", Severity: Critical, For: time.Minute,
			Expr: "max by (namespace, node, device_class, volume, persistentvolumeclaim) " +
				"(max_over_time(lvms_volume_filesystem_abnormal" + window + ")) == 1" +
				"\nunless " + onClass + "(" + missing + " > 0 or " + failing + " > 0 or " + raid + " == " +
				raidFailed + ")",
			Summary: "The file system of a volume of " + where + " has failed.",
			Description: "The file system of volume {{ $labels.volume }} (claim {{ $labels.persistentvolumeclaim " +
				"}}) of " + where + " became read-only after an error, was shut down, has recorded errors, or " +
				"does not respond. The annotation lvm.topolvm.io/condition of its LogicalVolume has the cause, and " +
				"names the LVMRecovery that checks and repairs the file system.",
		},
		{
			Name: "LVMSUnmanagedVolumeGroup", Severity: Info, For: time.Hour,
			Expr:    "max " + byNode + "(lvms_unmanaged_volume_group_devices) > 0",
			Summary: "Node {{ $labels.node }} has a volume group that LVM Storage does not manage.",
			Description: "The number of devices on node {{ $labels.node }} in volume groups that LVM Storage " +
				"does not manage is {{ $value }}. LVM Storage does not change them. A volume group of an earlier " +
				"installation can be taken over.",
		},
	}}
}
