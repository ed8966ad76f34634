package activecache

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// twice applies a transform twice: a cache may transform an object again.
func twice[T any](t *testing.T, transform func(any) (any, error), object T) T {
	t.Helper()
	once, err := transform(object)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := once.(T)
	again, err := transform(once)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("trimmed twice: %s", diff)
	}
	return first
}

func TestNode(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"capacity.topolvm.io/vg1": "1", "capacity.topolvm.cybozu.com/vg1": "2",
				wellknown.ReleaseClaimsAnnotation: "true", "x": "y"}},
		Spec: corev1.NodeSpec{Unschedulable: true, PodCIDR: "10.0.0.0/8", Taints: []corev1.Taint{{Key: "t"}}},
		Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"i"}}},
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure},
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "R", LastHeartbeatTime: metav1.Now()}}},
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"capacity.topolvm.io/vg1": "1", "capacity.topolvm.cybozu.com/vg1": "2",
				wellknown.ReleaseClaimsAnnotation: "true"}},
		Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "t"}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
			Status: corev1.ConditionTrue, Reason: "R"}}},
	}
	if diff := cmp.Diff(want, twice(t, Node, node)); diff != "" {
		t.Error(diff)
	}
}

func TestNodeStatus(t *testing.T) {
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	status.Status.Devices = []v1alpha1.DeviceStatus{{Name: "/dev/sda", ID: "wwn:1", ByID: []string{"x"},
		State: v1alpha1.DeviceInUse, Model: "M", Signatures: []v1alpha1.DeviceSignature{{Type: "xfs"}},
		Reasons: []v1alpha1.DeviceReason{{Code: "Mounted"}}}}
	status.Finalizers = []string{wellknown.NodeStatusFinalizer}
	status.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "vg1", Status: v1alpha1.VGStatusReady, Reason: "r",
		Devices: []string{"/dev/sda"}, Conditions: []metav1.Condition{{Type: "t", Message: "m"}}}}
	want := status.DeepCopy()
	want.Status.Devices = nil
	if diff := cmp.Diff(want, twice(t, NodeStatus, status)); diff != "" {
		t.Error(diff)
	}
}

func TestCapacity(t *testing.T) {
	capacity := func(node string) *storagev1.CSIStorageCapacity {
		size := resource.MustParse("1Gi")
		same := size.DeepCopy()
		return &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: "n",
			Labels: map[string]string{"a": "b", "c": "d"}},
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"node": node}}, StorageClassName: "s",
			Capacity: &size, MaximumVolumeSize: &same}
	}
	a := twice(t, Capacity, capacity("a"))
	b := twice(t, Capacity, capacity("b"))
	if diff := cmp.Diff(capacity("a"), a); diff != "" {
		t.Error(diff)
	}
	if reflect.ValueOf(a.Labels).Pointer() != reflect.ValueOf(b.Labels).Pointer() || a.Capacity != a.MaximumVolumeSize {
		t.Error("what is the same is held twice")
	}
}

// TestWhatIsNotKnown passes values that are not objects, as the end of a watch does.
func TestWhatIsNotKnown(t *testing.T) {
	for _, transform := range []func(any) (any, error){Any, Unchanged, Node, NodeStatus, Capacity} {
		if got, err := transform("no object"); err != nil || got != "no object" {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func TestSharedListsAreNotGrownInPlace(t *testing.T) {
	a := shared([]string{"x"})
	b := append(a, "y")
	if c := shared([]string{"x"}); !slices.Equal(c, []string{"x"}) || &a[0] != &c[0] || len(b) != 2 {
		t.Errorf("got %v", c)
	}
}
