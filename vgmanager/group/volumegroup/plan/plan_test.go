package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/topolvm/topolvm/pkg/lvmd/types"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

const gib = lvm.Bytes(1 << 30)

// cordonTag marks physical volumes that the agent cordoned.
const cordonTag = "lvms.cordoned"

// disk returns a blank disk: disk("b") is /dev/sdb, 8:1.
func disk(letter string) device.Device {
	name := "/dev/sd" + letter
	return device.Device{
		Name: name, KernelName: name, Number: device.NewNumber(8, uint32(letter[0]-'a')), Type: "disk", Size: 10 << 30,
		Serial: "serial-" + letter, ByID: []string{"/dev/disk/by-id/" + letter}, AppearedKnown: true,
		Appeared: time.Hour,
	}
}

// group returns a volume group of this node on the disks, with 10 GiB of each.
func group(letters ...string) lvm.VG {
	vg := lvm.VG{Name: "vg1", UUID: "vg", Tags: ownership.OwnerTags(testDesired(v1alpha1.LVMVolumeGroupSpec{})), Attr: "wz--n-",
		ExtentSize: 4 << 20}
	for _, l := range letters {
		vg.PVs = append(vg.PVs, lvm.PV{Name: "/dev/sd" + l, UUID: "pv-" + l, VGName: "vg1", Major: 8,
			Minor: uint32(l[0] - 'a'), Size: 10 * gib, Free: 10 * gib, InUse: true, Allocatable: true})
		vg.Size += 10 * gib
	}
	vg.Free = vg.Size
	return vg
}

// withoutPool adds the tag of a group whose pool is about to be created.
func withoutPool(vg lvm.VG) lvm.VG {
	vg.Tags = append(slices.Clone(vg.Tags), wellknown.NoPoolTag)
	return vg
}

// with adds a volume.
func with(vg lvm.VG, lv lvm.LV) lvm.VG {
	vg.LVs = append(vg.LVs, lv)
	return vg
}

// withPool adds an active pool of 90 % of the group, and volumes in it.
func withPool(vg lvm.VG, volumes ...string) lvm.VG {
	one := 1.0
	size := vg.Size / 10 * 9
	vg.LVs = append(vg.LVs, lvm.LV{Name: "pool", UUID: "p", Attr: "twi-aotz--", Size: size, MetadataSize: 4 << 20,
		Zeroes: true, DataPercent: &one, MetadataPercent: &one})
	for _, v := range volumes {
		vg.LVs = append(vg.LVs, lvm.LV{Name: v, UUID: v, Attr: "Vwi-a-tz--", PoolName: "pool", Size: gib})
	}
	vg.Free -= size
	for i := range vg.PVs {
		vg.PVs[i].Free = vg.PVs[i].Size / 10
		vg.PVs[i].Used = vg.PVs[i].Size / 10 * 9
	}
	return vg
}

func report(vgs ...lvm.VG) *lvm.Report { return &lvm.Report{VGs: vgs} }

// testDesired returns a device class on the node n1 of the cluster c1.
func testDesired(spec v1alpha1.LVMVolumeGroupSpec) state.Desired {
	d := state.Desired{Name: "vg1", UID: "uid", Node: "n1", Cluster: state.Cluster{ID: "c1"}, Spec: spec}
	if spec.DeviceSelector != nil {
		d.Selectors = []v1alpha1.DeviceSelector{*spec.DeviceSelector}
	}
	return d
}

func edit(vg lvm.VG, change func(*lvm.VG)) lvm.VG {
	change(&vg)
	return vg
}

func paths(letters ...string) []state.Path {
	var list []state.Path
	for _, l := range letters {
		list = append(list, state.Path{Path: "/dev/disk/by-id/" + l, Number: disk(l).Number})
	}
	return list
}

func missingPath(letter string, optional bool) state.Path {
	path := "/dev/disk/by-id/" + letter
	return state.Path{Path: path, Optional: optional, Err: fmt.Errorf("%s %w", path, device.ErrMissing)}
}

