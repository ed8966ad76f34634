package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	step = time.Minute
	gib  = float64(1 << 30)
)

// writeSamples writes a day of two nodes with two device classes: the thin pool of worker-1 fills; a device of the redundant class there
// is lost and replaced, and the new one is brought in sync; a device of worker-2 is pulled.
func writeSamples(to io.Writer, end time.Time) {
	for at := end.Add(-day); !at.After(end); at = at.Add(step) {
		s := sampler{to, float64(at.Unix()), at.Sub(end.Add(-day)).Hours()}
		s.operator()
		for i, node := range []string{"worker-1", "worker-2"} {
			s.agent(node, float64(i))
			s.fast(node, float64(i))
			s.safe(node, float64(i))
		}
	}
	fmt.Fprintln(to, "# EOF")
}

// sampler writes what Prometheus would have scraped at a time; hour is that of the story.
type sampler struct {
	to       io.Writer
	at, hour float64
}

func (s sampler) send(value float64, name string, labels ...string) {
	pairs := []string{`namespace="openshift-lvm-storage"`}
	for i := 0; i < len(labels); i += 2 {
		if labels[i] == "namespace" {
			pairs = pairs[1:]
		}
		pairs = append(pairs, fmt.Sprintf("%s=%q", labels[i], labels[i+1]))
	}
	fmt.Fprintf(s.to, "%s{%s} %g %.0f\n", name, strings.Join(pairs, ","), value, s.at)
}

