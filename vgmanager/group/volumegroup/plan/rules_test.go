package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// none is the state of a node on which nothing failed.
var none state.NodeState

func TestPlanOfARemoval(t *testing.T) {
	thin := v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: thinSpec}
	foreignGroup := edit(withPool(group("b"), "a"), func(vg *lvm.VG) { vg.Tags = nil })
	loose := func(letters ...string) []lvm.PV {
		pvs := group(letters...).PVs
		for i := range pvs {
			pvs[i].VGName = ""
		}
		return pvs
	}
	tests := map[string]struct {
		spec v1alpha1.LVMVolumeGroupSpec
		seen state.NodeState
		want string
		says []string
	}{
		"volumes are waited for": {
			spec: thin, seen: state.NodeState{Report: report(withPool(group("b"), "pvc-2", "pvc-1")), Class: thinDone},
			want: "Progressing PublishClass", says: []string{"not removed while it has logical volumes: pvc-1, pvc-2",
				"PersistentVolumeClaims"},
		},
		"volumes are waited for in a class that accepts no new ones": {
			spec: thin, seen: state.NodeState{Report: report(withPool(group("b"), "pvc-1")), Class: closedClass(thin)},
			want: "Progressing", says: []string{"pvc-1"},
		},
		"a group whose disks are away, with volumes of the cluster": {
			seen: state.NodeState{Report: report(), Class: thickDone, Owners: ownersOf(
				state.VolumeOwner{LogicalVolume: "pvc-1", Node: "n1", DeviceClass: "vg1", Created: true})},
			want: "Degraded", says: []string{"is missing"},
		},
		"a group whose disks are away, and the API server does not answer": {
			seen: state.NodeState{Report: report(), Class: thickDone, Owners: state.Owners{Err: errors.New("timeout")}},
			want: "Degraded", says: []string{"is missing"},
		},
		"volumes can be deleted only while the class is there": {
			spec: thin, seen: state.NodeState{Report: report(withPool(group("b"), "pvc-1"))},
			want: "Progressing PublishClass", says: []string{"pvc-1"},
		},
		"a volume of somebody else is waited for": {
			seen: state.NodeState{Report: report(edit(group("b"),
				func(vg *lvm.VG) { vg.LVs = []lvm.LV{{Name: "backup", Attr: "-wi-a-----"}} })), Class: thickDone},
			want: "Progressing PublishClass", says: []string{"backup"},
		},
		"first the class": {spec: thin,
			seen: state.NodeState{Report: report(withPool(group("b"))), Class: thinDone}, want: "Progressing WithdrawClass"},
		"then the pool": {spec: thin, seen: state.NodeState{Report: report(withPool(group("b")))},
			want: "Progressing RemoveThinPool"},
		"then the group": {spec: thin, seen: state.NodeState{Report: report(group("b", "c"))},
			want: "Progressing RemoveVolumeGroup /dev/sdb /dev/sdc"},
		"then the labels it left": {spec: thin,
			seen: state.NodeState{Report: &lvm.Report{Unassigned: loose("b", "c", "d")}, Records: state.Records{Released: []string{"pv-b", "pv-c"}}},
			want: "Progressing RemovePhysicalVolumes /dev/sdb /dev/sdc"},
		"labels of others stay": {seen: state.NodeState{Report: &lvm.Report{Unassigned: loose("d")},
			Records: state.Records{Released: []string{"pv-b"}}}, want: "finished"},
		"a label in another group": {
			seen: state.NodeState{Report: report(edit(group("b"), func(vg *lvm.VG) { vg.Name = "other" })),
				Records: state.Records{Released: []string{"pv-b"}}}, want: "finished"},
		"nothing is left": {spec: thin, seen: state.NodeState{Report: report()}, want: "finished"},
		"only the class is left": {spec: thin, seen: state.NodeState{Report: report(), Class: thinDone},
			want: "Progressing WithdrawClass"},
		"a group without the tag is left as it is": {spec: thin, seen: state.NodeState{Report: report(foreignGroup)},
			want: "finished"},
		"but not its class": {spec: thin, seen: state.NodeState{Report: report(foreignGroup), Class: thinDone},
			want: "Progressing WithdrawClass"},
		"a disk is missing": {
			seen: state.NodeState{Report: report(edit(group("b", "c"), lost)), Class: thickDone},
			want: "Degraded", says: []string{"create an LVMRecovery {nodeName: n1"},
		},
	}
	for name, tt := range tests {
		d := testDesired(tt.spec)
		d.Deleting = true
		p := New(d, tt.seen)
		checkPlan(t, name, p, tt.want, tt.says)
	}
}

