package placement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// neighbor creates a LogicalVolume on a node whose annotation is spread, with the label of the group ns/web.
func neighbor(t *testing.T, api client.Client, node, claim, spread string) *topolvmv1.LogicalVolume {
	t.Helper()
	lv := volumespec.New("pvc-on-"+node, 1<<20, claim)
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.SpreadAnnotation, spread)
	lv.Labels = map[string]string{wellknown.SpreadGroupHashLabel: view.Spread{Group: "ns/web"}.GroupHash()}
	lv.Spec.NodeName = node
	lv.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
	if err := api.Create(t.Context(), lv); err != nil {
		t.Fatal(err)
	}
	return lv
}

func TestNeighbors(t *testing.T) {
	api := memory.Builder().Build()
	p := &Placer{Volumes: objects.New(objects.Options{Live: api})}
	neighbor(t, api, "same", "ns/a", "node:required:ns/web")
	neighbor(t, api, "other", "ns/b", "node:required:ns/web")
	neighbor(t, api, "device", "ns/c", "device:preferred:ns/web")
	neighbor(t, api, "collision", "ns/d", "node:required:ns/db")
	neighbor(t, api, "damaged", "ns/e", "required:ns/web")
	if err := api.Delete(t.Context(), neighbor(t, api, "deleted", "ns/f", "node:required:ns/web")); err != nil {
		t.Fatal(err)
	}
	own := neighbor(t, api, "own", "ns/g", "node:required:ns/web")
	desired := volumespec.New(own.Name, 1<<20, "ns/a")
	for node, claim := range map[string]string{"placed": "ns/h", "placed-too": "ns/a"} {
		lv := volumespec.New("pvc-of-"+node, 1<<20, claim)
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.SpreadAnnotation, "node:preferred:ns/web")
		lv.Spec.NodeName = node
		p.placed.Store(lv.Name, lv)
	}
	for scope, want := range map[string][]string{wellknown.SpreadNode: {"device", "other", "placed"}, wellknown.SpreadDevice: nil} {
		others, err := p.neighborsOf(t.Context(), desired, view.Spread{Group: "ns/web", Scope: scope,
			Policy: wellknown.SpreadRequired})
		if got := slices.Sorted(maps.Keys(others.nodes)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v", scope, got, err)
		}
	}
}

func TestLongListsOfNeighborsAreCut(t *testing.T) {
	others := neighbors{spread: view.Spread{Group: "ns/web"}, nodes: map[string]string{}}
	for i := range 11 {
		others.nodes[fmt.Sprintf("node%02d", i)] = "x"
	}
	if got := others.excluded(); !strings.Contains(got, "node07 has x; and 3 more") || strings.Contains(got, "node08") {
		t.Errorf("got %s", got)
	}
}

func TestALockOfAGroupThatIsNotReleased(t *testing.T) {
	g := &groupLocks{}
	if err := g.enter(t.Context(), "ns/web"); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.enter(ended, "ns/web"); status.Code(err) != codes.Aborted {
		t.Errorf("the same group: got %v", err)
	}
	if err := g.enter(t.Context(), "ns/db"); err != nil {
		t.Error(err)
	}
	g.leave("ns/db")
	g.leave("ns/web")
	if len(g.open) > 0 {
		t.Errorf("locks are left: %v", g.open)
	}
}
