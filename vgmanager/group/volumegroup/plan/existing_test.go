package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// claimed1 and claimed2 are names that TopoLVM gives its logical volumes.
const (
	claimed1 = "11111111-2222-3333-4444-555555555555"
	claimed2 = "66666666-2222-3333-4444-555555555555"
)

// data returns a volume group of an administrator, with a logical volume of the host.
func data(letters ...string) lvm.VG {
	vg := group(letters...)
	vg.Name, vg.Tags = "data", nil
	vg.LVs = []lvm.LV{{Name: "root", UUID: "root", Attr: "-wi-ao----", Size: gib}}
	return vg
}

// withThick adds a thick volume.
func withThick(vg lvm.VG, name string, tags ...string) lvm.VG {
	vg.LVs = append(vg.LVs, lvm.LV{Name: name, UUID: name, Attr: "-wi-a-----", Size: gib, Tags: tags})
	return vg
}

// publishedIn returns the class of the plan for a volume group that can be used.
func publishedIn(t *testing.T, spec v1alpha1.LVMVolumeGroupSpec, vg lvm.VG) *deviceclass.Class {
	t.Helper()
	p := New(testDesired(spec), state.NodeState{Report: report(vg)})
	if p.Action.Kind != state.PublishClass {
		t.Fatalf("got %+v", p)
	}
	return classOf(p.Action)
}

// TestTheMethodToEraseIsPublished: a change of it is a change of the published class.
func TestTheMethodToEraseIsPublished(t *testing.T) {
	spec := v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data"}
	before := publishedIn(t, spec, data("b"))
	if before.Erase() != deviceclass.EraseZero {
		t.Errorf("by default: %q", before.Erase())
	}
	for method, want := range map[v1alpha1.EraseMethod]string{v1alpha1.EraseNone: deviceclass.EraseNone,
		v1alpha1.EraseDiscard: deviceclass.EraseDiscard, v1alpha1.EraseZero: deviceclass.EraseZero} {
		spec.EraseOnDelete = method
		p := New(testDesired(spec), state.NodeState{Report: report(data("b")), Class: before})
		if p.Action.Kind != state.PublishClass || classOf(p.Action).Erase() != want {
			t.Errorf("%s: got %+v", method, p.Action)
		}
	}
	spec = v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data", ThinPoolConfig: thinSpec}
	if thin := publishedIn(t, spec, withPool(data("b"))); thin.Erase() != deviceclass.EraseNone {
		t.Errorf("thin, by default: %q", thin.Erase())
	}
}

