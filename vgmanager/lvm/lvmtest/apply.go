package lvmtest

import (
	"context"
	"fmt"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Apply implements lvm.LVM.
func (f *Fake) Apply(_ context.Context, change lvm.Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch c := change.(type) {
	case lvm.VGCreate:
		return vgCreate(f, c)
	case lvm.VGExtend:
		return vgExtend(f, c)
	case lvm.VGRemove:
		return vgRemove(f, c)
	case lvm.VGActivate:
		return vgActivate(f, c)
	case lvm.VGChangeTags:
		return vgChangeTags(f, c)
	case lvm.VGRename:
		return vgRename(f, c)
	case lvm.VGReduce:
		return vgReduce(f, c)
	case lvm.VGReduceMissing:
		return vgReduceMissing(f, c)
	case lvm.GroupDeactivate:
		return groupDeactivate(f, c)
	case lvm.GroupBackup:
		return groupBackup(f, c)
	case lvm.GroupRestore:
		return groupRestore(f, c)
	case lvm.PVResize:
		return pvResize(f, c)
	case lvm.PVRemove:
		return pvRemove(f, c)
	case lvm.PVSetAllocatable:
		return pvSetAllocatable(f, c)
	case lvm.PVMoveStart:
		return pvMoveStart(f, c)
	case lvm.PVMoveResume:
		return pvMoveResume(f, c)
	case lvm.PVMoveAbort:
		return pvMoveAbort(f, c)
	case lvm.DevicesFileAdd:
		return devicesFileAdd(f, c)
	case lvm.DevicesFileRemove:
		return devicesFileRemove(f, c)
	case lvm.LabelRestore:
		return labelRestore(f, c)
	case lvm.MetadataDump:
		return metadataDump(f, c)
	case lvm.MetadataRestore:
		return metadataRestore(f, c)
	case lvm.LVCreateThick:
		return lvCreateThick(f, c)
	case lvm.LVCreateThin:
		return lvCreateThin(f, c)
	case lvm.LVCreateSnapshot:
		return lvCreateSnapshot(f, c)
	case lvm.LVExtend:
		return lvExtend(f, c)
	case lvm.LVRemove:
		return lvRemove(f, c)
	case lvm.LVRemoveInactive:
		return lvRemoveInactive(f, c)
	case lvm.LVRemoveByUUID:
		return lvRemoveByUUID(f, c)
	case lvm.LVRemoveUnreadable:
		return lvRemoveUnreadable(f, c)
	case lvm.LVRemoveLost:
		return lvRemoveLost(f, c)
	case lvm.LVActivate:
		return lvActivate(f, c)
	case lvm.LVAllowActivation:
		return lvAllowActivation(f, c)
	case lvm.LVDeactivate:
		return lvDeactivate(f, c)
	case lvm.LVChangeTags:
		return lvChangeTags(f, c)
	case lvm.LVRename:
		return lvRename(f, c)
	case lvm.LVRepair:
		return lvRepair(f, c)
	case lvm.LVRefresh:
		return lvRefresh(f, c)
	case lvm.LVRebuild:
		return lvRebuild(f, c)
	case lvm.LVCreateThinPool:
		return lvCreateThinPool(f, c)
	case lvm.ThinPoolRemove:
		return thinPoolRemove(f, c)
	case lvm.ThinPoolMetadataExtend:
		return thinPoolMetadataExtend(f, c)
	case lvm.ThinPoolSetDiscards:
		return thinPoolSetDiscards(f, c)
	case lvm.ThinPoolActivate:
		return thinPoolActivate(f, c)
	case lvm.ThinPoolRepair:
		return thinPoolRepair(f, c)
	case lvm.ThinPoolRestore:
		return thinPoolRestore(f, c)
	case lvm.ThinMetadataActivate:
		return thinMetadataActivate(f, c)
	case lvm.ThinMetadataDeactivate:
		return thinMetadataDeactivate(f, c)
	}
	return fmt.Errorf("%s: the fake has no %T", change, change)
}
