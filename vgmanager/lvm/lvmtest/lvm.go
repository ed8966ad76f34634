package lvmtest

import (
	"context"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// LVM has all methods of lvm.LVM.
type LVM interface {
	Report(ctx context.Context) (*lvm.Report, error)
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
	VGCreate(ctx context.Context, o lvm.VGCreateOptions) error
	PVResize(ctx context.Context, o lvm.PVResizeOptions) error
	VGExtend(ctx context.Context, o lvm.VGExtendOptions) error
	VGRemove(ctx context.Context, name string) error
	VGActivate(ctx context.Context, name string) error
	ReadLabels(ctx context.Context, devices ...string) ([]lvm.LabeledPV, error)
	PVRemove(ctx context.Context, device string) error
	ReadBackup(ctx context.Context, vg string) (*textmeta.Metadata, error)
	ReadArchive(ctx context.Context, vg, uuid string) (*textmeta.Metadata, error)
	GroupRestore(ctx context.Context, o lvm.GroupRestoreOptions) error
	ReadMetadata(ctx context.Context, device string) (*textmeta.Metadata, error)
	FindMetadata(ctx context.Context, vg string, fits func(*textmeta.Metadata) string) (*textmeta.Metadata,
		[]string, error)
	MetadataRestore(ctx context.Context, o lvm.MetadataRestoreOptions) error
	MetadataDump(ctx context.Context, device, file string) error
	LabelCheck(ctx context.Context, device string) error
	LabelRestore(ctx context.Context, o lvm.LabelRestoreOptions) error
	DevicesFileAdd(ctx context.Context, device string) error
	DevicesFileRemove(ctx context.Context, device string) error
	LVCreateThick(ctx context.Context, o lvm.ThickOptions) error
	LVCreateThin(ctx context.Context, o lvm.ThinOptions) error
	LVCreateSnapshot(ctx context.Context, o lvm.SnapshotOptions) error
	LVCreateThinPool(ctx context.Context, o lvm.ThinPoolOptions) error
	LVExtend(ctx context.Context, o lvm.LVExtendOptions) error
	LVRemove(ctx context.Context, vg string, names ...string) error
	LVActivate(ctx context.Context, vg, name string) error
	LVAllowActivation(ctx context.Context, vg, name string) error
	LVDeactivate(ctx context.Context, vg string, names ...string) error
	LVChangeTags(ctx context.Context, o lvm.LVTagOptions) error
	LVRename(ctx context.Context, vg, name, to string) error
	ThinPoolResume(ctx context.Context, vg, name string) (done bool, err error)
	ThinPoolRemove(ctx context.Context, vg, name string) error
	LVRemoveUnreadable(ctx context.Context, vg string, names ...string) error
	LVRemoveInactive(ctx context.Context, vg string, names ...string) error
	LVRemoveByUUID(ctx context.Context, vg string, uuids ...string) error
	ThinMetadataActivate(ctx context.Context, vg, pool string) (device string, err error)
	ThinMetadataDeactivate(ctx context.Context, vg, pool string) error
	ThinDeviceIDs(ctx context.Context, vg, pool string) (map[string]uint64, error)
	ThinPoolRepair(ctx context.Context, vg, pool string, options []string) error
	ThinPoolRestore(ctx context.Context, vg, pool, file string) error
	ThinPoolActivate(ctx context.Context, vg string) error
	LVRemoveLost(ctx context.Context, vg, pool string, uuids ...string) error
	ThinPoolMetadataExtend(ctx context.Context, vg, pool string, add lvm.Bytes) error
	ThinPoolSetDiscards(ctx context.Context, vg, pool, mode string) error
	VGChangeTags(ctx context.Context, o lvm.VGTagOptions) error
	VGRename(ctx context.Context, uuid, name string) error
	VGReduce(ctx context.Context, o lvm.VGReduceOptions) error
	VGReduceMissing(ctx context.Context, vg string) error
	PVSetAllocatable(ctx context.Context, o lvm.PVAllocatableOptions) error
	PVMoveStart(ctx context.Context, o lvm.PVMoveOptions) error
	PVMoveResume(ctx context.Context) error
	PVMoveAbort(ctx context.Context, source string) error
	CheckRAID(ctx context.Context) error
	LVRepair(ctx context.Context, vg, name string) error
	SetHealthy(vg string, well bool)
	AcceptLoss(vg string, pvs []string)
	LVRefresh(ctx context.Context, vg, name string) error
	LVRebuild(ctx context.Context, vg, name string, devices ...string) error
}

var (
	_ LVM = (*lvm.LVM)(nil)
	_ LVM = (*Fake)(nil)
)
