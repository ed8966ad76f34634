package clusterobjects

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// peersPage is the number of node statuses that are read at a time: each can have 256 KiB.
const peersPage = 20

// ReadPeers reads what the node statuses in a namespace list about the devices of a node, from the API server. It first
// reads that of the node itself: see state.Peers. An error means that it is not known which disks other nodes see.
func ReadPeers(ctx context.Context, live client.Reader, namespace, node string, now func() time.Time,
	devices []device.Device) (*state.Peers, error) {
	own := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: node}, own); err != nil {
		return nil, fmt.Errorf("no new device of node %s is used: read node status %s, with which other nodes compare "+
			"their disks: %w", node, node, err)
	}
	peers := state.NewPeers(devices, own)
	err := paging.Each(ctx, live, &v1alpha1.LVMVolumeGroupNodeStatusList{},
		func(page *v1alpha1.LVMVolumeGroupNodeStatusList) {
			for i := range page.Items {
				if page.Items[i].Name != node {
					peers.Add(&page.Items[i], now())
				}
			}
		}, client.InNamespace(namespace), client.Limit(peersPage))
	if err != nil {
		return nil, fmt.Errorf("no new device of node %s is used: compare its disks with those of other nodes: %w",
			node, err)
	}
	return peers, nil
}

// ListedDisks returns the identities and WWNs of the devices in a node status.
func ListedDisks(status *v1alpha1.LVMVolumeGroupNodeStatus) []string {
	var list []string
	for _, d := range status.Status.Devices {
		if d.State != v1alpha1.DeviceMissing {
			list = append(list, d.ID+" "+d.WWN)
		}
	}
	slices.Sort(list)
	return list
}
