package device

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// eligible is what a node reports of a device for a device class: that it can be used, or the reasons why not.
func eligible(class string, reasons ...string) v1alpha1.DeviceEligibility {
	return v1alpha1.DeviceEligibility{DeviceClass: class, Eligible: len(reasons) == 0, Reasons: reasons}
}

func TestSelectSpare(t *testing.T) {
	properties := &v1alpha1.DeviceSelector{MinSize: clitest.Quantity("1Gi")}
	paths := &v1alpha1.DeviceSelector{OptionalPaths: []v1alpha1.DevicePath{"/dev/sdb"}}
	ofNodes := func(s *v1alpha1.DeviceSelector) []v1alpha1.NodeDeviceSelector {
		return []v1alpha1.NodeDeviceSelector{{DeviceSelector: *s}}
	}
	for name, test := range map[string]struct {
		selector    *v1alpha1.DeviceSelector
		selectors   []v1alpha1.NodeDeviceSelector
		eligibility []v1alpha1.DeviceEligibility
		adds        bool
		says        string
	}{
		"selected by property": {selector: properties, eligibility: []v1alpha1.DeviceEligibility{eligible("vg1")}},
		"selected by property of a group of nodes": {selectors: ofNodes(properties),
			eligibility: []v1alpha1.DeviceEligibility{eligible("vg1"), eligible("vg2", "NotSelected")}},
		"every device": {eligibility: []v1alpha1.DeviceEligibility{eligible("vg1")}},
		"not selected by property": {selector: properties,
			eligibility: []v1alpha1.DeviceEligibility{eligible("vg1", "NotSelected")},
			says:        "cannot use the device /dev/sdc on node worker-1 (NotSelected): change the selector"},
		"no longer selected": {eligibility: []v1alpha1.DeviceEligibility{{DeviceClass: "vg1"}},
			says: "(no reason reported): change the selector"},
		"not approved": {selector: properties,
			eligibility: []v1alpha1.DeviceEligibility{eligible("vg1", "AwaitingApproval")},
			says:        "approve it first: kubectl lvms approve --node worker-1 --device /dev/disk/by-id/wwn-0x3"},
		"not reported": {selector: properties, eligibility: []v1alpha1.DeviceEligibility{eligible("vg2", "x")},
			says: "node worker-1 has not reported whether the device class vg1"},
		"for two device classes": {selector: properties,
			eligibility: []v1alpha1.DeviceEligibility{eligible("vg1"), eligible("vg2")},
			says:        "can also be used by the device class vg2"},
		"for another device class": {selector: paths, eligibility: []v1alpha1.DeviceEligibility{eligible("vg2")},
			says: "can also be used by the device class vg2"},
		"by path": {selector: paths, adds: true,
			eligibility: []v1alpha1.DeviceEligibility{eligible("vg1", "NotSelected")}},
		"by path, and named already": {selector: paths,
			eligibility: []v1alpha1.DeviceEligibility{eligible("vg1")}},
		"by path of a group of nodes": {selectors: ofNodes(paths), says: "0 of the deviceSelectors of the device class vg1"},
	} {
		cluster := clitest.StorageCluster("storage")
		class := &cluster.Spec.Storage.DeviceClasses[1]
		class.DeviceSelector = test.selector
		class.DeviceSelectors = test.selectors
		spare := &v1alpha1.DeviceStatus{Name: "/dev/sdc", ByID: []string{"wwn-0x3"}, Eligibility: test.eligibility}
		m := member{at: session.Target{Node: "worker-1", Class: "vg1"}}
		got, err := selectSpare(classAt{cluster: cluster, index: 1}, m, spare, 2)
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v", name, err)
		}
		if (len(got) > 0) != test.adds {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestReplaceOfADeviceThatWasSelectedByProperty: the agent adds the new device, so only the request is written.
func TestReplaceOfADeviceThatWasSelectedByProperty(t *testing.T) {
	object := clitest.StorageCluster("storage")
	object.Spec.Storage.DeviceClasses[1].DeviceSelector = &v1alpha1.DeviceSelector{MinSize: clitest.Quantity("1Gi")}
	node := clitest.PairedNode("storage", "90Gi")
	for i := range node.Status.Devices {
		if node.Status.Devices[i].Name == "/dev/sdc" {
			node.Status.Devices[i].Eligibility = []v1alpha1.DeviceEligibility{eligible("vg1")}
		}
	}
	c := clitest.NewCluster(t, object, node)
	args := strings.Fields("replace --node worker-1 --device /dev/sdb --with /dev/sdc --yes --wait=false")
	for range 2 {
		clitest.Prints(t, plugin.RunWith(t, c, "", nil, args...), 0)
		if got := c.RequestsNow(); len(got) != 1 || got[0] != clitest.Request("pv-b", v1alpha1.DeviceActionRemove) {
			t.Errorf("got %+v", got)
		}
	}
	found := &v1alpha1.LVMCluster{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), found); err != nil {
		t.Fatal(err)
	}
	class := found.Spec.Storage.DeviceClasses[1]
	if len(class.DeviceSelector.Paths)+len(class.DeviceSelector.OptionalPaths) > 0 {
		t.Errorf("got the selector %+v", class.DeviceSelector)
	}
}
