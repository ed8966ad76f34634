package dashboards

import "fmt"

const (
	operatorJob = `job="lvms-operator-metrics-service"`
	agentJob    = `job="vg-manager-metrics-service"`
	programs    = `job=~"(lvms-operator|vg-manager)-metrics-service"`
	onNode      = `node=~"$node"`
	onClass     = onNode + `, device_class=~"$device_class"`

	byClass   = "by (node, device_class) "
	classes   = "{{node}} {{device_class}}"
	byVolume  = "by (node, device_class, namespace, persistentvolumeclaim, volume) "
	byDevice  = "by (node, device, device_id, state) "
	data      = "lvms:thinpool_data:ratio"
	metadata  = "lvms:thinpool_metadata:ratio"
	thick     = "lvms:volumegroup_used:ratio"
	promised  = "lvms:thinpool_overcommit:ratio"
	redundant = "lvms:raid:state"
)

// class returns a query for a metric of device classes, with one value for each.
func class(metric string) string {
	return fmt.Sprintf("max %s(%s{%s})", byClass, metric, onClass)
}

var (
	// size and used are those of the thin pool, or of the volume group if there is none.
	size = class("topolvm_thinpool_size_bytes") + " or " + class("topolvm_volumegroup_size_bytes")
	used = class(data) + " or " + class(thick)
	days = daysLeft(data) + " or " + daysLeft(thick)

	nodeAndClass = []labelColumn{{"node", "Node"}, {"device_class", "Device class"}}
)

// daysLeft returns a query for the days until no space is left at the rate of the last six hours. If the usage does not
// grow, there is no value.
func daysLeft(series string) string {
	return fmt.Sprintf("max %s((1 - %s{%s}) / (deriv(%s{%s}[6h]) > 0)) / 86400 < 365", byClass, series, onClass,
		series, onClass)
}

// tomorrow returns a query for the usage in one day at the same rate.
func tomorrow(series string) string {
	return fmt.Sprintf("clamp(max %s(predict_linear(%s{%s}[6h], 86400)), 0, 1)", byClass, series, onClass)
}

// held returns a query for the space that each volume uses in its device class.
func held() string {
	return fmt.Sprintf("max %[1]s(lvms_volume_size_bytes{%[2]s} * lvms_volume_data_percent / 100) or max "+
		"%[1]s(lvms_volume_size_bytes{%[2]s} unless lvms_volume_data_percent)", byVolume, onClass)
}

// growth returns a query for the growth of thin volumes, in bytes per day.
func growth(matchers string) string {
	return "max " + byVolume + "(deriv(lvms_volume_data_percent{" + matchers +
		"}[6h]) * lvms_volume_size_bytes / 100 * 86400)"
}

func largest() string { return "topk(10, " + held() + ")" }

// short copies the last part of a CSI method's full name to the label method.
func short(expr string) string {
	return `label_replace(` + expr + `, "method", "$1", "method_name", ".*/(.*)")`
}

func rateBy(labels, metric, matchers string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s{%s}[15m]))", labels, metric, matchers)
}

func average(labels, metric, matchers string) string {
	return rateBy(labels, metric+"_sum", matchers) + " / " + rateBy(labels, metric+"_count", matchers)
}

// quantile returns a query for the 99th percentile over one hour, because there are few calls.
func quantile(metric, matchers string) string {
	return short(fmt.Sprintf("histogram_quantile(0.99, sum by (le, method_name) (rate(%s_bucket{%s}[1h])))",
		metric, matchers))
}

func one(expr, name string) []query { return []query{{expr: expr, name: name}} }

func rows() []row {
	return []row{overview(), capacity(), volumes(), volumeIO(), devices(), redundancy(), operations(), components()}
}