var (
	// selector names its devices by state.Disks.Paths.
	selector  = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/disk/by-id/b"}}
	thinSpec  = &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, OverprovisionRatio: 10}
	thickDone = thickPublished()
	thinDone  = &deviceclass.Class{Name: "vg1", VolumeGroup: "vg1", VolumeGroupUUID: "vg", Type: types.TypeThin,
		ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 10}}
)

func thickPublished() *deviceclass.Class {
	var zero uint64
	return &deviceclass.Class{Name: "vg1", VolumeGroup: "vg1", VolumeGroupUUID: "vg",
		Type: types.TypeThick, SpareGB: &zero}
}

func raidPublished(options ...string) *deviceclass.Class {
	class := thickPublished()
	class.LVCreateOptions = options
	return class
}

// summary returns a plan as one line.
func summary(p state.Plan) string {
	words := []string{string(p.Action.Kind)}
	words = append(words, device.Names(p.Action.Devices())...)
	for _, pv := range p.Action.PVs() {
		words = append(words, pv.Name)
	}
	if p.Finished {
		words = append(words, "finished")
	}
	return strings.TrimSpace(string(p.State) + " " + strings.Join(words, " "))
}

// classOf returns the class that an action publishes, or an empty one.
func classOf(a state.Action) *deviceclass.Class {
	published, _ := a.Target.(state.Publication)
	return &published.Class
}

// volumesOf returns the volumes that an action is about.
func volumesOf(a state.Action) []string {
	switch change := a.Change.(type) {
	case lvm.LVDeactivate:
		return change.Names
	case lvm.LVRemoveUnreadable:
		return change.Names
	case lvm.LVRemoveLost:
		return change.UUIDs
	}
	volumes, _ := a.Target.(state.Volumes)
	return volumes
}

