package move

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// volumeOn returns a volume of the thin device class on a node.
func volumeOn(node, claim, size string) topolvmv1.LogicalVolume {
	lv := moveVolume(strings.ReplaceAll(claim, "/", "-"), claim, "thin", size)
	lv.Spec.NodeName = node
	return *lv
}

func TestBalance(t *testing.T) {
	snapshot := volumeOn("worker-1", "shop/snapshot", "60Gi")
	snapshot.Spec.AccessType = "ro"
	copied := volumeOn("worker-1", "shop/copied", "60Gi")
	copied.Annotations[wellknown.MoveAnnotation] = "move"
	deleted := volumeOn("worker-1", "shop/deleted", "60Gi")
	deleted.DeletionTimestamp = &metav1.Time{}
	*deleted.DeletionTimestamp = metav1.Now()
	moving := v1alpha1.VolumeMove{Spec: v1alpha1.VolumeMoveSpec{
		Claim: v1alpha1.VolumeMoveClaim{Namespace: "shop", Name: "a"}}}
	for name, tt := range map[string]struct {
		volumes []topolvmv1.LogicalVolume
		nodes   map[string]string // the free capacity
		moves   []v1alpha1.VolumeMove
		want    []string
		after   []float64
	}{
		"one node is full": {
			volumes: []topolvmv1.LogicalVolume{volumeOn("worker-1", "shop/a", "40Gi"), volumeOn("worker-1", "shop/b", "30Gi"),
				volumeOn("worker-1", "shop/c", "10Gi")},
			nodes: map[string]string{"worker-1": "10Gi", "worker-2": "100Gi"},
			want:  []string{"shop/a worker-1 worker-2"}, after: []float64{40, 40}},
		"three nodes": {
			volumes: []topolvmv1.LogicalVolume{volumeOn("worker-1", "shop/a", "30Gi"), volumeOn("worker-1", "shop/b", "30Gi"),
				volumeOn("worker-1", "shop/c", "30Gi")},
			nodes: map[string]string{"worker-1": "10Gi", "worker-2": "100Gi", "worker-3": "100Gi"},
			want:  []string{"shop/a worker-1 worker-2", "shop/b worker-1 worker-3"}, after: []float64{30, 30, 30}},
		"the nodes are even": {
			volumes: []topolvmv1.LogicalVolume{volumeOn("worker-1", "shop/a", "10Gi"), volumeOn("worker-2", "shop/b", "8Gi")},
			nodes:   map[string]string{"worker-1": "90Gi", "worker-2": "92Gi"}, after: []float64{10, 8}},
		"a single volume is not moved back and forth": {
			volumes: []topolvmv1.LogicalVolume{volumeOn("worker-1", "shop/a", "50Gi")},
			nodes:   map[string]string{"worker-1": "50Gi", "worker-2": "100Gi"}, after: []float64{50, 0}},
		"there is no room": {
			volumes: []topolvmv1.LogicalVolume{volumeOn("worker-1", "shop/a", "40Gi"), volumeOn("worker-1", "shop/b", "40Gi")},
			nodes:   map[string]string{"worker-1": "10Gi", "worker-2": "39Gi"}, after: []float64{80, 0}},
		"what cannot be moved": {
			volumes: []topolvmv1.LogicalVolume{snapshot, copied, deleted},
			nodes:   map[string]string{"worker-1": "0", "worker-2": "100Gi"}, after: []float64{180, 0}},
		"what is being moved": {
			volumes: []topolvmv1.LogicalVolume{volumeOn("worker-1", "shop/a", "40Gi"), volumeOn("worker-1", "shop/b", "30Gi")},
			nodes:   map[string]string{"worker-1": "30Gi", "worker-2": "100Gi"},
			moves:   []v1alpha1.VolumeMove{moving}, want: []string{"shop/b worker-1 worker-2"}, after: []float64{40, 30}},
		"one node":  {nodes: map[string]string{"worker-1": "100Gi"}, after: []float64{0}},
		"no volume": {nodes: map[string]string{"worker-1": "100Gi", "worker-2": "100Gi"}, after: []float64{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var statuses []v1alpha1.LVMVolumeGroupNodeStatus
			for node, free := range tt.nodes {
				statuses = append(statuses, *poolOn(node, free))
			}
			report := newBalance(clusterWithClasses(), tt.volumes, statuses, tt.moves)
			var got []string
			for _, m := range report.Moves {
				got = append(got, m.Claim+" "+m.From+" "+m.To)
			}
			if !slices.Equal(got, tt.want) {
				t.Error(cmp.Diff(tt.want, got))
			}
			var after []float64
			for _, n := range report.Nodes {
				after = append(after, n.After)
			}
			if !slices.Equal(after, tt.after) {
				t.Errorf("after the moves %v, want %v", after, tt.after)
			}
		})
	}
}

// TestBalanceReport: balance moves nothing.
func TestBalanceReport(t *testing.T) {
	c := clientOf(clusterWithClasses(), poolOn("worker-1", "10Gi"), poolOn("worker-2", "100Gi"),
		moveVolume("pvc-1", "shop/a", "thin", "40Gi"), moveVolume("pvc-2", "shop/b", "thin", "40Gi"))
	got := plugin.Run(t, c, "balance")
	if got.Code != 0 || !strings.Contains(got.Out, "shop/a") || !strings.Contains(got.Out, "80%") ||
		!strings.Contains(got.Out, "40%") {
		t.Errorf("got %+v", got)
	}
	var report BalanceReport
	asJSON := plugin.Run(t, c, "balance", "-o", "json")
	if err := json.Unmarshal([]byte(asJSON.Out), &report); err != nil || len(report.Moves) != 1 ||
		len(report.Nodes) != 2 || report.Nodes[0].Provisioned != 80<<30 {
		t.Errorf("%v: %+v", err, report)
	}
	if len(movesIn(t, c)) != 0 {
		t.Error("something is moved")
	}
	even := plugin.Run(t, clientOf(clusterWithClasses(), poolOn("worker-1", "100Gi")), "balance")
	if even.Code != 0 || !strings.Contains(even.Out, "No move would even out the nodes") {
		t.Errorf("got %+v", even)
	}
	if none := plugin.Run(t, clientOf(), "balance"); none.Code == 0 || !strings.Contains(none.Err, "no LVMCluster") {
		t.Errorf("without a cluster: %+v", none)
	}
}