func TestClassKeepsWhatTheSpecDoesNotKnow(t *testing.T) {
	present := thickPublished()
	present.LVCreateOptions = []string{"--type", "raid1"}
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
	if got := publication.ClassOf(d, present, "vg"); !cmp.Equal(got.LVCreateOptions, present.LVCreateOptions) {
		t.Errorf("got %v", got)
	}
	if a := publication.Action(d, state.NodeState{Class: present}, &lvm.VG{UUID: "vg"}); a.Kind != state.Nothing {
		t.Errorf("an unchanged class is published: %v", a)
	}
}

func TestPoolOptions(t *testing.T) {
	chunk := resource.MustParse("256Ki")
	metadata := resource.MustParse("2Gi")
	tests := map[string]struct {
		config v1alpha1.ThinPoolConfig
		want   lvm.LVCreateThinPool
	}{
		"defaults": {v1alpha1.ThinPoolConfig{}, lvm.LVCreateThinPool{ChunkSize: 128 << 10}},
		"static without sizes": {
			v1alpha1.ThinPoolConfig{ChunkSizeCalculationPolicy: "Static", MetadataSizeCalculationPolicy: "Static"},
			lvm.LVCreateThinPool{ChunkSize: 128 << 10, MetadataSize: 1 << 30},
		},
		"static with sizes": {
			v1alpha1.ThinPoolConfig{ChunkSizeCalculationPolicy: "Static", ChunkSize: &chunk,
				MetadataSizeCalculationPolicy: "Static", MetadataSize: &metadata},
			lvm.LVCreateThinPool{ChunkSize: 256 << 10, MetadataSize: 2 << 30},
		},
		"host": {v1alpha1.ThinPoolConfig{ChunkSizeCalculationPolicy: "Host", MetadataSizeCalculationPolicy: "Host"},
			lvm.LVCreateThinPool{}},
	}
	for name, tt := range tests {
		tt.config.Name = "pool"
		tt.config.SizePercent = 90
		tt.want.VG = "vg1"
		tt.want.Name = "pool"
		tt.want.PercentFree = 90
		got := thinpool.Options(&tt.config, &lvm.VG{Name: "vg1", ExtentSize: 4 << 20,
			PVs: []lvm.PV{{Free: 20 * gib, Allocatable: true}}})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestAPoolGrowsAsFarAsItsChunkSizeAllows: LVM would reject each attempt to extend a pool beyond the limit of its
// chunk size.
func TestAPoolGrowsAsFarAsItsChunkSizeAllows(t *testing.T) {
	config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90,
		AutoExtend: &v1alpha1.AutoExtend{ThresholdPercent: 80, StepPercent: 20}}
	largest := thinpool.MaxPoolSize(128<<10) / (4 << 20) * (4 << 20)
	full := 85.0
	vg := edit(withPool(group("b")), func(vg *lvm.VG) {
		vg.Size = 3 * largest
		vg.Free = 2 * largest
		vg.PVs[0].Free = 2 * largest
		vg.LVs[0].Size = largest - gib
		vg.LVs[0].ChunkSize = 128 << 10
		vg.LVs[0].DataPercent = &full
	})
	if got := thinpool.Action(config, none, &vg); got.Kind != state.ExtendPool || sizeOf(got) <= largest-gib ||
		sizeOf(got) > largest {
		t.Errorf("got %+v, want at most %d", got, largest)
	}
	vg.LVs[0].Size = largest
	if got := thinpool.Action(config, state.NodeState{}, &vg); got.Kind != state.Nothing {
		t.Errorf("got %+v", got)
	}
	problems := thinpool.CannotGrow(state.Desired{Name: "vg1", Node: "n1", Spec: v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: config}},
		&vg, vg.ThinPool("pool"))
	if len(problems) != 1 || !strings.Contains(problems[0].Message,
		"maximum size that its chunk size of 128 KiB allows") {
		t.Errorf("got %+v", problems)
	}
}

