package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// closed returns a group whose device c was cordoned by this product.
func closed(vg lvm.VG) lvm.VG {
	vg.PVs[1].Allocatable = false
	vg.PVs[1].Tags = []string{cordonTag}
	return vg
}

// used returns a function that adds a volume on the device c.
func used(size lvm.Bytes) func(*lvm.VG) {
	return func(vg *lvm.VG) {
		vg.PVs[1].Used = size
		vg.PVs[1].Free = vg.PVs[1].Size - size
		vg.LVs = append(vg.LVs, lvm.LV{Name: "a", UUID: "a", Attr: "-wi-a-----", SegType: "linear", Size: size,
			PVs: []string{"pv-c"}})
	}
}

// movingFrom returns a function that adds a running move.
func movingFrom(uuid string, percent float64) func(*lvm.VG) {
	return func(vg *lvm.VG) {
		vg.Hidden = append(vg.Hidden, lvm.LV{Name: "pvmove0", UUID: "m", Attr: "p-C-aom---", SegType: "mirror",
			SyncPercent: &percent, PVs: []string{uuid}, MoveSource: uuid})
	}
}

func request(device string, action v1alpha1.DeviceAction) v1alpha1.LVMVolumeGroupSpec {
	return v1alpha1.LVMVolumeGroupSpec{DeviceRequests: []v1alpha1.DeviceRequest{
		{Node: "n2", Device: "/dev/sdb", Action: v1alpha1.DeviceActionRemove},
		{Node: "n1", Device: device, Action: action},
	}}
}