func TestPlanForAnExistingVolumeGroup(t *testing.T) {
	thick := v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data"}
	thin := v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data", ThinPoolConfig: thinSpec}
	thickClass := publishedIn(t, thick, data("b"))
	thinClass := publishedIn(t, thin, withPool(data("b")))
	closed := *thickClass
	closed.Closed = "before"
	other := *thickClass
	other.VolumeGroup = "other"
	renamed := edit(data("b"), func(vg *lvm.VG) { vg.UUID = "other" })
	attr := func(attr lvm.VGAttr) lvm.VG { return edit(data("b"), func(vg *lvm.VG) { vg.Attr = attr }) }
	tagged := func(tags ...string) lvm.VG { return edit(data("b"), func(vg *lvm.VG) { vg.Tags = tags }) }
	pool := func(change func(*lvm.LV)) lvm.VG {
		return edit(withPool(data("b"), claimed1), func(vg *lvm.VG) { change(vg.LV("pool")) })
	}
	before := v1alpha1.VGStatus{UUID: "vg"}
	// A class of TopoLVM's lvmd.yaml.
	two := uint(2)
	mirrored := &deviceclass.Class{Name: "vg1", VolumeGroup: "data", LVCreateOptions: []string{"--type=raid1"}}
	options := func(list ...string) v1alpha1.LVMVolumeGroupSpec {
		return v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data",
			ExistingVolumeGroupConfig: &v1alpha1.ExistingVolumeGroupConfig{LVCreateOptions: list}}
	}
	raid1 := options("--type=raid1")
	striped := &deviceclass.Class{Name: "vg1", VolumeGroup: "data", Stripe: &two, StripeSize: "64"}
	tests := map[string]struct {
		spec   v1alpha1.LVMVolumeGroupSpec
		change func(*state.Desired)
		seen   state.NodeState
		want   string
		says   []string
	}{
		"a group for thick volumes": {spec: thick, seen: state.NodeState{Report: report(data("b"))},
			want: "Progressing PublishClass"},
		"a group with tags of the administrator": {spec: thick, seen: state.NodeState{Report: report(tagged("mine"))},
			want: "Progressing PublishClass"},
		"a thin pool": {spec: thin, seen: state.NodeState{Report: report(withPool(data("b")))},
			want: "Progressing PublishClass"},
		"at rest": {spec: thick, seen: state.NodeState{Report: report(data("b")), Class: thickClass}, want: "Ready"},
		"at rest, thin": {spec: thin, seen: state.NodeState{Report: report(withPool(data("b"), claimed1)), Class: thinClass},
			want: "Ready"},
		"blank disks are not used": {spec: thick, seen: state.NodeState{Report: report(data("b")), Class: thickClass,
			Devices: []device.Device{disk("c")}}, want: "Ready"},
		"inactive volumes are not activated": {spec: thick, seen: state.NodeState{Class: thickClass,
			Report: report(edit(data("b"), func(vg *lvm.VG) { vg.LVs[0].Attr = "-wi-------" }))}, want: "Ready"},
		"a broken volume of somebody else": {spec: thick, seen: state.NodeState{Class: thickClass,
			Report: report(edit(data("b"), func(vg *lvm.VG) { vg.LVs[0].Health = "partial" }))}, want: "Ready"},
		"an untolerated taint": {spec: thick, change: func(d *state.Desired) { d.Taint = "t" },
			seen: state.NodeState{Report: report(data("b"))}, want: "Progressing PublishClass"},

		"options of TopoLVM, which new volumes would lose": {spec: thick,
			seen: state.NodeState{Report: report(data("b")), Class: mirrored}, want: "Failed",
			says: []string{"on MicroShift in /var/lib/microshift/lvms) on node n1 has lvcreate-options [--type=raid1]", "new volumes"}},
		"stripes of TopoLVM": {spec: thick, seen: state.NodeState{Report: report(data("b")), Class: striped},
			want: "Failed", says: []string{"has stripe 2"}},
		"options of TopoLVM for a thin pool": {spec: thin,
			seen: state.NodeState{Report: report(withPool(data("b"))), Class: mirrored}, want: "Failed",
			says: []string{"thin volumes cannot have it"}},
		"options of TopoLVM, and of the LVMCluster": {spec: raid1,
			seen: state.NodeState{Report: report(data("b", "c")), Class: mirrored}, want: "Progressing PublishClass"},
		"stripes of TopoLVM, and options of the LVMCluster": {spec: raid1,
			seen: state.NodeState{Report: report(data("b", "c")), Class: striped}, want: "Failed",
			says: []string{"has stripe 2, stripe-size 64, which new volumes would lose"}},
		"options of the LVMCluster that were removed": {spec: thick,
			seen: state.NodeState{Report: report(data("b", "c")), Class: publishedIn(t, raid1, data("b", "c"))},
			want: "Progressing PublishClass"},
		"redundancy on one device": {spec: raid1, seen: state.NodeState{Report: report(data("b"))}, want: "Failed",
			says: []string{"has 1 physical volumes, and a volume of device class vg1 requires 2 (raid1)",
				"vgextend data DEVICE"}},
		"options that LVM refuses": {spec: options("--type=raid10", "--mirrors=2"),
			seen: state.NodeState{Report: report(data("b", "c"))}, want: "Failed",
			says: []string{"existingVolumeGroupConfig of device class vg1: raid10 has 2 mirrors"}},
		"options of TopoLVM, removed": {spec: thick, change: func(d *state.Desired) { d.Deleting = true },
			seen: state.NodeState{Report: report(data("b")), Class: mirrored}, want: "Progressing WithdrawClass"},
		"no group": {spec: thick, seen: state.NodeState{Report: report()}, want: "Failed",
			says: []string{"volume group data of device class vg1 does not exist on node n1", "vgcreate data"}},
		"two groups": {spec: thick, seen: state.NodeState{Report: report(data("b"), renamed)}, want: "Failed",
			says: []string{"node n1 has 2 volume groups with the name data", "vgrename"}},
		"another cluster": {spec: thick, seen: state.NodeState{Report: report(tagged("lvms", "lvms.cluster=c2"))},
			want: "Failed", says: []string{"OtherClusterVG: volume group data (vg) on node n1 belongs to the " +
				"cluster c2",
				"name another volume group"}},
		"only the cluster tag of another one": {spec: thick,
			seen: state.NodeState{Report: report(tagged("lvms.cluster=c2"))}, want: "Failed", says: []string{"cluster c2"}},
		"a group of this product": {spec: thick, seen: state.NodeState{Report: report(tagged("lvms", "lvms.cluster=c1"))},
			want: "Failed", says: []string{"is managed by LVMS (tags lvms, lvms.cluster=c1)", "adopt: [{node: n1"}},
		"a group with the old tag": {spec: thick, seen: state.NodeState{Report: report(tagged("lvms"))},
			want: "Failed", says: []string{"is managed by LVMS"}},
		"the group of another class": {spec: thick, change: func(d *state.Desired) { d.Others = []state.Other{{Name: "data"}} },
			seen: state.NodeState{Report: report(data("b"))}, want: "Failed",
			says: []string{"volume group data (vg) on node n1 is the volume group of device class data"}},
		"exported": {spec: thick, seen: state.NodeState{Report: report(attr("wzx-n-"))}, want: "Failed",
			says: []string{"volume group data on node n1 is exported", "vgimport data"}},
		"shared": {spec: thick, seen: state.NodeState{Report: report(attr("wz--ns"))}, want: "Failed",
			says: []string{"volume group data on node n1 is shared"}},
		"clustered": {spec: thick, seen: state.NodeState{Report: report(attr("wz--nc"))}, want: "Failed",
			says: []string{"volume group data on node n1 is shared"}},
		"read-only": {spec: thick, seen: state.NodeState{Report: report(attr("rz--n-"))}, want: "Failed",
			says: []string{"vgchange --permission rw data"}},
		"partial": {spec: thick, seen: state.NodeState{Report: report(edit(data("b", "c"), lost))}, want: "Failed",
			says: []string{"on node n1 is partial", "vgreduce --removemissing data"}},
		"no pool": {spec: thin, seen: state.NodeState{Report: report(data("b"))}, want: "Failed",
			says: []string{"has no thin pool pool", "lvcreate --type thin-pool -l 90%FREE -n pool data"}},
		"not a pool": {spec: thin, seen: state.NodeState{Report: report(withThick(data("b"), "pool"))}, want: "Failed",
			says: []string{"logical volume data/pool on node n1 is not a thin pool"}},
		"the space of another class": {spec: thick,
			change: func(d *state.Desired) { d.Sharers = []state.Sharer{{Name: "slow", Group: "data"}} },
			seen:   state.NodeState{Report: report(data("b"))}, want: "Failed",
			says: []string{"already has device class slow for thick volumes", "remove one of device classes vg1 and " +
				"slow"}},
		"the pool of another class": {spec: thin,
			change: func(d *state.Desired) { d.Sharers = []state.Sharer{{Name: "slow", Group: "data", Pool: "pool"}} },
			seen:   state.NodeState{Report: report(withPool(data("b")))}, want: "Failed",
			says: []string{"thin pool data/pool on node n1 already has device class slow"}},
		"a pool in the group of a thick class": {spec: thin,
			change: func(d *state.Desired) { d.Sharers = []state.Sharer{{Name: "slow", Group: "data"}} },
			seen:   state.NodeState{Report: report(withPool(data("b")))}, want: "Progressing PublishClass"},
		"volumes in another group": {spec: thick, seen: state.NodeState{Report: report(data("b")), Class: &other},
			want: "Degraded PublishClass", says: []string{"used volume group other before", "lvmd.yaml"}},

		"a group that was used is missing": {spec: thick, seen: state.NodeState{Report: report(), Class: thickClass,
			Before: before}, want: "Degraded", says: []string{"is missing on node n1 (vg)"}},
		"another group of the name": {spec: thick, seen: state.NodeState{Report: report(renamed), Class: thickClass,
			Before: before}, want: "Degraded", says: []string{"which has another one of this name: other"}},
		"a disk is lost": {spec: thick, seen: state.NodeState{Report: report(edit(data("b", "c"), lost)), Class: thickClass},
			want: "Degraded", says: []string{"missing the physical volume pv-c", "vgreduce --removemissing data"}},
		"exported later": {spec: thick, seen: state.NodeState{Report: report(attr("wzx-n-")), Class: thickClass},
			want: "Degraded PublishClass", says: []string{"vgimport data"}},
		"a refusal is over": {spec: thick, seen: state.NodeState{Report: report(data("b")), Class: &closed},
			want: "Progressing PublishClass"},
		"the pool was removed": {spec: thin, seen: state.NodeState{Report: report(data("b")), Class: thinClass},
			want: "Degraded PublishClass", says: []string{"has no thin pool pool"}},
		"the pool is inactive": {spec: thin, seen: state.NodeState{Class: thinClass, Report: report(edit(
			withPool(data("b")), func(vg *lvm.VG) { vg.LV("pool").Attr = "twi---tz--" }))}, want: "Degraded",
			says: []string{"thin pool data/pool on node n1 is not active", "lvchange -ay data/pool"}},
		"the pool is full": {spec: thin, seen: state.NodeState{Class: thinClass,
			Report: report(pool(func(lv *lvm.LV) { lv.Health = thinpool.OutOfData }))}, want: "Degraded",
			says: []string{"lvextend -L +SIZE data/pool"}},
		"the pool has failed": {spec: thin, seen: state.NodeState{Class: thinClass,
			Report: report(pool(func(lv *lvm.LV) { lv.Health = "failed" }))}, want: "Degraded",
			says: []string{"lvconvert --repair data/pool"}},
		"a volume of a claim is broken": {spec: thick, seen: state.NodeState{Class: thickClass, Report: report(edit(
			withThick(data("b"), claimed1), func(vg *lvm.VG) { vg.LVs[1].Health = "partial" }))}, want: "Degraded",
			says: []string{claimed1 + " (partial)"}},

		"deleted with volumes": {spec: thick, change: deleting,
			seen: state.NodeState{Report: report(withThick(data("b"), "imported", wellknown.VolumeUIDTagPrefix+"u1")),
				Class: thickClass},
			want: "Degraded PublishClass", says: []string{"not removed from node n1 while volume group data has logical volumes " +
				"of it: " +
				"imported"}},
		"deleted with volumes, after a restart": {spec: thick, change: deleting,
			seen: state.NodeState{Report: report(withThick(data("b"), claimed1))}, want: "Degraded PublishClass",
			says: []string{claimed1}},
		"deleted, with volumes of others": {spec: thick, change: deleting,
			seen: state.NodeState{Report: report(withPool(data("b"), claimed1)), Class: thickClass},
			want: "Progressing WithdrawClass"},
		"deleted, with volumes of another cluster": {spec: thick, change: deleting,
			seen: state.NodeState{Report: report(withThick(data("b"), claimed1, "lvms.uid=u", "lvms.cluster=c2")),
				Class: thickClass}, want: "Progressing WithdrawClass"},
		"deleted, and withdrawn": {spec: thick, change: deleting, seen: state.NodeState{Report: report(data("b"))},
			want: "finished"},
		"deleted, called twice": {spec: thick, change: deleting, seen: state.NodeState{Report: report()}, want: "finished"},
		"deleted, never used": {spec: thick, change: deleting,
			seen: state.NodeState{Report: report(withThick(tagged("lvms", "lvms.cluster=c2"), claimed1))}, want: "finished"},
		"deleted with two groups of the name": {spec: thick, change: deleting,
			seen: state.NodeState{Report: report(data("b"), renamed), Class: thickClass, Before: before},
			want: "Degraded PublishClass", says: []string{"2 volume groups"}},
		"leaving with volumes": {spec: thick, change: func(d *state.Desired) { d.Leaving = true },
			seen: state.NodeState{Report: report(withThick(data("b"), claimed1)), Class: thickClass},
			want: "Progressing PublishClass"},
		"leaving without volumes": {spec: thick, change: func(d *state.Desired) { d.Leaving = true },
			seen: state.NodeState{Report: report(data("b")), Class: thickClass}, want: "Progressing WithdrawClass"},
		"leaving while the disks are missing": {spec: thick, change: func(d *state.Desired) { d.Leaving = true },
			seen: state.NodeState{Report: report(), Class: thickClass, Before: before}, want: "Degraded",
			says: []string{"is missing on node n1"}},
	}
	for name, tt := range tests {
		d := testDesired(tt.spec)
		if tt.change != nil {
			tt.change(&d)
		}
		p := New(d, tt.seen)
		checkPlan(t, name, p, tt.want, tt.says)
		if k := p.Action.Kind; k != state.Nothing && k != state.PublishClass && k != state.WithdrawClass {
			t.Errorf("%s: the plan changes the node: %s", name, k)
		}
	}
}

