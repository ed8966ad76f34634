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
			Summary: "The LVM Storage operator is down.",
			Description: "No replica of the LVM Storage operator has responded for 10 minutes. Mounted volumes " +
				"are not affected, but volumes cannot be created, expanded, snapshotted or deleted. Check the " +
				"Pods of Deployment lvms-operator.",
		},
		{
			Name: "LVMSAgentDown", Severity: Warning, For: 5 * time.Minute,
			Expr:    down,
			Summary: "The node agent on node {{ $labels.node }} is down.",
			Description: "The node agent on node {{ $labels.node }} has not responded for 5 minutes. Volume " +
				"groups on the node: {{ $value }}. Mounted volumes are not affected, but no volume can be " +
				"created, mounted or expanded there, and the disks are not monitored. Check the vg-manager Pod " +
				"of the node.",
		},
		{
			Name: "LVMSCapacityStale", Severity: Warning, For: 5 * time.Minute,
			Expr:    stale + "\nunless on (node) (" + down + ")",
			Summary: "The storage capacity of node {{ $labels.node }} is unknown.",
			Description: "The node agent on node {{ $labels.node }} has not been able to read its volume groups " +
				"for {{ $value | humanizeDuration }}. It reports no capacity to the scheduler, so new volumes " +
				"are not created there, and the usage of thin pools is not monitored. Check the log of the " +
				"vg-manager Pod of the node.",
		},
		{
			Name: "LVMSNodeNotObserved", Severity: Warning, For: 10 * time.Minute,
			Expr: "(max by (namespace, node) (lvms_node_status_observed) == 0 or " + stuck +
				")\nunless on (node) (" + down + ")\nunless on (node) (" + stale + ")",
			Summary: "The devices of node {{ $labels.node }} cannot be read.",
			Description: "The node agent on node {{ $labels.node }} cannot list the devices of the node, or has " +
				"not read them for 30 minutes. The status of the node is outdated. See the condition " +
				"DevicesObserved and lastObserved in its LVMVolumeGroupNodeStatus.",
		},
		{
			Name: "LVMSClusterNotReady", Severity: Warning, For: 15 * time.Minute,
			Expr:    `max by (namespace, lvmcluster) (lvms_lvmcluster_state{state=~"Failed|Unknown|Progressing"}) == 1` + "\nunless on () " + causes,
			Summary: "LVMCluster {{ $labels.lvmcluster }} is not ready.",
			Description: "LVMCluster {{ $labels.lvmcluster }} has not been Ready for 15 minutes, and no other " +
				"alert has the cause. See its conditions.",
		},
		{
			Name: "LVMSProvisioningFailing", Severity: Warning, For: 5 * time.Minute,
			Expr:        failing("CreateVolume"),
			Summary:     "Volumes cannot be created.",
			Description: `{{ printf "%.0f" $value }} attempts to create a volume have failed within 15 minutes, and none has succeeded. See the events of the pending claims for the cause.`,
		},
		{
			Name: "LVMSExpansionFailing", Severity: Warning, For: 5 * time.Minute,
			Expr:        failing("ControllerExpandVolume"),
			Summary:     "Volumes cannot be expanded.",
			Description: `{{ printf "%.0f" $value }} attempts to expand a volume have failed within 15 minutes, and none has succeeded. See the events of the claims for the cause.`,
		},
		{
			Name: "LVMSNodeProbeFailed", Severity: Warning,
			Expr: "max " + byClass + " (lvms_node_probe_success) == 0\nunless on (node) (" + down +
				")\nunless on (node) (" + stale + ")",
			Summary: "Node {{ $labels.node }} does not provide volumes of device class {{ $labels.device_class }}.",
			Description: "The last probe of node {{ $labels.node }} could not create, mount, write or delete a " +
				"volume of device class {{ $labels.device_class }}. See the events of the node's " +
				"LVMVolumeGroupNodeStatus for the step that failed.",
		},
		{
			Name: "LVMSOrphansGrowing", Severity: Warning, For: time.Hour,
			Expr: "sum " + byClass +
				"(max by (namespace, node, device_class, kind) (lvms_orphan_logical_volumes)) > sum " + byClass +
				"(max by (namespace, node, device_class, kind) (lvms_orphan_logical_volumes offset 1d))",
			Summary: "The number of orphans of device class {{ $labels.device_class }} on node {{ $labels.node " +
				"}} is growing.",
			Description: "Device class {{ $labels.device_class }} has {{ $value }} orphans on node {{ " +
				"$labels.node }}, more than a day ago: volumes that nothing uses, or objects whose logical " +
				"volume does not exist. The operator does not delete them. Check whether their data is needed, " +
				"then delete them.",
		},
		{
			Name: "LVMSCertificateExpiring", Severity: Warning, For: time.Hour,
			Expr: "min by (namespace, component, certificate) (lvms_certificate_expiry_timestamp_seconds) - " +
				"time() < 7 * 86400",
			Summary: "The certificate {{ $labels.certificate }} of {{ $labels.component }} expires soon.",
			Description: "The certificate {{ $labels.certificate }} of {{ $labels.component }} expires in {{ " +
				"$value | humanizeDuration }} and was not renewed. After that, the API server rejects changes to " +
				"LVMClusters (webhook), or Prometheus gets no metrics (metrics). Check the log of the component.",
		},
	}}
}
