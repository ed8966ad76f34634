package supply

import (
	"context"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Neighbors returns the nodes that have volumes of other claims of the spread group of a volume, with a description of
// one of these volumes. live reads from the API server.
func Neighbors(ctx context.Context, live client.Reader, of *topolvmv1.LogicalVolume,
	spread view.Spread) (map[string]string, error) {
	nodes := map[string]string{}
	err := paging.Each(ctx, live, &topolvmv1.LogicalVolumeList{}, func(page *topolvmv1.LogicalVolumeList) {
		for i := range page.Items {
			AddNeighbor(nodes, &page.Items[i], of, spread)
		}
	}, client.MatchingLabels{wellknown.SpreadGroupHashLabel: spread.GroupHash()})
	if err != nil {
		return nil, fmt.Errorf("find the volumes of spread group %s: %w", spread.Group, err)
	}
	return nodes, nil
}

// AddNeighbor adds the node of a LogicalVolume to nodes, with a description of the volume, if it is a volume of another
// claim of the spread group of a volume, and is not being deleted.
func AddNeighbor(nodes map[string]string, lv, of *topolvmv1.LogicalVolume, spread view.Spread) {
	claim := view.Claim(lv)
	if lv.Name != of.Name && lv.DeletionTimestamp.IsZero() && view.SpreadOf(lv).Group == spread.Group &&
		claim != view.Claim(of) {
		nodes[lv.Spec.NodeName] = fmt.Sprintf("volume %s of claim %s", lv.Name, claim)
	}
}
