package cli

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/limit"
)

var update = flag.Bool("update", false, "write the golden files, and the page of docs/reference")

var now = time.Date(2026, 3, 2, 8, 15, 30, 0, time.UTC)

// quantity returns a quantity to which a field points.
func quantity(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }

// condition returns a condition that has changed now.
func condition(kind, reason string, status metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now)}
}

func observedNow() []metav1.Condition {
	return []metav1.Condition{condition(v1alpha1.ConditionDevicesObserved, v1alpha1.ReasonDevicesObserved,
		metav1.ConditionTrue, "")}
}

// operatorOf is the Deployment of an operator with a number of ready Pods.
func operatorOf(namespace string, available int32) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "lvms-operator"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lvms-operator"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "lvms-operator"}}}}},
		Status: appsv1.DeploymentStatus{Replicas: available, ReadyReplicas: available, AvailableReplicas: available}}
}

// healthyCluster is an LVMCluster whose device class is ready.
func healthyCluster(namespace string) *v1alpha1.LVMCluster {
	ready := func(kind, reason string) metav1.Condition { return condition(kind, reason, metav1.ConditionTrue, "") }
	return &v1alpha1.LVMCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lvmcluster"},
		Status: v1alpha1.LVMClusterStatus{Ready: true, State: v1alpha1.LVMStatusReady, VolumeGroups: "1/1",
			Size: quantity("100Gi"), Free: quantity("60Gi"),
			Conditions: []metav1.Condition{
				ready(v1alpha1.ConditionReady, "Ready"),
				ready(v1alpha1.ConditionResourcesAvailable, v1alpha1.ReasonResourcesAvailable),
				ready(v1alpha1.ConditionVolumeGroupsReady, v1alpha1.ReasonVGsReady)},
			DeviceClassStatuses: []v1alpha1.DeviceClassStatus{{Name: "vg1", NodeStatus: []v1alpha1.NodeStatus{
				{Node: "worker-1", VGStatus: v1alpha1.VGStatus{Name: "vg1", Status: v1alpha1.VGStatusReady,
					Devices: []string{"/dev/sdb"}}}}}}},
	}
}

// healthyNode is a node with one volume group on one device, another device that can be used and the system disk.
func healthyNode(namespace string) *v1alpha1.LVMVolumeGroupNodeStatus {
	return &v1alpha1.LVMVolumeGroupNodeStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker-1"},
		Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{
			Conditions: observedNow(), LastObserved: ptr.To(metav1.NewTime(now.Add(-time.Minute))),
			Devices: []v1alpha1.DeviceStatus{
				{Name: "/dev/sda", Type: "disk", Size: quantity("64Gi"), State: v1alpha1.DeviceExcluded, ID: "wwn:0x1",
					Reasons: []v1alpha1.DeviceReason{
						{Code: "IsOSDisk", Message: "it contains the operating system"}, {Code: "HasPartitions"}}},
				{Name: "/dev/sdb", Type: "disk", Size: quantity("100Gi"), State: v1alpha1.DeviceInUse, ID: "wwn:0x2",
					ByID: []string{"wwn-0x2"}, Model: "Fast disk", Serial: "S2", PVUUID: "pv-b", VolumeGroup: "vg1"},
				{Name: "/dev/sdc", Type: "disk", Size: quantity("1536Mi"), ID: "wwn:0x3",
					State: v1alpha1.DeviceAvailable},
			},
			NodeStatus: []v1alpha1.VGStatus{{Name: "vg1", Status: v1alpha1.VGStatusReady,
				Conditions: []metav1.Condition{
					condition(v1alpha1.ConditionDevicesHealthy, "DevicesHealthy", metav1.ConditionTrue, "")},
				Devices: []string{"/dev/sdb"}, Size: quantity("100Gi"), Free: quantity("10Gi"),
				MetadataArea: &v1alpha1.MetadataAreaStatus{Size: resource.MustParse("16Mi"), Free: resource.MustParse("6Mi")},
				PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb", DeviceID: "wwn:0x2",
					State: v1alpha1.PhysicalVolumeReady}},
				ThinPool: &v1alpha1.ThinPoolStatus{Name: "thin-pool", Size: resource.MustParse("90Gi"),
					MetadataSize: resource.MustParse("1Gi"), DataPercent: 45, MetadataPercent: 3,
					Free: quantity("50Gi"), VirtualSize: quantity("200Gi")}}},
		},
	}
}

