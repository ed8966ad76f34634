package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// storageCluster is an LVMCluster with the device class vg1 at index 1, which selects /dev/sdb by its link.
func storageCluster(namespace string, requests ...v1alpha1.DeviceRequest) *v1alpha1.LVMCluster {
	cluster := healthyCluster(namespace)
	cluster.UID = "uid-c"
	cluster.Spec.Storage.DeviceClasses = []v1alpha1.DeviceClass{
		{Name: "other", DeviceSelector: &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/sdx"}}},
		{Name: "vg1", DeviceRequests: requests, DeviceSelector: &v1alpha1.DeviceSelector{
			OptionalPaths: []v1alpha1.DevicePath{"/dev/disk/by-id/wwn-0x2"}}}}
	return cluster
}

// pairedNode is a node whose volume group has two devices: /dev/sdb with 60Gi of data, and /dev/sde with the free
// space.
func pairedNode(namespace, free string) *v1alpha1.LVMVolumeGroupNodeStatus {
	node := healthyNode(namespace)
	group := &node.Status.NodeStatus[0]
	group.Devices = append(group.Devices, "/dev/sde")
	group.PhysicalVolumes[0].Size, group.PhysicalVolumes[0].Free = quantity("100Gi"), quantity("40Gi")
	group.PhysicalVolumes = append(group.PhysicalVolumes, v1alpha1.PhysicalVolumeStatus{UUID: "pv-e", Name: "/dev/sde",
		DeviceID: "wwn:0x5", State: v1alpha1.PhysicalVolumeReady, Size: quantity("100Gi"), Free: quantity(free)})
	node.Status.Devices = append(node.Status.Devices, v1alpha1.DeviceStatus{Name: "/dev/sde", PVUUID: "pv-e",
		State: v1alpha1.DeviceInUse, VolumeGroup: "vg1", VolumeGroupUUID: "vg-uuid-1", ID: "wwn:0x5"})
	return node
}

func targetOf(node *v1alpha1.LVMVolumeGroupNodeStatus) target {
	return target{namespace: node.Namespace, node: node.Name, class: "vg1", status: node}
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
	node := pairedNode("storage", "90Gi")
	for name, want := range map[string]string{"/dev/sdb": "pv-b", "/dev/disk/by-id/wwn-0x2": "pv-b", "wwn:0x2": "pv-b",
		"pv-b": "pv-b", "/dev/sde": "pv-e", "wwn:0x5": "pv-e"} {
		if m := memberOf(t, node, name); m.pv.UUID != want {
			t.Errorf("%s: got %s", name, m.pv.UUID)
		}
	}
	if m := memberOf(t, brokenNode("storage"), "pv-d"); m.pv.State != v1alpha1.PhysicalVolumeMissing {
		t.Errorf("got %+v", m.pv)
	}
	// The name of the missing device is that of another device now.
	reused := brokenNode("storage")
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

// request is a request for a device of the node worker-1.
func request(device string, action v1alpha1.DeviceAction) v1alpha1.DeviceRequest {
	return v1alpha1.DeviceRequest{Node: "worker-1", Device: device, Action: action}
}

func TestRequestOperations(t *testing.T) {
	far := v1alpha1.DeviceRequest{Node: "worker-2", Device: "pv-b", Action: v1alpha1.DeviceActionDrain}
	const path = "/spec/storage/deviceClasses/1/deviceRequests"
	cordon := request("pv-b", v1alpha1.DeviceActionCordon)
	tests := map[string]struct {
		before []v1alpha1.DeviceRequest
		action v1alpha1.DeviceAction
		want   []operation
	}{
		"the first request": {nil, v1alpha1.DeviceActionCordon,
			[]operation{{Op: "add", Path: path, Value: []any{cordon}}}},
		"beside that of another node": {[]v1alpha1.DeviceRequest{far}, v1alpha1.DeviceActionCordon,
			[]operation{{Op: "add", Path: path + "/-", Value: cordon}}},
		"the same request": {[]v1alpha1.DeviceRequest{far, request("wwn:0x2", v1alpha1.DeviceActionCordon)},
			v1alpha1.DeviceActionCordon, nil},
		"another action": {[]v1alpha1.DeviceRequest{request("/dev/sdb", v1alpha1.DeviceActionDrain), far,
			request("pv-b", v1alpha1.DeviceActionRemove)}, v1alpha1.DeviceActionCordon,
			[]operation{{Op: "remove", Path: path + "/2"}, {Op: "remove", Path: path + "/0"},
				{Op: "add", Path: path + "/-", Value: cordon}}},
		"a withdrawal": {[]v1alpha1.DeviceRequest{request("/dev/disk/by-id/wwn-0x2", v1alpha1.DeviceActionDrain)}, "",
			[]operation{{Op: "remove", Path: path}}},
		"a withdrawal beside others": {[]v1alpha1.DeviceRequest{request("pv-b", v1alpha1.DeviceActionDrain), far}, "",
			[]operation{{Op: "remove", Path: path + "/0"}}},
		"nothing to withdraw": {[]v1alpha1.DeviceRequest{far}, "", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			class, err := findClass([]v1alpha1.LVMCluster{*storageCluster("storage", test.before...)}, "vg1")
			if err != nil {
				t.Fatal(err)
			}
			got := requestOperations(class, memberOf(t, pairedNode("storage", "90Gi"), "/dev/sdb"), test.action)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAdoptOperations(t *testing.T) {
	cluster := storageCluster("storage")
	class := classAt{cluster: cluster, index: 1}
	const path = "/spec/storage/deviceClasses/1/adopt"
	of := func(node, uuid string) v1alpha1.VolumeGroupAdoption {
		return v1alpha1.VolumeGroupAdoption{Node: node, VolumeGroupUUID: uuid}
	}
	want := []operation{{Op: "add", Path: path, Value: []any{of("worker-1", "one")}}}
	if diff := cmp.Diff(want, adoptOperations(class, "worker-1", "one")); diff != "" {
		t.Error(diff)
	}
	class.class().Adopt = []v1alpha1.VolumeGroupAdoption{of("worker-2", "two"), of("worker-1", "one")}
	if got := adoptOperations(class, "worker-1", "one"); got != nil {
		t.Errorf("the second call changes it: %+v", got)
	}
	want = []operation{{Op: "replace", Path: path + "/1", Value: of("worker-1", "three")}}
	if diff := cmp.Diff(want, adoptOperations(class, "worker-1", "three")); diff != "" {
		t.Error(diff)
	}
	want = []operation{{Op: "add", Path: path + "/-", Value: of("worker-3", "one")}}
	if diff := cmp.Diff(want, adoptOperations(class, "worker-3", "one")); diff != "" {
		t.Error(diff)
	}
}

func TestFindClass(t *testing.T) {
	existing := storageCluster("storage")
	existing.Spec.Storage.DeviceClasses[1].ExistingVolumeGroup = "data"
	for want, clusters := range map[string][]v1alpha1.LVMCluster{
		"no LVMCluster has the device class vg1":          {*healthyCluster("storage")},
		"several LVMClusters have the device class vg1":   {*storageCluster("a"), *storageCluster("b")},
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
	space := memberOf(t, pairedNode("storage", "90Gi"), "/dev/sdb")
	write("enough space", space, plain, v1alpha1.DeviceActionCordon)
	write("enough space", space, plain, v1alpha1.DeviceActionDrain)
	write("enough space", space, plain, v1alpha1.DeviceActionRemove)
	write("a request", space, plain, "")
	draining := space
	draining.pv.State = v1alpha1.PhysicalVolumeDraining
	write("a move that runs", draining, plain, v1alpha1.DeviceActionCordon)
	full := memberOf(t, pairedNode("storage", "0"), "/dev/sdb")
	write("no space", full, plain, v1alpha1.DeviceActionCordon)
	write("no space", full, plain, v1alpha1.DeviceActionDrain)
	alone := memberOf(t, healthyNode("storage"), "/dev/sdb")
	write("the only device, of unknown size", alone, plain, v1alpha1.DeviceActionRemove)
	write("too few devices", space, raid, v1alpha1.DeviceActionRemove)
	missing := memberOf(t, brokenNode("storage"), "pv-d")
	write("a missing device", missing, plain, v1alpha1.DeviceActionRemove)
	write("a missing device with redundancy", missing, raid, v1alpha1.DeviceActionRemove)
	beside := memberOf(t, brokenNode("storage"), "pv-b")
	beside.pv.State = v1alpha1.PhysicalVolumeFailing
	write("failing, beside a missing device", beside, plain, v1alpha1.DeviceActionDrain)
	golden(t, "requests", all.String())
}

func TestProgressOfRequests(t *testing.T) {
	m := memberOf(t, pairedNode("storage", "90Gi"), "/dev/sdb")
	with := func(state v1alpha1.PhysicalVolumeState) *v1alpha1.LVMVolumeGroupNodeStatus {
		node := pairedNode("storage", "90Gi")
		node.Status.NodeStatus[0].PhysicalVolumes[0].State = state
		return node
	}
	left := pairedNode("storage", "90Gi")
	left.Status.NodeStatus[0].PhysicalVolumes = left.Status.NodeStatus[0].PhysicalVolumes[1:]
	empty := pairedNode("storage", "90Gi")
	empty.Status.NodeStatus[0].PhysicalVolumes = nil
	gone := pairedNode("storage", "90Gi")
	gone.Status.NodeStatus = nil
	for name, test := range map[string]struct {
		status *v1alpha1.LVMVolumeGroupNodeStatus
		action v1alpha1.DeviceAction
		want   requestState
	}{
		"cordoned":              {with(v1alpha1.PhysicalVolumeCordoned), v1alpha1.DeviceActionCordon, requestDone},
		"not cordoned yet":      {with(v1alpha1.PhysicalVolumeReady), v1alpha1.DeviceActionCordon, requestPending},
		"cordoned to drain":     {with(v1alpha1.PhysicalVolumeCordoned), v1alpha1.DeviceActionDrain, requestPending},
		"draining":              {with(v1alpha1.PhysicalVolumeDraining), v1alpha1.DeviceActionDrain, requestPending},
		"drained":               {with(v1alpha1.PhysicalVolumeDrained), v1alpha1.DeviceActionDrain, requestDone},
		"drained to remove":     {with(v1alpha1.PhysicalVolumeDrained), v1alpha1.DeviceActionRemove, requestPending},
		"blocked":               {with(v1alpha1.PhysicalVolumeBlocked), v1alpha1.DeviceActionRemove, requestBlocked},
		"removed":               {left, v1alpha1.DeviceActionRemove, requestDone},
		"no devices reported":   {empty, v1alpha1.DeviceActionRemove, requestPending},
		"no device class":       {gone, v1alpha1.DeviceActionRemove, requestPending},
		"cordoned and failing":  {with(v1alpha1.PhysicalVolumeFailing), v1alpha1.DeviceActionCordon, requestDone},
		"failing to drain":      {with(v1alpha1.PhysicalVolumeFailing), v1alpha1.DeviceActionDrain, requestPending},
		"withdrawn":             {with(v1alpha1.PhysicalVolumeReady), "", requestDone},
		"withdrawn, still busy": {with(v1alpha1.PhysicalVolumeDraining), "", requestPending},
	} {
		if got, text := progressOf(test.status, m, test.action); got != test.want || text == "" {
			t.Errorf("%s: got %v %q", name, got, text)
		}
	}
}

// requestsNow returns the requests of the device class vg1.
func (c *cluster) requestsNow() []v1alpha1.DeviceRequest {
	c.t.Helper()
	all := &v1alpha1.LVMClusterList{}
	if err := c.List(c.t.Context(), all); err != nil || len(all.Items) != 1 {
		c.t.Fatal(len(all.Items), err)
	}
	return all.Items[0].Spec.Storage.DeviceClasses[1].DeviceRequests
}

// setState returns a step in which the node agent reports the state of /dev/sdb.
func (c *cluster) setState(state v1alpha1.PhysicalVolumeState) func() {
	return func() {
		c.t.Helper()
		node := &v1alpha1.LVMVolumeGroupNodeStatus{}
		if err := c.Client.Get(c.t.Context(), client.ObjectKey{Namespace: "storage", Name: "worker-1"}, node); err != nil {
			c.t.Fatal(err)
		}
		volumes := node.Status.NodeStatus[0].PhysicalVolumes
		if state == "" {
			node.Status.NodeStatus[0].PhysicalVolumes = volumes[1:]
		} else {
			volumes[0].State, volumes[0].Message = state, "as tested"
		}
		if err := c.Update(c.t.Context(), node); err != nil {
			c.t.Fatal(err)
		}
	}
}

func deviceCluster(t *testing.T, requests ...v1alpha1.DeviceRequest) *cluster {
	return newCluster(t, storageCluster("storage", requests...), pairedNode("storage", "90Gi"))
}

func TestADrainFromTheRequestToItsEnd(t *testing.T) {
	c := deviceCluster(t)
	drain := strings.Fields("drain --node worker-1 --device /dev/sdb")
	got := plugin.runWith(t, c, "yes\n", []func(){c.setState(v1alpha1.PhysicalVolumeDraining),
		c.setState(v1alpha1.PhysicalVolumeDrained)}, drain...)
	prints(t, got, 0, "The device class vg1 in LVMCluster storage/lvmcluster is changed:\n  + deviceRequests: {node: "+
		"worker-1, device: pv-b, action: Drain}\n- 60Gi of data is moved to the other devices", "Change the "+
		"LVMCluster? [y/N]: ", "/dev/sdb: Draining: as tested", "/dev/sdb: Drained: as tested", "Done: device /dev/sdb")
	want := []v1alpha1.DeviceRequest{request("pv-b", v1alpha1.DeviceActionDrain)}
	if diff := cmp.Diff(want, c.requestsNow()); diff != "" {
		t.Error(diff)
	}
	writes := c.writes
	got = plugin.runWith(t, c, "", nil, drain...)
	prints(t, got, 0, "already has this for the device class vg1 on node worker-1. Nothing is changed.", "Done: device")
	if c.writes != writes {
		t.Error("the second call writes")
	}
}

func TestEachDeviceCommandWritesItsRequest(t *testing.T) {
	remove := request("pv-b", v1alpha1.DeviceActionRemove)
	for name, test := range map[string]struct {
		args   string
		before []v1alpha1.DeviceRequest
		state  v1alpha1.PhysicalVolumeState
		want   []v1alpha1.DeviceRequest
	}{
		"cordon": {"cordon --device wwn:0x2", nil, v1alpha1.PhysicalVolumeCordoned,
			[]v1alpha1.DeviceRequest{request("pv-b", v1alpha1.DeviceActionCordon)}},
		"remove": {"remove --device " +
			"pv-b", []v1alpha1.DeviceRequest{request("/dev/sdb", v1alpha1.DeviceActionDrain)}, "",
			[]v1alpha1.DeviceRequest{remove}},
		"replace":  {"replace --device /dev/sdb --with /dev/sdc", nil, "", []v1alpha1.DeviceRequest{remove}},
		"uncordon": {"uncordon --device /dev/sdb", []v1alpha1.DeviceRequest{remove}, v1alpha1.PhysicalVolumeReady, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := deviceCluster(t, test.before...)
			c.setState(v1alpha1.PhysicalVolumeDraining)()
			got := plugin.runWith(t, c, "", []func(){c.setState(test.state), func() {}},
				append(strings.Fields(test.args), "--node", "worker-1", "--yes")...)
			prints(t, got, 0, "LVMCluster storage/lvmcluster was changed.", "Done: device")
			if now := c.requestsNow(); len(now) != len(test.want) || len(now) > 0 && now[0] != test.want[0] {
				t.Errorf("got %+v", now)
			}
		})
	}
}

func TestReplaceAddsThePathInTheSamePatch(t *testing.T) {
	c := deviceCluster(t)
	got := plugin.runWith(t, c, "", nil, strings.Fields("replace --node worker-1 --device /dev/sdb --with /dev/sdc "+
		"--dry-run")...)
	var patch []operation
	if err := yaml.Unmarshal([]byte(got.out), &patch); err != nil || got.code != 0 || len(patch) != 5 || c.writes != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}
	prints(t, got, 0, "  + deviceSelector.optionalPaths: /dev/sdc\n  + deviceRequests: {node: worker-1, device: pv-b, "+
		"action: Remove}\n- /dev/sdc is added to the volume group first.")
	if patch[3].Path != "/spec/storage/deviceClasses/1/deviceSelector/optionalPaths/-" ||
		patch[4].Path != "/spec/storage/deviceClasses/1/deviceRequests" {
		t.Errorf("got %+v", patch)
	}
	other := healthyNode("storage")
	other.Name = "worker-2"
	if err := c.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	got = plugin.runWith(t, c, "", nil, strings.Fields("replace --node worker-1 --device /dev/sdb --with /dev/sdc --yes")...)
	prints(t, got, exitError, "the path /dev/sdc also matches devices of other nodes, which the device class would "+
		"use too: worker-2.")
}

func TestABlockedDrainIsAnErrorAfterAWhile(t *testing.T) {
	c := deviceCluster(t)
	c.setState(v1alpha1.PhysicalVolumeBlocked)() // of an earlier request
	got := plugin.runWith(t, c, "", []func(){c.setState(v1alpha1.PhysicalVolumeDrained)},
		strings.Fields("drain --node worker-1 --device /dev/sdb --yes")...)
	prints(t, got, 0, "Done: device")
	c = deviceCluster(t)
	got = plugin.runWith(t, c, "", []func(){c.setState(v1alpha1.PhysicalVolumeBlocked)},
		strings.Fields("drain --node worker-1 --device /dev/sdb --yes")...)
	prints(t, got, exitProblems, "error: the request cannot be carried out: device /dev/sdb of the device class vg1 "+
		"on node worker-1: Blocked: as tested. The request stays. To withdraw it: kubectl lvms uncordon --node "+
		"worker-1 --class vg1")
}

func TestAStateThatIsNotCurrentIsNoSuccess(t *testing.T) {
	node := pairedNode("storage", "90Gi")
	node.Status.LastObserved = ptr.To(metav1.NewTime(now.AddDate(0, 0, -1)))
	node.Status.NodeStatus[0].PhysicalVolumes[0].State = v1alpha1.PhysicalVolumeDrained
	c := newCluster(t, storageCluster("storage"), node)
	got := plugin.runWith(t, c, "", nil, strings.Fields("drain --node worker-1 --device /dev/sdb --yes --timeout 20ms")...)
	prints(t, got, exitTimeout, "warning: node worker-1: the state is not current", "the state of the node is not "+
		"current: The node agent has not observed the node", "The request stays; to wait for it, run the command again")
}

func TestAnLVMClusterThatChangesMeanwhile(t *testing.T) {
	change := func(c *cluster, change func(*v1alpha1.LVMCluster)) func() {
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
	c.beforePatch = change(c, func(found *v1alpha1.LVMCluster) {
		found.Spec.Storage.DeviceClasses[1].DeviceRequests = []v1alpha1.DeviceRequest{far}
	})
	prints(t, plugin.runWith(t, c, "", nil, cordon...), 0, "was changed.")
	want := []v1alpha1.DeviceRequest{far, request("pv-b", v1alpha1.DeviceActionCordon)}
	if diff := cmp.Diff(want, c.requestsNow()); diff != "" {
		t.Error(diff)
	}
	// If the change is another one by then, nothing is written.
	c = deviceCluster(t)
	drain := request("pv-b", v1alpha1.DeviceActionDrain)
	c.beforePatch = change(c, func(found *v1alpha1.LVMCluster) {
		found.Spec.Storage.DeviceClasses[1].DeviceRequests = []v1alpha1.DeviceRequest{drain}
	})
	prints(t, plugin.runWith(t, c, "", nil, cordon...), exitError, "was changed in the meantime, so that this change is "+
		"another one")
	if diff := cmp.Diff([]v1alpha1.DeviceRequest{drain}, c.requestsNow()); diff != "" {
		t.Error(diff)
	}
}

func TestRefusedDeviceCommands(t *testing.T) {
	c := newCluster(t, storageCluster("storage"), pairedNode("storage", "90Gi"), brokenNode("storage"))
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
		prints(t, plugin.runWith(t, c, "", nil, strings.Fields(args)...), exitError, want)
	}
	if c.writes != 0 {
		t.Error("something was written")
	}
}

func TestARequestOfADeviceThatHasLeftIsWithdrawn(t *testing.T) {
	c := deviceCluster(t, request("pv-left", v1alpha1.DeviceActionRemove))
	got := plugin.runWith(t, c, "", nil, strings.Fields("uncordon --node worker-1 --device pv-left --yes")...)
	prints(t, got, 0, "  - deviceRequests: {node: worker-1, device: pv-left, action: Remove}\n- The device is not in "+
		"the volume group.")
	if now := c.requestsNow(); len(now) != 0 {
		t.Errorf("got %+v", now)
	}
	got = plugin.runWith(t, c, "", nil, strings.Fields("uncordon --node worker-1 --device /dev/sdb --yes")...)
	prints(t, got, 0, "Nothing is changed.")
}

func TestAdopt(t *testing.T) {
	c := deviceCluster(t)
	adopt := strings.Fields("adopt --node worker-1 --volume-group vg-uuid-1 --yes")
	prints(t, plugin.runWith(t, c, "", nil, adopt...), 0, "  + adopt: {node: worker-1, volumeGroupUUID: vg-uuid-1}", "was "+
		"changed.",
		"kubectl lvms import --node worker-1 --class vg1")
	writes := c.writes
	prints(t, plugin.runWith(t, c, "", nil, adopt...), 0, "Nothing is changed.")
	if c.writes != writes {
		t.Error("the second call writes")
	}
}

func TestFailedReadsOfDeviceCommands(t *testing.T) {
	for _, resource := range []string{nodeStatusesResource, clustersResource} {
		reader := fakeReader(failing(resource, fmt.Errorf("connection refused")), storageCluster("storage"),
			pairedNode("storage", "90Gi"))
		for _, args := range []string{"drain --device /dev/sdb", "uncordon --device /dev/sdb",
			"replace --device /dev/sdb --with /dev/sdc", "adopt --volume-group vg-uuid-1"} {
			got := plugin.runWith(t, reader, "", nil, append(strings.Fields(args), "--node", "worker-1", "--yes")...)
			prints(t, got, exitError, "cannot list "+resource, "connection refused")
		}
	}
	c := deviceCluster(t)
	broken := fmt.Errorf("connection refused")
	c.getErrors = []error{broken, broken, broken, broken, broken, broken, broken}
	got := plugin.runWith(t, c, "", nil, strings.Fields("remove --node worker-1 --device /dev/sdb --yes")...)
	prints(t, got, exitError, "cannot get LVMVolumeGroupNodeStatus storage/worker-1")
}

func TestStablePath(t *testing.T) {
	for want, device := range map[string]v1alpha1.DeviceStatus{
		"/dev/disk/by-id/wwn-0x3":   {Name: "/dev/sdc", ByID: []string{"ata-X", "wwn-0x3"}, ByPath: []string{"pci-1"}},
		"/dev/disk/by-id/a":         {Name: "/dev/sdc", ByID: []string{"b", "a"}},
		"/dev/disk/by-path/pci-1":   {Name: "/dev/sdc", ByPath: []string{"pci-1"}},
		"/dev/sdc":                  {Name: "/dev/sdc", Size: ptr.To(resource.MustParse("1Gi"))},
		"/dev/disk/by-id/nvme-eui.": {Name: "/dev/nvme0n1", ByID: []string{"nvme-X", "nvme-eui."}},
	} {
		if got := stablePath(&device); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
