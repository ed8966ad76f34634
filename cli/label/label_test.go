package label

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

func TestArgumentsOfLabel(t *testing.T) {
	for args, want := range map[string]labelRequest{
		"tier=fast":                 {set: v1alpha1.DeviceLabelSet{"tier": "fast"}},
		"tier= example.com/a_b.c=d": {set: v1alpha1.DeviceLabelSet{"tier": "", "example.com/a_b.c": "d"}},
		"tier- rack=a room-":        {set: v1alpha1.DeviceLabelSet{"rack": "a"}, remove: []string{"tier", "room"}},
	} {
		var got labelRequest
		for range 2 { // the second call starts again
			if err := got.parse(strings.Fields(args)); err != nil {
				t.Fatalf("%s: %v", args, err)
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(labelRequest{})); diff != "" {
			t.Errorf("%s: %s", args, diff)
		}
	}
	for args, want := range map[string]string{
		"":                        "the labels are missing",
		"tier":                    `"tier" is not a label: give KEY=VALUE to set a label, or KEY- to remove it`,
		"=fast":                   `"=fast" is not a valid label`,
		"-":                       `"-" is not a valid label`,
		"-tier=fast":              `"-tier=fast" is not a valid label`,
		"tier=fast-":              `"tier=fast-" is not a valid label`,
		"tier=a=b":                `"tier=a=b" is not a valid label`,
		"Example.com/tier=a":      "is not a valid label",
		"tier=a tier=b":           "the label tier is given twice",
		"tier=a tier-":            "the label tier is given twice",
		"tier- tier-":             "the label tier is given twice",
		"a=" + longWord(64):       "is not a valid label",
		longWord(64) + "=a":       "is not a valid label",
		"a/" + longWord(64) + "-": "is not a valid label",
	} {
		var got labelRequest
		if err := got.parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func longWord(n int) string { return strings.Repeat("a", n) }

func TestChangesOfLabels(t *testing.T) {
	for name, test := range map[string]struct {
		device, args string
		overwrite    bool
		want         []v1alpha1.DeviceLabels // of the device and of the one that is no longer listed
		lines        []string
	}{
		"the first label": {"/dev/sdc", "tier=fast", false, []v1alpha1.DeviceLabels{
			{ID: "wwn:0x2", Labels: v1alpha1.DeviceLabelSet{"tier": "fast", "rack": ""}},
			{ID: "wwn:0x9", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}},
			{ID: "wwn:0x3", Labels: v1alpha1.DeviceLabelSet{"tier": "fast"}}}, []string{"+ tier=fast"}},
		"another label, by link": {"/dev/disk/by-id/wwn-0x2", "room=1", false, []v1alpha1.DeviceLabels{
			{ID: "wwn:0x2", Labels: v1alpha1.DeviceLabelSet{"tier": "fast", "rack": "", "room": "1"}},
			{ID: "wwn:0x9", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}}}, []string{"+ room=1"}},
		"another value, and less": {"wwn:0x2", "tier=slow rack-", true, []v1alpha1.DeviceLabels{
			{ID: "wwn:0x2", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}},
			{ID: "wwn:0x9", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}}},
			[]string{"- tier=fast", "+ tier=slow", "- rack="}},
		"the last labels": {"/dev/sdb", "tier- rack-", false, []v1alpha1.DeviceLabels{
			{ID: "wwn:0x9", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}}}, []string{"- tier=fast", "- rack="}},
		"of a device that is not listed": {"wwn:0x9", "tier-", false, []v1alpha1.DeviceLabels{
			{ID: "wwn:0x2", Labels: v1alpha1.DeviceLabelSet{"tier": "fast", "rack": ""}}}, []string{"- tier=slow"}},
		"of a missing device": {"wwn:0x8", "tier=a", false, []v1alpha1.DeviceLabels{
			{ID: "wwn:0x2", Labels: v1alpha1.DeviceLabelSet{"tier": "fast", "rack": ""}},
			{ID: "wwn:0x9", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}},
			{ID: "wwn:0x8", Labels: v1alpha1.DeviceLabelSet{"tier": "a"}}}, []string{"+ tier=a"}},
		"nothing new": {"/dev/sdb", "tier=fast room-", false, clitest.LabeledNode("ns").Spec.DeviceLabels, nil},
	} {
		request := labelRequest{overwrite: test.overwrite}
		if err := request.parse(strings.Fields(test.args)); err != nil {
			t.Fatal(err)
		}
		node := clitest.LabeledNode("ns")
		got, err := newLabelChange([]v1alpha1.LVMVolumeGroupNodeStatus{*node}, "worker-1", test.device, request)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, got.after.Spec.DeviceLabels) + cmp.Diff(test.lines, got.lines); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(clitest.LabeledNode("ns").Spec, node.Spec); diff != "" {
			t.Errorf("%s: the node status as it was read has changed: %s", name, diff)
		}
	}
}