// is returns 1 for yes.
func is(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func (s sampler) calls(metric, method, code string, perHour, seconds float64, labels ...string) {
	labels = append(labels, "driver_name", "topolvm.io", "method_name", method, "grpc_status_code", code)
	n := math.Floor(perHour * s.hour)
	for i, le := range []string{"0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"} {
		part := 1 - math.Exp(-math.Pow(2, float64(i))*0.12/seconds)
		if le == "+Inf" {
			part = 1
		}
		s.send(math.Floor(n*part), metric+"_bucket", append(labels, "le", le)...)
	}
	s.send(n, metric+"_count", labels...)
	s.send(n*seconds, metric+"_sum", labels...)
}

func (s sampler) operator() {
	const job, sidecar = "lvms-operator-metrics-service", "csi_sidecar_operations_seconds"
	s.send(1, "up", "job", job, "pod", "lvms-operator-1")
	s.send((58+6*math.Sin(s.hour))*gib/1024, "process_resident_memory_bytes", "job", job, "pod", "lvms-operator-1")
	s.send(math.Floor(s.hour*2), "controller_runtime_reconcile_errors_total", "job", job, "pod", "lvms-operator-1", "controller", "lvmcluster")
	s.send(s.at+30*86400, "lvms_certificate_expiry_timestamp_seconds", "component", "lvms-operator", "certificate", "webhook")
	s.send(1, "lvms_build_info", "component", "lvms-operator", "version", "0.1.0", "go_version", "go1.26", "pod", "lvms-operator-1")
	for _, state := range []string{"Progressing", "Ready", "Degraded", "Failed", "Unknown"} {
		broken := s.hour > 18 || (s.hour > 10 && s.hour < 15)
		s.send(is((state == "Degraded") == broken && (broken || state == "Ready")), "lvms_lvmcluster_state", "lvmcluster", "my-lvmcluster", "state", state)
	}
	const controller = "/csi.v1.Controller/"
	s.calls(sidecar, controller+"CreateVolume", "OK", 40, 0.6)
	s.calls(sidecar, controller+"DeleteVolume", "OK", 25, 0.4)
	s.calls(sidecar, controller+"ControllerExpandVolume", "OK", 6, 0.9)
	s.calls(sidecar, controller+"CreateVolume", "ResourceExhausted", math.Max(0, s.hour-16), 0.2)
	if s.hour > 18 {
		s.send(1, "ALERTS", "alertname", "LVMSDeviceMissing", "alertstate", "firing", "severity", "critical", "node", "worker-2", "device_class", "fast")
		s.send(1, "ALERTS", "alertname", "ThinPoolDataUsageAtThresholdCritical", "alertstate", "firing", "severity", "critical", "node", "worker-1", "device_class", "fast")
	}
}

func (s sampler) agent(node string, i float64) {
	const job = "vg-manager-metrics-service"
	pod := []string{"pod", "vg-manager-" + node, "node", node}
	s.send(is(s.hour < 7 || s.hour > 7.3 || i == 1), "up", append(pod, "job", job)...)
	s.send((34+3*math.Sin(s.hour+i))*gib/1024, "process_resident_memory_bytes", append(pod, "job", job)...)
	s.send(s.at-20-10*math.Sin(7*s.hour+i), "lvms_capacity_observed_timestamp_seconds", pod...)
	s.send(1, "lvms_node_status_observed", pod...)
	s.send(1, "lvms_build_info", append(pod, "component", "vg-manager", "version", "0.1.0", "go_version", "go1.26")...)
	s.send(s.at+(60+i)*86400, "lvms_certificate_expiry_timestamp_seconds", append(pod, "component", "vg-manager", "certificate", "metrics")...)
	for command, a := range map[string][3]float64{"lsblk": {60, 0.04, 0}, "lvm fullreport": {60, 0.2, 0}, "lvm lvcreate": {20, 0.5, 2}, "lvm lvremove": {14, 0.4, 0}} {
		n := math.Floor(a[0] * s.hour)
		s.send(n, "lvms_host_commands_total", append(pod, "command", command)...)
		s.send(math.Floor(a[2]*s.hour), "lvms_host_command_failures_total", append(pod, "command", command)...)
		s.send(n, "lvms_host_command_duration_seconds_count", append(pod, "command", command)...)
		s.send(n*a[1]*(1+s.hour/24*i), "lvms_host_command_duration_seconds_sum", append(pod, "command", command)...)
	}
	const plugin = "csi_plugin_operations_seconds"
	s.calls(plugin, "/csi.v1.Node/NodePublishVolume", "OK", 30, 0.3, pod...)
	s.calls(plugin, "/csi.v1.Node/NodeStageVolume", "OK", 30, 0.8, pod...)
	s.calls(plugin, "/csi.v1.Node/NodeStageVolume", "Internal", 3*i, 1.5, pod...)
	s.device(pod, "sda", "InUse", true)
	s.device(pod, "sdb", "InUse", true)
	s.device(pod, "sdc", "InUse", i == 1 || s.hour < 10)
	s.device(pod, "sdc", "Missing", i == 0 && s.hour >= 10 && s.hour < 15)
	s.device(pod, "sdd", "InUse", i == 0 || s.hour < 18)
	s.device(pod, "sdd", "Missing", i == 1 && s.hour >= 18)
	s.device(pod, "sde", "Available", i == 1)
	s.device(pod, "sdf", "Excluded", true)
	for reason, n := range map[string]float64{"Mounted": 2, "HasSignature": 1 + i, "IsOSDisk": 1} {
		s.send(n, "lvms_excluded_devices", append(pod, "reason", reason)...)
	}
}

func (s sampler) device(pod []string, name, state string, there bool) {
	if there {
		s.send(1, "lvms_device_state", append(pod, "device", "/dev/"+name, "device_id", "wwn:0x5000c500a1b2"+name, "state", state)...)
	}
}

// group writes what each device class has.
func (s sampler) group(class []string, state string, size, free, capacity, missing float64) {
	for _, known := range []string{"Progressing", "Ready", "Degraded", "Failed"} {
		s.send(is(state == known), "lvms_volume_group_state", append(class, "state", known)...)
	}
	s.send(size, "topolvm_volumegroup_size_bytes", class...)
	s.send(free, "lvms_volume_group_free_bytes", class...)
	s.send(capacity, "lvms_capacity_bytes", class...)
	s.send(missing, "lvms_volume_group_missing_devices", class...)
	s.send(0, "lvms_volume_group_failing_devices", class...)
	for _, kind := range []string{"LogicalVolume", "Object", "Unclaimed"} {
		s.send(is(kind == "Unclaimed" && s.hour > 12), "lvms_orphan_logical_volumes", append(class, "kind", kind)...)
	}
}

func (s sampler) volume(class []string, n int, claim string, size, percent float64) {
	labels := append(append([]string{}, class...), "volume", fmt.Sprintf("pvc-%02d-%s", n, class[1]), "namespace", "shop", "persistentvolumeclaim", claim)
	s.send(size, "lvms_volume_size_bytes", labels...)
	s.send(is(claim == "mail"), "lvms_volume_read_only", labels...)
	if percent >= 0 {
		s.send(percent, "lvms_volume_data_percent", labels...)
	}
}

// fast is thin.
func (s sampler) fast(node string, i float64) {
	class := []string{"node", node, "device_class", "fast"}
	percent := 45 + 43*s.hour/24
	if i == 1 {
		percent = 32 + 4*math.Sin(s.hour/3)
	}
	lost := i == 1 && s.hour >= 18
	state := map[bool]string{true: "Degraded", false: "Ready"}[lost]
	s.group(class, state, 2000*gib, 200*gib, math.Max(0, 3600*gib*(1-percent/150))*is(!lost), is(lost))
	s.send(1800*gib, "topolvm_thinpool_size_bytes", class...)
	s.send(percent, "topolvm_thinpool_data_percent", class...)
	s.send(20+percent/4, "topolvm_thinpool_metadata_percent", class...)
	s.send((2400+40*s.hour)*gib, "lvms_thinpool_virtual_bytes", class...)
	s.send(8+math.Floor(s.hour/4), "lvms_logical_volumes", class...)
	for n, claim := range []string{"database", "logs", "queue", "images", "cache", "mail"} {
		s.volume(class, n, claim, float64(100*(n+1))*gib, math.Min(100, percent+float64(5*n)-10))
	}
}

// safe is thick, with redundancy.
func (s sampler) safe(node string, i float64) {
	class := []string{"node", node, "device_class", "safe"}
	lost, synced := i == 0 && s.hour >= 10 && s.hour < 15, 100.0
	if i == 0 && s.hour >= 15 {
		synced = math.Floor((s.hour - 15) * 9)
	}
	state := map[bool]string{true: "Degraded", false: "Ready"}[lost]
	free := (1500 - 300*i - 20*math.Floor(s.hour/3)) * gib
	s.group(class, state, 4000*gib, free, free/2, is(lost))
	s.send(is(lost || synced < 100), "lvms_raid_health_status", class...)
	s.send(is(synced < 100), "lvms_raid_sync_in_progress", class...)
	s.send(synced, "lvms_raid_sync_percent", class...)
	s.send(4, "lvms_raid_member_count", class...)
	s.send(is(lost), "lvms_raid_degraded_count", class...)
	s.send(3+i, "lvms_logical_volumes", class...)
	s.volume(class, 1, "ledger", 300*gib, -1)
}