// brokenNode is a node with a missing device in a volume group of two, and orphans.
func brokenNode(namespace string) *v1alpha1.LVMVolumeGroupNodeStatus {
	const missing = "device class vg1 on node worker-2: device /dev/sdd is missing; volumes at risk: shop/data"
	node := healthyNode(namespace)
	node.Name = "worker-2"
	node.Status.DevicesOmitted = 7
	group := &node.Status.NodeStatus[0]
	group.Status, group.Reason = v1alpha1.VGStatusDegraded, missing+"; device /dev/sde: not wiped"
	group.Conditions[0] = condition(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing,
		metav1.ConditionFalse, missing)
	group.PhysicalVolumes = append(group.PhysicalVolumes, v1alpha1.PhysicalVolumeStatus{UUID: "pv-d", Name: "/dev/sdd",
		DeviceID: "wwn:0x4", State: v1alpha1.PhysicalVolumeMissing})
	group.Devices = append(group.Devices, "/dev/sdd")
	group.Orphans = []v1alpha1.OrphanStatus{
		{Kind: v1alpha1.OrphanLogicalVolume, Name: "vg1/old", Claim: "shop/old"},
		{Kind: v1alpha1.OrphanLogicalVolume, Name: "vg1/deleted", RemovalTime: ptr.To(metav1.NewTime(now))}}
	group.OrphanCount = 5
	node.Status.Devices = append(node.Status.Devices,
		v1alpha1.DeviceStatus{Name: "/dev/sdd", State: v1alpha1.DeviceMissing, PVUUID: "pv-d"},
		v1alpha1.DeviceStatus{Name: "/dev/sde", State: v1alpha1.DeviceUnknown,
			Reasons: []v1alpha1.DeviceReason{{Code: "Unreadable", Message: "has not answered since 08:00"}}})
	return node
}

// brokenCluster is an LVMCluster with a degraded device class, and a node that has not reported.
func brokenCluster(namespace string) *v1alpha1.LVMCluster {
	cluster := healthyCluster(namespace)
	status := &cluster.Status
	status.State, status.Ready, status.VolumeGroups = v1alpha1.LVMStatusDegraded, false, "1/3"
	status.Conditions[0] = condition(v1alpha1.ConditionReady, "Degraded", metav1.ConditionFalse, "device class vg1 …")
	status.Conditions[2] = condition(v1alpha1.ConditionVolumeGroupsReady, v1alpha1.ReasonVGsDegraded,
		metav1.ConditionFalse, "device class vg1 on node worker-2: …; device class vg1 on node worker-3: …")
	entries := &status.DeviceClassStatuses[0].NodeStatus
	*entries = append(*entries,
		v1alpha1.NodeStatus{Node: "worker-2", VGStatus: v1alpha1.VGStatus{Status: v1alpha1.VGStatusDegraded}},
		v1alpha1.NodeStatus{Node: "worker-3", VGStatus: v1alpha1.VGStatus{
			Status: v1alpha1.VGStatusProgressing, Reason: "the node agent has not reported yet"}})
	return cluster
}

// waitingRecovery is a recovery whose plan awaits its approval.
func waitingRecovery(namespace string) *v1alpha1.LVMRecovery {
	recovery := &v1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lost-disk"},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: "worker-2", DeviceClassName: "vg1",
			Action: v1alpha1.RecoveryRemoveLostDevices},
		Status: v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryAwaitingApproval, Message: "approve the plan",
			Plan: &v1alpha1.RecoveryPlan{LostVolumeCount: 2, CreationTime: metav1.NewTime(now),
				Devices: []v1alpha1.RecoveryDevice{}}},
	}
	recovery.Status.Plan.ID = v1alpha1.PlanID(recovery.Spec.Action, "worker-2", "vg1", recovery.Status.Plan)
	return recovery
}

