package move

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// TestEvacuationPlans checks the plans in testdata/evacuation.json. The console is tested with the same plans:
// console-plugin/web/src/model/evacuation.test.ts.
func TestEvacuationPlans(t *testing.T) {
	data, err := os.ReadFile("testdata/evacuation.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Node string
		Rate       int64
		Cluster    v1alpha1.LVMCluster
		Volumes    []topolvmv1.LogicalVolume
		Statuses   []v1alpha1.LVMVolumeGroupNodeStatus
		Moves      []v1alpha1.VolumeMove
		Text       []string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 6 {
		t.Fatalf("got %d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			plan := newEvacuation(c.Node, &c.Cluster, c.Volumes, c.Statuses, c.Moves)
			got := strings.Split(strings.TrimSuffix(plan.text(c.Rate), "\n"), "\n")
			if diff := cmp.Diff(c.Text, got); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}