func deleting(d *state.Desired) { d.Deleting = true }

func TestClassOfAnExistingVolumeGroup(t *testing.T) {
	spec := v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data", Default: true}
	c := publishedIn(t, spec, data("b"))
	expect.Equal(t, "Name", c.Name, "vg1")
	expect.Equal(t, "VolumeGroup", c.VolumeGroup, "data")
	expect.Equal(t, "VolumeGroupUUID", c.VolumeGroupUUID, "vg")
	expect.Equal(t, "ExistingVolumeGroup", c.ExistingVolumeGroup, true)
	expect.Equal(t, "Default", c.Default, true)
	expect.Equal(t, "Closed", c.Closed, "")
	// A file that TopoLVM's lvmd left has no UUID, and spare space that the LVMCluster does not have.
	spare := uint64(10)
	left := deviceclass.Class{Name: "vg1", VolumeGroup: "data", SpareGB: &spare}
	p := New(testDesired(spec), state.NodeState{Report: report(data("b")), Class: &left})
	if p.Action.Kind != state.PublishClass || *classOf(p.Action).SpareGB != 0 {
		t.Errorf("got %+v", p)
	}
	exported := edit(data("b"), func(vg *lvm.VG) { vg.Attr = "wzx-n-" })
	p = New(testDesired(spec), state.NodeState{Report: report(exported), Class: c})
	if !strings.Contains(classOf(p.Action).Closed, "exported") {
		t.Errorf("new volumes are not refused: %+v", p)
	}
}

