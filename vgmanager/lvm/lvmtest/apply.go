package lvmtest

import (
	"context"
	"fmt"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Apply implements lvmexec.LVM.
func (f *Fake) Apply(_ context.Context, change lvm.Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	node := &f.Node
	switch c := change.(type) {
	case lvm.VGCreate:
		return vgCreate(node, c)
	case lvm.VGExtend:
		return vgExtend(node, c)
	case lvm.VGRemove:
		return vgRemove(node, c)
	case lvm.VGActivate:
		return vgActivate(node, c)
	case lvm.VGChangeTags:
		return vgChangeTags(node, c)
	case lvm.VGRename:
		return vgRename(node, c)
	case lvm.VGReduce:
		return vgReduce(node, c)
	case lvm.VGReduceMissing:
		return vgReduceMissing(node, c)
	case lvm.GroupDeactivate:
		return groupDeactivate(node, c)
	case lvm.GroupBackup:
		return groupBackup(node, c)
	case lvm.GroupRestore:
		return groupRestore(node, c)
	case lvm.PVResize:
		return pvResize(node, c)
	case lvm.PVRemove:
		return pvRemove(node, c)
	case lvm.PVSetAllocatable:
		return pvSetAllocatable(node, c)
	case lvm.PVMoveStart:
		return pvMoveStart(node, c)
	case lvm.PVMoveResume:
		return pvMoveResume(node, c)
	case lvm.PVMoveAbort:
		return pvMoveAbort(node, c)
	case lvm.DevicesFileAdd:
		return devicesFileAdd(node, c)
	case lvm.DevicesFileRemove:
		return devicesFileRemove(node, c)
	case lvm.LabelRestore:
		return labelRestore(node, c)
	case lvm.MetadataDump:
		return metadataDump(node, c)
	case lvm.MetadataRestore:
		return metadataRestore(node, c)
	case lvm.LVCreateThick:
		return lvCreateThick(node, c)
	case lvm.LVCreateThin:
		return lvCreateThin(node, c)
	case lvm.LVCreateSnapshot:
		return lvCreateSnapshot(node, c)
	case lvm.LVExtend:
		return lvExtend(node, c)
	case lvm.LVRemove:
		return lvRemove(node, c)
	case lvm.LVRemoveInactive:
		return lvRemoveInactive(node, c)
	case lvm.LVRemoveByUUID:
		return lvRemoveByUUID(node, c)
	case lvm.LVRemoveUnreadable:
		return lvRemoveUnreadable(node, c)
	case lvm.LVRemoveLost:
		return lvRemoveLost(node, c)
	case lvm.LVActivate:
		return lvActivate(node, c)
	case lvm.LVAllowActivation:
		return lvAllowActivation(node, c)
	case lvm.LVDeactivate:
		return lvDeactivate(node, c)
	case lvm.LVChangeTags:
		return lvChangeTags(node, c)
	case lvm.LVRename:
		return lvRename(node, c)
	case lvm.LVRepair:
		return lvRepair(node, c)
	case lvm.LVRefresh:
		return lvRefresh(node, c)
	case lvm.LVRebuild:
		return lvRebuild(node, c)
	case lvm.LVCreateThinPool:
		return lvCreateThinPool(node, c)
	case lvm.ThinPoolRemove:
		return thinPoolRemove(node, c)
	case lvm.ThinPoolMetadataExtend:
		return thinPoolMetadataExtend(node, c)
	case lvm.ThinPoolSetDiscards:
		return thinPoolSetDiscards(node, c)
	case lvm.ThinPoolActivate:
		return thinPoolActivate(node, c)
	case lvm.ThinPoolRepair:
		return thinPoolRepair(node, c)
	case lvm.ThinPoolRestore:
		return thinPoolRestore(node, c)
	case lvm.ThinMetadataActivate:
		return thinMetadataActivate(node, c)
	case lvm.ThinMetadataDeactivate:
		return thinMetadataDeactivate(node, c)
	}
	return fmt.Errorf("%s: the fake has no %T", change, change)
}
