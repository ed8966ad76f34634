package analyze

import (
	"fmt"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/gatherindex"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func node(name string, ready corev1.ConditionStatus, bytes string) corev1.Node {
	n := corev1.Node{ObjectMeta: named("", name)}
	if bytes != "" {
		n.Annotations = map[string]string{"capacity.topolvm.io/vg1": bytes}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "NodeStatusUnknown",
		Message: "no word", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	return n
}

func nodeStatus(name string, groups ...v1alpha1.VGStatus) v1alpha1.LVMVolumeGroupNodeStatus {
	return v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: named("ns", name),
		Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{NodeStatus: groups,
			Conditions: []metav1.Condition{trueCondition("DevicesObserved")}}}
}

func trueCondition(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind}
}

func falseCondition(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func volume(name, node, claim string) topolvmv1.LogicalVolume {
	lv := topolvmv1.LogicalVolume{ObjectMeta: named("", name), Spec: topolvmv1.LogicalVolumeSpec{NodeName: node}}
	lv.Annotations = map[string]string{wellknown.ClaimAnnotation: claim}
	return lv
}

func agent(node string, status corev1.ContainerStatus) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: named("ns", "vg-manager-"+node)}
	pod.Labels = map[string]string{nameLabel: agentName}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []corev1.Container{{Name: agentName, Image: "example.com/lvms:1"}}
	status.Name = agentName
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	return pod
}

func operator(image string, available int32) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: named("ns", operatorName)}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: image}}
	d.Status.AvailableReplicas = available
	return d
}

func standby(namespace string, available int32) appsv1.Deployment {
	d := operator("i", available)
	d.ObjectMeta = named(namespace, verdict.StandbyName)
	return d
}

func claim(phase corev1.PersistentVolumeClaimPhase, class, size string) corev1.PersistentVolumeClaim {
	c := corev1.PersistentVolumeClaim{ObjectMeta: named("shop", "data")}
	c.Spec.StorageClassName = &class
	c.Status.Phase = phase
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return c
}

func storageClass() storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return storagev1.StorageClass{ObjectMeta: named("", "lvms-vg1"), Provisioner: "topolvm.io",
		VolumeBindingMode: &mode, Parameters: map[string]string{wellknown.DeviceClassParameter: "vg1"}}
}

func event(reason, kind, message string, ago time.Duration) corev1.Event {
	return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "shop",
		Name: "data"}, Type: kind, Reason: reason, Message: message,
		LastTimestamp: metav1.NewTime(now.Add(-ago))}
}

func user(scheduled string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: named("shop", "web")}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data",
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: "data"}}}}
	if scheduled != "" {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Message: scheduled}}
	}
	return pod
}

func waiting() corev1.Pod {
	pod := user("")
	pod.Spec.NodeName = "node1"
	pod.Status.Phase = corev1.PodPending
	return pod
}

func mountFailed() corev1.Event {
	e := event("FailedMount", "Warning", "no such device", time.Minute)
	e.InvolvedObject.Kind = "Pod"
	e.InvolvedObject.Name = "web"
	return e
}

func alert(name, severity, state, class, node string) Alert {
	return Alert{State: state, Labels: map[string]string{"alertname": name, "severity": severity,
		"device_class": class, "node": node}}
}

func deleted(ago time.Duration) *metav1.Time {
	t := metav1.NewTime(now.Add(-ago))
	return &t
}

