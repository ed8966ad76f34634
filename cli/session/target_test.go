package session_test

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

func TestTheTargetIsUnambiguous(t *testing.T) {
	two := clitest.HealthyNode("storage")
	two.Name = "worker-2"
	two.Status.NodeStatus = append(two.Status.NodeStatus, v1alpha1.VGStatus{Name: "vg2"})
	empty := clitest.HealthyNode("storage")
	empty.Name = "worker-3"
	empty.Status.NodeStatus = nil
	nodes := []v1alpha1.LVMVolumeGroupNodeStatus{*clitest.HealthyNode("storage"), *two, *empty}
	for name, test := range map[string]struct {
		flags session.TargetFlags
		class string
		err   string
	}{
		"the only device class": {flags: session.TargetFlags{Node: "worker-1"}, class: "vg1"},
		"a device class":        {flags: session.TargetFlags{Node: "worker-2", Class: "vg2"}, class: "vg2"},
		"no node":               {err: "--node is missing"},
		"an unknown node": {flags: session.TargetFlags{Node: "worker-9"}, err: "node worker-9 has no " +
			"LVMVolumeGroupNodeStatus"},
		"several device classes": {flags: session.TargetFlags{Node: "worker-2"}, err: "give one of them with --class: vg1, " +
			"vg2"},
		"an unknown class": {flags: session.TargetFlags{Node: "worker-1", Class: "vg9"},
			err: "node worker-1 does not have the device class vg9: it has vg1"},
		"no device class": {flags: session.TargetFlags{Node: "worker-3"}, err: "node worker-3 has no device class"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := session.NewTarget(nodes, test.flags)
			expect.Error(t, "the target", err, test.err)
			if err == nil {
				expect.Equal(t, "class", got.Class, test.class)
				expect.Equal(t, "namespace", got.Namespace, "storage")
				expect.NotZero(t, "group()", got.Group())
			}
		})
	}
	if _, err := session.NewTarget(append(nodes, *clitest.HealthyNode("other")), session.TargetFlags{Node: "worker-1"}); err == nil ||
		!strings.Contains(err.Error(), "in several namespaces") {
		t.Errorf("two namespaces: got %v", err)
	}
}