func overview() row {
	state := func(name string) string { return fmt.Sprintf(`max(lvms_lvmcluster_state{state="%s"})`, name) }
	return row{"Overview", []panel{
		{
			title: "LVMCluster", kind: number, width: 3, warning: 1, critical: 4, unit: plain,
			help: "The state of the LVMCluster.",
			queries: one(state("Progressing")+" + 2 * "+state("Degraded")+" + 3 * "+state("Unknown")+" + 4 * "+
				state("Failed"), ""),
			words: [][2]string{{"0", "Ready"}, {"1", "Progressing"}, {"2", "Degraded"}, {"3", "Unknown"},
				{"4", "Failed"}, {"null", "None"}},
		},
		{
			title: "Alerts", kind: number, width: 3, warning: 1, unit: plain,
			help: "Firing alerts of LVM Storage.",
			queries: one(
				`count(ALERTS{alertstate="firing", alertname=~"LVMS.+|ThinPool.+|VolumeGroupUsage.+"}) or vector(0)`,
				""),
		},
		{
			title: "Devices missing or failing", kind: number, width: 3, critical: 1, unit: plain,
			help: "Devices of volume groups that are missing, return errors or do not answer.",
			queries: one("sum("+class("lvms_volume_group_missing_devices")+" + "+
				class("lvms_volume_group_failing_devices")+") or vector(0)", ""),
		},
		{
			title: "Days until the first is full", kind: number, width: 3, unit: plain, decimals: 1,
			help: "Days until the first thin pool, or volume group with thick volumes, is full, at the growth rate " +
				"of the last six hours.",
			queries: one("min("+days+")", ""), words: [][2]string{{"null", "No growth"}},
		},
		{
			title: "Size", kind: number, width: 3, unit: inBytes,
			help:    "Total size of all thin pools, and of all volume groups with thick volumes, before redundancy.",
			queries: one("sum("+size+")", ""),
		},
		{
			title: "Used", kind: number, width: 3, unit: ratio, decimals: 1, warning: 0.75, critical: 0.85,
			help:    "Part of the size that has data, or is allocated to thick volumes.",
			queries: one("sum(("+size+") * ("+used+")) / sum("+size+")", ""),
		},
		{
			title: "Operator Pods up", kind: number, width: 3, unit: plain,
			queries: one("sum(up{"+operatorJob+"}) or vector(0)", ""), words: [][2]string{{"0", "None"}},
			help: "Pods of the operator that answer Prometheus, including standby replicas.",
		},
		{
			title: "Node agents down", kind: number, width: 3, unit: plain, warning: 1,
			queries: one("count(up{"+agentJob+", "+onNode+"} == 0) or vector(0)", ""),
			help:    "Node agents that do not answer Prometheus.",
		},
	}}
}

func capacity() row {
	return row{"Capacity", []panel{
		{
			title: "Usage and days until full", kind: table, width: 12, sorted: "Used", labels: nodeAndClass,
			help: "Thin: of the thin pool. Thick: of the volume group. Days until full are at the growth rate of the " +
				"last six hours; there is no value if the usage does not grow.",
			queries: []query{
				{expr: size, name: "Size", unit: inBytes},
				{expr: used, name: "Used", unit: ratio, decimals: 1},
				{expr: days, name: "Days until full", unit: plain, decimals: 1},
				{expr: class(metadata), name: "Metadata used", unit: ratio, decimals: 1},
				{expr: class(promised), name: "Provisioned / size", unit: plain, decimals: 2},
				{expr: class("lvms_capacity_bytes"), name: "For new volumes", unit: inBytes},
			},
		},
		{title: "Thin pools: data", kind: lines, width: 6, unit: ratio, decimals: 1, queries: one(class(data), classes),
			help: "From 95 % on, a thin pool accepts no new volume. At 100 %, writes fail."},
		{title: "Thin pools: metadata", kind: lines, width: 6, unit: ratio, decimals: 1,
			queries: one(class(metadata), classes), help: "At 100 %, a thin pool stops and must be checked."},
		{title: "Volume groups with thick volumes", kind: lines, width: 6, unit: ratio, decimals: 1,
			queries: one(class(thick), classes),
			help:    "At 100 %, no volume can be created or expanded. Existing volumes are not affected."},
		{title: "Predicted usage in 24 hours", kind: lines, width: 6, unit: ratio, decimals: 1,
			queries: one(tomorrow(data)+" or "+tomorrow(thick), classes),
			help:    "Usage of thin pools and volume groups in 24 hours, at the growth rate of the last six hours."},
		{title: "Capacity for new volumes", kind: lines, width: 6, unit: inBytes,
			queries: one(class("lvms_capacity_bytes"), classes),
			help:    "Capacity reported to the scheduler. It is 0 if the device class is not available."},
		{title: "Thin pools: provisioned / size", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(class(promised), classes),
			help:    "Above 1, the thin pool is overcommitted: its volumes can fill it."},
	}}
}