func TestSettingsOfAnExistingVolumeGroup(t *testing.T) {
	two, size := int32(2), resource.MustParse("128Ki")
	spec := v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data",
		ExistingVolumeGroupConfig: &v1alpha1.ExistingVolumeGroupConfig{SpareGiB: 7, Stripes: &two, StripeSize: &size,
			LVCreateOptions: []string{"--readahead=none"}}}
	c := publishedIn(t, spec, data("b", "c"))
	if got := strings.Join(c.CreateOptions(), " "); *c.SpareGB != 7 ||
		got != "--stripes 2 --stripesize 128k --readahead=none" {
		t.Errorf("got %+v, %s", c, got)
	}
	for allocation, want := range map[v1alpha1.ThickAllocation]string{"": "", v1alpha1.AllocationAny: "",
		v1alpha1.AllocationSingleDevice: deviceclass.AllocationSingleDevice} {
		spec.ExistingVolumeGroupConfig = &v1alpha1.ExistingVolumeGroupConfig{Allocation: allocation}
		if c = publishedIn(t, spec, data("b", "c")); c.Allocation != want || len(c.CreateOptions()) != 0 {
			t.Errorf("allocation %q: got %+v", allocation, c)
		}
		// A change of the allocation alone is published.
		other := v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data"}
		p := New(testDesired(other), state.NodeState{Report: report(data("b", "c")), Class: c})
		changed := p.Action.Kind == state.PublishClass
		if changed != (want != "") || changed && classOf(p.Action).Allocation != "" {
			t.Errorf("allocation %q is removed: got %+v", allocation, p.Action)
		}
	}
	spec.ThinPoolConfig = thinSpec
	spec.ExistingVolumeGroupConfig = &v1alpha1.ExistingVolumeGroupConfig{SpareGiB: 7}
	if c = publishedIn(t, spec, withPool(data("b"))); c.SpareGB == nil || *c.SpareGB != 7 {
		t.Errorf("thin: got %+v", c)
	}
}

