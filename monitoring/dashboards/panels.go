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
	return []row{overview(), capacity(), volumes(), devices(), redundancy(), operations(), components()}
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
			help: "Alerts of LVM Storage that fire.",
			queries: one(
				`count(ALERTS{alertstate="firing", alertname=~"LVMS.+|ThinPool.+|VolumeGroupUsage.+"}) or vector(0)`,
				""),
		},
		{
			title: "Devices missing or failing", kind: number, width: 3, critical: 1, unit: plain,
			help: "Devices of volume groups that are not there, give errors or do not answer.",
			queries: one("sum("+class("lvms_volume_group_missing_devices")+" + "+
				class("lvms_volume_group_failing_devices")+") or vector(0)", ""),
		},
		{
			title: "Days until the first one is full", kind: number, width: 3, unit: plain, decimals: 1,
			help: "Of all thin pools, and of all volume groups with thick volumes, at the rate of " +
				"the last six hours.",
			queries: one("min("+days+")", ""), words: [][2]string{{"null", "None fills"}},
		},
		{
			title: "Size", kind: number, width: 3, unit: inBytes,
			help:    "Of all thin pools, and of all volume groups with thick volumes, before redundancy.",
			queries: one("sum("+size+")", ""),
		},
		{
			title: "Used", kind: number, width: 3, unit: ratio, decimals: 1, warning: 0.75, critical: 0.85,
			help:    "Part of that size which holds data or, thick, is given to volumes.",
			queries: one("sum(("+size+") * ("+used+")) / sum("+size+")", ""),
		},
		{
			title: "Operators that answer", kind: number, width: 3, unit: plain,
			queries: one("sum(up{"+operatorJob+"}) or vector(0)", ""), words: [][2]string{{"0", "None"}},
			help: "Pods of the operator, those that stand by among them.",
		},
		{
			title: "Agents that do not answer", kind: number, width: 3, unit: plain, warning: 1,
			queries: one("count(up{"+agentJob+", "+onNode+"} == 0) or vector(0)", ""),
			help:    "Node agents that Prometheus knows and that did not answer.",
		},
	}}
}

func capacity() row {
	return row{"Capacity", []panel{
		{
			title: "How full, and how long it will do", kind: table, width: 12, sorted: "Used", labels: nodeAndClass,
			help: "Thin: of the pool. Thick: of the volume group. Days until full at the rate of the last six hours; " +
				"none for what does not fill.",
			queries: []query{
				{expr: size, name: "Size", unit: inBytes},
				{expr: used, name: "Used", unit: ratio, decimals: 1},
				{expr: days, name: "Days until full", unit: plain, decimals: 1},
				{expr: class(metadata), name: "Metadata used", unit: ratio, decimals: 1},
				{expr: class(promised), name: "Promised / size", unit: plain, decimals: 2},
				{expr: class("lvms_capacity_bytes"), name: "For new volumes", unit: inBytes},
			},
		},
		{title: "Thin pools: data", kind: lines, width: 6, unit: ratio, decimals: 1, queries: one(class(data), classes),
			help: "From 95 % on a pool takes no new volume; at 100 % writes fail."},
		{title: "Thin pools: metadata", kind: lines, width: 6, unit: ratio, decimals: 1,
			queries: one(class(metadata), classes), help: "At 100 % a pool stops and has to be checked."},
		{title: "Volume groups with thick volumes", kind: lines, width: 6, unit: ratio, decimals: 1,
			queries: one(class(thick), classes),
			help:    "At 100 % no volume can be made or grow; those that are there are not harmed."},
		{title: "How full in 24 hours, at the rate of the last six", kind: lines, width: 6, unit: ratio, decimals: 1,
			queries: one(tomorrow(data)+" or "+tomorrow(thick), classes),
			help:    "How full pools and groups are in a day, at the rate of the last six hours."},
		{title: "For new volumes", kind: lines, width: 6, unit: inBytes,
			queries: one(class("lvms_capacity_bytes"), classes),
			help:    "What the scheduler is told. 0 as well when the device class cannot be seen."},
		{title: "Promised by thin pools / size", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(class(promised), classes), help: "Above 1 the volumes can fill the pool."},
	}}
}

