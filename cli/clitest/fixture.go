// Package clitest has the objects of a cluster, a fake API server and the plugin with a fake client, for the tests of
// the commands.
package clitest

import (
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/objects"
)

var Now = time.Date(2026, 3, 2, 8, 15, 30, 0, time.UTC)

// Quantity returns a quantity to which a field points.
func Quantity(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }

// Condition returns a condition that has changed now.
func Condition(kind, reason string, status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(Now)}
}

func observedNow() []metav1.Condition {
	return []metav1.Condition{Condition(v1alpha1.ConditionDevicesObserved, v1alpha1.ReasonDevicesObserved,
		metav1.ConditionTrue, "")}
}

// OperatorOf is the Deployment of an operator with a number of ready Pods.
func OperatorOf(namespace string, available int32) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "lvms-operator"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lvms-operator"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "lvms-operator"}}}}},
		Status: appsv1.DeploymentStatus{Replicas: available, ReadyReplicas: available, AvailableReplicas: available}}
}

// HealthyCluster is an LVMCluster whose device class is ready.
func HealthyCluster(namespace string) *v1alpha1.LVMCluster {
	ready := func(kind, reason string) metav1.Condition { return Condition(kind, reason, metav1.ConditionTrue, "") }
	return &v1alpha1.LVMCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lvmcluster"},
		Status: v1alpha1.LVMClusterStatus{Ready: true, State: v1alpha1.LVMStatusReady, VolumeGroups: "1/1",
			Size: Quantity("100Gi"), Free: Quantity("60Gi"),
			Conditions: []metav1.Condition{
				ready(v1alpha1.ConditionReady, "Ready"),
				ready(v1alpha1.ConditionResourcesAvailable, v1alpha1.ReasonResourcesAvailable),
				ready(v1alpha1.ConditionVolumeGroupsReady, v1alpha1.ReasonVGsReady)},
			DeviceClassStatuses: []v1alpha1.DeviceClassStatus{{Name: "vg1", NodeStatus: []v1alpha1.NodeStatus{
				{Node: "worker-1", VGStatus: v1alpha1.VGStatus{Name: "vg1", Status: v1alpha1.VGStatusReady,
					Devices: []string{"/dev/sdb"}}}}}}},
	}
}

// HealthyNode is a node with one volume group on one device, another device that can be used and the system disk.
func HealthyNode(namespace string) *v1alpha1.LVMVolumeGroupNodeStatus {
	return &v1alpha1.LVMVolumeGroupNodeStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker-1"},
		Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{
			Conditions: observedNow(), LastObserved: ptr.To(metav1.NewTime(Now.Add(-time.Minute))),
			Devices: []v1alpha1.DeviceStatus{
				{Name: "/dev/sda", Type: "disk", Size: Quantity("64Gi"), State: v1alpha1.DeviceExcluded, ID: "wwn:0x1",
					Reasons: []v1alpha1.DeviceReason{
						{Code: "IsOSDisk", Message: "it contains the operating system"}, {Code: "HasPartitions"}}},
				{Name: "/dev/sdb", Type: "disk", Size: Quantity("100Gi"), State: v1alpha1.DeviceInUse, ID: "wwn:0x2",
					ByID: []string{"wwn-0x2"}, Model: "Fast disk", Serial: "S2", PVUUID: "pv-b", VolumeGroup: "vg1"},
				{Name: "/dev/sdc", Type: "disk", Size: Quantity("1536Mi"), ID: "wwn:0x3",
					State: v1alpha1.DeviceAvailable},
			},
			NodeStatus: []v1alpha1.VGStatus{{Name: "vg1", Status: v1alpha1.VGStatusReady,
				Conditions: []metav1.Condition{
					Condition(v1alpha1.ConditionDevicesHealthy, "DevicesHealthy", metav1.ConditionTrue, "")},
				Devices: []string{"/dev/sdb"}, Size: Quantity("100Gi"), Free: Quantity("10Gi"),
				MetadataArea: &v1alpha1.MetadataAreaStatus{Size: resource.MustParse("16Mi"),
					Free: resource.MustParse("6Mi")},
				PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb", DeviceID: "wwn:0x2",
					State: v1alpha1.PhysicalVolumeReady}},
				ThinPool: &v1alpha1.ThinPoolStatus{Name: "thin-pool", Size: resource.MustParse("90Gi"),
					MetadataSize: resource.MustParse("1Gi"), DataPercent: 45, MetadataPercent: 3,
					Free: Quantity("50Gi"), VirtualSize: Quantity("200Gi")}}},
		},
	}
}

