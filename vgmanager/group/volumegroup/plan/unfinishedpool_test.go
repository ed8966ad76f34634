package plan

import (
	"errors"
	"slices"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestWhatAKilledCreationOfAPoolLeavesIsRemoved: only from a group that this product made and whose pool was never
// complete, and only volumes that the creation of a pool makes.
func TestWhatAKilledCreationOfAPoolLeavesIsRemoved(t *testing.T) {
	config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90}
	lv := func(name, attr string, tags ...string) lvm.LV {
		return lvm.LV{Name: name, UUID: name, Attr: lvm.LVAttr(attr), Size: 4 << 20, Tags: tags}
	}
	pool := lv("pool", "twi-aotz--")
	tests := map[string]struct {
		lvs     []lvm.LV
		noTag   bool
		kind    state.Kind
		removes []string
	}{
		"nothing":                  {},
		"the spare":                {lvs: []lvm.LV{lv("lvol0", "-wi-a-----")}, removes: []string{"lvol0"}},
		"the spare, inactive":      {lvs: []lvm.LV{lv("lvol12", "-wi-------")}, removes: []string{"lvol12"}},
		"the metadata":             {lvs: []lvm.LV{lv("pool", "-wi-a-----")}, removes: []string{"pool"}},
		"a volume beside the pool": {lvs: []lvm.LV{lv("lvol0", "-wi-a-----"), pool}, kind: state.TagVG},
		"both": {lvs: []lvm.LV{lv("lvol0", "-wi-a-----"), lv("pool", "-wi-------")},
			removes: []string{"lvol0", "pool"}},
		"the complete pool":               {lvs: []lvm.LV{pool}, kind: state.TagVG},
		"a group of an old agent":         {lvs: []lvm.LV{lv("lvol0", "-wi-a-----")}, noTag: true},
		"a complete pool of an old agent": {lvs: []lvm.LV{pool}, noTag: true},
		"a volume in use":                 {lvs: []lvm.LV{lv("lvol0", "-wi-ao----")}},
		"a volume with a tag":             {lvs: []lvm.LV{lv("lvol0", "-wi-a-----", "mine")}},
		"a volume with a name":            {lvs: []lvm.LV{lv("data", "-wi-a-----"), lv("lvol", "-wi-a-----")}},
		"a mirror":                        {lvs: []lvm.LV{lv("lvol0", "rwi-a-r---")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			vg := group("a")
			vg.LVs = test.lvs
			if !test.noTag {
				vg.Tags = append(vg.Tags, wellknown.NoPoolTag)
			}
			got := thinpool.Unfinished(config, state.NodeState{}, &vg)
			if len(test.removes) > 0 {
				change, ok := got.Change.(lvm.LVRemoveUnfinished)
				if !ok || got.Kind != state.RemoveUnfinished || !slices.Equal(change.Names, test.removes) {
					t.Errorf("got %+v, want the removal of %v", got, test.removes)
				}
				return
			}
			if got.Kind != test.kind {
				t.Errorf("got %+v, want %q", got, test.kind)
			}
		})
	}
}

// TestAVolumeIsNotTakenForAStepWhileThePoolCannotBeCreated: the tag is removed after the first failure, and not added
// again.
func TestAVolumeIsNotTakenForAStepWhileThePoolCannotBeCreated(t *testing.T) {
	config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90}
	s := state.NodeState{}
	s.Records.Failures = []state.Failure{{Kind: state.CreatePool, Err: errors.New("no thin-pool target")}}
	vg := group("a")
	vg.Tags = append(vg.Tags, wellknown.NoPoolTag)
	vg.LVs = []lvm.LV{{Name: "lvol0", Attr: "-wi-a-----"}}
	change, ok := thinpool.Unfinished(config, s, &vg).Change.(lvm.VGChangeTags)
	if !ok || !slices.Equal(change.Remove, []string{wellknown.NoPoolTag}) {
		t.Errorf("got %+v, want the removal of the tag", change)
	}
	untagged := group("a")
	if got := thinpool.Action(config, s, &untagged); got.Kind != state.CreatePool {
		t.Errorf("got %+v, want the creation without the tag", got)
	}
}

// TestTheRemovalOfWhatIsUnfinishedLooksAgain: at what LVM says when the command starts.
func TestTheRemovalOfWhatIsUnfinishedLooksAgain(t *testing.T) {
	change := lvm.LVRemoveUnfinished{VG: "vg1", Tag: wellknown.NoPoolTag, Names: []string{"lvol0"}}
	for name, test := range map[string]struct {
		change func(*lvm.VG)
		want   error
	}{
		"unchanged":        {func(*lvm.VG) {}, nil},
		"without the tag":  {func(vg *lvm.VG) { vg.Tags = nil }, lvm.ErrInvalid},
		"in use":           {func(vg *lvm.VG) { vg.LVs[0].Attr = "-wi-ao----" }, lvm.ErrInvalid},
		"a tag":            {func(vg *lvm.VG) { vg.LVs[0].Tags = []string{"mine"} }, lvm.ErrInvalid},
		"a pool meanwhile": {func(vg *lvm.VG) { vg.LVs[0].Attr = "twi-aotz--" }, lvm.ErrInvalid},
		"gone":             {func(vg *lvm.VG) { vg.LVs = nil }, lvm.ErrNotFound},
	} {
		vg := group("a")
		vg.Tags = append(vg.Tags, wellknown.NoPoolTag)
		vg.LVs = []lvm.LV{{Name: "lvol0", Attr: "-wi-a-----"}}
		test.change(&vg)
		if err := change.Command().Check(&vg); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// TestAnUnfinishedPoolIsNotReported: the agent removes what is left, so there is nothing to do for anybody.
func TestAnUnfinishedPoolIsNotReported(t *testing.T) {
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90}})
	vg := group("a")
	vg.LVs = []lvm.LV{{Name: "pool", Attr: "-wi-a-----"}}
	if got := thinpool.Problems(d, state.NodeState{}, &vg); len(got) != 1 {
		t.Errorf("a volume of somebody else has the name of the pool: got %+v", got)
	}
	vg.Tags = append(vg.Tags, wellknown.NoPoolTag)
	if got := thinpool.Problems(d, state.NodeState{}, &vg); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}
