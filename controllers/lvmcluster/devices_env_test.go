//go:build env

package lvmcluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
)

// playListing simulates the agents of nodes: they list their devices, or fail to.
func (w *world) playListing(status metav1.ConditionStatus, nodes ...string) {
	w.Helper()
	for _, name := range nodes {
		node := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		w.must(w.get(node, name))
		meta.SetStatusCondition(&node.Status.Conditions, metav1.Condition{
			Type: lvmv1alpha1.ConditionDevicesObserved, Status: status, Reason: lvmv1alpha1.ReasonDevicesObserved})
		w.must(w.api.Status().Update(w.Context(), node))
	}
}

func TestWithoutDeviceClassesTheNodesListTheirDevices(t *testing.T) {
	w := newWorld(t)
	_, err := w.reconcile()
	w.must(err)
	want := slices.Concat([]string{
		"patch LVMCluster my-lvmcluster",
		"apply SecurityContextConstraints lvms-vgmanager",
		"apply CSIDriver topolvm.io",
	}, ofPolicies("apply"), []string{
		"apply LVMVolumeGroupNodeStatus a", "apply LVMVolumeGroupNodeStatus b",
		"apply DaemonSet vg-manager",
		"apply ConfigMap lvms-dashboard",
		"patch status LVMCluster my-lvmcluster",
	})
	if diff := cmp.Diff(want, w.spy.Writes()); diff != "" {
		t.Errorf("first reconcile (-want +got):\n%s", diff)
	}
	w.playDaemonSet()
	w.playListing(metav1.ConditionTrue, "a")
	_, err = w.reconcile()
	w.must(err)
	const text = "in LVMVolumeGroupNodeStatus.status.devices and change nothing; to use devices, add a device class " +
		"to spec.storage.deviceClasses"
	if got := w.condition(lvmv1alpha1.ConditionVolumeGroupsReady); got !=
		"True/VGsUnmanaged: the LVMCluster has no device classes: the node agents list the devices of 1 of 2 nodes "+
			text {
		t.Error(got)
	}
	w.playListing(metav1.ConditionTrue, "b")
	_, err = w.reconcile()
	w.must(err)
	if got := w.condition(lvmv1alpha1.ConditionVolumeGroupsReady); got !=
		"True/VGsUnmanaged: the LVMCluster has no device classes: the node agents list the devices of 2 nodes "+text {
		t.Error(got)
	}
	if w.cluster.Status.State != lvmv1alpha1.LVMStatusReady || len(w.cluster.Status.DeviceClassStatuses) != 0 {
		t.Errorf("%+v", w.cluster.Status)
	}
	if diff := cmp.Diff([]string{"Normal ResourceReconciliationSuccess all operands are running; without device " +
		"classes, the devices of the nodes are only listed"}, w.notes.said); diff != "" {
		t.Error(diff)
	}
	daemonSet := &appsv1.DaemonSet{}
	w.must(w.get(daemonSet, operand.AgentName))
	wantEverySuitableNode(t, daemonSet)

	// The operator also owns the records of wipes and of deleted volumes.
	for _, name := range []string{removednode.WipedDevices, removednode.DeletedVolumes} {
		w.make(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.cluster.Namespace}})
	}
	w.make(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "somebody-elses", Namespace: w.cluster.Namespace}})
	w.must(w.api.Delete(w.Context(), w.cluster))
	w.must(w.api.DeleteAllOf(w.Context(), &storagev1.CSINode{}))
	for range 3 {
		_, err = w.reconcile()
		w.must(err)
	}
	for name, object := range map[string]client.Object{
		w.cluster.Name: &lvmv1alpha1.LVMCluster{}, "a": &lvmv1alpha1.LVMVolumeGroupNodeStatus{},
		"b":               &lvmv1alpha1.LVMVolumeGroupNodeStatus{},
		operand.AgentName: &appsv1.DaemonSet{}, wellknown.DriverName: &storagev1.CSIDriver{},
		removednode.WipedDevices:   &corev1.ConfigMap{},
		removednode.DeletedVolumes: &corev1.ConfigMap{},
		"lvms-vgmanager":           metadataOf(sccKind),
	} {
		if w.exists(object, name) {
			t.Errorf("%T %s is left", object, name)
		}
	}
	if !w.exists(&corev1.ConfigMap{}, "somebody-elses") {
		t.Error("deleted what is not ours")
	}
}