func volumes() row {
	top := largest()
	return row{"Volumes", []panel{
		{
			title: "Volumes that hold most", kind: table, width: 12, sorted: "Holds",
			help: "Thin: what was written. A volume without a claim is a snapshot, or an orphan.",
			labels: []labelColumn{{"namespace", "Namespace"}, {"persistentvolumeclaim", "Claim"}, {"node", "Node"},
				{"device_class", "Device class"}, {"volume", "Logical volume"}},
			queries: []query{
				{expr: top, name: "Holds", unit: inBytes},
				{expr: "max " + byVolume + "(lvms_volume_size_bytes{" + onClass + "}) and " + top,
					name: "Size", unit: inBytes},
				{expr: growth(onClass) + " and " + top, name: "Growth a day", unit: inBytes},
			},
		},
		{title: "Logical volumes", kind: lines, width: 6, unit: plain,
			queries: one(class("lvms_logical_volumes"), classes), help: "Snapshots among them."},
		{
			title: "Orphans", kind: lines, width: 6, unit: plain,
			queries: one("max by (node, device_class, kind) (lvms_orphan_logical_volumes{"+onClass+"}) > 0",
				classes+" {{kind}}"),
			help: "LogicalVolume: without an object. Object: without a logical volume. Unclaimed: nothing claims it.",
		},
		{title: "Volumes that cannot be written", kind: lines, width: 6, unit: plain,
			queries: one("sum "+byClass+"(max "+byVolume+"(lvms_volume_read_only{"+onClass+"})) > 0", classes),
			help:    "Snapshots that are read-only among them."},
		// The console shows the template of a name if a label is missing.
		{title: "Claims that grow most, a day", kind: lines, width: 6, unit: inBytes,
			queries: one("topk(5, "+growth(onClass+`, persistentvolumeclaim!=""`)+" > 0)",
				"{{node}} {{namespace}} {{persistentvolumeclaim}}"), help: "At the rate of the last six hours."},
	}}
}

func devices() row {
	return row{"Devices", []panel{
		{title: "Devices by state", kind: areas, width: 6, unit: plain,
			queries: one("sum by (state) (max "+byDevice+"(lvms_device_state{"+onNode+"}))", "{{state}}"),
			help:    "All block devices of the nodes."},
		{title: "Volume groups by state", kind: areas, width: 6, unit: plain,
			queries: one("sum by (state) (max by (node, device_class, state) (lvms_volume_group_state{"+onClass+
				"})) > 0", "{{state}}"), help: "One for each device class and node."},
		{
			title: "Devices that are missing or failing now", kind: table, width: 12,
			help: "Devices that are not there, give errors or do not answer.",
			labels: []labelColumn{{"node", "Node"}, {"device", "Device"}, {"device_id", "Identity"},
				{"state", "State"}},
			queries: one("max "+byDevice+"(lvms_device_state{"+onNode+`, state=~"Missing|Failing"})`, ""),
		},
		{
			title: "Devices missing or failing, by device class", kind: lines, width: 6, unit: plain,
			help: "Devices of volume groups.",
			queries: []query{
				{expr: class("lvms_volume_group_missing_devices") + " > 0", name: classes + " missing"},
				{expr: class("lvms_volume_group_failing_devices") + " > 0", name: classes + " failing"},
			},
		},
		{title: "Devices not used, by reason", kind: lines, width: 6, unit: plain,
			queries: one("sum by (reason) (max by (node, reason) (lvms_excluded_devices{"+onNode+"}))", "{{reason}}"),
			help:    "A device counts for each of its reasons."},
	}}
}