func volumes() row {
	top := largest()
	return row{"Volumes", []panel{
		{
			title: "Volumes that use the most space", kind: table, width: 12, sorted: "Used",
			help: "Thin: data that was written. Thick: the size. A volume without a claim is a snapshot or an orphan.",
			labels: []labelColumn{{"namespace", "Namespace"}, {"persistentvolumeclaim", "Claim"}, {"node", "Node"},
				{"device_class", "Device class"}, {"volume", "Logical volume"}},
			queries: []query{
				{expr: top, name: "Used", unit: inBytes},
				{expr: "max " + byVolume + "(lvms_volume_size_bytes{" + onClass + "}) and " + top,
					name: "Size", unit: inBytes},
				{expr: growth(onClass) + " and " + top, name: "Growth per day", unit: inBytes},
			},
		},
		{title: "Logical volumes", kind: lines, width: 6, unit: plain,
			queries: one(class("lvms_logical_volumes"), classes),
			help:    "Number of logical volumes, including snapshots."},
		{
			title: "Orphans", kind: lines, width: 6, unit: plain,
			queries: one("max by (node, device_class, kind) (lvms_orphan_logical_volumes{"+onClass+"}) > 0",
				classes+" {{kind}}"),
			help: "LogicalVolume: a logical volume without an object. Object: an object without a logical volume. " +
				"Unclaimed: a volume without a PersistentVolume, a snapshot or a claim.",
		},
		{title: "Read-only volumes", kind: lines, width: 6, unit: plain,
			queries: one("sum "+byClass+"(max "+byVolume+"(lvms_volume_read_only{"+onClass+"})) > 0", classes),
			help:    "Number of read-only volumes, including read-only snapshots."},
		// The console shows the template of a name if a label is missing.
		{title: "Claims with the most growth per day", kind: lines, width: 6, unit: inBytes,
			queries: one("topk(5, "+growth(onClass+`, persistentvolumeclaim!=""`)+" > 0)",
				"{{node}} {{namespace}} {{persistentvolumeclaim}}"), help: "At the growth rate of the last six hours."},
	}}
}

// volumeRate returns a query for a recorded rate of all volumes of each device class.
func volumeRate(counter string) string {
	return fmt.Sprintf("sum %s(lvms:volume_%s:rate5m{%s})", byClass, counter, onClass)
}

// readAndWritten returns the queries for reads and writes.
func readAndWritten(read, written string) []query {
	return []query{{expr: read, name: classes + " read"}, {expr: written, name: classes + " write"}}
}

// volumeLatency returns a query for the average time of a request in seconds. Without requests there is no value.
func volumeLatency(seconds, requests string) string {
	return volumeRate(seconds) + " / (" + volumeRate(requests) + " > 0)"
}

func volumeIO() row {
	return row{"I/O of volumes", []panel{
		{title: "Volumes: throughput per second", kind: lines, width: 6, unit: inBytes,
			queries: readAndWritten(volumeRate("read_bytes"), volumeRate("written_bytes")),
			help: "Bytes per second of all volumes of the device class, average of five minutes. A write to a " +
				"redundant volume counts once."},
		{title: "Volumes: requests per second", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: readAndWritten(volumeRate("reads"), volumeRate("writes")),
			help:    "Requests (IOPS) of all volumes of the device class, average of five minutes."},
		{title: "Volumes: average latency, seconds", kind: lines, width: 6, unit: plain, decimals: 4,
			queries: readAndWritten(volumeLatency("read_seconds", "reads"), volumeLatency("write_seconds", "writes")),
			help:    "Time of a request to the volumes of the device class, including the time in the devices."},
	}}
}