func TestPlanOfDeviceRequests(t *testing.T) {
	cordon := v1alpha1.DeviceActionCordon
	drain := v1alpha1.DeviceActionDrain
	remove := v1alpha1.DeviceActionRemove
	disks := []device.Device{disk("b"), disk("c"), disk("d")}
	named := func(letters ...string) *v1alpha1.DeviceSelector {
		s := &v1alpha1.DeviceSelector{}
		for _, l := range letters {
			s.Paths = append(s.Paths, v1alpha1.DevicePath("/dev/disk/by-id/"+l))
		}
		return s
	}
	before := v1alpha1.VGStatus{PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{
		{UUID: "pv-b", Path: "/dev/disk/by-id/b", Name: "/dev/sdb"},
		{UUID: "pv-c", Path: "/dev/disk/by-id/c", Name: "/dev/sdc"},
	}}
	tests := map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		seen state.NodeState
		want string
		says []string
		// state of pv-c in the status
		state v1alpha1.PhysicalVolumeState
	}{
		"a request by path": {spec: request("/dev/disk/by-id/c", cordon),
			seen: state.NodeState{Report: report(group("b", "c"))}, want: "Progressing CordonDevice /dev/sdc", state: "Cordoned"},
		"a request by kernel name": {spec: request("/dev/sdc", cordon), seen: state.NodeState{Report: report(group("b", "c"))},
			want: "Progressing CordonDevice /dev/sdc", state: "Cordoned"},
		"a request by UUID": {spec: request("pv-c", cordon), seen: state.NodeState{Report: report(group("b", "c"))},
			want: "Progressing CordonDevice /dev/sdc", state: "Cordoned"},
		"a request by identity": {spec: request("serial:serial-c", cordon),
			seen: state.NodeState{Report: report(group("b", "c"))}, want: "Progressing CordonDevice /dev/sdc", state: "Cordoned"},
		"a request for another node": {spec: v1alpha1.LVMVolumeGroupSpec{DeviceRequests: request("x",
			cordon).DeviceRequests[:1]}, seen: state.NodeState{Report: report(group("b", "c"))}, want: "Ready", state: "Ready"},
		"cordoned": {spec: request("pv-c", cordon),
			seen: state.NodeState{Report: report(closed(group("b", "c")))}, want: "Ready", state: "Cordoned"},
		"the request is withdrawn": {seen: state.NodeState{Report: report(closed(group("b", "c")))},
			want: "Progressing UncordonDevice /dev/sdc", state: "Ready"},
		"closed by hand, it stays so": {seen: state.NodeState{Report: report(edit(group("b", "c"),
			func(vg *lvm.VG) { vg.PVs[1].Allocatable = false }))}, want: "Ready", state: "Cordoned"},

		"a drain begins with a cordon": {spec: request("pv-c", drain),
			seen: state.NodeState{Report: report(edit(group("b", "c"), used(gib)))}, want: "Progressing CordonDevice /dev/sdc",
			state: "Cordoned"},
		"then the data is moved": {spec: request("pv-c", drain),
			seen: state.NodeState{Report: report(edit(closed(group("b", "c")), used(gib)))},
			want: "Progressing MoveExtents /dev/sdc", state: "Draining"},
		"that is watched": {
			spec: request("pv-c", drain), seen: state.NodeState{Report: report(edit(edit(closed(group("b", "c")), used(gib)),
				movingFrom("pv-c", 42)))},
			want: "Ready", state: "Draining",
		},
		"and resumed after a crash": {
			spec: request("pv-c", drain), want: "Progressing ResumeMove /dev/sdc", state: "Draining",
			seen: state.NodeState{Report: report(edit(edit(closed(group("b", "c")), used(gib)), movingFrom("pv-c", 42))),
				Records: state.Records{Unattended: map[string]bool{"pvmove0": true}}},
		},
		"or canceled": {
			seen: state.NodeState{Report: report(edit(edit(closed(group("b", "c")), used(gib)), movingFrom("pv-c", 42)))},
			want: "Progressing AbortMove /dev/sdc", state: "Ready",
		},
		"a canceled drain that stays cordoned": {
			spec: request("pv-c", cordon), seen: state.NodeState{Report: report(edit(edit(closed(group("b", "c")), used(gib)),
				movingFrom("pv-c", 42)))},
			want: "Progressing AbortMove /dev/sdc", state: "Cordoned",
		},
		"a move that somebody else began is left alone": {
			seen: state.NodeState{Report: report(edit(edit(group("b", "c"), used(gib)), movingFrom("pv-c", 42)))},
			want: "Ready", state: "Ready",
		},
		"one move at a time": {
			spec: request("pv-c", drain), seen: state.NodeState{Report: report(edit(edit(closed(group("b", "c")), used(gib)),
				movingFrom("pv-b", 42)))},
			want: "Ready", state: "Cordoned",
		},
		"drained": {spec: request("pv-c", drain), seen: state.NodeState{Report: report(closed(group("b", "c")))}, want: "Ready",
			state: "Drained"},
		"there is not enough room": {
			spec: request("pv-c", remove), want: "Degraded", state: "Blocked",
			seen: state.NodeState{Report: report(edit(edit(closed(group("b", "c")), used(9*gib)), func(vg *lvm.VG) {
				vg.PVs[0].Free = gib
				vg.PVs[0].Used = 9 * gib
			}))},
			says: []string{"/dev/sdc of volume group vg1 on node n1 cannot be drained or removed",
				"9Gi of it is in use", "have only 1Gi free"},
		},
		"room on a cordoned device is none": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceRequests: append(request("pv-c", drain).DeviceRequests,
				v1alpha1.DeviceRequest{Node: "n1", Device: "pv-b", Action: cordon})},
			seen: state.NodeState{Report: report(edit(edit(closed(group("b", "c")), used(gib)), func(vg *lvm.VG) {
				vg.PVs[0].Allocatable = false
				vg.PVs[0].Tags = []string{cordonTag}
			}))},
			want: "Degraded", state: "Blocked", says: []string{"have only 0 free"},
		},

		"an empty device is taken out": {spec: request("pv-c", remove),
			seen: state.NodeState{Report: report(closed(group("b", "c")))}, want: "Progressing ReduceVolumeGroup /dev/sdc",
			state: "Drained"},
		"then its label is removed": {
			spec: request("/dev/sdc", remove), want: "Progressing RemovePhysicalVolumes /dev/sdc",
			seen: state.NodeState{Report: &lvm.Report{VGs: []lvm.VG{group("b")},
				Unassigned: []lvm.PV{{Name: "/dev/sdc", UUID: "pv-c", Major: 8, Minor: 2}}},
				Records: state.Records{Released: []string{"pv-c"}}},
		},
		"and it is not taken again": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceDiscoveryPolicy: "Dynamic",
				DeviceRequests: request("/dev/sdc", remove).DeviceRequests},
			seen: state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b"), disk("c")}}, want: "Ready",
		},
		"nor if the request names the UUID that it had": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: named("b", "c"),
				DeviceRequests: request("pv-c", remove).DeviceRequests},
			seen: state.NodeState{Report: report(group("b")), Disks: state.Disks{Paths: paths("b", "c")},
				Records: state.Records{Removed: []state.Removal{{UUID: "pv-c", ID: "serial:serial-c"}}}}, want: "Ready",
		},
		"another disk in its place is taken": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: named("b", "c"),
				DeviceRequests: request("pv-c", remove).DeviceRequests},
			seen: state.NodeState{Report: report(group("b")), Disks: state.Disks{Paths: paths("b", "c")},
				Records: state.Records{Removed: []state.Removal{{UUID: "pv-c", ID: "serial:other", Names: []string{"/dev/sdc"}}}}},
			want: "Progressing ExtendVolumeGroup /dev/sdc",
		},
		"not even if it is named": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: named("b", "c"),
				DeviceRequests: request("/dev/sdc", remove).DeviceRequests},
			seen: state.NodeState{Report: report(group("b")), Disks: state.Disks{Paths: paths("b", "c")}}, want: "Ready",
		},
		"the only device stays": {
			spec: request("pv-b", remove), want: "Degraded",
			seen: state.NodeState{Report: report(edit(group("b"), func(vg *lvm.VG) {
				vg.PVs[0].Allocatable = false
				vg.PVs[0].Tags = []string{cordonTag}
			}))},
			says: []string{"the only device of the volume group"},
		},

		// By removing the path from the selector.
		"a path is taken out": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: named("b")},
			seen: state.NodeState{Report: report(group("b", "c")), Disks: state.Disks{Paths: paths("b")}, Before: before},
			want: "Progressing CordonDevice /dev/sdc", state: "Cordoned",
		},
		"a path that leads nowhere takes nothing out": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: named("b", "c")}, want: "Degraded", state: "Ready",
			seen: state.NodeState{Report: report(group("b", "c")), Disks: state.Disks{Paths: append(paths("b"), missingPath("c", false))},
				Before: before}, says: []string{"by-id/c does not exist"},
		},
		"nor an optional one": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: &v1alpha1.DeviceSelector{Paths: named("b").Paths,
				OptionalPaths: named("c").Paths}},
			seen: state.NodeState{Report: report(group("b", "c")), Disks: state.Disks{Paths: append(paths("b"), missingPath("c", true))},
				Before: before}, want: "Ready", state: "Ready",
		},
		"nothing is taken out while another path leads nowhere": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: named("b", "x")}, want: "Degraded", state: "Ready",
			seen: state.NodeState{Report: report(group("b", "c")), Disks: state.Disks{Paths: append(paths("b"), missingPath("x", false))},
				Before: before}, says: []string{"by-id/x does not exist"},
		},
		"a device that another path names stays": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: named("b", "other")}, want: "Ready", state: "Ready",
			seen: state.NodeState{Report: report(group("b", "c")),
				Disks:  state.Disks{Paths: append(paths("b"), state.Path{Path: "/dev/disk/by-id/other", Number: disk("c").Number})},
				Before: before},
		},
		"a device that nobody ever named stays": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: named("b")},
			seen: state.NodeState{Report: report(group("b", "c")), Disks: state.Disks{Paths: paths("b")}}, want: "Ready", state: "Ready",
		},
	}
	for name, tt := range tests {
		if tt.seen.Devices == nil {
			tt.seen.Devices = disks[:2]
		}
		if tt.seen.Class == nil {
			tt.seen.Class = thickDone
		}
		tt.seen.Disks.Identities = device.Identities(tt.seen.Devices)
		p := New(testDesired(tt.spec), tt.seen)
		checkPlan(t, name, p, tt.want, tt.says)
		if tt.state == "" {
			continue
		}
		vg := tt.seen.Report.VG("vg1")
		if got := physicalVolume(state.Outcome{Node: tt.seen, Plan: p}, vg.PVs[1]); got.State != tt.state {
			t.Errorf("%s: got the state %+v, want %s", name, got, tt.state)
		}
	}
}