func TestGrownSize(t *testing.T) {
	// free returns a function that sets the free space of a group of 20 GiB.
	free := func(size lvm.Bytes) func(*lvm.VG) {
		return func(vg *lvm.VG) {
			vg.Size = 20 * gib
			vg.Free = size
			vg.PVs[0].Free = size
		}
	}
	config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90}
	hundred := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 100}
	tests := map[string]struct {
		config *v1alpha1.ThinPoolConfig
		vg     lvm.VG
		want   lvm.Bytes
	}{
		"as it was made":           {config, withPool(group("b")), 0},
		"the group doubled":        {config, edit(withPool(group("b")), free(11*gib)), 18*gib - 12<<20},
		"the group is nearly full": {config, edit(withPool(group("b")), free(gib)), 10 * gib},
		"the group is full":        {config, edit(withPool(group("b")), free(0)), 0},
		"a pool of the whole group": {hundred, edit(withPool(group("b")), func(vg *lvm.VG) {
			vg.LVs[0].Size = 10*gib - 8<<20
			vg.Free = 0
		}), 0},
		"a pool larger than wanted": {config,
			edit(withPool(group("b")), func(vg *lvm.VG) { vg.LVs[0].Size = 10 * gib; vg.Free = 0 }), 0},
		"cordoned devices do not count": {config,
			edit(edit(withPool(group("b")), free(11*gib)), func(vg *lvm.VG) { vg.PVs[0].Allocatable = false }), 0},
		"a tiny group, by less than an extent": {config, edit(withPool(group("b")), func(vg *lvm.VG) {
			vg.Size = 100 << 20
			vg.LVs[0].Size = 80 << 20
			vg.LVs[0].MetadataSize = 4 << 20
			vg.Free = 20 << 20
			vg.PVs[0].Free = 20 << 20
		}), 0},
		"a difference of rounding": {config, edit(withPool(group("b")),
			func(vg *lvm.VG) { vg.LVs[0].Size -= 40 << 20; vg.Free += 40 << 20 }), 0},
	}
	for name, tt := range tests {
		got := thinpool.GrownSize(tt.config, &tt.vg, tt.vg.ThinPool("pool"))
		if got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}

func TestAutoExtend(t *testing.T) {
	config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 50,
		AutoExtend: &v1alpha1.AutoExtend{ThresholdPercent: 80, StepPercent: 20}}
	// filled returns a pool of 9 GiB in a group with this free space.
	filled := func(data, metadata float64, free lvm.Bytes) lvm.VG {
		return edit(withPool(group("b"), "a"), func(vg *lvm.VG) {
			vg.LVs[0].DataPercent = &data
			vg.LVs[0].MetadataPercent = &metadata
			vg.Free = free
			vg.PVs[0].Free = free
		})
	}
	tests := map[string]struct {
		vg   lvm.VG
		want grown
		says string
	}{
		"below the threshold": {vg: filled(79.9, 10, gib)},
		"data": {vg: filled(80, 10, 4*gib),
			want: grown{state.ExtendPool, 9*gib + (9 * gib / 100 * 20).RoundUp(4<<20)}},
		"what is left": {vg: filled(95, 10, 8<<20), want: grown{state.ExtendPool, 9*gib + 8<<20}},
		"no space for data": {vg: filled(80, 10, 0),
			says: "is 80% full, and volume group vg1 has no free space for autoExtend"},
		"metadata goes first": {vg: filled(90, 85, gib), want: grown{state.ExtendMeta, 4 << 20}},
		"no space for metadata": {vg: filled(10, 85, 0),
			says: "the metadata of thin pool vg1/pool on node n1 is 85% full and cannot be extended"},
		"out of data": {vg: edit(filled(100, 10, gib),
			func(vg *lvm.VG) { vg.LVs[0].Health = "out_of_data" }), want: grown{state.ExtendPool, 10 * gib}},
		"nothing in a failed one": {vg: edit(filled(90, 10, gib), func(vg *lvm.VG) { vg.LVs[0].Health = "failed" })},
		"nor before a check":      {vg: edit(filled(90, 90, gib), func(vg *lvm.VG) { vg.LVs[0].CheckNeeded = true })},
	}
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: config})
	for name, tt := range tests {
		if a := thinpool.Action(config, none, &tt.vg); a.Kind != tt.want.kind || sizeOf(a) != tt.want.size {
			t.Errorf("%s: got %s %d, want %s %d", name, a.Kind, sizeOf(a), tt.want.kind, tt.want.size)
		}
		problems := thinpool.CannotGrow(d, &tt.vg, tt.vg.ThinPool("pool"))
		wantProblem(t, name, problems, tt.says)
	}
	if a := thinpool.Action(&v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90}, state.NodeState{},
		&[]lvm.VG{filled(99, 99, 0)}[0]); a.Kind != state.Nothing {
		t.Errorf("a pool without autoExtend grows: %+v", a)
	}
}