func TestPlan(t *testing.T) {
	thick := v1alpha1.LVMVolumeGroupSpec{}
	thin := v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}
	named := v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector}
	dynamic := v1alpha1.LVMVolumeGroupSpec{DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryDynamic}
	signed := disk("c")
	signed.Signature = "ext4"
	usb := disk("c")
	usb.Removable = true
	tests := map[string]struct {
		spec     v1alpha1.LVMVolumeGroupSpec
		seen     state.NodeState
		want     string
		says     []string // each must be in the problems
		excluded []string // names, with the code of each reason
	}{
		// Creation.
		"discovery takes all blank disks": {
			spec: thick, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), disk("c")}},
			want: "Progressing CreateVolumeGroup /dev/sdb /dev/sdc",
		},
		"discovery leaves out what carries something": {
			spec: thick, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), signed}},
			want: "Progressing CreateVolumeGroup /dev/sdb", excluded: []string{"/dev/sdc HasSignature"},
		},
		"discovery leaves out removable media": {
			spec: thick, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), usb}},
			want: "Progressing CreateVolumeGroup /dev/sdb", excluded: []string{"/dev/sdc Removable"},
		},
		"a probe has the last word": {
			spec: thick, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), disk("c")},
				Disks: state.Disks{Probed: map[device.Number][]device.Reason{disk("b").Number: {{Code: device.Unreadable,
					Message: "cannot be read"}}, disk("c").Number: nil}}},
			want: "Progressing CreateVolumeGroup /dev/sdc", excluded: []string{"/dev/sdb Unreadable"},
		},
		"no usable disk": {
			spec: thick, seen: state.NodeState{Report: report(), Devices: []device.Device{signed}},
			want: "Failed", says: []string{"volume group vg1 does not exist on node n1", "there were no available devices to create it", "attach a blank disk"},
			excluded: []string{"/dev/sdc HasSignature"},
		},
		"named disks": {
			spec: named, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), disk("c"), disk("d")},
				Disks: state.Disks{Paths: paths("b", "c")}},
			want: "Progressing CreateVolumeGroup /dev/sdb /dev/sdc",
		},
		"two links to one disk are one disk": {
			spec: named, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b")}, Disks: state.Disks{Paths: paths("b", "b")}},
			want: "Progressing CreateVolumeGroup /dev/sdb",
		},
		"a named removable disk is taken": {
			spec: named, seen: state.NodeState{Report: report(), Devices: []device.Device{usb}, Disks: state.Disks{Paths: paths("c")}},
			want: "Progressing CreateVolumeGroup /dev/sdc",
		},
		"a named physical volume of no group is taken": {
			spec: named, seen: state.NodeState{Report: &lvm.Report{Unassigned: []lvm.PV{{Name: "/dev/sdb", UUID: "u", Major: 8,
				Minor: 1}}}, Devices: []device.Device{disk("b")}, Disks: state.Disks{Paths: paths("b")}},
			want: "Progressing CreateVolumeGroup /dev/sdb",
		},
		"a found physical volume of no group is not": {
			spec: thick, seen: state.NodeState{Report: &lvm.Report{Unassigned: []lvm.PV{{Name: "/dev/sdb", UUID: "u", Major: 8,
				Minor: 1}}}, Devices: []device.Device{disk("b")}},
			want: "Failed", says: []string{"no available devices"}, excluded: []string{"/dev/sdb UnassignedPV"},
		},
		"a named path is missing": {
			spec: named, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b")},
				Disks: state.Disks{Paths: append(paths("b"), missingPath("c", false))}},
			want: "Failed", says: []string{"device /dev/disk/by-id/c does not exist on node n1: attach it, or " +
				"correct the paths of device class vg1"},
		},
		"an optional path is missing": {
			spec: named, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b")},
				Disks: state.Disks{Paths: append(paths("b"), missingPath("c", true))}},
			want: "Progressing CreateVolumeGroup /dev/sdb",
		},
		"all optional paths are missing": {
			spec: v1alpha1.LVMVolumeGroupSpec{DeviceSelector: &v1alpha1.DeviceSelector{OptionalPaths: selector.Paths}},
			seen: state.NodeState{Report: report(), Disks: state.Disks{Paths: []state.Path{missingPath("c", true)}}},
			want: "Ready",
		},
		"a path that cannot be resolved": {
			spec: named, seen: state.NodeState{Report: report(),
				Disks: state.Disks{Paths: []state.Path{{Path: "/dev/x", Optional: true, Err: errors.New("input/output error")}}}},
			want: "Failed", says: []string{"/dev/x", "input/output error"},
		},
		"a named disk carries something": {
			spec: named, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("b"), signed},
				Disks: state.Disks{Paths: paths("b", "c")}},
			want:     "Failed",
			says:     []string{"/dev/disk/by-id/c of node n1 cannot be used for device class vg1: it carries ext4"},
			excluded: []string{"/dev/disk/by-id/c HasSignature"},
		},
		"a named disk that lsblk does not list": {
			spec: named, seen: state.NodeState{Report: report(), Disks: state.Disks{Paths: paths("b")}},
			want: "Failed", says: []string{"not listed by lsblk"}, excluded: []string{"/dev/disk/by-id/b Unreadable"},
		},
		"a named disk is in another group": {
			spec: named, seen: state.NodeState{Report: report(edit(group("b"), func(vg *lvm.VG) {
				vg.Name = "rhel"
				vg.PVs[0].VGName = "rhel"
			})), Devices: []device.Device{disk("b")}, Disks: state.Disks{Paths: paths("b")}},
			want: "Failed", says: []string{"volume group rhel"}, excluded: []string{"/dev/disk/by-id/b InVolumeGroup"},
		},

		// Ownership.
		"a group without the tag is not touched": {
			spec: thick, seen: state.NodeState{Report: report(edit(group("b"), func(vg *lvm.VG) { vg.Tags = nil })),
				Devices: []device.Device{disk("b"), disk("c")}},
			want: "Failed", says: []string{"vgchange --addtag lvms vg1"},
		},
		"an exported group is not touched": {
			spec: thick, seen: state.NodeState{Report: report(edit(group("b"), func(vg *lvm.VG) { vg.Attr = "wzx-n-" }))},
			want: "Failed", says: []string{"vgimport vg1"},
		},
		"a shared group is not touched": {
			spec: thick, seen: state.NodeState{Report: report(edit(group("b"), func(vg *lvm.VG) { vg.Attr = "wz--ns" }))},
			want: "Failed", says: []string{"lock manager"},
		},
		"a read-only group is not touched": {
			spec: thick, seen: state.NodeState{Report: report(edit(group("b"), func(vg *lvm.VG) { vg.Attr = "rz--n-" }))},
			want: "Failed", says: []string{"--permission rw"},
		},

		// Extension.
		"Static leaves later disks alone": {
			spec: thick, seen: state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b"), disk("c")},
				Class: thickDone},
			want: "Ready", excluded: []string{"/dev/sdc NotAtCreation"},
		},
		"Dynamic adds later disks": {
			spec: dynamic, seen: state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b"), disk("c")},
				Class: thickDone},
			want: "Progressing ExtendVolumeGroup /dev/sdc",
		},
		"a selector that grew adds the disk": {
			spec: named, seen: state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b"), disk("c")},
				Disks: state.Disks{Paths: paths("b", "c")}, Class: thickDone},
			want: "Progressing ExtendVolumeGroup /dev/sdc",
		},
		"a selector that shrank removes nothing": {
			spec: named, seen: state.NodeState{Report: report(group("b", "c")), Devices: []device.Device{disk("b"), disk("c")},
				Disks: state.Disks{Paths: paths("b")}, Class: thickDone},
			want: "Ready",
		},
		"a link that went away removes nothing": {
			spec: named, seen: state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b")},
				Disks: state.Disks{Paths: []state.Path{missingPath("b", true)}}, Class: thickDone},
			want: "Ready",
		},
		"a named path went missing": {
			spec: named, seen: state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b")},
				Disks: state.Disks{Paths: append(paths("b"), missingPath("c", false))}, Class: thickDone},
			want: "Degraded", says: []string{"/dev/disk/by-id/c does not exist"},
		},

		// The pool and the class.
		"a thick class is published": {
			spec: thick, seen: state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b")}},
			want: "Progressing PublishClass",
		},
		"the group is tagged before a pool is made": {
			spec: thin, seen: state.NodeState{Report: report(group("b")), Devices: []device.Device{disk("b")}},
			want: "Progressing TagVolumeGroup",
		},
		"a pool is made": {
			spec: thin, seen: state.NodeState{Report: report(withoutPool(group("b"))), Devices: []device.Device{disk("b")}},
			want: "Progressing CreateThinPool",
		},
		"a pool is made beside a volume that could be left of one": {
			spec: thin, seen: state.NodeState{Report: report(with(group("b"), lvm.LV{Name: "lvol0", Attr: "-wi-a-----"})),
				Devices: []device.Device{disk("b")}},
			want: "Progressing CreateThinPool",
		},
		"the tag is removed when the pool is complete": {
			spec: thin,
			seen: state.NodeState{Report: report(withPool(withoutPool(group("b")))), Devices: []device.Device{disk("b")}},
			want: "Progressing TagVolumeGroup",
		},
		"a thin class is published with its pool": {
			spec: thin, seen: state.NodeState{Report: report(withPool(group("b"))), Devices: []device.Device{disk("b")}},
			want: "Progressing PublishClass",
		},
		"a changed ratio is published": {
			spec: v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90,
				OverprovisionRatio: 5}},
			seen: state.NodeState{Report: report(withPool(group("b"))), Class: thinDone}, want: "Progressing PublishClass",
		},
		"a changed mark is published": {
			spec: v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90,
				OverprovisionRatio: 10, HighWaterMarkPercent: 80}},
			seen: state.NodeState{Report: report(withPool(group("b"))), Class: thinDone}, want: "Progressing PublishClass",
		},
		"the usual mark is none that is written down": {
			spec: v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90,
				OverprovisionRatio: 10, HighWaterMarkPercent: 95}},
			seen: state.NodeState{Report: report(withPool(group("b"))), Devices: []device.Device{disk("b")},
				Class: thinDone}, want: "Ready",
		},
		"a changed default is published": {
			spec: v1alpha1.LVMVolumeGroupSpec{Default: true, ThinPoolConfig: thinSpec},
			seen: state.NodeState{Report: report(withPool(group("b"))), Class: thinDone}, want: "Progressing PublishClass",
		},
		"a pool follows its group": {
			spec: thin, seen: state.NodeState{Report: report(edit(withPool(group("b")),
				func(vg *lvm.VG) { vg.Size += 10 * gib; vg.Free += 10 * gib })), Class: thinDone},
			want: "Progressing ExtendThinPool",
		},
		"all is well": {
			spec: thin, seen: state.NodeState{Report: report(withPool(group("b"), "a")), Devices: []device.Device{disk("b")},
				Class: thinDone}, want: "Ready",
		},
		"the name of the pool is taken": {
			spec: thin, seen: state.NodeState{Report: report(edit(group("b"),
				func(vg *lvm.VG) { vg.LVs = []lvm.LV{{Name: "pool", Attr: "-wi-a-----"}} }))},
			want: "Degraded", says: []string{"vg1/pool on node n1 is not a thin pool"},
		},
		"volumes are inactive after a boot": {
			spec: thin, seen: state.NodeState{Report: report(edit(withPool(group("b"), "a"),
				func(vg *lvm.VG) { vg.LVs[1].Attr = "Vwi---tz--" })), Class: thinDone},
			want: "Progressing ActivateVolumes",
		},
		"a volume that skips activation may be inactive": {
			spec: thin, seen: state.NodeState{Report: report(edit(withPool(group("b"), "a"),
				func(vg *lvm.VG) { vg.LVs[1].Attr = "Vwi---tz-k" })), Class: thinDone},
			want: "Ready",
		},

		// A missing group.
		"all its disks are dead": {
			spec: dynamic, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("d")}, Class: thickDone,
				Before: v1alpha1.VGStatus{UUID: "vg",
					PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb"}}}},
			want: "Degraded", says: []string{"volume group vg1 on node n1 is missing: none of its physical",
				"/dev/sdb (pv-b)", "create an LVMRecovery {nodeName: n1, deviceClassName: vg1, action: RemoveLostDevices}"},
		},
		"and the status was lost too": {
			spec: dynamic, seen: state.NodeState{Report: report(), Devices: []device.Device{disk("d")}, Class: thickDone},
			want: "Degraded", says: []string{"volume group vg1 on node n1 is missing: none of its physical"},
		},
		"a request to remove its only device does not give the group up": {
			spec: request("pv-b", v1alpha1.DeviceActionRemove), want: "Degraded",
			says: []string{"volume group vg1 on node n1 is missing", "create an LVMRecovery"},
			seen: state.NodeState{Report: report(), Devices: []device.Device{disk("d")}, Class: thickDone,
				Before: v1alpha1.VGStatus{UUID: "vg",
					PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb"}}}},
		},

		// Broken groups.
		"a disk is missing": {
			spec: thin, seen: state.NodeState{Report: report(edit(withPool(group("b", "c"), "a"), lost)),
				Devices: []device.Device{disk("b"), disk("d")}, Class: thinDone,
				Records: state.Records{Names: map[string]string{"pv-c": "/dev/sdc"}}},
			want: "Degraded", says: []string{"is missing the physical volume pv-c, last seen as /dev/sdc",
				"{node: n1, device: pv-c, action: Remove}"}, excluded: []string{"/dev/sdd NotAtCreation"},
		},
		"nothing is added while a disk is missing": {
			spec: dynamic, seen: state.NodeState{Report: report(edit(group("b", "c"), lost)),
				Devices: []device.Device{disk("b"), disk("d")}, Class: thickDone},
			want: "Degraded", says: []string{"pv-c"},
		},
		"what is whole is activated while a disk is missing": {
			spec: thick, seen: state.NodeState{Class: thickDone, Report: report(edit(group("b", "c"), func(vg *lvm.VG) {
				lost(vg)
				vg.LVs = []lvm.LV{{Name: "a", Attr: "-wi-------"}, {Name: "b", Attr: "-wi-----p-", Health: "partial"}}
			}))},
			want: "Degraded ActivateVolumes", says: []string{"pv-c", "b (partial)"},
		},
		"a disk appears twice": {
			spec: dynamic, seen: state.NodeState{Report: report(group("b")), Class: thickDone,
				Devices: []device.Device{disk("b"), copied("c", "pv-b"), disk("d")}},
			want:     "Degraded",
			says:     []string{"pv-b of volume group vg1 appears twice on node n1, the second time as /dev/sdc"},
			excluded: []string{"/dev/sdc DuplicatePV"},
		},
		"the pool is full": {
			spec: thin, seen: state.NodeState{Report: report(edit(withPool(group("b")),
				func(vg *lvm.VG) { vg.LVs[0].Health = "out_of_data" })), Class: thinDone},
			want: "Degraded", says: []string{"vg1/pool on node n1 is full"},
		},
		"the metadata is full": {
			spec: thin, seen: state.NodeState{Report: report(edit(withPool(group("b")),
				func(vg *lvm.VG) { full := 100.0; vg.LVs[0].MetadataPercent = &full })), Class: thinDone},
			want: "Degraded", says: []string{"RepairThinPool"},
		},
		"the pool needs a check and is read-only": {
			spec: thin, seen: state.NodeState{Report: report(edit(withPool(group("b")),
				func(vg *lvm.VG) { vg.LVs[0].CheckNeeded = true; vg.LVs[0].Health = "metadata_read_only" })),
				Class: thinDone},
			want: "Degraded", says: []string{"needs a check of its metadata", "read-only metadata",
				"RepairThinPool"},
		},
		"the pool does not zero": {
			spec: thin, seen: state.NodeState{Report: report(edit(withPool(group("b")),
				func(vg *lvm.VG) { vg.LVs[0].Zeroes = false })), Class: thinDone},
			want: "Degraded", says: []string{"lvchange --zero y vg1/pool"},
		},
		"a broken class is published all the same, for its volumes": {
			spec: thin, seen: state.NodeState{Report: report(edit(withPool(group("b", "c"), "a"), lost))},
			want: "Degraded PublishClass", says: []string{"pv-c"},
		},
	}
	for name, tt := range tests {
		p := New(testDesired(tt.spec), tt.seen)
		checkPlan(t, name, p, tt.want, tt.says)
		if diff := cmp.Diff(tt.excluded, excludedCodes(p)); diff != "" {
			t.Errorf("%s: excluded: %s", name, diff)
		}
	}
}