func raidSpec(kind v1alpha1.RAIDType) v1alpha1.LVMVolumeGroupSpec {
	return v1alpha1.LVMVolumeGroupSpec{RAIDConfig: &v1alpha1.RAIDConfig{Type: kind}}
}

// mirrored returns a function that adds a raid1 volume on the devices b and c.
func mirrored(health string, sync float64) func(*lvm.VG) {
	return func(vg *lvm.VG) {
		vg.LVs = append(vg.LVs, lvm.LV{Name: "a", UUID: "a", Attr: "rwi-aor---", SegType: "raid1", Size: gib,
			SyncPercent: &sync, Health: health})
		vg.Hidden = append(vg.Hidden,
			lvm.LV{Name: "a_rimage_0", Parent: "a", Attr: "iwi-aor---", SegType: "linear", PVs: []string{"pv-b"}},
			lvm.LV{Name: "a_rimage_1", Parent: "a", Attr: "iwi-aor---", SegType: "linear", PVs: []string{"pv-c"}})
	}
}

func TestPlanOfRedundancy(t *testing.T) {
	published := func() state.NodeState { return state.NodeState{Class: raidPublished("--type", "raid1", "-m", "1")} }
	seen := func(vg lvm.VG, letters ...string) state.NodeState {
		s := published()
		s.Report = report(vg)
		for _, l := range letters {
			s.Devices = append(s.Devices, disk(l))
		}
		return s
	}
	refreshed := func(count int, waiting bool, unused ...string) state.NodeState {
		s := seen(edit(group("b", "c"), mirrored(lvm.HealthRefreshNeeded, 100)), "b", "c")
		for i := range s.Report.VGs[0].Hidden {
			if image := &s.Report.VGs[0].Hidden[i]; slices.Contains(unused, image.PVs[0]) {
				image.Health = lvm.HealthRefreshNeeded
			}
		}
		s.Records.Attempts = map[string]state.Attempt{"a": {Ineffective: count, Waiting: waiting}}
		return s
	}
	failing := func(s state.NodeState) state.NodeState {
		s.Health.Failing = map[device.Number]error{state.NumberOf(s.Report.VGs[0].PVs[0]): errors.New("I/O error")}
		return s
	}
	lostRequest := raidSpec("raid1")
	lostRequest.DeviceRequests = request("pv-c", v1alpha1.DeviceActionRemove).DeviceRequests
	withSpare := raidSpec("raid1")
	withSpare.DeviceDiscoveryPolicy = v1alpha1.DeviceDiscoveryDynamic
	replaced := withSpare
	replaced.DeviceRequests = lostRequest.DeviceRequests
	tests := map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		seen state.NodeState
		want string
		says []string
	}{
		"too few devices": {
			spec: raidSpec("raid5"), seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), disk("c")}},
			want: "Failed", says: []string{"requires at least 3 devices for raid5, and 2 can be used"},
		},
		"enough devices": {spec: raidSpec("raid1"),
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), disk("c")}},
			want: "Progressing CreateVolumeGroup /dev/sdb /dev/sdc"},
		"the class has a level": {spec: raidSpec("raid1"),
			seen: state.NodeState{Report: report(group("b", "c")), Devices: []device.Device{disk("b"), disk("c")}},
			want: "Progressing PublishClass"},
		"all is well": {spec: raidSpec("raid1"),
			seen: seen(edit(group("b", "c"), mirrored("", 100)), "b", "c"), want: "Ready"},
		"a synchronization": {
			spec: raidSpec("raid1"), seen: seen(edit(group("b", "c"), mirrored("", 40)), "b", "c"),
			want: "Progressing", says: []string{"are being synchronized", "a (40%)"},
		},
		"a device is lost": {
			spec: raidSpec("raid1"), seen: seen(edit(edit(group("b", "c"), mirrored("partial", 100)), lost), "b"),
			want: "Degraded", says: []string{"is missing the physical volume pv-c", "action: Remove",
				"lost redundancy", "a (partial)"},
		},
		"a new device is not added to a group that lost one": {
			spec: withSpare, seen: seen(edit(edit(group("b", "c"), mirrored("partial", 100)), lost), "b", "d"),
			want: "Degraded", says: []string{"pv-c", "a (partial)"},
		},
		"a new device is added once somebody says that the device is lost": {
			spec: replaced, seen: seen(edit(edit(group("b", "c"), mirrored("partial", 100)), lost), "b", "d"),
			want: "Degraded ExtendVolumeGroup /dev/sdd", says: []string{"pv-c", "a (partial)"},
		},
		"the volume is rebuilt when somebody says that the device is lost": {
			spec: lostRequest, seen: seen(edit(edit(group("b", "c", "d"), mirrored("partial", 100)), lost), "b", "d"),
			want: "Degraded RepairVolume /dev/sdc", says: []string{"pv-c", "a (partial)"},
		},
		"not while another device is away that nobody gave up": {
			spec: lostRequest, seen: seen(edit(edit(edit(group("b", "c", "d"), mirrored("partial", 100)), lost),
				func(vg *lvm.VG) { vg.PVs[2].Missing, vg.PVs[2].Name, vg.MissingPVs = true, "[unknown]", 2 }), "b"),
			want: "Degraded", says: []string{"pv-c", "would mark it as missing for good"},
		},
		"another request waits until the lost device is gone": {
			spec: func() v1alpha1.LVMVolumeGroupSpec {
				spec := lostRequest
				spec.DeviceRequests = append([]v1alpha1.DeviceRequest{{Node: "n1", Device: "pv-b",
					Action: v1alpha1.DeviceActionCordon}}, lostRequest.DeviceRequests...)
				return spec
			}(), seen: seen(edit(group("b", "c", "d"), lost), "b", "d"),
			want: "Degraded ReduceVolumeGroupByLostDevices [unknown]", says: []string{"/dev/sdb", "while a device"},
		},
		"the lost device goes when no volume needs it": {
			spec: lostRequest, seen: seen(edit(group("b", "c", "d"), lost), "b", "d"),
			want: "Degraded ReduceVolumeGroupByLostDevices [unknown]", says: []string{"pv-c"},
		},
		"the device was away for a while": {
			spec: raidSpec("raid1"), seen: seen(edit(group("b", "c"), mirrored("refresh needed", 100)), "b", "c"),
			want: "Degraded RefreshVolume", says: []string{"a (refresh needed)"},
		},
		"the next refresh is not due": {
			spec: raidSpec("raid1"), seen: refreshed(1, true, "pv-c"),
			want: "Degraded", says: []string{"a (refresh needed)"},
		},
		"the next refresh is due": {
			spec: raidSpec("raid1"), seen: refreshed(2, false, "pv-c"),
			want: "Degraded RefreshVolume", says: []string{"a (refresh needed)"},
		},
		"refreshes did not help": {
			spec: raidSpec("raid1"), seen: refreshed(3, false, "pv-c"),
			want: "Degraded RebuildVolume /dev/sdc", says: []string{"a (refresh needed)"},
		},
		"a device is failing": {
			spec: raidSpec("raid1"), seen: failing(refreshed(3, false, "pv-c")),
			want: "Degraded RefreshVolume", says: []string{"/dev/sdb", "a (refresh needed)"},
		},
		"no image is left": {
			spec: raidSpec("raid1"), seen: refreshed(3, false, "pv-b", "pv-c"),
			want: "Degraded RefreshVolume", says: []string{"cannot be read: a"},
		},
		"a device below the least number stays": {
			spec: lostRequest, seen: seen(closed(group("b", "c")), "b", "c"), want: "Degraded",
			says: []string{"raid1 requires at least 2 devices, and only 1 would remain"},
		},
	}
	for name, tt := range tests {
		p := New(testDesired(tt.spec), tt.seen)
		want := strings.Replace(tt.want, "RepairVolume /dev/sdc", "RepairVolume [unknown]", 1)
		checkPlan(t, name, p, want, tt.says)
	}
}
