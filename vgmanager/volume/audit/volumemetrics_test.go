package audit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

func percent(p float64) *float64 { return &p }

func TestVolumesHaveMetricsWithTheirClaims(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	a.MaxVolumes = 10
	w.must(a.measure(t.Context(), []engine.VolumeState{
		{Class: "thin", Name: "a", Size: 1 << 30, DataPercent: percent(25),
			Tags: []string{wellknown.VolumeClaimTagPrefix + "shop/orders"}},
		{Class: "thick", Name: "b", Size: 2 << 30, ReadOnly: true},
	}, nil))
	for metric, want := range map[string]int{"lvms_volume_size_bytes": 2, "lvms_volume_data_percent": 1,
		"lvms_volume_read_only": 2} {
		if n := testutil.CollectAndCount(a, metric); n != want {
			t.Errorf("%d series of %s, want %d", n, metric, want)
		}
	}
	for _, v := range a.volumes {
		got := fmt.Sprint(v.class, " ", v.name, " ", v.namespace, "/", v.claim, " ", v.size, " ", v.held(),
			" ", v.readOnly)
		if !slices.Contains([]string{"thin a shop/orders 1073741824 2.68435456e+08 false",
			"thick b / 2147483648 2.147483648e+09 true"}, got) {
			t.Errorf("got %s", got)
		}
	}
	if problems, err := testutil.CollectAndLint(a); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestOnlyTheVolumesThatHoldMostHaveMetrics(t *testing.T) {
	volumes := []engine.VolumeState{
		{Class: "thin", Name: "large but empty", Size: 1000, DataPercent: percent(1)},
		{Class: "thin", Name: "small and full", Size: 100, DataPercent: percent(100)},
		{Class: "thick", Name: "thick", Size: 50}, {Class: "thin", Name: "inactive", Size: 40},
	}
	for most, want := range map[int][]string{0: {}, 1: {"small and full"}, 3: {"small and full", "thick", "inactive"}} {
		count, list := newVolumeMetrics(volumes, most)
		if count["thin"] != 3 || count["thick"] != 1 {
			t.Errorf("got %v", count)
		}
		names := []string{}
		for _, v := range list {
			names = append(names, v.name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%d: got %q, want %q", most, names, want)
		}
	}
}
