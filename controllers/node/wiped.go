package node

import (
	"context"
	"encoding/json"
	"slices"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
)

// +kubebuilder:rbac:groups="",resources=configmaps,namespace=openshift-lvm-storage,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=lvms-wiped-devices,namespace=openshift-lvm-storage,verbs=get;update;delete

// keepRecords saves the wiped devices of a node that no longer exists before its node status is deleted. If the node is
// installed again and returns, none of its disks is wiped a second time.
func (c *Controller) keepRecords(ctx context.Context, status *lvmv1alpha1.LVMVolumeGroupNodeStatus,
	groups []lvmv1alpha1.LVMVolumeGroup) error {
	records, err := recordsOf(status, groups)
	if err != nil || len(records) == 0 {
		return err
	}
	object := newRecords(c.namespace, removednode.WipedDevices, "wiped-devices", status)
	return c.addRecords(ctx, object, records)
}

// recordsOf encodes the wipes of a node. It omits those of device classes that no longer exist: a new device class with
// the same name is a new consent.
func recordsOf(status *lvmv1alpha1.LVMVolumeGroupNodeStatus,
	groups []lvmv1alpha1.LVMVolumeGroup) (map[string]string, error) {
	records := map[string]string{}
	for _, entry := range status.Status.NodeStatus {
		at := slices.IndexFunc(groups, func(g lvmv1alpha1.LVMVolumeGroup) bool { return g.Name == entry.Name })
		if at < 0 {
			continue
		}
		for _, wiped := range entry.WipedDevices {
			value, err := json.Marshal(removednode.WipedDevice{
				DeviceClass: entry.Name, ClassUID: string(groups[at].UID), ID: wiped.ID, Names: wiped.Names,
				Node: status.Name, Time: wiped.Time.UTC(),
			})
			if err != nil {
				return nil, err
			}
			records[removednode.WipedDeviceKey(entry.Name, wiped.ID)] = string(value)
		}
	}
	return records, nil
}
