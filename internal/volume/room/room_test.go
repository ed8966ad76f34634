package room

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

const gi = int64(1) << 30

// pool returns a thin pool of 100 GiB with a usage and room for copies in GiB. If copyFree is negative, it is the one
// of a node agent that does not report it.
func pool(percent int32, copyFree int64) *v1alpha1.ThinPoolStatus {
	p := &v1alpha1.ThinPoolStatus{Name: "pool", Size: *quantity(100 * gi), DataPercent: percent, MetadataPercent: 3,
		Free: quantity((100 - int64(percent)) * gi)}
	if copyFree >= 0 {
		p.CopyFree = quantity(copyFree * gi)
	}
	return p
}

// TestWhetherANodeHasRoom for a volume: it refuses it, it may have no room, or it has.
func TestWhetherANodeHasRoom(t *testing.T) {
	inactive := pool(0, -1)
	inactive.Free = nil
	for name, test := range map[string]struct {
		node            Node
		volume          Volume
		refuses, doubts string
	}{
		"thick":                        {Node{Free: 10 * gi}, Copy(10*gi, nil), "", ""},
		"thick, too small":             {Node{Free: 10*gi - 1}, Copy(10*gi, nil), "has 10737418239 free", ""},
		"negative":                     {Node{Free: -1}, Copy(gi, nil), "has 0 free", ""},
		"virtual size":                 {Node{Free: 9 * gi, Pool: pool(0, 90)}, Copy(10*gi, nil), "has 9Gi free", ""},
		"room for all of it":           {Node{Free: 90 * gi, Pool: pool(80, 10)}, Copy(10*gi, nil), "", ""},
		"room for the source's data":   {Node{Free: 900 * gi, Pool: pool(70, 20)}, Copy(500*gi, pool(20, 70)), "", ""},
		"maybe no room":                {Node{Free: 900 * gi, Pool: pool(70, 20)}, Copy(500*gi, pool(21, 69)), "", "has room for 20Gi of data in thin pool pool, and the volume has at most 21Gi"},
		"maybe no room, thick source":  {Node{Free: 900 * gi, Pool: pool(70, 20)}, Copy(30*gi, nil), "", "the volume has at most 30Gi"},
		"source of an old agent":       {Node{Free: 900 * gi, Pool: pool(70, 20)}, Copy(500*gi, pool(20, -1)), "", ""},
		"source that is not active":    {Node{Free: 900 * gi, Pool: pool(70, 20)}, Copy(500*gi, inactive), "", "the volume has at most 500Gi"},
		"target of an old agent":       {Node{Free: 900 * gi, Pool: pool(99, -1)}, Copy(500*gi, nil), "", ""},
		"full pool":                    {Node{Free: 900 * gi, Pool: pool(91, 0)}, Copy(gi, nil), "has the thin pool pool, which is too full for copies: its data is 91% full, and its metadata 3%", "has room for 0"},
		"full pool, empty volume":      {Node{Free: 900 * gi, Pool: pool(91, 0)}, Volume{Size: gi}, "", ""},
		"full pool, empty source pool": {Node{Free: 900 * gi, Pool: pool(91, 0)}, Copy(gi, pool(0, 90)), "", ""},
		"assigned before":              {Node{Free: 900 * gi, Pool: pool(70, 20), Assigned: 15 * gi}, Copy(6*gi, nil), "", "has at most 21Gi"},
		"assigned before, fits":        {Node{Free: 900 * gi, Pool: pool(70, 20), Assigned: 15 * gi}, Copy(5*gi, nil), "", ""},
		"the source has no more data":  {Node{Free: 900 * gi, Pool: pool(70, 20), Assigned: 90 * gi}, Copy(5*gi, pool(20, 9)), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				if got := test.node.Refusal(test.volume); got != test.refuses {
					t.Errorf("refuses: got %q, want %q", got, test.refuses)
				}
				if got := test.node.Doubt(test.volume); !strings.Contains(got, test.doubts) || (got == "") != (test.doubts == "") {
					t.Errorf("doubts: got %q, want %q", got, test.doubts)
				}
			}
		})
	}
}

// TestTheBestNode has room for all data, and then the most free capacity.
func TestTheBestNode(t *testing.T) {
	v := Copy(10*gi, nil)
	for name, test := range map[string]struct {
		nodes map[string]Node
		want  string
	}{
		"none":           {nil, ""},
		"too small":      {map[string]Node{"a": {Free: gi}}, ""},
		"most":           {map[string]Node{"a": {Free: 20 * gi}, "b": {Free: 30 * gi}}, "b"},
		"the same":       {map[string]Node{"b": {Free: 20 * gi}, "a": {Free: 20 * gi}}, "a"},
		"data":           {map[string]Node{"a": {Free: 20 * gi, Pool: pool(80, 10)}, "b": {Free: 90 * gi, Pool: pool(85, 5)}}, "a"},
		"not known":      {map[string]Node{"a": {Free: 20 * gi}, "b": {Free: 90 * gi, Pool: pool(85, 5)}}, "a"},
		"only doubtful":  {map[string]Node{"a": {Free: gi, Pool: pool(80, 10)}, "b": {Free: 90 * gi, Pool: pool(85, 5)}}, "b"},
		"only full ones": {map[string]Node{"a": {Free: 20 * gi, Pool: pool(90, 0)}}, ""},
	} {
		if got := Best(test.nodes, v); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestOutdatedPoolsAreNotKnown, and neither are those of other device classes.
func TestOutdatedPoolsAreNotKnown(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	status := func(name string, age time.Duration, group v1alpha1.VGStatus) v1alpha1.LVMVolumeGroupNodeStatus {
		s := v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Status.LastObserved = &metav1.Time{Time: now.Add(-age)}
		s.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "other", ThinPool: pool(1, 1)}, group}
		return s
	}
	pools := Pools([]v1alpha1.LVMVolumeGroupNodeStatus{
		status("new", v1alpha1.ObservationLimit, v1alpha1.VGStatus{Name: "thin", ThinPool: pool(5, 5)}),
		status("old", v1alpha1.ObservationLimit+1, v1alpha1.VGStatus{Name: "thin", ThinPool: pool(5, 5)}),
		status("none", 0, v1alpha1.VGStatus{Name: "thin"}),
		status("without", 0, v1alpha1.VGStatus{Name: "different"}),
	}, "thin", now)
	if len(pools) != 1 || pools["new"] == nil || pools["new"].CopyFree.Cmp(resource.MustParse("5Gi")) != 0 {
		t.Errorf("got %v", pools)
	}
}