// Each rule finds its problem, and nothing in the other cases.
func TestRules(t *testing.T) {
	good := chain(t, now.Add(200*24*time.Hour))
	other := chain(t, now.Add(200*24*time.Hour))
	pool := func(data, metadata int32) v1alpha1.VGStatus {
		return v1alpha1.VGStatus{Name: "vg1", Status: v1alpha1.VGStatusReady,
			ThinPool: &v1alpha1.ThinPoolStatus{Name: "pool", Size: resource.MustParse("10Gi"),
				MetadataSize: resource.MustParse("1Gi"), DataPercent: data, MetadataPercent: metadata}}
	}
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	looping := corev1.ContainerStatus{RestartCount: 7,
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3,
			Reason: "Error", Message: "first\nlvms: no lock\n", FinishedAt: metav1.NewTime(now)}}}
	between := looping
	between.RestartCount = 1
	between.State = running.State
	once := between
	once.Ready = true
	tests := map[string]struct {
		rule  func(*Facts) []Finding
		facts Facts
		// want are texts of a finding and its severity; none if there must be no finding.
		want []string
	}{
		"a node is away": {nodesNotReady, Facts{Nodes: []corev1.Node{node("node1", corev1.ConditionTrue, ""),
			node("node2", corev1.ConditionUnknown, "")},
			LogicalVolumes: []topolvmv1.LogicalVolume{volume("a", "node2", "shop/data"),
				volume("b", "node1", "shop/other")}},
			[]string{"critical", "node node2 has not been ready since 2026-03-01 11:00:00Z",
				"its volume cannot be used", "shop/data"}},
		"a node without storage is away": {nodesNotReady,
			Facts{Nodes: []corev1.Node{node("node2", corev1.ConditionUnknown, "")}}, nil},
		"a node is gone": {nodesNotReady, Facts{Nodes: []corev1.Node{node("node1", corev1.ConditionTrue, "")},
			LogicalVolumes: []topolvmv1.LogicalVolume{volume("a", "node9", "shop/data")}},
			[]string{"critical", "node9 no longer exists", "shop/data"}},
		"a device is missing": {problemsOf(verdict.VolumeGroup),
			Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
				v1alpha1.VGStatus{Name: "vg1", Status: v1alpha1.VGStatusDegraded,
					Reason: "is missing the physical volume P; volumes at risk: shop/data",
					Conditions: []metav1.Condition{falseCondition("DevicesHealthy", v1alpha1.ReasonDeviceMissing,
						"is missing the physical volume P; volumes at risk: shop/data")}})}},
			[]string{"critical", "vg1 on node node1: DeviceMissing", "shop/data"}},
		"redundancy is lost": {problemsOf(verdict.VolumeGroup), Facts{
			NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
				v1alpha1.VGStatus{Name: "vg1",
					Conditions: []metav1.Condition{falseCondition("RAIDHealthy", v1alpha1.ReasonRAIDDegraded,
						"lacks a device")}})}}, []string{"warning", "RAIDDegraded"}},
		"a new volume is synchronized": {problemsOf(verdict.VolumeGroup),
			Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1", v1alpha1.VGStatus{Name: "vg1",
				Conditions: []metav1.Condition{falseCondition("RAIDHealthy", v1alpha1.ReasonRAIDSyncing,
					"10 %")}})}}, []string{"info", "RAIDSyncing: 10 %"}},
		"a group could not be made": {problemsOf(verdict.VolumeGroup),
			Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
				v1alpha1.VGStatus{Name: "vg1", Status: v1alpha1.VGStatusFailed, Reason: "no device"})}},
			[]string{"critical", "no device"}},
		"a group is degraded": {problemsOf(verdict.VolumeGroup),
			Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
				v1alpha1.VGStatus{Name: "vg1", Status: v1alpha1.VGStatusDegraded, Reason: "foreign"})}},
			[]string{"warning", "foreign"}},
		"a group is being made": {problemsOf(verdict.VolumeGroup),
			Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
				v1alpha1.VGStatus{Name: "vg1", Status: v1alpha1.VGStatusProgressing, Reason: "wiping"})}},
			[]string{"info", "wiping"}},
		"a group is ready": {problemsOf(verdict.VolumeGroup), Facts{
			NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
				pool(10, 10))}}, nil},

		"a path leads elsewhere": {devicesMoved, moved("/dev/sdb", "/dev/sdc", "wwn-1"),
			[]string{"warning", "names /dev/sdb on node node1, which no longer exists", "(serial:S1) is now /dev/sdc", "wwn-1"}},
		"a path leads there": {devicesMoved, moved("/dev/sdb", "/dev/sdb", "wwn-1"), nil},
		"a link leads there": {devicesMoved, moved("/dev/disk/by-id/wwn-1", "/dev/sdc", "wwn-1"), nil},
		"a link is gone": {devicesMoved, moved("/dev/disk/by-id/wwn-9", "/dev/sdc", "wwn-1"),
			[]string{"warning", "by-id/wwn-9"}},
		"a link that is not known": {devicesMoved, moved("/dev/mylinks/a", "/dev/sdc", "wwn-1"), nil},

		"a pool is full": {poolFill, Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
			pool(97, 10))}}, []string{"critical", "data of thin pool vg1/pool on node node1 is 97 %", "10Gi"}},
		"metadata is full": {poolFill, Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
			pool(10, 95))}}, []string{"critical", "metadata of thin pool", "1Gi"}},
		"a pool is nearly full": {poolFill, Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
			pool(85, 0))}}, []string{"warning", "85 %"}},
		"a pool fills": {poolFill, Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
			pool(75, 0))}}, []string{"info", "75 %"}},
		"a pool has room": {poolFill, Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
			pool(74, 74))}}, nil},

		"no operator serves": {problemsOf(verdict.Operator), Facts{Deployments: []appsv1.Deployment{operator("i", 0)}},
			[]string{"critical", "Deployment ns/lvms-operator: OperatorUnavailable: " +
				"The operator has no Pod that is ready"}},
		"an operator serves": {problemsOf(verdict.Operator),
			Facts{Deployments: []appsv1.Deployment{operator("i", 1)}}, nil},
		"a standby serves": {problemsOf(verdict.Operator),
			Facts{Deployments: []appsv1.Deployment{operator("i", 0), standby("ns", 1)}},
			nil},
		"the standby of another namespace serves": {problemsOf(verdict.Operator),
			Facts{Deployments: []appsv1.Deployment{operator("i", 0), standby("other", 1)}},
			[]string{"critical", "Deployment ns/lvms-operator: OperatorUnavailable: " +
				"The operator has no Pod that is ready"}},
		"there is none": {problemsOf(verdict.Operator), Facts{Clusters: []v1alpha1.LVMCluster{{}}},
			[]string{"critical", "The Deployment of the operator does not exist"}},

		"an agent does not stay up": {crashLoops,
			Facts{Now: now, Nodes: []corev1.Node{node("node1", corev1.ConditionTrue, "")},
				Pods: []corev1.Pod{agent("node1", looping)}},
			[]string{"critical", "vg-manager-node1 on node node1 was restarted 7 times", "ended with 3",
				"lvms: no lock"}},
		"an agent runs for a moment between two restarts": {crashLoops,
			Facts{Now: now, Pods: []corev1.Pod{agent("node1", between)}},
			[]string{"critical", "was restarted 1 times", "lvms: no lock"}},
		"an agent was restarted once and is ready": {crashLoops,
			Facts{Now: now, Pods: []corev1.Pod{agent("node1", once)}}, nil},
		"an agent on a node that is away": {crashLoops,
			Facts{Now: now, Nodes: []corev1.Node{node("node1", corev1.ConditionUnknown, "")},
				Pods: []corev1.Pod{agent("node1", looping)}}, nil},
		"an image cannot be pulled": {crashLoops,
			Facts{Now: now, Pods: []corev1.Pod{agent("node1",
				corev1.ContainerStatus{State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}})}},
			[]string{"critical", "does not start: ImagePullBackOff: no such image"}},
		"an agent runs": {crashLoops, Facts{Now: now, Pods: []corev1.Pod{agent("node1", running)}}, nil},

		"agents are missing": {agentsMissing,
			Facts{DaemonSets: []appsv1.DaemonSet{daemonSet(3, 1)}, Pods: []corev1.Pod{agent("node1", running)}},
			[]string{"warning", "2 of 3 agents", "vg-manager-node1 on node node1"}},
		"agents are missing on nodes that are away": {agentsMissing,
			Facts{DaemonSets: []appsv1.DaemonSet{daemonSet(1, 0)}, Pods: []corev1.Pod{agent("node1", running)},
				Nodes: []corev1.Node{node("node1", corev1.ConditionUnknown, "")}}, nil},
		"no node is selected": {agentsMissing,
			Facts{DaemonSets: []appsv1.DaemonSet{daemonSet(0, 0)},
				NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1")}},
			[]string{"warning", "no node can run a node agent"}},

		"the API server does not trust the operator": {webhookCertificates, webhooks(good.authority, other.leaf),
			[]string{"critical", "webhook certificate", "was not issued by an authority in the caBundle"}},
		"there is no authority": {webhookCertificates, webhooks(nil, other.leaf),
			[]string{"critical", "caBundle contains no certificate"}},
		"the certificate is none": {webhookCertificates, webhooks(good.authority, []byte("x")),
			[]string{"critical", "cannot be read"}},
		"the API server trusts the operator": {webhookCertificates, webhooks(good.authority, good.leaf), nil},
		"the certificate is not known":       {webhookCertificates, webhooks(good.authority, nil), nil},

		"a certificate has ended": {certificates, secret(chain(t, now.Add(-time.Hour)).leaf),
			[]string{"critical", "expired at 2026-03-01 11:00:00Z"}},
		"a certificate is to end": {certificates, secret(chain(t, now.Add(24*time.Hour)).leaf),
			[]string{"warning", "was not renewed"}},
		"a certificate holds":         {certificates, secret(good.leaf), nil},
		"a certificate is not one":    {certificates, secret([]byte("x")), []string{"warning", "cannot be read"}},
		"a Secret has no public part": {certificates, secret(nil), nil},

		"agents run another image": {versionSkew,
			Facts{Deployments: []appsv1.Deployment{operator("example.com/lvms:2", 1)},
				Pods: []corev1.Pod{agent("node1", running)}},
			[]string{"warning", "1 node agents run image example.com/lvms:1", "node1"}},
		"agents run the same": {versionSkew, Facts{Deployments: []appsv1.Deployment{operator("example.com/lvms:1", 1)},
			Pods: []corev1.Pod{agent("node1", running)}}, nil},

		"every node is below the size": {claimsPending,
			Facts{Claims: []corev1.PersistentVolumeClaim{claim("Pending", "lvms-vg1", "5Gi")},
				StorageClasses: []storagev1.StorageClass{storageClass()},
				Nodes: []corev1.Node{node("node1", corev1.ConditionTrue, "1073741824"),
					node("node2", corev1.ConditionTrue, "2147483648"),
					node("node3", corev1.ConditionUnknown, "99999999999")},
				Pods: []corev1.Pod{user("0/3 nodes are available")}},
			[]string{"warning", "claim shop/data (5Gi, lvms-vg1) is Pending: every node has less capacity than " +
				"5Gi: the most is 2Gi on node node2", "pod web cannot be scheduled: 0/3"}},
		"the engine says why": {claimsPending,
			Facts{Claims: []corev1.PersistentVolumeClaim{claim("Pending", "lvms-vg1", "1Gi")},
				StorageClasses: []storagev1.StorageClass{storageClass()}, Pods: []corev1.Pod{user("")},
				Nodes: []corev1.Node{node("node1", corev1.ConditionTrue, "2147483648")},
				Events: []corev1.Event{event("ProvisioningFailed", "Warning", "the newest", time.Minute),
					event("ProvisioningFailed", "Warning", "an older one", time.Hour),
					event("Provisioning", "Normal", "asked", 0)}},
			[]string{"warning", "ProvisioningFailed: the newest"}},
		"no Pod uses the claim": {claimsPending,
			Facts{Claims: []corev1.PersistentVolumeClaim{claim("Pending", "lvms-vg1", "1Gi")},
				StorageClasses: []storagev1.StorageClass{storageClass()},
				Nodes:          []corev1.Node{node("node1", corev1.ConditionTrue, "2147483648")}},
			[]string{"info", "no Pod uses it yet"}},
		"the StorageClass is gone": {claimsPending,
			Facts{Claims: []corev1.PersistentVolumeClaim{claim("Pending", "lvms-x", "1Gi")}},
			[]string{"warning", "its StorageClass does not exist"}},
		"a volume is gone": {claimsPending, Facts{Claims: []corev1.PersistentVolumeClaim{claim("Lost", "lvms-x",
			"1Gi")}}, []string{"critical", "is gone"}},
		"a claim is bound": {claimsPending, Facts{Claims: []corev1.PersistentVolumeClaim{claim("Bound",
			"lvms-x", "1Gi")}}, nil},
		"no reason reported": {claimsPending, Facts{Claims: []corev1.PersistentVolumeClaim{claim("Pending", "lvms-vg1",
			"1Gi")}, StorageClasses: []storagev1.StorageClass{storageClass()}, Pods: []corev1.Pod{user("")},
			Nodes: []corev1.Node{node("node1", corev1.ConditionTrue, "2147483648")}},
			[]string{"warning", "no reason reported"}},

		"a volume is not mounted": {podsWaiting,
			Facts{Pods: []corev1.Pod{waiting()},
				Claims: []corev1.PersistentVolumeClaim{claim("Bound", "lvms-vg1", "1Gi")},
				Events: []corev1.Event{mountFailed()}},
			[]string{"warning",
				"pod shop/web (claims shop/data; node node1) does not start: FailedMount: no such device"}},
		"a Pod waits for its claim": {podsWaiting,
			Facts{Pods: []corev1.Pod{waiting()},
				Claims: []corev1.PersistentVolumeClaim{claim("Pending", "lvms-vg1", "1Gi")},
				Events: []corev1.Event{mountFailed()}}, nil},
		"a Pod is about to start": {podsWaiting,
			Facts{Pods: []corev1.Pod{waiting()},
				Claims: []corev1.PersistentVolumeClaim{claim("Bound", "lvms-vg1", "1Gi")}}, nil},
		"the kubelet lacks the driver": {driversNotRegistered,
			Facts{Pods: []corev1.Pod{agent("node1", running)},
				CSINodes: []storagev1.CSINode{{ObjectMeta: named("", "node1")}}},
			[]string{"warning", "kubelet of node node1"}},
		"the kubelet has the driver": {driversNotRegistered, Facts{Pods: []corev1.Pod{agent("node1", running)},
			CSINodes: []storagev1.CSINode{{ObjectMeta: named("", "node1"),
				Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "topolvm.io"}}}}}}, nil},

		"a volume is broken": {problemsOf(verdict.Volume),
			Facts{LogicalVolumes: []topolvmv1.LogicalVolume{withCondition(volume("a", "node1", "shop/data"),
				"read-only")}}, []string{"warning", "shop/data", "read-only"}},
		"a volume is well": {problemsOf(verdict.Volume),
			Facts{LogicalVolumes: []topolvmv1.LogicalVolume{volume("a", "node1", "shop/data")}}, nil},

		"a deletion waits": {deletionsStuck,
			Facts{Now: now, Clusters: []v1alpha1.LVMCluster{{ObjectMeta: metav1.ObjectMeta{Name: "c",
				DeletionTimestamp: deleted(time.Hour), Finalizers: []string{"f"}}}}},
			[]string{"warning", "LVMCluster c has been terminating", "blocked by f"}},
		"a deletion is young": {deletionsStuck,
			Facts{Now: now, Clusters: []v1alpha1.LVMCluster{{ObjectMeta: metav1.ObjectMeta{Name: "c",
				DeletionTimestamp: deleted(time.Minute)}}}}, nil},

		"a node could not be looked at": {problemsOf(verdict.Node),
			Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{{ObjectMeta: named("ns", "node1"),
				Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{
					Conditions: []metav1.Condition{falseCondition("DevicesObserved", "ObservationFailed",
						"lsblk hangs")}}}}}, []string{"warning", "node1", "lsblk hangs"}},
		"nobody has looked for an hour": {problemsOf(verdict.Node),
			Facts{Now: now, NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{{ObjectMeta: named("ns", "node1"),
				Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{LastObserved: deleted(time.Hour)}}}},
			[]string{"warning", "node node1: ObservationOutdated: The node agent has not observed the node since " +
				"2026-03-01T11"}},
		"the operator noticed that": {problemsOf(verdict.Node),
			Facts{Now: now, NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{{ObjectMeta: named("ns", "node1"),
				Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{LastObserved: deleted(time.Hour),
					Conditions: []metav1.Condition{{Type: "DevicesObserved", Status: metav1.ConditionUnknown,
						Reason: "ObservationOutdated"}}}}}},
			[]string{"warning", "node node1: ObservationOutdated: The node agent has not observed the node since " +
				"2026-03-01T11"}},
		"somebody has just looked": {problemsOf(verdict.Node),
			Facts{Now: now, NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{{ObjectMeta: named("ns", "node1"),
				Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{LastObserved: deleted(time.Minute),
					Conditions: []metav1.Condition{trueCondition("DevicesObserved")}}}}}, nil},
		"the kernel tells of errors": {kernelLog,
			Facts{Kernel: map[string][]string{"node1": {"[1.0] I/O error, dev sdb, sector 8",
				"[2.0] I/O error, dev sdb, sector 16"}}},
			[]string{"warning", "node1 has 2 lines about errors of sdb", "sector 16"}},
		"operands are not applied": {problemsOf(verdict.Cluster),
			Facts{Clusters: []v1alpha1.LVMCluster{
				{Status: v1alpha1.LVMClusterStatus{Conditions: []metav1.Condition{falseCondition("ResourcesAvailable",
					"ResourcesSyncIncomplete", "forbidden"), trueCondition("VolumeGroupsReady")}}}}},
			[]string{"warning", "forbidden"}},
		"nobody looked": {problemsOf(verdict.Cluster), Facts{Clusters: []v1alpha1.LVMCluster{{}}},
			[]string{"warning", "has not been reconciled"}},
		"nothing is set up":    {problemsOf(verdict.Cluster), Facts{}, []string{"info", "no LVMCluster"}},
		"whether is not known": {problemsOf(verdict.Cluster), unread("lvmclusters.lvm.topolvm.io of namespace a"), nil},
		"Deployments are not known": {problemsOf(verdict.Operator),
			with(unread("deployments.apps of namespace a"),
				func(f *Facts) { f.Clusters = []v1alpha1.LVMCluster{{}} }), nil},
		"CSINodes are not known": {driversNotRegistered, with(unread("csinodes.storage.k8s.io"), func(f *Facts) {
			f.Pods, f.CSINodes = []corev1.Pod{agent("node1", running)},
				[]storagev1.CSINode{{ObjectMeta: named("", "node2")}}
		}), nil},
		"nodes are not known": {nodesNotReady, with(unread("nodes"), func(f *Facts) {
			f.Nodes, f.LogicalVolumes = []corev1.Node{node("node1", corev1.ConditionTrue, "")},
				[]topolvmv1.LogicalVolume{volume("a", "node9", "shop/data")}
		}), nil},
		"StorageClasses are not known": {claimsPending, with(unread("storageclasses.storage.k8s.io"), func(f *Facts) {
			f.Claims = []corev1.PersistentVolumeClaim{claim("Pending", "lvms-x", "1Gi")}
		}), []string{"warning", "its StorageClass could not be read"}},

		"an alert fires": {alerts, Facts{Alerts: []Alert{alert("LVMSDeviceMissing", "critical", "firing", "vg1",
			"node1")}}, []string{"critical", "firing alert LVMSDeviceMissing: vg1 node1"}},
		"an alert is pending": {alerts, Facts{Alerts: []Alert{alert("LVMSDeviceMissing", "critical", "pending", "vg1",
			"node1")}}, nil},
		"there are orphans": {problemsOf(verdict.Orphan), Facts{
			NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
				v1alpha1.VGStatus{Name: "vg1", OrphanCount: 1,
					Orphans: []v1alpha1.OrphanStatus{{Kind: "Object", Name: "o"}}})}},
			[]string{"info", "o in device class vg1 on node node1: OrphanObject: ", "attach the disks"}},
		"there are orphans that are not listed": {problemsOf(verdict.Orphan), Facts{
			NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("node1",
				v1alpha1.VGStatus{Name: "vg1", OrphanCount: 40})}}, []string{"info", "40 more orphans"}},
		"reads failed": {gaps, Facts{Failures: archive.Failures{Failures: []archive.Failure{{What: "pods",
			Error: "no"}}}}, []string{"info", "could not be read: pods: no"}},
		"a program failed": {gaps, Facts{Collected: map[string]gatherindex.Index{
			"node1": {Results: []gatherindex.Result{{File: "lsblk.json", Error: "hangs"}, {File: "nvme",
				Absent: true}}}}},
			[]string{"info", "node node1: lsblk.json could not be read: hangs"}},
		"time was over": {gaps, Facts{Timings: archive.Timings{Interrupted: "time limit"}},
			[]string{"info", "time limit"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := test.rule(&test.facts)
			if len(test.want) == 0 {
				if len(found) != 0 {
					t.Errorf("found %+v, want nothing", found)
				}
				return
			}
			if len(found) != 1 || string(found[0].Severity) != test.want[0] {
				t.Fatalf("found %+v, want one that is %s", found, test.want[0])
			}
			for _, want := range test.want[1:] {
				if text := found[0].Text + " " + found[0].Do; !strings.Contains(text, want) {
					t.Errorf("%q is not in %q", want, text)
				}
			}
		})
	}
}