func TestDevicesThatCannotBeLabeled(t *testing.T) {
	c := clitest.NewCluster(t, clitest.LabeledNode("storage"), clitest.HealthyNode("one"), clitest.HealthyNode("two"))
	for args, want := range map[string]string{
		"-n storage worker-1 /dev/sdb":                 "the labels are missing",
		"-n storage":                                   "give the node and the device",
		"-n storage worker-9 /dev/sdb a=b":             "node worker-9 has no LVMVolumeGroupNodeStatus",
		"worker-1 /dev/sdb a=b":                        "in several namespaces: give the namespace of the operator",
		"-n storage worker-1 /dev/sdx a=b":             "node worker-1 has no device /dev/sdx: kubectl lvms devices",
		"-n storage worker-1 /dev/sdd a=b":             "device /dev/sdd of node worker-1 cannot have labels",
		"-n storage worker-1 /dev/sde a=b":             "only its content identifies it (fs:u-1)",
		"-n storage worker-1 /dev/disk/by-id/same a=b": "node worker-1 has several devices that are named",
		"-n storage worker-1 /dev/sdb tier=slow": "the device /dev/sdb (wwn:0x2) of node worker-1 has the label " +
			"tier=fast already: add --overwrite to change it",
		"-n storage worker-1 /dev/sdb a=b --dry-run=server": `--dry-run "server" is not supported`,
	} {
		clitest.Prints(t, plugin.Run(t, c, append([]string{"label", "--yes"}, strings.Fields(args)...)...), session.ExitError, want)
	}
	if c.Writes != 0 {
		t.Error("it writes")
	}
}

func TestLabelADevice(t *testing.T) {
	c := clitest.NewCluster(t, clitest.LabeledNode("storage"))
	before := c.DeviceLabels("storage")
	label := []string{"label", "worker-1", "/dev/sdc", "tier=slow"}
	got := plugin.Run(t, c, append(label, "--dry-run")...)
	clitest.Prints(t, got, 0, "The labels of the device /dev/sdc (wwn:0x3) of node worker-1 are changed:\n  + tier=slow\n",
		"A device class whose deviceSelector requires the labels", "This is the merge patch of "+
			"LVMVolumeGroupNodeStatus storage/worker-1:", "deviceLabels:", "id: wwn:0x3", "resourceVersion:")
	if strings.Contains(got.Out, "are changed") || strings.Contains(got.Out, "status:") || c.Writes != 0 {
		t.Errorf("the dry run prints %q, %d writes", got.Out, c.Writes)
	}
	clitest.Prints(t, plugin.Run(t, c, label...), session.ExitError, "there is no terminal to ask on")
	clitest.Prints(t, plugin.RunWith(t, c, "no\n", nil, label...), session.ExitError, "Change the labels? [y/N]", "the answer was not yes")
	if diff := cmp.Diff(before, c.DeviceLabels("storage")); diff != "" || c.Writes != 0 {
		t.Fatal(diff)
	}
	clitest.Prints(t, plugin.RunWith(t, c, "yes\n", nil, label...), 0,
		"The labels of the device /dev/sdc (wwn:0x3) of node worker-1 were changed.")
	want := append(before, v1alpha1.DeviceLabels{ID: "wwn:0x3", Labels: v1alpha1.DeviceLabelSet{"tier": "slow"}})
	if diff := cmp.Diff(want, c.DeviceLabels("storage")); diff != "" || c.Writes != 1 {
		t.Errorf("%d writes: %s", c.Writes, diff)
	}
	clitest.Prints(t, plugin.Run(t, c, append(label, "--yes")...), 0, "already has these labels. Nothing is changed.")
	clitest.Prints(t, plugin.Run(t, c, append(label, "--dry-run")...), 0, "{}\n")
	member := []string{"label", "worker-1", "/dev/sdb", "tier-", "rack-", "none-", "--yes"}
	clitest.Prints(t, plugin.Run(t, c, member...), 0, "The device /dev/sdb (wwn:0x2) of node worker-1 does not have the label none.",
		"  - tier=fast\n  - rack=\n", "in the volume group of the device class vg1, and stays there")
	if diff := cmp.Diff(want[1:], c.DeviceLabels("storage")); diff != "" || c.Writes != 2 {
		t.Errorf("%d writes: %s", c.Writes, diff)
	}
}

