package node

import (
	"context"
	"encoding/json"
	"slices"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
)

// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=lvms-deleted-volumes,namespace=openshift-lvm-storage,verbs=get;update;delete

// recordDeleted saves which volumes were deleted without their nodes, before the LogicalVolumes are released: when such
// a node returns, a logical volume without an object does not tell whether it was deleted. etcd that was restored from
// an older backup looks the same, and there the data is needed.
func (c *Controller) recordDeleted(ctx context.Context, volumes []topolvmv1.LogicalVolume,
	groups []lvmv1alpha1.LVMVolumeGroup) error {
	records := map[string]string{}
	var class *lvmv1alpha1.LVMVolumeGroup
	for _, lv := range volumes {
		at := slices.IndexFunc(groups, func(g lvmv1alpha1.LVMVolumeGroup) bool { return g.Name == lv.Spec.DeviceClass })
		if lv.Status.VolumeID == "" || at < 0 {
			continue
		}
		value, err := json.Marshal(removednode.DeletedVolume{Volume: lv.Status.VolumeID, UID: lv.UID,
			LogicalVolume: lv.Name, Node: lv.Spec.NodeName, DeviceClass: lv.Spec.DeviceClass,
			Time: lv.DeletionTimestamp.UTC()})
		if err != nil {
			return err
		}
		records[removednode.DeletedVolumeKey(lv.Status.VolumeID)], class = string(value), &groups[at]
	}
	if len(records) == 0 {
		return nil
	}
	return c.addRecords(ctx, newRecords(c.namespace, removednode.DeletedVolumes, "deleted-volumes", class), records)
}