func unread(what string) Facts {
	return Facts{Failures: archive.Failures{Failures: []archive.Failure{{What: what, Error: "no"}}}}
}

func with(f Facts, change func(*Facts)) Facts {
	change(&f)
	return f
}

func withCondition(lv topolvmv1.LogicalVolume, text string) topolvmv1.LogicalVolume {
	lv.Annotations[wellknown.ConditionAnnotation] = text
	return lv
}

func moved(path, name, byID string) Facts {
	status := nodeStatus("node1", v1alpha1.VGStatus{Name: "vg1",
		PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "u", Path: path, DeviceID: "serial:S1"}}})
	status.Status.Devices = []v1alpha1.DeviceStatus{{Name: name, ID: "serial:S1", ByID: []string{byID},
		State: v1alpha1.DeviceInUse}}
	return Facts{NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{status}}
}

func daemonSet(desired, ready int32) appsv1.DaemonSet {
	return appsv1.DaemonSet{ObjectMeta: named("ns", agentName),
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: desired, NumberReady: ready}}
}

func webhooks(authority, leaf []byte) Facts {
	f := Facts{Now: now, Webhooks: []admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: named("", "lvms"),
		Webhooks: []admissionv1.ValidatingWebhook{{
			ClientConfig: admissionv1.WebhookClientConfig{CABundle: authority,
				Service: &admissionv1.ServiceReference{Namespace: "ns", Name: "hook"}}}}}}}
	if leaf != nil {
		f.Secrets = []corev1.Secret{{ObjectMeta: named("ns", webhookSecret), Data: map[string][]byte{"tls.crt": leaf}}}
	}
	return f
}

