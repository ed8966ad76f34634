package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// lostPool returns a volume group with two devices, the second of which is missing, and a pool with two volumes on
// both.
func lostPool() lvm.VG {
	vg := edit(withPool(group("b", "c"), "v1", "v2"), lost)
	for i := range vg.LVs {
		vg.LVs[i].Health = "partial"
	}
	vg.Hidden = append(vg.Hidden,
		lvm.LV{Name: "pool_tdata", Parent: "pool", Attr: "Twi-ao--p-", PVs: []string{"pv-b", "pv-c"}},
		lvm.LV{Name: "pool_tmeta", Parent: "pool", Attr: "ewi-ao----", PVs: []string{"pv-b"}},
		lvm.LV{Name: "lvol0_pmspare", Attr: "ewi-------", PVs: []string{"pv-b"}})
	return vg
}

func thick(name, attr string, pvs ...string) lvm.LV {
	lv := lvm.LV{Name: name, UUID: "uuid-" + name, Attr: lvm.LVAttr(attr), SegType: "linear", Size: gib, PVs: pvs}
	if lv.Attr.Partial() {
		lv.Health = "partial"
	}
	return lv
}

// lostThick returns a volume group with a missing device and one volume on each device.
func lostThick() lvm.VG {
	return edit(edit(group("b", "c"), lost), func(vg *lvm.VG) {
		vg.LVs = append(vg.LVs, thick("kept", "-wi-a-----", "pv-b"), thick("gone", "-wi-a---p-", "pv-c"))
	})
}

// lostMirrors returns a volume group with a missing device and two RAID 1 volumes: one has lost an image, the other
// one both.
func lostMirrors() lvm.VG {
	vg := edit(edit(group("b", "c"), mirrored("partial", 100)), lost)
	vg.LVs = append(vg.LVs, lvm.LV{Name: "dead", UUID: "uuid-dead", Attr: "rwi-a-r-p-", SegType: "raid1",
		Health: "partial"})
	for _, name := range []string{"dead_rimage_0", "dead_rimage_1"} {
		vg.Hidden = append(vg.Hidden, lvm.LV{Name: name, Parent: "dead", Attr: "iwi-aor-p-", SegType: "linear",
			PVs: []string{"pv-c"}})
	}
	return vg
}

func namesOf(volumes []v1alpha1.RecoveryVolume) string {
	var names []string
	for _, v := range volumes {
		names = append(names, v.Name)
	}
	return strings.Join(names, " ")
}

func TestRecoveryPlanListsWhatIsLost(t *testing.T) {
	before := v1alpha1.VGStatus{PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{
		{UUID: "pv-c", Name: "/dev/sdc", DeviceID: "serial-c"}, {UUID: "pv-b", Name: "/dev/sdb"}}}
	objects := []v1alpha1.RecoveryVolume{{Name: "v1", Claim: "ns/one"}, {Name: "other"}}
	for name, tt := range map[string]struct {
		vg             *lvm.VG
		devices, pools string
		volumes        string
		kept           int32
	}{
		"a pool, with all its volumes": {vg: new(lostPool()), devices: "pv-c", pools: "pool", volumes: "v1 v2"},
		"thick volumes":                {vg: new(lostThick()), devices: "pv-c", volumes: "gone", kept: 1},
		"mirrors":                      {vg: new(lostMirrors()), devices: "pv-c", volumes: "dead", kept: 1},
		"the whole volume group":       {devices: "pv-b pv-c", volumes: "other v1"},
	} {
		s := state.NodeState{Report: report(), Before: before}
		if tt.vg != nil {
			s.Report = report(*tt.vg)
		}
		p, problem := lostdevices.NewPlan(testDesired(v1alpha1.LVMVolumeGroupSpec{}), s, objects, metav1.Time{})
		if problem != "" {
			t.Errorf("%s: %s", name, problem)
			continue
		}
		var devices []string
		for _, d := range p.Devices {
			devices = append(devices, d.UUID)
			if d.UUID == "pv-c" && (d.Name != "/dev/sdc" || d.DeviceID != "serial-c") {
				t.Errorf("%s: got the device %+v", name, d)
			}
		}
		got := strings.Join(devices, " ")
		expect.Equal(t, name+": got", got, tt.devices)
		expect.Equal(t, name+": namesOf(p.ThinPools)", namesOf(p.ThinPools), tt.pools)
		expect.Equal(t, name+": namesOf(p.LostVolumes)", namesOf(p.LostVolumes), tt.volumes)
		expect.Equal(t, name+": KeptVolumeCount", p.KeptVolumeCount, tt.kept)
		expect.Equal(t, name+": int(p.LostVolumeCount)", int(p.LostVolumeCount), len(p.LostVolumes))
		for _, v := range p.LostVolumes {
			if (v.Claim == "ns/one") != (v.Name == "v1") {
				t.Errorf("%s: got the claim of %+v", name, v)
			}
		}
	}
}