func TestEntryOfAnExistingVolumeGroup(t *testing.T) {
	spec := v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data"}
	d := testDesired(spec)
	now := metav1.Now()
	s := state.NodeState{Report: report(data("b")), Class: publishedIn(t, spec, data("b"))}
	entry := Entry(state.Outcome{Node: s, Plan: New(d, s)}, d, v1alpha1.VGStatus{}, now)
	expect.Equal(t, "Name", entry.Name, "vg1")
	expect.Equal(t, "VolumeGroup", entry.VolumeGroup, "data")
	expect.Equal(t, "UUID", entry.UUID, "vg")
	expect.NotZero(t, "Size", entry.Size)
	expect.Equal(t, "len(entry.PhysicalVolumes)", len(entry.PhysicalVolumes), 1)
	expect.Equal(t, "Group()", entry.Group(), "data")
	gone := state.NodeState{Report: report(), Class: s.Class, Before: entry}
	if entry = Entry((state.Outcome{Node: gone, Plan: New(d, gone)}), d, entry, now); entry.UUID != "vg" ||
		entry.PhysicalVolumes[0].State != v1alpha1.PhysicalVolumeMissing || entry.VolumeGroup != "data" {
		t.Errorf("the last known state is lost: %+v", entry)
	}
	refused := state.NodeState{Report: report(edit(data("b"), func(vg *lvm.VG) { vg.Tags = []string{"lvms"} }))}
	if entry = Entry((state.Outcome{Node: refused, Plan: New(d, refused)}), d, v1alpha1.VGStatus{}, now); entry.UUID != "" ||
		entry.Size != nil || entry.Status != v1alpha1.VGStatusFailed {
		t.Errorf("a volume group that is not used is in the status: %+v", entry)
	}
}