// TestNodeWithoutSelectorOfAClassIsWhole checks that the agent runs on such a node too, because selectors can change.
func TestNodeWithoutSelectorOfAClassIsWhole(t *testing.T) {
	class := fixture.Thick("vg1")
	class.DeviceSelector = nil
	class.DeviceSelectors = []lvmv1alpha1.NodeDeviceSelector{{
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}}},
		DeviceSelector: lvmv1alpha1.DeviceSelector{Paths: []lvmv1alpha1.DevicePath{"/dev/sdb"}},
	}}
	w := newWorld(t, class)
	_, err := w.reconcile()
	w.must(err)
	w.playDaemonSet()
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, "a"))
	status.Status.NodeStatus = []lvmv1alpha1.VGStatus{{Name: "vg1", Status: lvmv1alpha1.VGStatusReady,
		Devices: []string{"/dev/sdb"}}}
	w.must(w.api.Status().Update(w.Context(), status))
	for range 2 {
		_, err = w.reconcile()
		w.must(err)
	}
	nodes := w.cluster.Status.DeviceClassStatuses[0].NodeStatus
	if w.cluster.Status.State != lvmv1alpha1.LVMStatusReady || len(nodes) != 1 || nodes[0].Node != "a" {
		t.Errorf("%+v", w.cluster.Status)
	}
	if !w.exists(&lvmv1alpha1.LVMVolumeGroupNodeStatus{}, "b") {
		t.Error("the agent of node b has nowhere to write its devices")
	}

	// The node had a volume group before the selectors changed: its agent still manages and reports it.
	w.must(w.get(status, "b"))
	const left = "the device class no longer selects node b: its volumes stay"
	status.Status.NodeStatus = []lvmv1alpha1.VGStatus{{Name: "vg1", Status: lvmv1alpha1.VGStatusReady,
		Devices: []string{"/dev/sdb"}, Reason: left}}
	w.must(w.api.Status().Update(w.Context(), status))
	_, err = w.reconcile()
	w.must(err)
	nodes = w.cluster.Status.DeviceClassStatuses[0].NodeStatus
	if w.cluster.Status.State != lvmv1alpha1.LVMStatusReady || len(nodes) != 2 || nodes[1].Reason != left {
		t.Errorf("%+v", w.cluster.Status)
	}
}

func TestNodeWithoutAnyOptionalDeviceIsWhole(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	_, err := w.reconcile()
	w.must(err)
	w.playDaemonSet()
	w.playAgents()
	report := func(node string, entry lvmv1alpha1.VGStatus) {
		t.Helper()
		status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
		w.must(w.get(status, node))
		status.Status.NodeStatus = []lvmv1alpha1.VGStatus{entry}
		w.must(w.api.Status().Update(w.Context(), status))
		_, err = w.reconcile()
		w.must(err)
	}
	none := lvmv1alpha1.VGStatus{Name: "vg1", Status: lvmv1alpha1.VGStatusReady,
		Reason: "node b has none of the optional devices"}
	report("b", none)
	if got := w.condition(lvmv1alpha1.ConditionVolumeGroupsReady); !strings.HasPrefix(got, "True/VGsReady") ||
		w.cluster.Status.State != lvmv1alpha1.LVMStatusReady {
		t.Error(got)
	}
	if got := w.cluster.Status.DeviceClassStatuses[0].NodeStatus[1].Reason; got != none.Reason {
		t.Errorf("the node does not say why it has no volume group: %q", got)
	}
	report("a", none)
	if got := w.condition(lvmv1alpha1.ConditionVolumeGroupsReady); !strings.HasPrefix(got,
		"False/VGsFailed: device class vg1: none of its nodes has a device for it") {
		t.Error(got)
	}
	if last := w.notes.said[len(w.notes.said)-1]; !strings.HasPrefix(last,
		"Warning VolumeGroupsNotReady device class vg1: none of its nodes has a device for it") {
		t.Errorf("events %q", w.notes.said)
	}
	report("a", lvmv1alpha1.VGStatus{Name: "vg1", Status: lvmv1alpha1.VGStatusReady, Devices: []string{"/dev/sdb"},
		Conditions: []metav1.Condition{{
			Type: lvmv1alpha1.ConditionDevicesHealthy, Status: metav1.ConditionFalse,
			Reason: lvmv1alpha1.ReasonDeviceFailing, Message: "/dev/sdb gives errors",
			LastTransitionTime: metav1.Now()}}})
	if got := w.condition(lvmv1alpha1.ConditionVolumeGroupsReady); got !=
		"False/VGsDegraded: device class vg1 on node a: /dev/sdb gives errors" ||
		w.cluster.Status.State != lvmv1alpha1.LVMStatusDegraded {
		t.Error(got)
	}
	if last := w.notes.said[len(w.notes.said)-1]; last !=
		"Warning VolumeGroupsNotReady device class vg1 on node a: /dev/sdb gives errors" {
		t.Errorf("events %q", w.notes.said)
	}
}