func TestRecoveryPlanHasAnIDForItsLoss(t *testing.T) {
	created := metav1.Time{}
	id := func(vg lvm.VG, objects ...v1alpha1.RecoveryVolume) string {
		p, problem := lostdevices.NewPlan(testDesired(v1alpha1.LVMVolumeGroupSpec{}),
			state.NodeState{Report: report(vg)}, objects, created)
		if problem != "" {
			t.Fatal(problem)
		}
		return p.ID
	}
	first := id(lostPool())
	if again := id(edit(lostPool(), func(vg *lvm.VG) { slices.Reverse(vg.LVs) }),
		v1alpha1.RecoveryVolume{Name: "v1", Claim: "ns/a"}); again != first {
		t.Error("the order of volumes, or a claim, changes the ID")
	}
	more := edit(lostPool(), func(vg *lvm.VG) { vg.LVs = append(vg.LVs, thick("gone", "-wi-a---p-", "pv-c")) })
	another := edit(lostPool(), func(vg *lvm.VG) { vg.PVs[1].UUID = "pv-x"; vg.Hidden[0].PVs = []string{"pv-x"} })
	if id(more) == first || id(another) == first || id(lostThick()) == first {
		t.Error("another loss has the same ID")
	}
	created = metav1.NewTime(time.Unix(1, 0))
	if id(lostPool()) == first {
		t.Error("a later plan has the same ID")
	}
}

// TestRecoveryBesideAFailingDevice has one device missing and one failing: the loss is that of the missing one, and the
// data of the other can be moved away afterwards.
func TestRecoveryBesideAFailingDevice(t *testing.T) {
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
	s := state.NodeState{Report: report(lostPool())}
	before, problem := lostdevices.NewPlan(d, s, nil, metav1.Time{})
	expect.Equal(t, "problem", problem, "")
	s.Health.Failing = map[device.Number]error{disk("b").Number: errors.New("I/O error")}
	p, problem := lostdevices.NewPlan(d, s, nil, metav1.Time{})
	if problem != "" || len(p.FailingDevices) != 1 || p.FailingDevices[0].UUID != "pv-b" || p.ID == before.ID {
		t.Fatalf("got %+v, %q", p, problem)
	}
	if !slices.Equal(namesOfPlan(p), namesOfPlan(before)) {
		t.Errorf("lost are %v, want %v", namesOfPlan(p), namesOfPlan(before))
	}
	r := &v1alpha1.LVMRecovery{Spec: v1alpha1.LVMRecoverySpec{Action: v1alpha1.RecoveryRemoveLostDevices}}
	says := RecoveryStatus(state.Outcome{Node: s}, d, r, nil, metav1.Time{}).Message
	if !strings.Contains(says, "failing, and not removed: /dev/sdb") {
		t.Errorf("it says %s", says)
	}
	d.Open.Approved = &state.Recovery{Action: v1alpha1.RecoveryRemoveLostDevices, Devices: []string{"pv-c"}, Pools: []string{"p"},
		Volumes: []string{"v1", "v2"}}
	if kind := New(d, s).Action.Kind; kind != state.DeactivatePool && kind != state.RemoveUnreadable {
		t.Errorf("the approved recovery does %q", kind)
	}
}

func namesOfPlan(p *v1alpha1.RecoveryPlan) []string {
	var names []string
	for _, v := range slices.Concat(p.ThinPools, p.LostVolumes) {
		names = append(names, v.Name)
	}
	for _, d := range p.Devices {
		names = append(names, d.UUID)
	}
	return names
}