func secret(leaf []byte) Facts {
	return Facts{Now: now, Secrets: []corev1.Secret{{ObjectMeta: named("ns", "s"), Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": leaf}}}}
}

type certificatePair struct{ authority, leaf []byte }

// chain creates an authority, and a certificate of it for the webhook's service.
func chain(t *testing.T, end time.Time) certificatePair {
	t.Helper()
	begin := now.Add(-1000 * time.Hour)
	authority, err := pki.NewAuthority(pki.Request{Name: "authority", Now: begin, Validity: end.Sub(begin)})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := authority.Issue(pki.ServerRequest(begin, end.Sub(begin), pki.ServiceNames("ns", "hook")...))
	if err != nil {
		t.Fatal(err)
	}
	return certificatePair{authority.PEM(), leaf.Certificate}
}

func TestFindingsThatComeByTheThousandAreBounded(t *testing.T) {
	var f Facts
	for i := range 3000 {
		f.LogicalVolumes = append(f.LogicalVolumes,
			withCondition(volume(fmt.Sprint("v", i), "node1", fmt.Sprint("shop/c", i)), "broken"))
	}
	found := problemsOf(verdict.Volume)(&f)
	if len(found) != maxOfARule+1 || !strings.Contains(found[maxOfARule].Text, "2980 more volumes") {
		t.Errorf("%d findings, the last: %+v", len(found), found[len(found)-1])
	}
}

func TestLinesOfTheKernelAboutDevices(t *testing.T) {
	for _, line := range []string{
		"[ 1.0] I/O error, dev sdb, sector 8 op 0x0:(READ)", "critical medium error, dev sda, sector 1",
		"sd 0:0:0:0: [sda] tag#1 Add. Sense: Unrecovered read error",
		"sd 0:0:0:0: Device offlined - not ready after error recovery",
		"sd 0:0:0:0: rejecting I/O to offline device",
		"device-mapper: thin: 253:4: reached low water mark: switching pool to read-only mode",
		"XFS (dm-3): log I/O error -5", "EXT4-fs error (device dm-2): ext4_find_entry",
		"INFO: task kworker blocked for more than 122 seconds.", "Buffer I/O error on dev dm-7, logical block 0",
	} {
		if matched := trouble.MatchString(line); matched && !suspect(line) {
			t.Errorf("%q is passed over", line)
		} else if !matched && !strings.Contains(line, "Sense:") {
			t.Errorf("%q is not seen", line)
		}
	}
	for _, line := range []string{"systemd[1]: Started something", "sd 0:0:0:0: [sda] Attached SCSI disk",
		"XFS (dm-3): Mounting V5 Filesystem"} {
		if suspect(line) && trouble.MatchString(line) {
			t.Errorf("%q is no trouble", line)
		}
	}
}
