package device

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

func targetOf(node *v1alpha1.LVMVolumeGroupNodeStatus) session.Target {
	return session.Target{Namespace: node.Namespace, Node: node.Name, Class: "vg1", Status: node}
}

func memberOf(t *testing.T, node *v1alpha1.LVMVolumeGroupNodeStatus, name string) member {
	t.Helper()
	m, err := findMember(targetOf(node), name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFindMember(t *testing.T) {
	node := clitest.PairedNode("storage", "90Gi")
	for name, want := range map[string]string{"/dev/sdb": "pv-b", "/dev/disk/by-id/wwn-0x2": "pv-b", "wwn:0x2": "pv-b",
		"pv-b": "pv-b", "/dev/sde": "pv-e", "wwn:0x5": "pv-e"} {
		if m := memberOf(t, node, name); m.pv.UUID != want {
			t.Errorf("%s: got %s", name, m.pv.UUID)
		}
	}
	if m := memberOf(t, clitest.BrokenNode("storage"), "pv-d"); m.pv.State != v1alpha1.PhysicalVolumeMissing {
		t.Errorf("got %+v", m.pv)
	}
	// The name of the missing device is that of another device now.
	reused := clitest.BrokenNode("storage")
	reused.Status.Devices[len(reused.Status.Devices)-2] = v1alpha1.DeviceStatus{Name: "/dev/sdd", ID: "wwn:0x9",
		State: v1alpha1.DeviceAvailable}
	if m, err := findMember(targetOf(reused), "/dev/sdd"); err == nil {
		t.Errorf("a blank device is taken for the missing one: %+v", m.pv)
	}
	for _, name := range []string{"/dev/sda", "/dev/sdz"} {
		_, err := findMember(targetOf(node), name)
		if err == nil || !strings.Contains(err.Error(), "it has /dev/sdb (pv-b), /dev/sde (pv-e)") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestRequestOperations(t *testing.T) {
	far := v1alpha1.DeviceRequest{Node: "worker-2", Device: "pv-b", Action: v1alpha1.DeviceActionDrain}
	const path = "/spec/storage/deviceClasses/1/deviceRequests"
	cordon := clitest.Request("pv-b", v1alpha1.DeviceActionCordon)
	tests := map[string]struct {
		before []v1alpha1.DeviceRequest
		action v1alpha1.DeviceAction
		want   []session.Operation
	}{
		"the first request": {nil, v1alpha1.DeviceActionCordon,
			[]session.Operation{{Op: "add", Path: path, Value: []any{cordon}}}},
		"beside that of another node": {[]v1alpha1.DeviceRequest{far}, v1alpha1.DeviceActionCordon,
			[]session.Operation{{Op: "add", Path: path + "/-", Value: cordon}}},
		"the same request": {[]v1alpha1.DeviceRequest{far, clitest.Request("wwn:0x2", v1alpha1.DeviceActionCordon)},
			v1alpha1.DeviceActionCordon, nil},
		"another action": {[]v1alpha1.DeviceRequest{clitest.Request("/dev/sdb", v1alpha1.DeviceActionDrain), far,
			clitest.Request("pv-b", v1alpha1.DeviceActionRemove)}, v1alpha1.DeviceActionCordon,
			[]session.Operation{{Op: "remove", Path: path + "/2"}, {Op: "remove", Path: path + "/0"},
				{Op: "add", Path: path + "/-", Value: cordon}}},
		"a withdrawal": {[]v1alpha1.DeviceRequest{clitest.Request("/dev/disk/by-id/wwn-0x2", v1alpha1.DeviceActionDrain)}, "",
			[]session.Operation{{Op: "remove", Path: path}}},
		"a withdrawal beside others": {[]v1alpha1.DeviceRequest{clitest.Request("pv-b", v1alpha1.DeviceActionDrain), far}, "",
			[]session.Operation{{Op: "remove", Path: path + "/0"}}},
		"nothing to withdraw": {[]v1alpha1.DeviceRequest{far}, "", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			class, err := findClass([]v1alpha1.LVMCluster{*clitest.StorageCluster("storage", test.before...)}, "vg1")
			if err != nil {
				t.Fatal(err)
			}
			got := requestOperations(class, memberOf(t, clitest.PairedNode("storage", "90Gi"), "/dev/sdb"), test.action)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAdoptOperations(t *testing.T) {
	cluster := clitest.StorageCluster("storage")
	class := classAt{cluster: cluster, index: 1}
	const path = "/spec/storage/deviceClasses/1/adopt"
	of := func(node, uuid string) v1alpha1.VolumeGroupAdoption {
		return v1alpha1.VolumeGroupAdoption{Node: node, VolumeGroupUUID: uuid}
	}
	want := []session.Operation{{Op: "add", Path: path, Value: []any{of("worker-1", "one")}}}
	if diff := cmp.Diff(want, adoptOperations(class, "worker-1", "one")); diff != "" {
		t.Error(diff)
	}
	class.class().Adopt = []v1alpha1.VolumeGroupAdoption{of("worker-2", "two"), of("worker-1", "one")}
	if got := adoptOperations(class, "worker-1", "one"); got != nil {
		t.Errorf("the second call changes it: %+v", got)
	}
	want = []session.Operation{{Op: "replace", Path: path + "/1", Value: of("worker-1", "three")}}
	if diff := cmp.Diff(want, adoptOperations(class, "worker-1", "three")); diff != "" {
		t.Error(diff)
	}
	want = []session.Operation{{Op: "add", Path: path + "/-", Value: of("worker-3", "one")}}
	if diff := cmp.Diff(want, adoptOperations(class, "worker-3", "one")); diff != "" {
		t.Error(diff)
	}
}

func TestFindClass(t *testing.T) {
	existing := clitest.StorageCluster("storage")
	existing.Spec.Storage.DeviceClasses[1].ExistingVolumeGroup = "data"
	for want, clusters := range map[string][]v1alpha1.LVMCluster{
		"no LVMCluster has the device class vg1":          {*clitest.HealthyCluster("storage")},
		"several LVMClusters have the device class vg1":   {*clitest.StorageCluster("a"), *clitest.StorageCluster("b")},
		"which an administrator created (existingVolumeG": {*existing},
	} {
		if _, err := findClass(clusters, "vg1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
}

func TestEffectsOfRequests(t *testing.T) {
	var all strings.Builder
	write := func(title string, m member, class *v1alpha1.DeviceClass, action v1alpha1.DeviceAction) {
		fmt.Fprintf(&all, "%s, %s:\n- %s\n\n", title, action, strings.Join(m.effects(class, action), "\n- "))
	}
	plain := &v1alpha1.DeviceClass{Name: "vg1"}
	raid := &v1alpha1.DeviceClass{Name: "vg1", RAIDConfig: &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType1}}
	space := memberOf(t, clitest.PairedNode("storage", "90Gi"), "/dev/sdb")
	write("enough space", space, plain, v1alpha1.DeviceActionCordon)
	write("enough space", space, plain, v1alpha1.DeviceActionDrain)
	write("enough space", space, plain, v1alpha1.DeviceActionRemove)
	write("a request", space, plain, "")
	draining := space
	draining.pv.State = v1alpha1.PhysicalVolumeDraining
	write("a move that runs", draining, plain, v1alpha1.DeviceActionCordon)
	full := memberOf(t, clitest.PairedNode("storage", "0"), "/dev/sdb")
	write("no space", full, plain, v1alpha1.DeviceActionCordon)
	write("no space", full, plain, v1alpha1.DeviceActionDrain)
	alone := memberOf(t, clitest.HealthyNode("storage"), "/dev/sdb")
	write("the only device, of unknown size", alone, plain, v1alpha1.DeviceActionRemove)
	write("too few devices", space, raid, v1alpha1.DeviceActionRemove)
	missing := memberOf(t, clitest.BrokenNode("storage"), "pv-d")
	write("a missing device", missing, plain, v1alpha1.DeviceActionRemove)
	write("a missing device with redundancy", missing, raid, v1alpha1.DeviceActionRemove)
	beside := memberOf(t, clitest.BrokenNode("storage"), "pv-b")
	beside.pv.State = v1alpha1.PhysicalVolumeFailing
	write("failing, beside a missing device", beside, plain, v1alpha1.DeviceActionDrain)
	clitest.Golden(t, "requests", all.String())
}

func TestProgressOfRequests(t *testing.T) {
	m := memberOf(t, clitest.PairedNode("storage", "90Gi"), "/dev/sdb")
	with := func(state v1alpha1.PhysicalVolumeState) *v1alpha1.LVMVolumeGroupNodeStatus {
		node := clitest.PairedNode("storage", "90Gi")
		node.Status.NodeStatus[0].PhysicalVolumes[0].State = state
		return node
	}
	left := clitest.PairedNode("storage", "90Gi")
	left.Status.NodeStatus[0].PhysicalVolumes = left.Status.NodeStatus[0].PhysicalVolumes[1:]
	empty := clitest.PairedNode("storage", "90Gi")
	empty.Status.NodeStatus[0].PhysicalVolumes = nil
	gone := clitest.PairedNode("storage", "90Gi")
	gone.Status.NodeStatus = nil
	for name, test := range map[string]struct {
		status *v1alpha1.LVMVolumeGroupNodeStatus
		action v1alpha1.DeviceAction
		want   session.RequestState
	}{
		"cordoned":              {with(v1alpha1.PhysicalVolumeCordoned), v1alpha1.DeviceActionCordon, session.RequestDone},
		"not cordoned yet":      {with(v1alpha1.PhysicalVolumeReady), v1alpha1.DeviceActionCordon, session.RequestPending},
		"cordoned to drain":     {with(v1alpha1.PhysicalVolumeCordoned), v1alpha1.DeviceActionDrain, session.RequestPending},
		"draining":              {with(v1alpha1.PhysicalVolumeDraining), v1alpha1.DeviceActionDrain, session.RequestPending},
		"drained":               {with(v1alpha1.PhysicalVolumeDrained), v1alpha1.DeviceActionDrain, session.RequestDone},
		"drained to remove":     {with(v1alpha1.PhysicalVolumeDrained), v1alpha1.DeviceActionRemove, session.RequestPending},
		"blocked":               {with(v1alpha1.PhysicalVolumeBlocked), v1alpha1.DeviceActionRemove, session.RequestBlocked},
		"removed":               {left, v1alpha1.DeviceActionRemove, session.RequestDone},
		"no devices reported":   {empty, v1alpha1.DeviceActionRemove, session.RequestPending},
		"no device class":       {gone, v1alpha1.DeviceActionRemove, session.RequestPending},
		"cordoned and failing":  {with(v1alpha1.PhysicalVolumeFailing), v1alpha1.DeviceActionCordon, session.RequestDone},
		"failing to drain":      {with(v1alpha1.PhysicalVolumeFailing), v1alpha1.DeviceActionDrain, session.RequestPending},
		"withdrawn":             {with(v1alpha1.PhysicalVolumeReady), "", session.RequestDone},
		"withdrawn, still busy": {with(v1alpha1.PhysicalVolumeDraining), "", session.RequestPending},
	} {
		if got, text := progressOf(test.status, m, test.action); got != test.want || text == "" {
			t.Errorf("%s: got %v %q", name, got, text)
		}
	}
}

func deviceCluster(t *testing.T, requests ...v1alpha1.DeviceRequest) *clitest.Cluster {
	return clitest.NewCluster(t, clitest.StorageCluster("storage", requests...), clitest.PairedNode("storage", "90Gi"))
}

func TestADrainFromTheRequestToItsEnd(t *testing.T) {
	c := deviceCluster(t)
	drain := strings.Fields("drain --node worker-1 --device /dev/sdb")
	got := plugin.RunWith(t, c, "yes\n", []func(){c.SetState(v1alpha1.PhysicalVolumeDraining),
		c.SetState(v1alpha1.PhysicalVolumeDrained)}, drain...)
	clitest.Prints(t, got, 0, "The device class vg1 in LVMCluster storage/lvmcluster is changed:\n  + deviceRequests: {node: "+
		"worker-1, device: pv-b, action: Drain}\n- 60Gi of data is moved to the other devices", "Change the "+
		"LVMCluster? [y/N]: ", "/dev/sdb: Draining: as tested", "/dev/sdb: Drained: as tested", "Done: device /dev/sdb")
	want := []v1alpha1.DeviceRequest{clitest.Request("pv-b", v1alpha1.DeviceActionDrain)}
	if diff := cmp.Diff(want, c.RequestsNow()); diff != "" {
		t.Error(diff)
	}
	writes := c.Writes
	got = plugin.RunWith(t, c, "", nil, drain...)
	clitest.Prints(t, got, 0, "already has this for the device class vg1 on node worker-1. Nothing is changed.", "Done: device")
	if c.Writes != writes {
		t.Error("the second call writes")
	}
}

func TestEachDeviceCommandWritesItsRequest(t *testing.T) {
	remove := clitest.Request("pv-b", v1alpha1.DeviceActionRemove)
	for name, test := range map[string]struct {
		args   string
		before []v1alpha1.DeviceRequest
		state  v1alpha1.PhysicalVolumeState
		want   []v1alpha1.DeviceRequest
	}{
		"cordon": {"cordon --device wwn:0x2", nil, v1alpha1.PhysicalVolumeCordoned,
			[]v1alpha1.DeviceRequest{clitest.Request("pv-b", v1alpha1.DeviceActionCordon)}},
		"remove": {"remove --device " +
			"pv-b", []v1alpha1.DeviceRequest{clitest.Request("/dev/sdb", v1alpha1.DeviceActionDrain)}, "",
			[]v1alpha1.DeviceRequest{remove}},
		"replace":  {"replace --device /dev/sdb --with /dev/sdc", nil, "", []v1alpha1.DeviceRequest{remove}},
		"uncordon": {"uncordon --device /dev/sdb", []v1alpha1.DeviceRequest{remove}, v1alpha1.PhysicalVolumeReady, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := deviceCluster(t, test.before...)
			c.SetState(v1alpha1.PhysicalVolumeDraining)()
			got := plugin.RunWith(t, c, "", []func(){c.SetState(test.state), func() {}},
				append(strings.Fields(test.args), "--node", "worker-1", "--yes")...)
			clitest.Prints(t, got, 0, "LVMCluster storage/lvmcluster was changed.", "Done: device")
			if now := c.RequestsNow(); len(now) != len(test.want) || len(now) > 0 && now[0] != test.want[0] {
				t.Errorf("got %+v", now)
			}
		})
	}
}

func TestReplaceAddsThePathInTheSamePatch(t *testing.T) {
	c := deviceCluster(t)
	got := plugin.RunWith(t, c, "", nil, strings.Fields("replace --node worker-1 --device /dev/sdb --with /dev/sdc "+
		"--dry-run")...)
	var patch []session.Operation
	if err := yaml.Unmarshal([]byte(got.Out), &patch); err != nil || got.Code != 0 || len(patch) != 5 || c.Writes != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	clitest.Prints(t, got, 0, "  + deviceSelector.optionalPaths: /dev/sdc\n  + deviceRequests: {node: worker-1, device: pv-b, "+
		"action: Remove}\n- /dev/sdc is added to the volume group first.")
	if patch[3].Path != "/spec/storage/deviceClasses/1/deviceSelector/optionalPaths/-" ||
		patch[4].Path != "/spec/storage/deviceClasses/1/deviceRequests" {
		t.Errorf("got %+v", patch)
	}
	other := clitest.HealthyNode("storage")
	other.Name = "worker-2"
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	got = plugin.RunWith(t, c, "", nil, strings.Fields("replace --node worker-1 --device /dev/sdb --with /dev/sdc --yes")...)
	clitest.Prints(t, got, session.ExitError, "the path /dev/sdc also matches devices of other nodes, which the device class would "+
		"use too: worker-2.")
}

func TestABlockedDrainIsAnErrorAfterAWhile(t *testing.T) {
	c := deviceCluster(t)
	c.SetState(v1alpha1.PhysicalVolumeBlocked)() // of an earlier request
	got := plugin.RunWith(t, c, "", []func(){c.SetState(v1alpha1.PhysicalVolumeDrained)},
		strings.Fields("drain --node worker-1 --device /dev/sdb --yes")...)
	clitest.Prints(t, got, 0, "Done: device")
	c = deviceCluster(t)
	got = plugin.RunWith(t, c, "", []func(){c.SetState(v1alpha1.PhysicalVolumeBlocked)},
		strings.Fields("drain --node worker-1 --device /dev/sdb --yes")...)
	clitest.Prints(t, got, session.ExitProblems, "error: the request cannot be carried out: device /dev/sdb of the device class vg1 "+
		"on node worker-1: Blocked: as tested. The request stays. To withdraw it: kubectl lvms uncordon --node "+
		"worker-1 --class vg1")
}

func TestAStateThatIsNotCurrentIsNoSuccess(t *testing.T) {
	node := clitest.PairedNode("storage", "90Gi")
	node.Status.LastObserved = ptr.To(metav1.NewTime(clitest.Now.AddDate(0, 0, -1)))
	node.Status.NodeStatus[0].PhysicalVolumes[0].State = v1alpha1.PhysicalVolumeDrained
	c := clitest.NewCluster(t, clitest.StorageCluster("storage"), node)
	got := plugin.RunWith(t, c, "", nil, strings.Fields("drain --node worker-1 --device /dev/sdb --yes --timeout 20ms")...)
	clitest.Prints(t, got, session.ExitTimeout, "warning: node worker-1: the state is not current", "the state of the node is not "+
		"current: The node agent has not observed the node", "The request stays; to wait for it, run the command again")
}

func TestAnLVMClusterThatChangesMeanwhile(t *testing.T) {
	change := func(c *clitest.Cluster, change func(*v1alpha1.LVMCluster)) func() {
		return func() {
			found := &v1alpha1.LVMCluster{}
			key := client.ObjectKey{Namespace: "storage", Name: "lvmcluster"}
			if err := c.Client.Get(t.Context(), key, found); err != nil {
				t.Fatal(err)
			}
			change(found)
			if err := c.Update(t.Context(), found); err != nil {
				t.Fatal(err)
			}
		}
	}
	cordon := strings.Fields("cordon --node worker-1 --device /dev/sdb --yes --wait=false")
	// Another change of the LVMCluster is kept, and this one is written on top of it.
	c := deviceCluster(t)
	far := v1alpha1.DeviceRequest{Node: "worker-2", Device: "pv-x", Action: v1alpha1.DeviceActionDrain}
	c.BeforePatch = change(c, func(found *v1alpha1.LVMCluster) {
		found.Spec.Storage.DeviceClasses[1].DeviceRequests = []v1alpha1.DeviceRequest{far}
	})
	clitest.Prints(t, plugin.RunWith(t, c, "", nil, cordon...), 0, "was changed.")
	want := []v1alpha1.DeviceRequest{far, clitest.Request("pv-b", v1alpha1.DeviceActionCordon)}
	if diff := cmp.Diff(want, c.RequestsNow()); diff != "" {
		t.Error(diff)
	}
	// If the change is another one by then, nothing is written.
	c = deviceCluster(t)
	drain := clitest.Request("pv-b", v1alpha1.DeviceActionDrain)
	c.BeforePatch = change(c, func(found *v1alpha1.LVMCluster) {
		found.Spec.Storage.DeviceClasses[1].DeviceRequests = []v1alpha1.DeviceRequest{drain}
	})
	clitest.Prints(t, plugin.RunWith(t, c, "", nil, cordon...), session.ExitError, "was changed in the meantime, so that this change is "+
		"another one")
	if diff := cmp.Diff([]v1alpha1.DeviceRequest{drain}, c.RequestsNow()); diff != "" {
		t.Error(diff)
	}
}

func TestRefusedDeviceCommands(t *testing.T) {
	c := clitest.NewCluster(t, clitest.StorageCluster("storage"), clitest.PairedNode("storage", "90Gi"), clitest.BrokenNode("storage"))
	for args, want := range map[string]string{
		"drain --node worker-1": "--device is missing",
		"drain --node worker-1 --device /dev/sda --yes": "does not have the device /dev/sda: it has " +
			"/dev/sdb",
		"drain --node worker-2 --device pv-d --yes": "device /dev/sdd of the device class vg1 " +
			"on node worker-2 is missing",
		"cordon --node worker-1 --device /dev/sdb":        "there is no terminal to ask on",
		"replace --node worker-1 --device /dev/sdb --yes": "--with is missing",
		"replace --node worker-1 --device /dev/sdb --with /dev/sda": "device /dev/sda on node worker-1 is not " +
			"blank (Excluded)",
		"replace --node worker-1 --device /dev/sdb --with /dev/sdb": "--with /dev/sdb is the device that is " +
			"replaced",
		"replace --node worker-1 --device /dev/sdb --with /dev/sdz": "node worker-1 does not list the device " +
			"/dev/sdz",
		"uncordon --node worker-1 --device pv-left --yes": "LVMCluster storage/lvmcluster has no " +
			"request for it either",
		"adopt --node worker-1 --yes": "--volume-group is missing: give the UUID " +
			"of one of the volume groups on node worker-1: vg-uuid-1 (vg1)",
		"adopt --node worker-1 --volume-group x --yes": "no device of node worker-1 has the volume " +
			"group x",
		"adopt --node worker-1 --volume-group vg-uuid-1":                 "there is no terminal to ask on",
		"cordon --node worker-1 --class vg9 --device /dev/sdb":           "does not have the device class vg9",
		"remove --node worker-1 --device /dev/sdb --dry-run=x --timeout": "flag needs an argument",
	} {
		clitest.Prints(t, plugin.RunWith(t, c, "", nil, strings.Fields(args)...), session.ExitError, want)
	}
	if c.Writes != 0 {
		t.Error("something was written")
	}
}

func TestARequestOfADeviceThatHasLeftIsWithdrawn(t *testing.T) {
	c := deviceCluster(t, clitest.Request("pv-left", v1alpha1.DeviceActionRemove))
	got := plugin.RunWith(t, c, "", nil, strings.Fields("uncordon --node worker-1 --device pv-left --yes")...)
	clitest.Prints(t, got, 0, "  - deviceRequests: {node: worker-1, device: pv-left, action: Remove}\n- The device is not in "+
		"the volume group.")
	if now := c.RequestsNow(); len(now) != 0 {
		t.Errorf("got %+v", now)
	}
	got = plugin.RunWith(t, c, "", nil, strings.Fields("uncordon --node worker-1 --device /dev/sdb --yes")...)
	clitest.Prints(t, got, 0, "Nothing is changed.")
}

func TestAdopt(t *testing.T) {
	c := deviceCluster(t)
	adopt := strings.Fields("adopt --node worker-1 --volume-group vg-uuid-1 --yes")
	clitest.Prints(t, plugin.RunWith(t, c, "", nil, adopt...), 0, "  + adopt: {node: worker-1, volumeGroupUUID: vg-uuid-1}", "was "+
		"changed.",
		"kubectl lvms import --node worker-1 --class vg1")
	writes := c.Writes
	clitest.Prints(t, plugin.RunWith(t, c, "", nil, adopt...), 0, "Nothing is changed.")
	if c.Writes != writes {
		t.Error("the second call writes")
	}
}

func TestFailedReadsOfDeviceCommands(t *testing.T) {
	for _, resource := range []string{session.NodeStatusesResource, session.ClustersResource} {
		reader := clitest.FakeReader(clitest.Failing(resource, fmt.Errorf("connection refused")), clitest.StorageCluster("storage"),
			clitest.PairedNode("storage", "90Gi"))
		for _, args := range []string{"drain --device /dev/sdb", "uncordon --device /dev/sdb",
			"replace --device /dev/sdb --with /dev/sdc", "adopt --volume-group vg-uuid-1"} {
			got := plugin.RunWith(t, reader, "", nil, append(strings.Fields(args), "--node", "worker-1", "--yes")...)
			clitest.Prints(t, got, session.ExitError, "cannot list "+resource, "connection refused")
		}
	}
	c := deviceCluster(t)
	broken := fmt.Errorf("connection refused")
	c.GetErrors = []error{broken, broken, broken, broken, broken, broken, broken}
	got := plugin.RunWith(t, c, "", nil, strings.Fields("remove --node worker-1 --device /dev/sdb --yes")...)
	clitest.Prints(t, got, session.ExitError, "cannot get LVMVolumeGroupNodeStatus storage/worker-1")
}
