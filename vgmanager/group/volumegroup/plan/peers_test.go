package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

const lun = "0x6001405a1b2c3d4e5f60718293a4b5c6"

// withWWN returns a disk with a WWN.
func withWWN(d device.Device, name string) device.Device {
	d.WWN = name
	return d
}

// nodeStatus returns a node status that lists devices.
func nodeStatus(node string, devices ...v1alpha1.DeviceStatus) *v1alpha1.LVMVolumeGroupNodeStatus {
	return &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: node},
		Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{Devices: devices}}
}

func TestADiskThatOtherNodesSeeIsNotTaken(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	blank := []device.Device{withWWN(disk("b"), lun)}
	own := nodeStatus("n1", v1alpha1.DeviceStatus{Name: "/dev/sdb", Type: "disk", WWN: lun})
	there := v1alpha1.DeviceStatus{Name: "/dev/sdk", Type: "disk", WWN: lun, State: v1alpha1.DeviceAvailable}
	edited := func(change func(*v1alpha1.DeviceStatus)) v1alpha1.DeviceStatus {
		d := *there.DeepCopy()
		change(&d)
		return d
	}
	multipath := device.Device{Name: "/dev/mapper/mpatha", Number: "254:0", Type: "mpath", Size: 10 << 30}
	path := withWWN(disk("b"), lun)
	path.Children = []device.Child{{Name: multipath.Name, Type: "mpath"}}
	stale := nodeStatus("n2", there)
	stale.Status.LastObserved = &metav1.Time{Time: now.Add(-time.Hour)}
	partial := nodeStatus("n2")
	partial.Status.DevicesOmitted = 7
	disksKept := nodeStatus("n2", v1alpha1.DeviceStatus{Type: "part", State: v1alpha1.DeviceInUse})
	disksKept.Status.DevicesOmitted = 7
	const create = "Progressing CreateVolumeGroup /dev/sdb"
	tests := map[string]struct {
		devices []device.Device
		paths   []state.Path
		own     *v1alpha1.LVMVolumeGroupNodeStatus
		others  []*v1alpha1.LVMVolumeGroupNodeStatus
		wipes   bool
		want    string
		says    []string
	}{
		"no other node": {devices: blank, own: own, want: create},
		"another disk there": {devices: blank, own: own, want: create, others: []*v1alpha1.LVMVolumeGroupNodeStatus{
			nodeStatus("n2", edited(func(d *v1alpha1.DeviceStatus) { d.WWN = "0x5000c500a1b2c3d4" }))}},
		"not attached there any longer": {devices: blank, own: own, want: create,
			others: []*v1alpha1.LVMVolumeGroupNodeStatus{
				nodeStatus("n2", edited(func(d *v1alpha1.DeviceStatus) { d.State = v1alpha1.DeviceMissing }))}},
		"the same serial number, no WWN": {devices: []device.Device{disk("b")}, own: nodeStatus("n1"), want: create,
			others: []*v1alpha1.LVMVolumeGroupNodeStatus{
				nodeStatus("n2", v1alpha1.DeviceStatus{Name: "/dev/sdb", Serial: "serial-b", ID: "serial:serial-b"})}},
		"unused on both": {devices: blank, own: own, others: []*v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("n2", there)},
			want: "Failed", says: []string{"/dev/disk/by-id/b of node n1", lun, "n2 (/dev/sdk)", "one node only"}},
		"in a group there": {devices: blank, own: own, want: "Failed",
			says: []string{"n2 (/dev/sdk in volume group vg1)"}, others: []*v1alpha1.LVMVolumeGroupNodeStatus{
				nodeStatus("n2", edited(func(d *v1alpha1.DeviceStatus) { d.VolumeGroup = "vg1" }))}},
		"a long list there": {devices: blank, own: own, want: "Failed", says: []string{"n2 (/dev/sdk)"},
			others: []*v1alpha1.LVMVolumeGroupNodeStatus{
				nodeStatus("n2", edited(func(d *v1alpha1.DeviceStatus) { d.WWN, d.ID = "", "wwn:"+lun }))}},
		"a multipath device there": {devices: blank, own: own, want: "Failed", says: []string{"n2 (/dev/mapper/mpatha)"},
			others: []*v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("n2", edited(func(d *v1alpha1.DeviceStatus) {
				d.Name, d.Type, d.WWN, d.ID = "/dev/mapper/mpatha", "mpath", "", "dm:mpath-3"+lun[2:]
			}))}},
		"a multipath device here": {devices: []device.Device{path, multipath}, own: own, want: "Failed",
			paths: []state.Path{{Path: "/dev/mapper/mpatha", Number: "254:0"}}, says: []string{"n2 (/dev/sdk)"},
			others: []*v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("n2", there)}},
		"a node that is off": {devices: blank, own: own, others: []*v1alpha1.LVMVolumeGroupNodeStatus{stale},
			want: "Failed", says: []string{"n2 has not reported its devices since 2026-03-01 11:00:00 UTC",
				"delete its Node object"}},
		"a node that may omit disks": {devices: blank, own: own, others: []*v1alpha1.LVMVolumeGroupNodeStatus{partial},
			want: "Failed", says: []string{"n2 (7)"}},
		"a node that omits no disks": {devices: blank, own: own, want: create,
			others: []*v1alpha1.LVMVolumeGroupNodeStatus{disksKept}},
		"with content, to be wiped": {devices: []device.Device{withWWN(written("b"), lun)}, own: own, wipes: true,
			want: "Failed", says: []string{"n2 (/dev/sdk)"},
			others: []*v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("n2", there)}},
		"not listed yet": {devices: blank, own: nodeStatus("n1"), want: "Progressing"},
		"not listed yet, to be wiped": {devices: []device.Device{withWWN(written("b"), lun)}, own: nodeStatus("n1"),
			wipes: true, want: "Progressing"},
		"listed as missing": {devices: blank, want: "Progressing",
			own: nodeStatus("n1", v1alpha1.DeviceStatus{WWN: lun, State: v1alpha1.DeviceMissing})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := state.NodeState{Report: report(), Devices: tt.devices,
				Disks: state.Disks{Paths: tt.paths, Identities: device.Identities(tt.devices)}}
			if s.Disks.Paths == nil {
				s.Disks.Paths = paths("b")
			}
			desired := testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector})
			if tt.wipes {
				desired = testDesired(forced("/dev/disk/by-id/b"))
			}
			before := New(desired, s)
			if selection.NeedsPeers(s, before.Action) != (name != "the same serial number, no WWN") {
				t.Fatalf("the nodes are compared before %s: %t", before.Action.Kind, selection.NeedsPeers(s, before.Action))
			}
			s.Disks.Peers = state.NewPeers(s.Devices, tt.own)
			for _, o := range tt.others {
				s.Disks.Peers.Add(o, now)
			}
			p := New(desired, s)
			checkPlan(t, name, p, tt.want, tt.says)
			taken := before.Action.Taken()
			if refused := selection.CheckPeers(desired, s, taken...) != nil; refused != (tt.want != create) {
				t.Errorf("the check before the change: %v", selection.CheckPeers(desired, s, taken...))
			}
			if p.AwaitsListing != (tt.want == "Progressing") ||
				p.AwaitsListing != strings.Contains(p.Note, "until the node status of node n1 lists") {
				t.Errorf("awaits its listing: %t, %q", p.AwaitsListing, p.Note)
			}
			if len(tt.says) > 0 && (len(p.Excluded) != 1 || !slices.ContainsFunc(p.Excluded[0].Reasons,
				func(r string) bool { return strings.HasPrefix(r, string(device.SharedWithNode)+": ") })) {
				t.Errorf("excluded are %+v", p.Excluded)
			}
		})
	}
}