func devices() row {
	return row{"Devices", []panel{
		{title: "Devices by state", kind: areas, width: 6, unit: plain,
			queries: one("sum by (state) (max "+byDevice+"(lvms_device_state{"+onNode+"}))", "{{state}}"),
			help:    "All block devices of the nodes."},
		{title: "Volume groups by state", kind: areas, width: 6, unit: plain,
			queries: one("sum by (state) (max by (node, device_class, state) (lvms_volume_group_state{"+onClass+
				"})) > 0", "{{state}}"), help: "Each device class has one volume group on each node."},
		{
			title: "Devices that are currently missing or failing", kind: table, width: 12,
			help: "Devices that are missing, return errors or do not answer.",
			labels: []labelColumn{{"node", "Node"}, {"device", "Device"}, {"device_id", "Identity"},
				{"state", "State"}},
			queries: one("max "+byDevice+"(lvms_device_state{"+onNode+`, state=~"Missing|Failing"})`, ""),
		},
		{
			title: "Missing or failing devices, by device class", kind: lines, width: 6, unit: plain,
			help: "Devices of volume groups that are missing or failing.",
			queries: []query{
				{expr: class("lvms_volume_group_missing_devices") + " > 0", name: classes + " missing"},
				{expr: class("lvms_volume_group_failing_devices") + " > 0", name: classes + " failing"},
			},
		},
		{title: "Excluded devices, by reason", kind: lines, width: 6, unit: plain,
			queries: one("sum by (reason) (max by (node, reason) (lvms_excluded_devices{"+onNode+"}))", "{{reason}}"),
			help:    "A device with several reasons is counted for each of them."},
	}}
}

func redundancy() row {
	return row{"Redundancy", []panel{
		{
			title: "Device classes with redundancy", kind: table, width: 12, labels: nodeAndClass,
			help: "State 0: healthy, or in its first synchronization. 1: degraded, a copy is missing. 2: failed, " +
				"data cannot be read.",
			queries: []query{
				{expr: class(redundant), name: "State", unit: plain},
				{expr: class("lvms_raid_member_count"), name: "Devices", unit: plain},
				{expr: class("lvms_raid_degraded_count"), name: "Missing or failing", unit: plain},
				{expr: class("lvms_raid_sync_percent") + " / 100", name: "In sync", unit: ratio},
			},
		},
		{title: "Redundancy: in sync", kind: lines, width: 6, unit: ratio,
			queries: one(class("lvms_raid_sync_percent")+" / 100", classes),
			help:    "Synchronized part of the volume that is least in sync."},
		{title: "Redundancy: 0 healthy, 1 degraded, 2 failed", kind: lines, width: 6, unit: plain,
			queries: one(class(redundant), classes),
			help:    "A new volume that is being synchronized for the first time is healthy."},
	}}
}