func TestANodeThatNeedsNoGroupSaysWhyInTheWordsOfUpstream(t *testing.T) {
	spec := v1alpha1.LVMVolumeGroupSpec{DeviceSelector: &v1alpha1.DeviceSelector{OptionalPaths: selector.Paths}}
	p := New(testDesired(spec), state.NodeState{Report: report(), Disks: state.Disks{Paths: []state.Path{missingPath("c", true)}}})
	if want := "there were no available devices to create it"; !strings.Contains(p.Note, want) {
		t.Errorf("the note %q does not contain %q", p.Note, want)
	}
}

// lost makes the second disk of a group missing.
func lost(vg *lvm.VG) {
	vg.MissingPVs = 1
	vg.Attr = "wz-pn-"
	vg.PVs[1].Missing = true
	vg.PVs[1].Name = "[unknown]"
	vg.PVs[1].Major = 0
	vg.PVs[1].Minor = 0
}

func copied(letter, uuid string) device.Device {
	d := disk(letter)
	d.Signature = "LVM2_member"
	d.UUID = uuid
	return d
}

func excludedCodes(p state.Plan) []string {
	var list []string
	for _, e := range p.Excluded {
		for _, r := range e.Reasons {
			code, _, _ := strings.Cut(r, ":")
			list = append(list, e.Name+" "+code)
		}
	}
	return list
}

func checkPlan(t *testing.T, name string, p state.Plan, want string, says []string) {
	t.Helper()
	if got := summary(p); got != want {
		t.Errorf("%s: got %q, want %q (%v)", name, got, want, p.Problems)
	}
	text := strings.Join(p.Messages(), "; ")
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Errorf("%s: %q should say %q", name, text, s)
		}
	}
	if len(says) == 0 && text != "" {
		t.Errorf("%s: unexpected problems: %s", name, text)
	}
}
