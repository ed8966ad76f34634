package device

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

func TestReplaceOperations(t *testing.T) {
	device := &v1alpha1.DeviceStatus{Name: "/dev/sdc", ByID: []string{"ata-X", "wwn-0x3"}}
	const selector = "/spec/storage/deviceClasses/1/deviceSelector/"
	link := v1alpha1.DevicePath("/dev/disk/by-id/wwn-0x3")
	paths := []v1alpha1.DevicePath{"/dev/sdb"}
	tests := map[string]struct {
		selector *v1alpha1.DeviceSelector
		nodes    int
		want     []session.Operation
		err      string
	}{
		"optional paths": {&v1alpha1.DeviceSelector{OptionalPaths: paths}, 1,
			[]session.Operation{{Op: "add", Path: selector + "optionalPaths/-", Value: link}}, ""},
		"required paths of one node": {&v1alpha1.DeviceSelector{Paths: paths}, 1,
			[]session.Operation{{Op: "add", Path: selector + "paths/-", Value: link}}, ""},
		"required paths of several nodes": {&v1alpha1.DeviceSelector{Paths: paths}, 2,
			[]session.Operation{{Op: "add", Path: selector + "optionalPaths", Value: []any{link}}}, ""},
		"a path that is " +
			"there": {&v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/disk/by-id/ata-X"}}, 1, nil, ""},
		"a selector that " +
			"wipes": {&v1alpha1.DeviceSelector{Paths: paths, ForceWipeDevicesAndDestroyAllData: ptr.To(true)},
			1, nil, "wipes its devices"},
		"a selector that destroys volume groups": {&v1alpha1.DeviceSelector{Paths: paths,
			WipeVolumeGroups: []v1alpha1.VolumeGroupReference{"x"}}, 1, nil, "wipes its devices"},
		"properties": {&v1alpha1.DeviceSelector{MinSize: clitest.Quantity("1Gi")}, 1, nil, "does not select devices by path"},
		"everything": {nil, 1, nil, "does not select devices by path"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := clitest.StorageCluster("storage")
			cluster.Spec.Storage.DeviceClasses[1].DeviceSelector = test.selector
			got, err := replaceOperations(classAt{cluster: cluster, index: 1}, member{}, device, test.nodes)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestReplaceOperationsOfNodeSelectors: init creates such device classes.
func TestReplaceOperationsOfNodeSelectors(t *testing.T) {
	device := &v1alpha1.DeviceStatus{Name: "/dev/sdc", ByID: []string{"wwn-0x3"}}
	const selectors = "/spec/storage/deviceClasses/1/deviceSelectors/"
	link := v1alpha1.DevicePath("/dev/disk/by-id/wwn-0x3")
	old := member{at: session.Target{Node: "worker-1"}, names: []string{"uuid", "/dev/sdb", "/dev/disk/by-id/wwn-0x2"}}
	of := func(path string, nodes ...string) v1alpha1.NodeDeviceSelector {
		s := v1alpha1.NodeDeviceSelector{DeviceSelector: v1alpha1.DeviceSelector{
			Paths: []v1alpha1.DevicePath{v1alpha1.DevicePath(path)}}}
		if len(nodes) > 0 {
			s.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name",
					Operator: corev1.NodeSelectorOpIn, Values: nodes}}}}}
		}
		return s
	}
	byLabel := of("/dev/sdb", "ssd")
	byLabel.NodeSelector.NodeSelectorTerms[0] = corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}
	notIn := of("/dev/sdb", "worker-2")
	notIn.NodeSelector.NodeSelectorTerms[0].MatchFields[0].Operator = corev1.NodeSelectorOpNotIn
	wipes := of("/dev/sdb", "worker-1")
	wipes.ForceWipeDevicesAndDestroyAllData = ptr.To(true)
	both := of("/dev/sdb")
	both.OptionalPaths = []v1alpha1.DevicePath{link}
	for name, test := range map[string]struct {
		selectors []v1alpha1.NodeDeviceSelector
		path      string
		isAbsent  bool
		err       string
	}{
		"of the node": {[]v1alpha1.NodeDeviceSelector{of("/dev/sdb", "worker-2"), of("/dev/sdb", "worker-1")},
			"1/paths", false, ""},
		"of two nodes": {[]v1alpha1.NodeDeviceSelector{of("/dev/sdb", "worker-2", "worker-1")},
			"0/optionalPaths", true, ""},
		"of every node": {[]v1alpha1.NodeDeviceSelector{of("/dev/sdx", "worker-2"), of("/dev/disk/by-id/wwn-0x2")},
			"1/optionalPaths", true, ""},
		"by a label":    {[]v1alpha1.NodeDeviceSelector{byLabel}, "0/optionalPaths", true, ""},
		"except a node": {[]v1alpha1.NodeDeviceSelector{notIn}, "0/optionalPaths", true, ""},
		"without a path": {[]v1alpha1.NodeDeviceSelector{of("/dev/sdx"), of("/dev/gone", "worker-1")},
			"1/paths", false, ""},
		"none": {[]v1alpha1.NodeDeviceSelector{of("/dev/sdb", "worker-2")}, "", false, "0 of the deviceSelectors"},
		"two": {[]v1alpha1.NodeDeviceSelector{of("/dev/sdb", "worker-1"), byLabel}, "", false,
			"2 of the deviceSelectors"},
		"that wipes":    {[]v1alpha1.NodeDeviceSelector{wipes}, "", false, "wipes its devices"},
		"with the path": {[]v1alpha1.NodeDeviceSelector{both}, "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := clitest.StorageCluster("storage")
			class := &cluster.Spec.Storage.DeviceClasses[1]
			class.DeviceSelector = nil
			class.DeviceSelectors = test.selectors
			got, err := replaceOperations(classAt{cluster: cluster, index: 1}, old, device, 3)
			var want []session.Operation
			if test.path != "" {
				want = []session.Operation{appendTo(selectors+test.path, test.isAbsent, link)}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}