func operations() row {
	const (
		calls       = "csi_sidecar_operations_seconds"
		callsOnNode = "csi_plugin_operations_seconds"
		host        = "lvms_host_command_duration_seconds"
	)
	const failed = `grpc_status_code!="OK"`
	anHour := func(metric, matchers string) []query {
		return one(short(rateBy("method_name", metric+"_count", matchers)+" * 3600")+" > 0", "{{method}}")
	}
	return row{"Operations", []panel{
		{title: "CSI controller calls per hour", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: anHour(calls, ""), help: "By method, average of the last 15 minutes."},
		{
			title: "Failed CSI calls per hour", kind: lines, width: 6, unit: plain, decimals: 1,
			help: "By method and gRPC code. Calls with Aborted or ResourceExhausted are retried automatically.",
			queries: []query{
				{expr: short(rateBy("method_name, grpc_status_code", calls+"_count", failed)+" * 3600") + " > 0",
					name: "{{method}} {{grpc_status_code}}"},
				{expr: short(rateBy("method_name, grpc_status_code", callsOnNode+"_count", failed+", "+onNode)+
					" * 3600") + " > 0", name: "{{method}} {{grpc_status_code}}"},
			},
		},
		{title: "CSI node calls per hour", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: anHour(callsOnNode, onNode), help: "By method, average of the last 15 minutes."},
		{title: "Failed commands on nodes per hour", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: one(rateBy("node, command", "lvms_host_command_failures_total", onNode)+" * 3600 > 0",
				"{{node}} {{command}}"),
			help: "Some failures are expected: LVM returns an error if an object does not exist."},
		{title: "CSI controller calls: average duration, seconds", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(short("("+average("method_name", calls, "")+")"), "{{method}}"), help: "By method."},
		{title: "CSI controller calls: 99th percentile, seconds", kind: lines, width: 6, unit: plain,
			decimals: 2, queries: one(quantile(calls, ""), "{{method}}"),
			help: "By method. One call in a hundred takes longer."},
		{title: "CSI node calls: average duration, seconds", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(short("("+average("method_name", callsOnNode, onNode)+")"), "{{method}}"), help: "By method."},
		{title: "CSI node calls: 99th percentile, seconds", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(quantile(callsOnNode, onNode), "{{method}}"),
			help:    "By method. One call in a hundred takes longer."},
		{title: "Commands on nodes per minute", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: one(rateBy("command", "lvms_host_commands_total", onNode)+" * 60", "{{command}}"),
			help: "Commands that the node agents start. An idle agent starts one lsblk and one LVM command per " +
				"minute."},
		{title: "Commands on nodes: average duration, seconds", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(average("command", host, onNode), "{{command}}"),
			help:    "A command that takes longer and longer waits for a disk or for another command."},
	}}
}

func components() row {
	return row{"Operator and agents", []panel{
		{
			title: "Operator Pods and node agents up", kind: lines, width: 6, unit: plain,
			help: "Pods that answer Prometheus.",
			queries: []query{{expr: "sum(up{" + operatorJob + "})", name: "operators"},
				{expr: "sum(up{" + agentJob + ", " + onNode + "})", name: "agents"}},
		},
		{title: "Age of the capacity data, seconds", kind: lines, width: 6, unit: plain,
			queries: one("time() - max by (node) (lvms_capacity_observed_timestamp_seconds{"+onNode+"})", "{{node}}"),
			help:    "If the device classes cannot be read for two minutes, the node agent reports a capacity of 0."},
		{title: "Memory", kind: lines, width: 6, unit: inBytes,
			queries: one("max by (pod) (process_resident_memory_bytes{"+programs+"})", "{{pod}}"),
			help:    "Resident memory of each Pod."},
		{title: "Failed reconciles per hour", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: one("sum by (controller) (rate(controller_runtime_reconcile_errors_total{"+programs+
				"}[15m])) * 3600 > 0", "{{controller}}"), help: "Failed reconciles are retried."},
		{
			title: "Certificates", kind: table, width: 6,
			labels: []labelColumn{{"component", "Component"}, {"certificate", "Certificate"}},
			help:   "Certificates are renewed automatically.",
			queries: []query{
				{expr: "(min by (component, certificate) (lvms_certificate_expiry_timestamp_seconds) - time()) / 86400",
					name: "Days left", unit: plain, decimals: 1}},
		},
		{
			title: "Versions", kind: table, width: 6,
			labels: []labelColumn{{"component", "Component"}, {"version", "Version"}, {"go_version", "Go"}},
			help:   "Running versions, with the number of Pods.",
			queries: []query{{expr: "count by (component, version, go_version) (lvms_build_info)",
				name: "Pods", unit: plain}},
		},
	}}
}