func redundancy() row {
	return row{"Redundancy", []panel{
		{
			title: "Device classes with redundancy", kind: table, width: 12, labels: nodeAndClass,
			help: "State 0: healthy, or being brought in sync for the first time. 1: a copy is lacking. 2: data " +
				"cannot be read.",
			queries: []query{
				{expr: class(redundant), name: "State", unit: plain},
				{expr: class("lvms_raid_member_count"), name: "Devices", unit: plain},
				{expr: class("lvms_raid_degraded_count"), name: "Missing or failing", unit: plain},
				{expr: class("lvms_raid_sync_percent") + " / 100", name: "In sync", unit: ratio},
			},
		},
		{title: "Redundancy: in sync", kind: lines, width: 6, unit: ratio,
			queries: one(class("lvms_raid_sync_percent")+" / 100", classes), help: "The volume that is least in sync."},
		{title: "Redundancy: 0 healthy, 1 a copy is lacking, 2 data is lost", kind: lines, width: 6, unit: plain,
			queries: one(class(redundant), classes), help: "A volume that was just made counts as healthy."},
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
		{title: "CSI calls of the controller an hour", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: anHour(calls, ""), help: "By method, of the last 15 minutes."},
		{
			title: "CSI calls that failed, an hour", kind: lines, width: 6, unit: plain, decimals: 1,
			help: "By method and gRPC code. Aborted and ResourceExhausted are tried again by themselves.",
			queries: []query{
				{expr: short(rateBy("method_name, grpc_status_code", calls+"_count", failed)+" * 3600") + " > 0",
					name: "{{method}} {{grpc_status_code}}"},
				{expr: short(rateBy("method_name, grpc_status_code", callsOnNode+"_count", failed+", "+onNode)+
					" * 3600") + " > 0", name: "{{method}} {{grpc_status_code}}"},
			},
		},
		{title: "CSI calls on nodes an hour", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: anHour(callsOnNode, onNode), help: "By method, of the last 15 minutes."},
		{title: "Commands on nodes that failed, an hour", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: one(rateBy("node, command", "lvms_host_command_failures_total", onNode)+" * 3600 > 0",
				"{{node}} {{command}}"),
			help: "Some are meant to: LVM says by an error that something does not exist."},
		{title: "CSI calls of the controller: seconds, average", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(short("("+average("method_name", calls, "")+")"), "{{method}}"), help: "By method."},
		{title: "CSI calls of the controller: seconds, 99th percentile", kind: lines, width: 6, unit: plain,
			decimals: 2, queries: one(quantile(calls, ""), "{{method}}"),
			help: "By method. One in a hundred takes longer."},
		{title: "CSI calls on nodes: seconds, average", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(short("("+average("method_name", callsOnNode, onNode)+")"), "{{method}}"), help: "By method."},
		{title: "CSI calls on nodes: seconds, 99th percentile", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(quantile(callsOnNode, onNode), "{{method}}"),
			help:    "By method. One in a hundred takes longer."},
		{title: "Commands on nodes, a minute", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: one(rateBy("command", "lvms_host_commands_total", onNode)+" * 60", "{{command}}"),
			help: "Programs that the agents start. At rest there is one of lsblk and one of LVM a " +
				"minute on each node."},
		{title: "Commands on nodes: seconds, average", kind: lines, width: 6, unit: plain, decimals: 2,
			queries: one(average("command", host, onNode), "{{command}}"),
			help:    "A command that takes longer and longer waits for a disk, or for another one."},
	}}
}

func components() row {
	return row{"Operator and agents", []panel{
		{
			title: "Operators and agents that answer", kind: lines, width: 6, unit: plain,
			help: "Pods that Prometheus reaches.",
			queries: []query{{expr: "sum(up{" + operatorJob + "})", name: "operators"},
				{expr: "sum(up{" + agentJob + ", " + onNode + "})", name: "agents"}},
		},
		{title: "Age of what is known of capacity, seconds", kind: lines, width: 6, unit: plain,
			queries: one("time() - max by (node) (lvms_capacity_observed_timestamp_seconds{"+onNode+"})", "{{node}}"),
			help:    "After five minutes the scheduler is told that there is no room."},
		{title: "Memory", kind: lines, width: 6, unit: inBytes,
			queries: one("max by (pod) (process_resident_memory_bytes{"+programs+"})", "{{pod}}"), help: "Resident."},
		{title: "Reconciles that failed, an hour", kind: lines, width: 6, unit: plain, decimals: 1,
			queries: one("sum by (controller) (rate(controller_runtime_reconcile_errors_total{"+programs+
				"}[15m])) * 3600 > 0", "{{controller}}"), help: "Each is tried again."},
		{
			title: "Certificates", kind: table, width: 6,
			labels: []labelColumn{{"component", "Component"}, {"certificate", "Certificate"}},
			help:   "They are renewed by themselves.",
			queries: []query{
				{expr: "(min by (component, certificate) (lvms_certificate_expiry_timestamp_seconds) - time()) / 86400",
					name: "Days left", unit: plain, decimals: 1}},
		},
		{
			title: "Versions", kind: table, width: 6,
			labels: []labelColumn{{"component", "Component"}, {"version", "Version"}, {"go_version", "Go"}},
			help:   "What runs.",
			queries: []query{{expr: "count by (component, version, go_version) (lvms_build_info)",
				name: "Pods", unit: plain}},
		},
	}}
}
