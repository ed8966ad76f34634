package lvmtest

import (
	"context"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// LVM is what the contract needs of lvm.LVM.
type LVM interface {
	Reports
	Changes
	Kernel
	Labels
	Metadata
}

// Reports reads LVM.
type Reports interface {
	Report(ctx context.Context) (*lvm.Report, error)
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
}

// Changes makes changes.
type Changes interface {
	Apply(ctx context.Context, c lvm.Change) error
	ThinPoolResume(ctx context.Context, vg, name string) (done bool, err error)
	SetHealthy(vg string, well bool)
	AcceptLoss(vg string, pvs []string)
}

// Kernel reads what the kernel supports and what a thin pool has in it.
type Kernel interface {
	CheckRAID(ctx context.Context) error
	ThinDeviceIDs(ctx context.Context, vg, pool string) (map[string]uint64, error)
}

// Labels reads what is on devices.
type Labels interface {
	ReadLabels(ctx context.Context, devices ...string) ([]lvm.LabeledPV, error)
	LabelCheck(ctx context.Context, device string) error
}

// Metadata reads LVM's text metadata.
type Metadata interface {
	ReadBackup(ctx context.Context, vg string) (*textmeta.Metadata, error)
	ReadArchive(ctx context.Context, vg, uuid string) (*textmeta.Metadata, error)
	ReadMetadata(ctx context.Context, device string) (*textmeta.Metadata, error)
	FindMetadata(ctx context.Context, vg string, fits func(*textmeta.Metadata) string) (*textmeta.Metadata,
		[]string, error)
}

var (
	_ LVM = (*lvm.LVM)(nil)
	_ LVM = (*Fake)(nil)
)