func TestRecoveryIsRefused(t *testing.T) {
	label := disk("c")
	label.Signature, label.UUID = device.SignatureLVM, "pv-c"
	before := v1alpha1.VGStatus{PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-c"}, {UUID: "pv-b"}}}
	for name, tt := range map[string]struct {
		seen state.NodeState
		says string
	}{
		"nothing is missing": {state.NodeState{Report: report(group("b", "c"))}, "no device is missing"},
		"no volume group":    {state.NodeState{Report: report()}, "no volume group was there before"},
		"LVM hides the device": {state.NodeState{Report: report(lostPool()), Before: before, Devices: []device.Device{label}},
			"lvmdevices --adddev /dev/sdc"},
		"labels could not be read": {state.NodeState{Report: report(lostPool()), Disks: state.Disks{Hidden: state.Hidden{Err: errors.New("no answer")}}},
			"not known: no answer"},
		"the device is attached again": {state.NodeState{Report: report(edit(lostPool(),
			func(vg *lvm.VG) { vg.PVs[1].Name = "/dev/sdc" }))}, "vgextend --restoremissing vg1 /dev/sdc"},
		"extents are being moved": {state.NodeState{Report: report(edit(lostPool(), func(vg *lvm.VG) {
			vg.Hidden = append(vg.Hidden, lvm.LV{Name: "pvmove0", MoveSource: "pv-b"})
		}))}, "are being moved"},
		"another owner": {state.NodeState{Report: report(edit(lostPool(), func(vg *lvm.VG) { vg.Tags = nil }))},
			"without the tag"},
		"two of one name": {state.NodeState{Report: report(lostPool(), edit(lostPool(),
			func(vg *lvm.VG) { vg.UUID = "vg-2" }))}, "2 volume groups with the name"},
	} {
		d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
		p, problem := lostdevices.NewPlan(d, tt.seen, nil, metav1.Time{})
		if p != nil || !strings.Contains(problem, tt.says) {
			t.Errorf("%s: got %+v, %q, want %q", name, p, problem, tt.says)
		}
		// An approval changes nothing then.
		d.Open.Approved = &state.Recovery{Devices: []string{"pv-b", "pv-c"}, Pools: []string{"p"}, Volumes: []string{"v1", "v2"}}
		if kind := New(d, tt.seen).Action.Kind; kind == state.DeactivatePool || kind == state.RemoveUnreadable ||
			kind == state.ReduceLost || kind == state.CreateVG {
			t.Errorf("%s: %s", name, kind)
		}
	}
}

// approve returns the desired state with the approval of the current plan.
func approve(t *testing.T, d state.Desired, s state.NodeState) state.Desired {
	t.Helper()
	p, problem := lostdevices.NewPlan(d, s, nil, metav1.Time{})
	if problem != "" {
		t.Fatal(problem)
	}
	d.Open.Approved = state.NewRecovery("r", v1alpha1.RecoveryRemoveLostDevices, p)
	return d
}

func TestStepsOfARecovery(t *testing.T) {
	inactive := func(names ...string) func(*lvm.VG) {
		return func(vg *lvm.VG) {
			for i := range vg.LVs {
				if slices.Contains(names, vg.LVs[i].Name) {
					vg.LVs[i].Attr = lvm.LVAttr(string(vg.LVs[i].Attr)[:4] + "--" + string(vg.LVs[i].Attr)[6:])
				}
			}
			for i := range vg.Hidden {
				if lv := &vg.Hidden[i]; slices.Contains(names, lv.Parent) {
					lv.Attr = lvm.LVAttr(string(lv.Attr)[:4] + "--" + string(lv.Attr)[6:])
				}
			}
		}
	}
	open := func(name string) func(*lvm.VG) {
		return func(vg *lvm.VG) { vg.LV(name).Attr = "Vwi-aotzp-" }
	}
	without := func(names ...string) func(*lvm.VG) {
		return func(vg *lvm.VG) {
			vg.LVs = slices.DeleteFunc(vg.LVs, func(lv lvm.LV) bool { return slices.Contains(names, lv.Name) })
			vg.Hidden = slices.DeleteFunc(vg.Hidden, func(lv lvm.LV) bool { return slices.Contains(names, lv.Parent) })
		}
	}
	spareLost := func(vg *lvm.VG) {
		vg.LVs, vg.Hidden = nil, []lvm.LV{{Name: "lvol0_pmspare", Attr: "ewi-a---p-", PVs: []string{"pv-c"}}}
	}
	thin := v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}
	idle := edit(lostPool(), inactive("v1", "v2", "pool"))
	for name, tt := range map[string]struct {
		spec    v1alpha1.LVMVolumeGroupSpec
		planned lvm.VG
		now     func(*lvm.VG)
		kind    state.Kind
		volumes string
		waits   string
	}{
		"volumes first":       {thin, lostPool(), func(*lvm.VG) {}, state.DeactivatePool, "v1 v2", ""},
		"not while in use":    {thin, lostPool(), open("v2"), state.Nothing, "", "in use: v2"},
		"then the pool":       {thin, lostPool(), inactive("v1", "v2"), state.DeactivatePool, "pool", ""},
		"then remove it":      {thin, lostPool(), inactive("v1", "v2", "pool"), state.RemoveUnreadable, "pool", ""},
		"after a kill":        {thin, edit(lostPool(), inactive("v2", "pool")), without("v1"), state.RemoveUnreadable, "pool", ""},
		"the spare":           {thin, idle, spareLost, state.RemoveUnreadable, "lvol0_pmspare", ""},
		"then the device":     {thin, idle, without("pool", "v1", "v2"), state.ReduceLost, "", ""},
		"a thick volume":      {v1alpha1.LVMVolumeGroupSpec{}, lostThick(), func(*lvm.VG) {}, state.RemoveUnreadable, "gone", ""},
		"then its device":     {v1alpha1.LVMVolumeGroupSpec{}, lostThick(), without("gone"), state.ReduceLost, "", ""},
		"a dead mirror first": {raidSpec("raid1"), lostMirrors(), func(*lvm.VG) {}, state.RemoveUnreadable, "dead", ""},
		"then the others":     {raidSpec("raid1"), lostMirrors(), without("dead"), state.Repair, "", ""},
		"more is lost than approved": {v1alpha1.LVMVolumeGroupSpec{}, lostThick(), func(vg *lvm.VG) {
			vg.LVs = append(vg.LVs, thick("more", "-wi-a---p-", "pv-c"))
		}, state.Nothing, "", ""},
	} {
		d := testDesired(tt.spec)
		d = approve(t, d, state.NodeState{Report: report(tt.planned)})
		now := edit(tt.planned, func(vg *lvm.VG) {
			vg.LVs, vg.Hidden = slices.Clone(vg.LVs), slices.Clone(vg.Hidden)
			tt.now(vg)
		})
		s := state.NodeState{Report: report(now)}
		class := publication.ClassOf(d, nil, "vg")
		s.Class = &class
		for _, deleting := range []bool{false, true} {
			d.Deleting = deleting
			class = publication.ClassOf(d, nil, "vg")
			p := New(d, s)
			if p.Action.Kind != tt.kind || strings.Join(volumesOf(p.Action), " ") != tt.volumes {
				t.Errorf("%s (deleting: %t): got %s %v, want %s %s", name, deleting, p.Action.Kind, volumesOf(p.Action),
					tt.kind, tt.volumes)
			}
			said := p.Notes["pv-c"].Message
			if tt.waits != "" && !deleting && !strings.Contains(said, tt.waits) {
				t.Errorf("%s: the note %q should say %q", name, said, tt.waits)
			}
		}
	}
}