// TestLabelWhenTheNodeStatusChanges checks that a change by the node agent is not lost, and that another change of the
// same labels stops the command.
func TestLabelWhenTheNodeStatusChanges(t *testing.T) {
	c := clitest.NewCluster(t, clitest.LabeledNode("storage"))
	change := func(edit func(*v1alpha1.LVMVolumeGroupNodeStatus)) func() {
		return func() {
			node := &v1alpha1.LVMVolumeGroupNodeStatus{}
			key := client.ObjectKey{Namespace: "storage", Name: "worker-1"}
			if err := c.Client.Get(t.Context(), key, node); err != nil {
				t.Fatal(err)
			}
			edit(node)
			if err := c.Client.Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.BeforePatch = change(func(n *v1alpha1.LVMVolumeGroupNodeStatus) {
		n.Status.DevicesOmitted = 3
		n.Spec.DeviceLabels[1].Labels["tier"] = "other"
	})
	clitest.Prints(t, plugin.Run(t, c, "label", "worker-1", "/dev/sdb", "room=1", "--yes"), 0, "were changed.")
	want := []v1alpha1.DeviceLabels{
		{ID: "wwn:0x2", Labels: v1alpha1.DeviceLabelSet{"tier": "fast", "rack": "", "room": "1"}},
		{ID: "wwn:0x9", Labels: v1alpha1.DeviceLabelSet{"tier": "other"}}}
	if diff := cmp.Diff(want, c.DeviceLabels("storage")); diff != "" {
		t.Error(diff)
	}
	c.BeforePatch = change(func(n *v1alpha1.LVMVolumeGroupNodeStatus) { n.Spec.DeviceLabels[0].Labels["room"] = "2" })
	clitest.Prints(t, plugin.Run(t, c, "label", "worker-1", "/dev/sdb", "room-", "--yes"), session.ExitError,
		"the labels of the device /dev/sdb (wwn:0x2) of node worker-1 were changed in the meantime")
	want[0].Labels["room"] = "2"
	if diff := cmp.Diff(want, c.DeviceLabels("storage")); diff != "" {
		t.Error(diff)
	}
}

func TestLabelWhenAReadFails(t *testing.T) {
	for name, err := range map[string]error{
		"timeout": errors.New("timeout"),
		"you need the permission for the verb list on the resource lvmvolumegroupnodestatuses": apierrors.NewForbidden(
			schema.ParseGroupResource(session.NodeStatusesResource), "", errors.New("no")),
	} {
		reader := clitest.FakeReader(func(client.ObjectList, client.ListOptions) error { return err }, clitest.LabeledNode("storage"))
		clitest.Prints(t, plugin.Run(t, reader, "label", "worker-1", "/dev/sdb", "a=b", "--yes"), session.ExitError, name)
	}
}

func TestCompletionOfLabel(t *testing.T) {
	other := clitest.HealthyNode("storage")
	other.Name = "worker-2"
	other.Spec.DeviceLabels = []v1alpha1.DeviceLabels{
		{ID: "wwn:0x7", Labels: v1alpha1.DeviceLabelSet{"tier": "archive"}}}
	reader := clitest.FakeReader(nil, clitest.LabeledNode("storage"), other)
	for args, want := range map[string]string{
		"label ":                             "worker-1 worker-2",
		"label worker-2 ":                    "/dev/sda /dev/sdb /dev/sdc",
		"label worker-1 /dev/sdb ":           "rack- rack= tier- tier=archive tier=fast tier=slow",
		"label worker-1 /dev/sdb a=b tier=a": "tier=archive",
		"label nosuch ":                      "",
	} {
		got := plugin.Run(t, reader, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		values, _, _ := strings.Cut(got.Out, ":")
		if got.Code != 0 || strings.Join(strings.Fields(values), " ") != want {
			t.Errorf("%s: got %+v", args, got)
		}
	}
}
