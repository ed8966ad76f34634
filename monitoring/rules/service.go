package rules

import (
	"fmt"
	"time"
)

// The Services name the jobs.
const (
	operatorJob = `job="lvms-operator-metrics-service"`
	agentJob    = `job="vg-manager-metrics-service"`
)

// causes matches alerts that explain why an LVMCluster is not Ready.
const causes = `ALERTS{alertstate="firing", alertname=~"LVMS(AgentDown|NodeNotObserved|VolumeGroup(Failed|Degraded)|Device(Missing|Failing)|RAID(Failed|Degraded))"}`

// failing returns an expression that is true if calls of a CSI method failed in each of two periods of 15 minutes, and
// none has succeeded since. Its value is the number of failed calls.
func failing(method string) string {
	calls := func(code, time string) string {
		return fmt.Sprintf(
			`sum by (namespace) (increase(csi_sidecar_operations_seconds_count{method_name="/csi.v1.Controller/%s", grpc_status_code%s}%s))`, method, code, time)
	}
	return calls(`!="OK"`, "[15m]") + " >= 3 and on (namespace) " + calls(`!="OK"`, "[15m] offset 15m") +
		" > 0\nunless on (namespace) (" + calls(`="OK"`, "[15m]") + " > 0)"
}

func service() Group {
	const (
		down = `max by (namespace, node) (lvms_node_volume_groups) > 0 unless on (node) (max by (node) (up{` +
			agentJob + `}) == 1)`
		// An agent that answers but no longer observes its node is stuck.
		stuck = `time() - max by (namespace, node) (lvms_node_status_observed_timestamp_seconds) > 1800 and on (node) (max by (node) (up{` + agentJob + `}) == 1)`
		stale = `time() - max by (namespace, node) (lvms_capacity_observed_timestamp_seconds) > 300`
	)
	return Group{Name: "lvms-service", Alerts: []Alert{
		{
			Name: "LVMSOperatorDown", Severity: Warning, For: 10 * time.Minute, Static: true,
			Expr:    `absent(up{` + operatorJob + `} == 1)`,
			Summary: "No operator of LVM Storage runs.",
			Description: "No operator of LVM Storage has answered for ten minutes. Volumes that are mounted are not " +
				"harmed; none can be made, grown, snapshotted or removed.",
		},
		{
			Name: "LVMSAgentDown", Severity: Warning, For: 5 * time.Minute,
			Expr:    down,
			Summary: "The agent of node {{ $labels.node }} does not answer.",
			Description: "Node {{ $labels.node }} has {{ $value }} volume group(s), and its agent has not answered " +
				"for five minutes. Volumes that are mounted are not harmed; no Pod gets a volume there, and nobody " +
				"watches its disks.",
		},
		{
			Name: "LVMSCapacityStale", Severity: Warning, For: 5 * time.Minute,
			Expr:    stale + "\nunless on (node) (" + down + ")",
			Summary: "The capacity of node {{ $labels.node }} is not known.",
			Description: "The agent of node {{ $labels.node }} has not been able to read its volume groups for {{ " +
				"$value | humanizeDuration }}. The scheduler is told that there is no room, and the fill of pools is " +
				"not watched.",
		},
		{
			Name: "LVMSNodeNotObserved", Severity: Warning, For: 10 * time.Minute,
			Expr: "(max by (namespace, node) (lvms_node_status_observed) == 0 or " + stuck +
				")\nunless on (node) (" + down + ")\nunless on (node) (" + stale + ")",
			Summary: "The devices of node {{ $labels.node }} cannot be looked at.",
			Description: "The agent of node {{ $labels.node }} cannot list its devices, or has not looked at them " +
				"for half an hour. What is known of them is of before. The condition DevicesObserved and " +
				"lastObserved of its LVMVolumeGroupNodeStatus say why and since when.",
		},
		{
			Name: "LVMSClusterNotReady", Severity: Warning, For: 15 * time.Minute,
			Expr:    `max by (namespace, lvmcluster) (lvms_lvmcluster_state{state=~"Failed|Unknown|Progressing"}) == 1` + "\nunless on () " + causes,
			Summary: "LVMCluster {{ $labels.lvmcluster }} is not ready.",
			Description: "LVMCluster {{ $labels.lvmcluster }} has not been Ready for 15 minutes, and no other alert " +
				"says why. Its conditions do.",
		},
		{
			Name: "LVMSProvisioningFailing", Severity: Warning, For: 5 * time.Minute,
			Expr:        failing("CreateVolume"),
			Summary:     "No volume can be made.",
			Description: `{{ printf "%.0f" $value }} attempts to make a volume have failed within 15 minutes, and none has succeeded. The events of the claims say why.`,
		},
		{
			Name: "LVMSExpansionFailing", Severity: Warning, For: 5 * time.Minute,
			Expr:        failing("ControllerExpandVolume"),
			Summary:     "No volume can grow.",
			Description: `{{ printf "%.0f" $value }} attempts to make a volume grow have failed within 15 minutes, and none has succeeded. The events of the claims say why.`,
		},
		{
			Name: "LVMSOrphansGrowing", Severity: Warning, For: time.Hour,
			Expr: "sum " + byClass +
				"(max by (namespace, node, device_class, kind) (lvms_orphan_logical_volumes)) > sum " + byClass +
				"(max by (namespace, node, device_class, kind) (lvms_orphan_logical_volumes offset 1d))",
			Summary: "Orphans of device class {{ $labels.device_class }} on node {{ $labels.node }} become more.",
			Description: "Device class {{ $labels.device_class }} has {{ $value }} orphans on node {{ $labels.node " +
				"}}, more than a day ago: volumes that nobody uses, or objects whose volume is gone. Nothing removes " +
				"them but you.",
		},
		{
			Name: "LVMSCertificateExpiring", Severity: Warning, For: time.Hour,
			Expr: "min by (namespace, component, certificate) (lvms_certificate_expiry_timestamp_seconds) - " +
				"time() < 7 * 86400",
			Summary: "The certificate {{ $labels.certificate }} of {{ $labels.component }} ends soon.",
			Description: "The certificate {{ $labels.certificate }} of {{ $labels.component }} ends in {{ $value | " +
				"humanizeDuration }} and was not renewed. After that the API server refuses every LVMCluster, or " +
				"Prometheus sees nothing.",
		},
	}}
}
