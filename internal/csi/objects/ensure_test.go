package objects

import (
	"slices"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

func readyNode(name string, ready corev1.ConditionStatus, class string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{wellknown.CapacityAnnotationPrefix + class: "1000000000"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	return node
}

// TestTheFinalizerIsThereFromTheStartIfNoOtherNodeCanCreateTheVolume checks which LogicalVolumes are created with the
// finalizer: giveUp cannot delete them, so that the claim does not move to another node.
func TestTheFinalizerIsThereFromTheStartIfNoOtherNodeCanCreateTheVolume(t *testing.T) {
	for name, test := range map[string]struct {
		nodes []client.Object
		want  bool
	}{
		"one node": {[]client.Object{readyNode("node1", corev1.ConditionTrue, "ssd")}, true},
		"another node with another class": {[]client.Object{readyNode("node1", corev1.ConditionTrue, "ssd"),
			readyNode("node2", corev1.ConditionTrue, "hdd")}, true},
		"another node with the class": {[]client.Object{readyNode("node1", corev1.ConditionTrue, "ssd"),
			readyNode("node2", corev1.ConditionTrue, "ssd")}, false},
		"another node that is away for a moment": {[]client.Object{readyNode("node1", corev1.ConditionTrue, "ssd"),
			readyNode("node2", corev1.ConditionUnknown, "ssd")}, false},
		"one node, which is not ready": {[]client.Object{readyNode("node1", corev1.ConditionUnknown, "ssd")}, false},
		"no node":                      {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := New(Options{Client: memory.Builder().WithObjects(test.nodes...).Build()})
			desired := volumespec.New("pvc-1", 40<<20, "ns/data")
			desired.Spec.NodeName, desired.Spec.DeviceClass = "node1", "ssd"
			for range 2 {
				if err := v.setFinalizer(t.Context(), desired); err != nil {
					t.Fatal(err)
				}
				got := slices.Equal(desired.Finalizers, []string{wellknown.LogicalVolumeFinalizer})
				if got != test.want ||
					got != (desired.Labels[wellknown.CreatedByLabel] == wellknown.CreatedByController) {
					t.Errorf("got the finalizers %q and the labels %v", desired.Finalizers, desired.Labels)
				}
			}
		})
	}
}

// TestANewLogicalVolumeWithTheFinalizerIsNotGivenUp: its agent may have created the logical volume without another
// write.
func TestANewLogicalVolumeWithTheFinalizerIsNotGivenUp(t *testing.T) {
	api := memory.Builder().WithObjects(readyNode("node1", corev1.ConditionTrue, "ssd")).Build()
	v := New(Options{Client: api})
	first := volumespec.New("pvc-1", 40<<20, "ns/data")
	first.UID, first.Spec.NodeName, first.Spec.DeviceClass = "uid-1", "node1", "ssd"
	err := v.setFinalizer(t.Context(), first)
	if err == nil {
		err = api.Create(t.Context(), first)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := v.giveUp(t.Context(), first); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a node that is lost: got %v", err)
	}
	lv := &topolvmv1.LogicalVolume{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: "pvc-1"}, lv); err != nil || lv.UID != first.UID {
		t.Errorf("got %+v, %v", lv, err)
	}
}