func TestOtherClassesSpareAnExistingVolumeGroup(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	object := func(name string, spec v1alpha1.LVMVolumeGroupSpec) v1alpha1.LVMVolumeGroup {
		return v1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	all := []v1alpha1.LVMVolumeGroup{object("vg1", v1alpha1.LVMVolumeGroupSpec{}),
		object("apps", v1alpha1.LVMVolumeGroupSpec{ExistingVolumeGroup: "data", ThinPoolConfig: thinSpec})}
	d, err := state.NewDesired(&all[0], all, node, state.Cluster{ID: "c1"})
	if err != nil || len(d.Others) != 0 || len(d.Sharers) != 1 || d.Sharers[0] != (state.Sharer{Name: "apps", Group: "data", Pool: "pool"}) {
		t.Fatalf("got %+v, %v", d, err)
	}
	// A class without a selector uses blank disks, although a class on an existing group has no selector either.
	p := New(d, state.NodeState{Report: report(data("b")), Devices: []device.Device{disk("c")}})
	if summary(p) != "Progressing CreateVolumeGroup /dev/sdc" {
		t.Errorf("got %s (%v)", summary(p), p.Problems)
	}
	apps, err := state.NewDesired(&all[1], all, node, state.Cluster{ID: "c1"})
	if err != nil || len(apps.Others) != 1 {
		t.Fatalf("got %+v, %v", apps, err)
	}
	if _, meant := (selection.ClassState{Desired: apps, Node: state.NodeState{Report: report(data("b"))}}).Reasons(disk("c")); meant {
		t.Error("a class on an existing group takes a blank disk")
	}
}