func TestDiscardsFollowTheSpec(t *testing.T) {
	for name, tt := range map[string]struct {
		mode v1alpha1.DiscardMode
		pool func(*lvm.LV)
		has  string
		want string
		says string
	}{
		"not set":          {has: "passdown"},
		"not set, ignored": {has: "ignore"},
		"has it":           {mode: v1alpha1.DiscardsPassDown, has: "passdown"},
		"passed down":      {mode: v1alpha1.DiscardsPassDown, has: "nopassdown", want: "passdown"},
		"not passed down":  {mode: v1alpha1.DiscardsNoPassDown, has: "passdown", want: "nopassdown"},
		"ignored": {mode: v1alpha1.DiscardsPassDown, has: "ignore",
			says: "vgchange --activate n vg1 && lvchange --discards passdown vg1/pool"},
		"nothing in a failed": {mode: v1alpha1.DiscardsPassDown, has: "nopassdown",
			pool: func(lv *lvm.LV) { lv.Health = "failed" }},
	} {
		config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, Discards: tt.mode}
		vg := edit(withPool(group("b"), "a"), func(vg *lvm.VG) {
			vg.LVs[0].Discards = tt.has
			if tt.pool != nil {
				tt.pool(&vg.LVs[0])
			}
		})
		a := thinpool.Action(config, state.NodeState{}, &vg)
		discards, _ := a.Change.(lvm.ThinPoolSetDiscards)
		if discards.Mode != tt.want || (a.Kind == state.SetDiscards) != (tt.want != "") {
			t.Errorf("%s: got %+v", name, a)
		}
		problems := thinpool.IgnoresDiscards(testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: config}),
			vg.ThinPool("pool"))
		if len(problems) > 0 != (tt.says != "") ||
			len(problems) > 0 && !strings.Contains(problems[0].Message, tt.says) {
			t.Errorf("%s: got %+v", name, problems)
		}
	}
	config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, Discards: v1alpha1.DiscardsNoPassDown}
	if got := thinpool.Options(config, disksOf(1000)).Discards; got != lvm.DiscardsNoPassDown {
		t.Errorf("a new pool gets %q", got)
	}
}

func TestMetadataFollowsTheSpec(t *testing.T) {
	const mib = lvm.Bytes(1 << 20)
	of := func(policy v1alpha1.SizeCalculationPolicy, size string) *v1alpha1.ThinPoolConfig {
		config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, MetadataSizeCalculationPolicy: policy}
		if size != "" {
			config.MetadataSize = ptr.To(resource.MustParse(size))
		}
		return config
	}
	// with returns a pool with 4 MiB of metadata, in a group with this free space.
	with := func(free lvm.Bytes) lvm.VG {
		return edit(withPool(group("b"), "a"), func(vg *lvm.VG) {
			vg.Free = free
			vg.PVs[0].Free = free
		})
	}
	tests := map[string]struct {
		config *v1alpha1.ThinPoolConfig
		free   lvm.Bytes
		want   grown
		says   string
	}{
		"left to LVM": {config: of(v1alpha1.SizeCalculationHost, ""), free: gib},
		"has it":      {config: of(v1alpha1.SizeCalculationStatic, "4Mi"), free: gib},
		"has more":    {config: of(v1alpha1.SizeCalculationStatic, "2Mi"), free: gib},
		"up to an extent": {config: of(v1alpha1.SizeCalculationStatic, "5Mi"), free: 900 * mib,
			want: grown{state.ExtendMeta, 4 * mib}},
		"more": {config: of(v1alpha1.SizeCalculationStatic, "100Mi"), free: 900 * mib,
			want: grown{state.ExtendMeta, 96 * mib}},
		"the default": {config: of(v1alpha1.SizeCalculationStatic, ""), free: gib,
			want: grown{state.ExtendMeta, 1020 * mib}},
		"beyond what LVM gives": {config: of(v1alpha1.SizeCalculationStatic, "16Gi"), free: 20 * gib,
			want: grown{state.ExtendMeta, thinpool.MaxPoolMetadata/(4*mib)*(4*mib) - 4*mib}},
		"all or nothing": {config: of(v1alpha1.SizeCalculationStatic, "100Mi"), free: 92 * mib,
			says: "has 4Mi, metadataSize requires 96Mi more, and volume group vg1 has no free space"},
	}
	for name, tt := range tests {
		vg := with(tt.free)
		if a := thinpool.Action(tt.config, none, &vg); a.Kind != tt.want.kind || sizeOf(a) != tt.want.size {
			t.Errorf("%s: got %s %d, want %s %d", name, a.Kind, sizeOf(a), tt.want.kind, tt.want.size)
		}
		problems := thinpool.CannotGrow(testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: tt.config}), &vg,
			vg.ThinPool("pool"))
		wantProblem(t, name, problems, tt.says)
	}
}

// wantProblem checks that there is one problem with a text. If the text is empty, there must be none.
func wantProblem(t *testing.T, name string, problems []state.Problem, says string) {
	t.Helper()
	if (says == "") != (len(problems) == 0) || len(problems) > 1 {
		t.Fatalf("%s: got the problems %+v, want %q", name, problems, says)
	}
	for _, p := range problems {
		expect.Contains(t, name, p.Message, says)
	}
}

// grown is the kind of an action that extends a pool, and its size (sizeOf).
type grown struct {
	kind state.Kind
	size lvm.Bytes
}

// sizeOf returns the size of an extension: the new one of the data, or what is added to the metadata.
func sizeOf(a state.Action) lvm.Bytes {
	switch change := a.Change.(type) {
	case lvm.LVExtend:
		return change.Size
	case lvm.ThinPoolMetadataExtend:
		return change.Add
	}
	return 0
}