// volume is a volume of 20Gi that was created for a claim, if it is not empty.
func volume(name, node, class, claim string) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: node, DeviceClass: class,
			Size: resource.MustParse("20Gi")},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: "id-" + name, CurrentSize: quantity("20Gi")},
	}
	if claim != "" {
		lv.Annotations = map[string]string{v1alpha1.ClaimAnnotation: claim}
	}
	return lv
}

// encryptedVolume is a volume that the API says is encrypted.
func encryptedVolume(name, node, class, claim string) *topolvmv1.LogicalVolume {
	lv := volume(name, node, class, claim)
	lv.Annotations[v1alpha1.EncryptionAnnotation] = v1alpha1.EncryptionLUKS2
	return lv
}

// failedVolume is a volume that could not be created.
func failedVolume() *topolvmv1.LogicalVolume {
	lv := volume("pvc-4", "worker-1", "vg1", "web/cache")
	lv.Status = topolvmv1.LogicalVolumeStatus{Code: codes.ResourceExhausted, Message: "no space on node worker-1"}
	return lv
}

// healthyObjects are an operator, an LVMCluster, a node and a volume without problems.
func healthyObjects(namespace string) []client.Object {
	return []client.Object{operatorOf(namespace, 1), healthyCluster(namespace), healthyNode(namespace),
		volume("pvc-1", "worker-1", "vg1", "shop/data")}
}

// brokenObjects are objects with several problems.
func brokenObjects(namespace string) []client.Object {
	return []client.Object{operatorOf(namespace, 1), brokenCluster(namespace), healthyNode(namespace),
		brokenNode(namespace),
		waitingRecovery(namespace),
		volume("pvc-1", "worker-1", "vg1", "shop/data"), encryptedVolume("pvc-2", "worker-2", "vg1", "shop/data-2"),
		volume("pvc-3", "worker-2", "", ""), failedVolume()}
}

// result is what a command printed, with its exit code.
type result struct {
	code     int
	out, err string
}

// fakeReader returns a client with objects. If fail returns an error for a list, the list fails with it.
func fakeReader(fail func(client.ObjectList, client.ListOptions) error, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			o := client.ListOptions{}
			o.ApplyOptions(options)
			if fail != nil {
				if err := fail(list, o); err != nil {
					return err
				}
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
}

// pluginWith is the plugin with some of its commands.
type pluginWith func(*environment) []*cobra.Command

// run runs a command with a client.
func (p pluginWith) run(t *testing.T, c client.Client, args ...string) result {
	t.Helper()
	return p.runWith(t, c, "", nil, args...)
}

// runWith runs a command with a client. If input is not empty, it is what a person types. Each time that the command
// waits, the next step is called, which does what the cluster would do; the last one is repeated.
func (p pluginWith) runWith(t *testing.T, c client.Client, input string, steps []func(), args ...string) result {
	t.Helper()
	e := environment{flags: genericclioptions.NewConfigFlags(true), now: func() time.Time { return now },
		connect:    func() (client.Client, error) { return c, nil },
		isTerminal: func(io.Reader) bool { return input != "" },
		pause: func(ctx context.Context, _ time.Duration) error {
			if len(steps) > 0 {
				steps[0]()
			}
			if len(steps) > 1 {
				steps = steps[1:]
			}
			return ctx.Err()
		}}
	root := e.root()
	root.AddCommand(p(&e)...)
	ctx, cancel := context.WithTimeout(t.Context(), limit.Hang) // a command that waits for too long fails
	defer cancel()
	var out, errOut bytes.Buffer
	code := execute(ctx, root, args, strings.NewReader(input), &out, &errOut)
	return result{code: code, out: out.String(), err: errOut.String()}
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}