// TestNothingIsTakenThatWasNotCompared: the node statuses were not read.
func TestNothingIsTakenThatWasNotCompared(t *testing.T) {
	s := state.NodeState{Report: report(), Devices: []device.Device{withWWN(disk("b"), lun)}, Disks: state.Disks{Paths: paths("b")}}
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector})
	if err := selection.CheckPeers(d, s, s.Devices...); err == nil || !strings.Contains(err.Error(), "was not compared") {
		t.Errorf("got %v", err)
	}
	if err := selection.CheckPeers(d, s, disk("c")); err != nil {
		t.Errorf("a disk without a WWN: %v", err)
	}
}

// TestSharedDisksOfAGroup: a group keeps its disks and grows by those that only this node sees. A disk that the
// selector finds, and that another node sees, is excluded without a problem.
func TestSharedDisksOfAGroup(t *testing.T) {
	s := state.NodeState{Report: report(group("b")), Class: thickDone,
		Devices: []device.Device{withWWN(disk("b"), lun), withWWN(disk("c"), "0x5000c500a1b2c3d4"),
			withWWN(disk("d"), "0x5000c500a1b2c3d5")}}
	own, other := nodeStatus("n1"), nodeStatus("n2")
	for _, d := range s.Devices {
		own.Status.Devices = append(own.Status.Devices, v1alpha1.DeviceStatus{WWN: d.WWN})
	}
	for _, d := range s.Devices[:2] {
		other.Status.Devices = append(other.Status.Devices, v1alpha1.DeviceStatus{Name: "/dev/sdx", WWN: d.WWN})
	}
	s.Disks.Peers = state.NewPeers(s.Devices, own)
	s.Disks.Peers.Add(other, time.Time{})
	desired := testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryDynamic})
	desired.Selectors = []v1alpha1.DeviceSelector{{}}
	p := New(desired, s)
	checkPlan(t, "dynamic", p, "Progressing ExtendVolumeGroup /dev/sdd", nil)
	if len(p.Excluded) != 1 || p.Excluded[0].Name != "/dev/sdc" {
		t.Errorf("excluded are %+v", p.Excluded)
	}
}

