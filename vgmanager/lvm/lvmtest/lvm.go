package lvmtest

import (
	"context"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// LVM is what the contract needs of lvmexec.LVM.
type LVM interface {
	Reports
	Changes
	Metadata
}

// Reports reads LVM, and what the kernel supports.
type Reports interface {
	Report(ctx context.Context) (*lvm.Report, error)
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
	ThinDeviceIDs(ctx context.Context, vg, pool string) (map[string]uint64, error)
	ReadLabels(ctx context.Context, devices ...string) ([]lvm.LabeledPV, error)
	CheckRAID(ctx context.Context) error
}

// Changes makes changes.
type Changes interface {
	Apply(ctx context.Context, c lvm.Change) error
	ThinPoolResume(ctx context.Context, vg, name string) (done bool, err error)
	SetHealthy(vg string, healthy bool)
	AcceptLoss(vg string, pvs []string)
}

// Metadata reads LVM's text metadata, and checks the headers before it.
type Metadata interface {
	LabelCheck(ctx context.Context, device string) error
	ReadBackup(ctx context.Context, vg string) (*textmeta.Metadata, error)
	ReadArchive(ctx context.Context, vg, uuid string) (*textmeta.Metadata, error)
	ReadMetadata(ctx context.Context, device string) (*textmeta.Metadata, error)
	FindMetadata(ctx context.Context, vg string, fits func(*textmeta.Metadata) string) (*textmeta.Metadata,
		[]string, error)
}

var (
	_ LVM = (*lvmexec.LVM)(nil)
	_ LVM = (*Fake)(nil)
)
