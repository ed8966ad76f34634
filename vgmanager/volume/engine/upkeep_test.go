package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestWrongs(t *testing.T) {
	percent := func(p float64) *float64 { return &p }
	for name, test := range map[string]struct {
		lv   lvm.LV
		pvs  []lvm.PV
		pool *lvm.ThinPool
		says []string
		// damaged: the volume is not trimmed.
		damaged bool
	}{
		"well": {},
		"well, in a pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", DataPercent: percent(94.9),
			MetadataPercent: percent(3)}}},
		"partial": {lv: lvm.LV{Health: "partial", PVs: []string{"u1"}},
			pvs: []lvm.PV{{UUID: "u1", Missing: true}}, says: []string{"u1 is missing", "vg/a is partial"},
			damaged: true},
		"another disk": {lv: lvm.LV{PVs: []string{"u2"}}, pvs: []lvm.PV{{UUID: "u1", Missing: true}, {UUID: "u2"}}},
		"full pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", DataPercent: percent(95),
			MetadataPercent: percent(100)}}, says: []string{"data of thin pool vg/pool is at least 95%",
			"metadata of thin pool vg/pool is at least 95%"}},
		"broken pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", Health: "metadata_read_only"}},
			says: []string{"vg/pool is broken: metadata_read_only"}, damaged: true},
		"pool without space": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", Health: "out_of_data"}},
			says: []string{"vg/pool is broken: out_of_data"}},
		"unchecked pool without space": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", Health: "out_of_data",
			CheckNeeded: true}}, says: []string{"vg/pool is broken: out_of_data"}, damaged: true},
		"unchecked pool": {pool: &lvm.ThinPool{LV: lvm.LV{Name: "pool", CheckNeeded: true}},
			says: []string{"check needed"}, damaged: true},
	} {
		t.Run(name, func(t *testing.T) {
			test.lv.Name = "a"
			l := classView{vg: &lvm.VG{Name: "vg", LVs: []lvm.LV{test.lv}, PVs: test.pvs}, pool: test.pool}
			l.now(t.Context(), nil)
			if damaged := l.isDamaged(&l.vg.LVs[0]); damaged != test.damaged {
				t.Errorf("damaged: got %t", damaged)
			}
			got := l.wrongs(&l.vg.LVs[0])
			if len(got) != len(test.says) {
				t.Fatalf("got %q, want %q", got, test.says)
			}
			for _, s := range test.says {
				if !strings.Contains(strings.Join(got, "; "), s) {
					t.Errorf("got %q, want %q", got, s)
				}
			}
		})
	}
}

func TestUpkeep(t *testing.T) {
	e, _ := newEngine(t)
	ctx := t.Context()
	if _, err := e.CreateLV(ctx, &proto.CreateLVRequest{Name: "a", DeviceClass: "thin",
		SizeBytes: 8 << 20}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.TagLV(ctx, "thin", "a", []string{"lvms.formatted=xfs"}, []string{"gone"}); err != nil {
			t.Fatal(err)
		}
		if err := e.ActivateLV(ctx, "thin", "a"); err != nil {
			t.Fatal(err)
		}
	}
	list, err := e.GetLVList(ctx, &proto.GetLVListRequest{DeviceClass: "thin"})
	if err != nil || len(list.Volumes) != 1 || !slices.Equal(list.Volumes[0].Tags, []string{"lvms.formatted=xfs"}) {
		t.Errorf("got %+v, %v", list, err)
	}
	if wrong, err := e.Condition(ctx, "thin", "a"); wrong != "" || err != nil {
		t.Errorf("got %q, %v", wrong, err)
	}
	_, conditionErr := e.Condition(ctx, "thin", "b")
	_, classErr := e.Condition(ctx, "none", "a")
	for what, err := range map[string]error{
		"tag": e.TagLV(ctx, "thin", "b", []string{"x"}, nil), "activate": e.ActivateLV(ctx, "thin", "b"),
		"condition": conditionErr, "class": classErr,
	} {
		if status.Code(err) != codes.NotFound {
			t.Errorf("%s of what is not there: %v", what, err)
		}
	}
	if err := e.TagLV(ctx, "thin", "-x", nil, nil); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a name that would be an option: %v", err)
	}
}
