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
			Description: "{{ $value }} device(s) of the volume group of " + where + " are not there. The volumes on " +
				"them cannot be read, and the data is lost unless they come back. The status of the node's " +
				"LVMVolumeGroupNodeStatus names the devices and the claims.",
		},
		{
			Name: "LVMSDeviceFailing", Severity: Critical, For: time.Minute,
			Expr:    failing + " > 0\nunless " + onClass + lost + "\nunless " + onClass + "(" + raid + " > 0)",
			Summary: "A device of " + where + " gives errors.",
			Description: "{{ $value }} device(s) of the volume group of " + where +
				" give errors or do not answer. Back up the volumes on them now, then replace them.",
		},
		{
			Name: "LVMSDeviceFailurePredicted", Severity: Warning, For: 5 * time.Minute,
			Expr: "min " + byDisk + "(min_over_time(lvms_device_smart_healthy" + window + ")) == 0\nunless on " +
				"(node, device) (max by (node, device) (max_over_time(lvms_device_state{state=~\"Missing|Failing\"}" +
				window + ")) == 1)",
			Summary: "Disk {{ $labels.device }} of node {{ $labels.node }} predicts its failure.",
			Description: "Disk {{ $labels.device }} ({{ $labels.device_id }}) of node {{ $labels.node }} says of " +
				"itself that it will fail (S.M.A.R.T.), or has a critical warning. It works for now. Move what is on " +
				"it to another disk, and replace it.",
		},
		{
			Name: "LVMSRAIDFailed", Severity: Critical, For: time.Minute,
			Expr:    raid + " == " + raidFailed,
			Summary: "Redundancy of " + where + " is lost with data.",
			Description: "More devices of " + where +
				" are gone than its redundancy bears: the data of at least one volume cannot be read.",
		},
		{
			Name: "LVMSRAIDDegraded", Severity: Critical, For: time.Minute,
			Expr:    raid + " == 1",
			Summary: "Redundancy of " + where + " is reduced.",
			Description: "At least one volume of " + where +
				" lacks a copy. All data is there, and the next device that fails may take it. Replace the device.",
		},
		{
			Name: "LVMSRAIDNotResyncing", Severity: Warning,
			Expr: "max " + byClass + "(lvms_raid_sync_percent) < 100 and " + onClass + "(max " + byClass +
				"(changes(lvms_raid_sync_percent[2h])) == 0)" +
				" and " + onClass + "(max " + byClass + "(lvms_raid_sync_percent offset 2h) < 100)\nunless " + onClass +
				"(" + raid + " > 0)",
			Summary: "Volumes of " + where + " are not in sync, and nothing goes on.",
			Description: "A volume of " + where + " is {{ $value }} % in sync, and was so two hours ago. Until it is " +
				"done, a device that fails may take data.",
		},
		{
			Name: "LVMSRAIDSyncSlow", Severity: Info, For: 12 * time.Hour,
			Expr:    syncing,
			Summary: "Volumes of " + where + " have been synchronizing for half a day.",
			Description: "Volumes of " + where + " have been synchronizing for twelve hours. That slows down what " +
				"uses them, and until it is done, a device that fails may take data.",
		},
		{
			Name: "LVMSVolumeGroupFailed", Severity: Critical, For: 5 * time.Minute,
			Expr: "max " + byClass + `(lvms_volume_group_state{state="Failed"}) == 1` + "\nunless " + onClass +
				lost + "\nunless " + onClass + "(" + raid + " == " + raidFailed + ")",
			Summary: "The volume group of " + where + " cannot be used.",
			Description: "The volume group of " + where +
				" does not exist as wanted and cannot be set up. Its reason stands in the status of the LVMCluster.",
		},
		{
			Name: "LVMSVolumeGroupDegraded", Severity: Warning, For: 10 * time.Minute,
			Expr: "max " + byClass + `(lvms_volume_group_state{state="Degraded"}) == 1` + "\nunless " + onClass + "(" +
				missing + " > 0 or " + failing + " > 0 or " + raid + " > 0 or " + syncing + ")" +
				"\nunless " + onClass + "(max_over_time(lvms:thinpool_data:level" + window +
				") > 0 or max_over_time(lvms:thinpool_metadata:level" + window + ") > 0)",
			Summary: "Something is wrong with the volume group of " + where + ".",
			Description: "The volume group of " + where + " serves its volumes, and something about it is wrong. The " +
				"reason stands in the status of the LVMCluster.",
		},
		{
			Name: "LVMSFileSystemBroken", Severity: Critical, For: time.Minute,
			Expr: "max by (namespace, node, device_class, volume, persistentvolumeclaim) " +
				"(max_over_time(lvms_volume_filesystem_abnormal" + window + ")) == 1" +
				"\nunless " + onClass + "(" + missing + " > 0 or " + failing + " > 0 or " + raid + " == " +
				raidFailed + ")",
			Summary: "The file system of a volume of " + where + " is broken.",
			Description: "The file system of volume {{ $labels.volume }} (claim {{ " +
				"$labels.persistentvolumeclaim }}) of " + where + " became read-only after an error, was shut down, " +
				"has recorded errors, or does not answer. The annotation lvm.topolvm.io/condition of its " +
				"LogicalVolume says which.",
		},
		{
			Name: "LVMSUnmanagedVolumeGroup", Severity: Info, For: time.Hour,
			Expr:    "max " + byNode + "(lvms_unmanaged_volume_group_devices) > 0",
			Summary: "Node {{ $labels.node }} has a volume group that nothing manages.",
			Description: "{{ $value }} device(s) of node {{ $labels.node }} are in a volume group that is not of the " +
				"product. They are left alone. If it is of an earlier installation, it can be taken over.",
		},
	}}
}