// BrokenNode is a node with a missing device in a volume group of two, and orphans.
func BrokenNode(namespace string) *v1alpha1.LVMVolumeGroupNodeStatus {
	const missing = "device class vg1 on node worker-2: device /dev/sdd is missing; volumes at risk: shop/data"
	node := HealthyNode(namespace)
	node.Name = "worker-2"
	node.Status.DevicesOmitted = 7
	group := &node.Status.NodeStatus[0]
	group.Status = v1alpha1.VGStatusDegraded
	group.Reason = missing + "; device /dev/sde: not wiped"
	group.Conditions[0] = Condition(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing,
		metav1.ConditionFalse, missing)
	group.PhysicalVolumes = append(group.PhysicalVolumes, v1alpha1.PhysicalVolumeStatus{UUID: "pv-d", Name: "/dev/sdd",
		DeviceID: "wwn:0x4", State: v1alpha1.PhysicalVolumeMissing})
	group.Devices = append(group.Devices, "/dev/sdd")
	group.Orphans = []v1alpha1.OrphanStatus{
		{Kind: v1alpha1.OrphanLogicalVolume, Name: "vg1/old", Claim: "shop/old"},
		{Kind: v1alpha1.OrphanLogicalVolume, Name: "vg1/deleted", RemovalTime: ptr.To(metav1.NewTime(Now))}}
	group.OrphanCount = 5
	node.Status.Devices = append(node.Status.Devices,
		v1alpha1.DeviceStatus{Name: "/dev/sdd", State: v1alpha1.DeviceMissing, PVUUID: "pv-d"},
		v1alpha1.DeviceStatus{Name: "/dev/sde", State: v1alpha1.DeviceUnknown,
			Reasons: []v1alpha1.DeviceReason{{Code: "Unreadable", Message: "has not answered since 08:00"}}})
	return node
}

// BrokenCluster is an LVMCluster with a degraded device class, and a node that has not reported.
func BrokenCluster(namespace string) *v1alpha1.LVMCluster {
	cluster := HealthyCluster(namespace)
	status := &cluster.Status
	status.State = v1alpha1.LVMStatusDegraded
	status.Ready = false
	status.VolumeGroups = "1/3"
	status.Conditions[0] = Condition(v1alpha1.ConditionReady, "Degraded", metav1.ConditionFalse, "device class vg1 …")
	status.Conditions[2] = Condition(v1alpha1.ConditionVolumeGroupsReady, v1alpha1.ReasonVGsDegraded,
		metav1.ConditionFalse, "device class vg1 on node worker-2: …; device class vg1 on node worker-3: …")
	entries := &status.DeviceClassStatuses[0].NodeStatus
	*entries = append(*entries,
		v1alpha1.NodeStatus{Node: "worker-2", VGStatus: v1alpha1.VGStatus{Status: v1alpha1.VGStatusDegraded}},
		v1alpha1.NodeStatus{Node: "worker-3", VGStatus: v1alpha1.VGStatus{
			Status: v1alpha1.VGStatusProgressing, Reason: "the node agent has not reported yet"}})
	return cluster
}

// Volume is a volume of 20Gi that was created for a claim, if it is not empty.
func Volume(name, node, class, claim string) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: node, DeviceClass: class,
			Size: resource.MustParse("20Gi")},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: "id-" + name, CurrentSize: Quantity("20Gi")},
	}
	if claim != "" {
		lv.Annotations = map[string]string{wellknown.ClaimAnnotation: claim}
	}
	return lv
}

// encryptedVolume is a volume that the API says is encrypted.
func encryptedVolume(name, node, class, claim string) *topolvmv1.LogicalVolume {
	lv := Volume(name, node, class, claim)
	lv.Annotations[wellknown.EncryptionAnnotation] = wellknown.EncryptionLUKS2
	return lv
}

// FailedVolume is a volume that could not be created.
func FailedVolume() *topolvmv1.LogicalVolume {
	lv := Volume("pvc-4", "worker-1", "vg1", "web/cache")
	lv.Status = topolvmv1.LogicalVolumeStatus{Code: codes.ResourceExhausted, Message: "no space on node worker-1"}
	return lv
}

// HealthyObjects are an operator, an LVMCluster, a node and a volume without problems.
func HealthyObjects(namespace string) []client.Object {
	return []client.Object{OperatorOf(namespace, 1), HealthyCluster(namespace), HealthyNode(namespace),
		Volume("pvc-1", "worker-1", "vg1", "shop/data")}
}

// BrokenObjects are objects with several problems.
func BrokenObjects(namespace string) []client.Object {
	return []client.Object{OperatorOf(namespace, 1), BrokenCluster(namespace), HealthyNode(namespace),
		BrokenNode(namespace),
		WaitingRecovery(namespace),
		Volume("pvc-1", "worker-1", "vg1", "shop/data"), encryptedVolume("pvc-2", "worker-2", "vg1", "shop/data-2"),
		Volume("pvc-3", "worker-2", "", ""), FailedVolume()}
}