func TestALostVolumeGroupIsCreatedAgain(t *testing.T) {
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceDiscoveryPolicy: v1alpha1.DeviceDiscoveryDynamic})
	s := state.NodeState{Report: report(), Devices: []device.Device{disk("d")}, Disks: state.Disks{Probed: map[device.Number][]device.Reason{}},
		Before: v1alpha1.VGStatus{PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b"}}}}
	if p := New(d, s); p.Action.Kind != state.Nothing || !p.Lost {
		t.Errorf("before the approval: got %+v", p)
	}
	d = approve(t, d, s)
	s.Disks.Probed[disk("d").Number] = nil
	s.Health.Mapped = []string{"vg1-v1"}
	if p := New(d, s); p.Action.Kind != state.Unmap || !p.Lost {
		t.Errorf("while its volumes are mapped: got %+v", p)
	}
	s.Health.Mapped = nil
	for range 2 {
		if p := New(d, s); p.Action.Kind != state.CreateVG || !p.Lost {
			t.Errorf("after the approval: got %s: %+v", p.Action.Kind, p)
		}
		// The class alone shows that there was a group.
		class := publication.ClassOf(d, nil, "")
		s.Class, s.Before.PhysicalVolumes = &class, nil
	}
	created := edit(group("d"), func(vg *lvm.VG) { vg.UUID = "vg-new" })
	s.Report, s.Before.UUID = report(created), "vg"
	ended := lostdevices.Status(state.Outcome{Node: s}, d, recovery.Request{Status: v1alpha1.LVMRecoveryStatus{
		Plan: &v1alpha1.RecoveryPlan{}}})
	if got := ownership.GroupOf(d, s); got == nil || got.UUID != "vg-new" || ended.Phase != v1alpha1.RecoverySucceeded {
		t.Errorf("the group that was created is not used: %+v", got)
	}
	s.Report = report(edit(created, func(vg *lvm.VG) { vg.Tags = []string{wellknown.OwnerTag} }))
	if got := ownership.GroupOf(d, s); got != nil {
		t.Errorf("a group without the tags of the node is used: %+v", got)
	}
	s.Report, s.Before.UUID = report(), ""
	s.Before.PhysicalVolumes = append(s.Before.PhysicalVolumes, v1alpha1.PhysicalVolumeStatus{UUID: "pv-x"})
	if p := New(d, s); p.Action.Kind != state.Nothing {
		t.Errorf("with another lost device: got %s", p.Action.Kind)
	}
}

func TestActionThatTheAgentDoesNotKnowIsRefused(t *testing.T) {
	r := &v1alpha1.LVMRecovery{Spec: v1alpha1.LVMRecoverySpec{Action: "FromALaterVersion"}}
	o := state.Outcome{Node: state.NodeState{Report: report(lostThick())}}
	got := RecoveryStatus(o, testDesired(v1alpha1.LVMVolumeGroupSpec{}), r, nil, metav1.Now())
	if got.Phase != v1alpha1.RecoveryNotApplicable || got.Plan != nil || !strings.Contains(got.Message, "FromALaterVersion") {
		t.Errorf("got %s with plan %v: %s", got.Phase, got.Plan, got.Message)
	}
}

func TestRecoveryStatus(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
	r := &v1alpha1.LVMRecovery{Spec: v1alpha1.LVMRecoverySpec{Action: v1alpha1.RecoveryRemoveLostDevices}}
	r.Name, r.Generation = "r", 2
	step := func(name string, o state.Outcome, phase v1alpha1.RecoveryPhase, says string) {
		t.Helper()
		d.Open.Approved = ApprovedRecovery(r)
		if !o.ObserveFailed {
			o.Plan = New(d, o.Node)
		}
		r.Status = RecoveryStatus(o, d, r, nil, now)
		if r.Status.Phase != phase || !strings.Contains(r.Status.Message, says) {
			t.Errorf("%s: got %s: %s", name, r.Status.Phase, r.Status.Message)
		}
		ended := phase == v1alpha1.RecoverySucceeded
		if c := r.Status.Conditions; len(c) != 1 || c[0].Type != v1alpha1.ConditionSucceeded ||
			c[0].Reason != string(phase) || (c[0].Status == metav1.ConditionTrue) != ended {
			t.Errorf("%s: got the conditions %+v", name, c)
		}
	}
	seen := func(vg lvm.VG) state.Outcome { return state.Outcome{Node: state.NodeState{Report: report(vg)}} }
	step("healthy", seen(group("b", "c")), v1alpha1.RecoveryNotApplicable, "no device is missing")
	step("planned", seen(lostThick()), v1alpha1.RecoveryAwaitingApproval, "volumes lost: 1, volumes kept: 1")
	first := r.Status.Plan.ID
	r.Spec.ApprovedPlan = "another"
	step("a wrong ID", seen(lostThick()), v1alpha1.RecoveryAwaitingApproval, "plan another is not the current one")
	r.Spec.ApprovedPlan = first
	step("a failed read", state.Outcome{ObserveFailed: true, Err: errors.New("no answer")}, v1alpha1.RecoveryAwaitingApproval,
		"no answer")
	step("approved", seen(lostThick()), v1alpha1.RecoveryRunning, "are being removed")
	attached := edit(group("b", "c"), func(vg *lvm.VG) { vg.LVs = lostThick().LVs })
	step("the device is attached again", seen(attached), v1alpha1.RecoveryNotApplicable, "no device is missing")
	now = metav1.NewTime(now.Add(time.Hour))
	step("it is lost again, perhaps with new data", seen(lostThick()), v1alpha1.RecoveryAwaitingApproval,
		"is not the current one")
	more := edit(lostThick(), func(vg *lvm.VG) { vg.LVs = append(vg.LVs, thick("more", "-wi-a---p-", "pv-c")) })
	step("more is lost", seen(more), v1alpha1.RecoveryAwaitingApproval,
		"is not the current one")
	step("nothing changes meanwhile", seen(more), v1alpha1.RecoveryAwaitingApproval, r.Status.Plan.ID)
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	step("approved again", seen(more), v1alpha1.RecoveryRunning, "")
	started := r.Status.StartTime
	removed := edit(group("b"), func(vg *lvm.VG) { vg.LVs = lostThick().LVs[:1] })
	step("done", seen(removed), v1alpha1.RecoverySucceeded, "volumes lost: 2")
	if r.Status.CompletionTime == nil || !r.Status.StartTime.Equal(started) || ApprovedRecovery(r) != nil {
		t.Errorf("got %+v", r.Status)
	}
}