func TestVolumeGroupHasAllThatTheAgentNeeds(t *testing.T) {
	size := resource.MustParse("1Gi")
	redundant := fixture.Thick("vg1")
	redundant.Default = true
	redundant.RAIDConfig = &lvmv1alpha1.RAIDConfig{Type: lvmv1alpha1.RAIDType5, Stripes: ptr.To[int32](2),
		StripeSize: ptr.To(resource.MustParse("64Ki"))}
	redundant.DeviceRequests = []lvmv1alpha1.DeviceRequest{{Node: "a", Device: "/dev/sdb",
		Action: lvmv1alpha1.DeviceActionDrain}}
	redundant.Adopt = []lvmv1alpha1.VolumeGroupAdoption{{Node: "b", VolumeGroupUUID: "x"}}
	growing := fixture.Thin("vg2")
	growing.Default = false
	growing.ThinPoolConfig.AutoExtend = &lvmv1alpha1.AutoExtend{ThresholdPercent: 70, StepPercent: 10}
	growing.DeviceSelector = nil
	growing.DeviceSelectors = []lvmv1alpha1.NodeDeviceSelector{{DeviceSelector: lvmv1alpha1.DeviceSelector{
		MinSize: &size, Rotational: ptr.To(false), Models: []lvmv1alpha1.DeviceProperty{"X*"}}}}
	w := newWorld(t, redundant, growing)
	for range 2 {
		_, err := w.reconcile()
		w.must(err)
	}
	for i, class := range []lvmv1alpha1.DeviceClass{redundant, growing} {
		group := &lvmv1alpha1.LVMVolumeGroup{}
		w.must(w.get(group, class.Name))
		want := lvmv1alpha1.LVMVolumeGroupSpec{
			Default: i == 0, NodeSelector: class.NodeSelector, DeviceSelector: class.DeviceSelector,
			DeviceSelectors:       class.DeviceSelectors,
			DeviceDiscoveryPolicy: class.DeviceDiscoveryPolicy, ThinPoolConfig: class.ThinPoolConfig,
			RAIDConfig:     class.RAIDConfig,
			DeviceRequests: class.DeviceRequests, Adopt: class.Adopt,
		}
		if diff := cmp.Diff(want, group.Spec); diff != "" {
			t.Errorf("%s: %s", class.Name, diff)
		}
	}
	// A request that is removed from the LVMCluster is also removed from the LVMVolumeGroup.
	w.cluster.Spec.Storage.DeviceClasses[0].DeviceRequests = nil
	w.must(w.api.Update(w.Context(), w.cluster))
	_, err := w.reconcile()
	w.must(err)
	group := &lvmv1alpha1.LVMVolumeGroup{}
	w.must(w.get(group, "vg1"))
	if len(group.Spec.DeviceRequests) != 0 || len(group.Spec.Adopt) != 1 {
		t.Errorf("%+v", group.Spec)
	}
}

// TestLabelsOfDevicesStayWhenTheNodeStatusIsApplied checks that the operator does not own the labels of devices. It
// applies the node status again, because a label of the object was changed.
func TestLabelsOfDevicesStayWhenTheNodeStatusIsApplied(t *testing.T) {
	const managedBy = "app.kubernetes.io/managed-by"
	w := newWorld(t)
	_, err := w.reconcile()
	w.must(err)
	status := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	w.must(w.get(status, "a"))
	owner := status.Labels[managedBy]
	labels := []lvmv1alpha1.DeviceLabels{{ID: "wwn:0x1", Labels: lvmv1alpha1.DeviceLabelSet{"tier": "fast"}}}
	status.Spec.DeviceLabels = labels
	status.Labels[managedBy] = "another"
	w.must(w.api.Update(w.Context(), status))
	for range 2 {
		_, err = w.reconcile()
		w.must(err)
	}
	w.must(w.get(status, "a"))
	if got := status.Labels[managedBy]; owner == "" || got != owner {
		t.Errorf("the node status was not applied again: %q, want %q", got, owner)
	}
	if diff := cmp.Diff(labels, status.Spec.DeviceLabels); diff != "" {
		t.Error(diff)
	}
}