// WaitingNode is a node on which a blank disk waits, a disk with content has changed, and a disk has no fingerprint.
func WaitingNode(namespace string) *v1alpha1.LVMVolumeGroupNodeStatus {
	node := HealthyNode(namespace)
	waits := func(reason string) []v1alpha1.DeviceEligibility {
		return []v1alpha1.DeviceEligibility{{DeviceClass: "vg1", Reasons: []string{reason}}}
	}
	blank := &node.Status.Devices[2]
	blank.ByID = []string{"wwn-0x3"}
	blank.Fingerprint = Fingerprint
	blank.Eligibility = waits(objects.AwaitingApproval)
	node.Status.Devices = append(node.Status.Devices,
		v1alpha1.DeviceStatus{Name: "/dev/sdd", State: v1alpha1.DeviceExcluded, Size: Quantity("2Gi"), ID: "serial:d",
			Signatures:  []v1alpha1.DeviceSignature{{Type: "ext4", UUID: "u-1"}},
			Fingerprint: "v1-1123456789abcdef0123456789abcdef", Eligibility: waits(objects.ChangedSinceReview)},
		v1alpha1.DeviceStatus{Name: "/dev/sde", State: v1alpha1.DeviceUnknown,
			Eligibility: waits(objects.AwaitingApproval)})
	return node
}

const Fingerprint = "v1-0123456789abcdef0123456789abcdef"

// LabeledNode is a healthy node with devices that have labels, are missing, or cannot have labels.
func LabeledNode(namespace string) *v1alpha1.LVMVolumeGroupNodeStatus {
	node := HealthyNode(namespace)
	node.Spec.DeviceLabels = []v1alpha1.DeviceLabels{
		{ID: "wwn:0x2", Labels: v1alpha1.DeviceLabelSet{"tier": "fast", "rack": ""}},
		{ID: "wwn:0x9", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}},
	}
	node.Status.Devices[1].Labels = map[string]string{"tier": "fast", "rack": ""}
	node.Status.Devices = append(node.Status.Devices,
		v1alpha1.DeviceStatus{Name: "/dev/sdc", ID: "wwn:0x8", State: v1alpha1.DeviceMissing},
		v1alpha1.DeviceStatus{Name: "/dev/sdd", State: v1alpha1.DeviceAvailable},
		v1alpha1.DeviceStatus{Name: "/dev/sde", ID: "fs:u-1", State: v1alpha1.DeviceExcluded},
		v1alpha1.DeviceStatus{Name: "/dev/sdf", ID: "serial:1", ByID: []string{"same"}},
		v1alpha1.DeviceStatus{Name: "/dev/sdg", ID: "serial:2", ByID: []string{"same"}})
	return node
}

// PersistentVolumeOf returns a PersistentVolume of a driver for a claim, on the node worker-1.
func PersistentVolumeOf(name, driver, claim string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driver, VolumeHandle: "id-" + name}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: wellknown.EarlierTopologyNodeKey, Operator: corev1.NodeSelectorOpIn,
					Values: []string{"worker-1"}}}}}}}}}
	if namespace, name, ok := strings.Cut(claim, "/"); ok {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: name}
	}
	return pv
}

// StorageCluster is an LVMCluster with the device class vg1 at index 1, which selects /dev/sdb by its link.
func StorageCluster(namespace string, requests ...v1alpha1.DeviceRequest) *v1alpha1.LVMCluster {
	cluster := HealthyCluster(namespace)
	cluster.UID = "uid-c"
	cluster.Spec.Storage.DeviceClasses = []v1alpha1.DeviceClass{
		{Name: "other", DeviceSelector: &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/sdx"}}},
		{Name: "vg1", DeviceRequests: requests, DeviceSelector: &v1alpha1.DeviceSelector{
			OptionalPaths: []v1alpha1.DevicePath{"/dev/disk/by-id/wwn-0x2"}}}}
	return cluster
}

// PairedNode is a node whose volume group has two devices: /dev/sdb with 60Gi of data, and /dev/sde with the free
// space.
func PairedNode(namespace, free string) *v1alpha1.LVMVolumeGroupNodeStatus {
	node := HealthyNode(namespace)
	group := &node.Status.NodeStatus[0]
	group.Devices = append(group.Devices, "/dev/sde")
	group.PhysicalVolumes[0].Size = Quantity("100Gi")
	group.PhysicalVolumes[0].Free = Quantity("40Gi")
	group.PhysicalVolumes = append(group.PhysicalVolumes, v1alpha1.PhysicalVolumeStatus{UUID: "pv-e", Name: "/dev/sde",
		DeviceID: "wwn:0x5", State: v1alpha1.PhysicalVolumeReady, Size: Quantity("100Gi"), Free: Quantity(free)})
	node.Status.Devices = append(node.Status.Devices, v1alpha1.DeviceStatus{Name: "/dev/sde", PVUUID: "pv-e",
		State: v1alpha1.DeviceInUse, VolumeGroup: "vg1", VolumeGroupUUID: "vg-uuid-1", ID: "wwn:0x5"})
	return node
}

// Request is a request for a device of the node worker-1.
func Request(device string, action v1alpha1.DeviceAction) v1alpha1.DeviceRequest {
	return v1alpha1.DeviceRequest{Node: "worker-1", Device: device, Action: action}
}

// BoundTo returns the PersistentVolume of the LogicalVolume with the same name, bound to a claim.
func BoundTo(name, claim string) *corev1.PersistentVolume {
	pv := PersistentVolumeOf(name, wellknown.DriverName, claim)
	pv.Status.Phase = corev1.VolumeBound
	return pv
}
