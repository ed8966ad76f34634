package volumegroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

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
		seen Seen
		want string
		says []string
	}{
		"volumes are waited for": {
			spec: thin, seen: Seen{Report: report(withPool(group("b"), "pvc-2", "pvc-1")), Class: thinDone},
			want: "Progressing", says: []string{"not removed while it has logical volumes: pvc-1, pvc-2", "PersistentVolumeClaims"},
		},
		"volumes can be deleted only while the class is there": {
			spec: thin, seen: Seen{Report: report(withPool(group("b"), "pvc-1"))},
			want: "Progressing PublishClass", says: []string{"pvc-1"},
		},
		"a volume of somebody else is waited for": {
			seen: Seen{Report: report(edit(group("b"), func(vg *lvm.VG) { vg.LVs = []lvm.LV{{Name: "backup", Attr: "-wi-a-----"}} })), Class: thickDone},
			want: "Progressing", says: []string{"backup"},
		},
		"first the class":                          {spec: thin, seen: Seen{Report: report(withPool(group("b"))), Class: thinDone}, want: "Progressing WithdrawClass"},
		"then the pool":                            {spec: thin, seen: Seen{Report: report(withPool(group("b")))}, want: "Progressing RemoveThinPool"},
		"then the group":                           {spec: thin, seen: Seen{Report: report(group("b", "c"))}, want: "Progressing RemoveVolumeGroup /dev/sdb /dev/sdc"},
		"then the labels it left":                  {spec: thin, seen: Seen{Report: &lvm.Report{Unassigned: loose("b", "c", "d")}, Released: []string{"pv-b", "pv-c"}}, want: "Progressing RemovePhysicalVolumes /dev/sdb /dev/sdc"},
		"labels of others stay":                    {seen: Seen{Report: &lvm.Report{Unassigned: loose("d")}, Released: []string{"pv-b"}}, want: "finished"},
		"a label in another group":                 {seen: Seen{Report: report(edit(group("b"), func(vg *lvm.VG) { vg.Name = "other" })), Released: []string{"pv-b"}}, want: "finished"},
		"nothing is left":                          {spec: thin, seen: Seen{Report: report()}, want: "finished"},
		"only the class is left":                   {spec: thin, seen: Seen{Report: report(), Class: thinDone}, want: "Progressing WithdrawClass"},
		"a group without the tag is left as it is": {spec: thin, seen: Seen{Report: report(foreignGroup)}, want: "finished"},
		"but not its class":                        {spec: thin, seen: Seen{Report: report(foreignGroup), Class: thinDone}, want: "Progressing WithdrawClass"},
		"a disk is missing": {
			seen: Seen{Report: report(edit(group("b", "c"), lost)), Class: thickDone},
			want: "Degraded", says: []string{"vgreduce --removemissing"},
		},
	}
	for name, tt := range tests {
		p := NewPlan(Wanted{Name: "vg1", Node: "n1", Spec: tt.spec, Deleting: true}, tt.seen)
		checkPlan(t, name, p, tt.want, tt.says)
	}
}

func TestClassKeepsWhatTheSpecDoesNotKnow(t *testing.T) {
	present := thickPublished()
	present.LVCreateOptions = []string{"--type", "raid1"}
	w := Wanted{Name: "vg1", Node: "n1"}
	if got := classOf(w, present); !cmp.Equal(got.LVCreateOptions, present.LVCreateOptions) {
		t.Errorf("got %v", got)
	}
	if a := publication(w, Seen{Class: present}); a.Kind != Nothing {
		t.Errorf("an unchanged class is published: %v", a)
	}
}

func TestPoolOptions(t *testing.T) {
	chunk, metadata := resource.MustParse("256Ki"), resource.MustParse("2Gi")
	tests := map[string]struct {
		config v1alpha1.ThinPoolConfig
		want   lvm.ThinPoolOptions
	}{
		"defaults": {v1alpha1.ThinPoolConfig{}, lvm.ThinPoolOptions{ChunkSize: 128 << 10}},
		"static without sizes": {
			v1alpha1.ThinPoolConfig{ChunkSizeCalculationPolicy: "Static", MetadataSizeCalculationPolicy: "Static"},
			lvm.ThinPoolOptions{ChunkSize: 128 << 10, MetadataSize: 1 << 30},
		},
		"static with sizes": {
			v1alpha1.ThinPoolConfig{ChunkSizeCalculationPolicy: "Static", ChunkSize: &chunk, MetadataSizeCalculationPolicy: "Static", MetadataSize: &metadata},
			lvm.ThinPoolOptions{ChunkSize: 256 << 10, MetadataSize: 2 << 30},
		},
		"host": {v1alpha1.ThinPoolConfig{ChunkSizeCalculationPolicy: "Host", MetadataSizeCalculationPolicy: "Host"}, lvm.ThinPoolOptions{}},
	}
	for name, tt := range tests {
		tt.config.Name, tt.config.SizePercent = "pool", 90
		tt.want.VG, tt.want.Name, tt.want.PercentFree = "vg1", "pool", 90
		got := poolOptions(Wanted{Name: "vg1", Spec: v1alpha1.LVMVolumeGroupSpec{ThinPoolConfig: &tt.config}})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestGrownSize(t *testing.T) {
	config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90}
	hundred := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 100}
	tests := map[string]struct {
		config *v1alpha1.ThinPoolConfig
		vg     lvm.VG
		want   lvm.Bytes
	}{
		"as it was made":            {config, withPool(group("b")), 0},
		"the group doubled":         {config, edit(withPool(group("b")), func(vg *lvm.VG) { vg.Size, vg.Free = 20*gib, 11*gib }), 18*gib - 12<<20},
		"the group is nearly full":  {config, edit(withPool(group("b")), func(vg *lvm.VG) { vg.Size, vg.Free = 20*gib, gib }), 10 * gib},
		"the group is full":         {config, edit(withPool(group("b")), func(vg *lvm.VG) { vg.Size, vg.Free = 20*gib, 0 }), 0},
		"a pool of the whole group": {hundred, edit(withPool(group("b")), func(vg *lvm.VG) { vg.LVs[0].Size, vg.Free = 10*gib-8<<20, 0 }), 0},
		"a pool larger than wanted": {config, edit(withPool(group("b")), func(vg *lvm.VG) { vg.LVs[0].Size = 10 * gib; vg.Free = 0 }), 0},
		"a difference of rounding":  {config, edit(withPool(group("b")), func(vg *lvm.VG) { vg.LVs[0].Size -= 40 << 20; vg.Free += 40 << 20 }), 0},
	}
	for name, tt := range tests {
		got := grownSize(tt.config, &tt.vg, tt.vg.ThinPool("pool"))
		if got != tt.want {
			t.Errorf("%s: got %d, want %d", name, got, tt.want)
		}
	}
}