// TestNodesThatSeeOnlySharedDisksAreNotReady: optional paths and properties name no device that must exist.
func TestNodesThatSeeOnlySharedDisksAreNotReady(t *testing.T) {
	s := state.NodeState{Report: report(), Devices: []device.Device{withWWN(disk("b"), lun)}}
	s.Disks.Peers = state.NewPeers(s.Devices, nodeStatus("n1", v1alpha1.DeviceStatus{WWN: lun}))
	s.Disks.Peers.Add(nodeStatus("n2", v1alpha1.DeviceStatus{Name: "/dev/sdk", WWN: lun}), time.Time{})
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
	d.Selectors = []v1alpha1.DeviceSelector{{}}
	checkPlan(t, "found", New(d, s), "Failed", []string{"see excluded"})
	s.Disks.Paths = paths("b")
	s.Disks.Paths[0].Optional = true
	checkPlan(t, "optional", New(d, s), "Failed", []string{"see excluded"})
}

// TestTwoNodesNeverTakeOneDisk runs two nodes that see one blank disk through every order of what each does: it lists
// the disk, reads its own node status, reads that of the other, and acts.
func TestTwoNodesNeverTakeOneDisk(t *testing.T) {
	const each = 4
	took := map[int]int{}
	orders := 0
	var visit func(order []int, left [2]int)
	visit = func(order []int, left [2]int) {
		for node, n := range left {
			if n > 0 {
				next := left
				next[node]--
				visit(append(slices.Clip(order), node), next)
			}
		}
		if left != [2]int{} {
			return
		}
		// The listing can come at any of a node's steps: it is done by another part of the agent.
		for a := range each {
			for b := range each {
				orders++
				took[race(t, order, [2]int{a, b})]++
			}
		}
	}
	visit(nil, [2]int{each, each})
	if took[2] != 0 || took[0] == 0 || took[1] == 0 {
		t.Errorf("of %d orders, both nodes took the disk in %d, one in %d and none in %d", orders, took[2], took[1],
			took[0])
	}
}

// race runs the steps of two nodes in an order, and returns how many of them take the disk. A node lists the disk in
// its step list, and otherwise reads its own status, reads the others, and acts.
func race(t *testing.T, order []int, list [2]int) int {
	t.Helper()
	statuses := [2]*v1alpha1.LVMVolumeGroupNodeStatus{nodeStatus("n0"), nodeStatus("n1")}
	var seen [2]state.NodeState
	for i := range seen {
		seen[i] = state.NodeState{Report: report(), Devices: []device.Device{withWWN(disk("b"), lun)}, Disks: state.Disks{Paths: paths("b")}}
	}
	var steps, done [2]int
	taken := 0
	for _, node := range order {
		if steps[node] == list[node] {
			statuses[node].Status.Devices = []v1alpha1.DeviceStatus{{Name: "/dev/sdb", WWN: lun}}
		} else {
			switch done[node] {
			case 0:
				seen[node].Disks.Peers = state.NewPeers(seen[node].Devices, statuses[node])
			case 1:
				seen[node].Disks.Peers.Add(statuses[1-node], time.Time{})
			case 2:
				d := testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector})
				d.Node = fmt.Sprintf("n%d", node)
				if p := New(d, seen[node]); p.Action.Kind == state.CreateVG {
					taken++
				}
			}
			done[node]++
		}
		steps[node]++
	}
	return taken
}
