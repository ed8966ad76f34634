package lvmexec

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/ondisk"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// ReadGroup reads the devices of a volume group directly, without a process. It returns an error if a device does not
// respond, if anything is damaged, or if the devices have different metadata.
type ReadGroup func(ctx context.Context, devices []ondisk.Device) (ondisk.Group, error)

// groupReader reads the metadata of volume groups from their devices.
type groupReader struct {
	mu   sync.Mutex
	read ReadGroup
}

// ReadGroupsWith sets the function with which a change of logical volumes checks that no physical volume of the volume
// group is missing. Without it, or if what it returns is not exactly what the last report had, the change reads a new
// report first, which is a process.
func (l *LVM) ReadGroupsWith(read ReadGroup) {
	l.groups.mu.Lock()
	defer l.groups.mu.Unlock()
	l.groups.read = read
}

// maxReportAge is the maximum age of a report with which the devices are compared.
const maxReportAge = 75 * time.Second

// fromDevices returns the volume group of a command, if its devices show that it has the same physical volumes as in
// the last report, and that none is missing, and its metadata on the devices. Otherwise it returns nil: the caller
// reads a new report. Only a command that names the devices of its volume group for LVM does not depend on other
// devices of the node.
func (l *LVM) fromDevices(ctx context.Context, c command) (*lvm.VG, *textmeta.Metadata) {
	if !c.Named || c.Check != nil {
		return nil, nil
	}
	report := l.reports.kept(maxReportAge)
	if report == nil || len(report.Named(c.VG)) != 1 {
		return nil, nil
	}
	vg := report.VG(c.VG)
	if vg == nil || len(l.trust.devicesOf(vg)) == 0 {
		return nil, nil
	}
	m := l.groups.metadataOf(ctx, vg)
	if m == nil {
		return nil, nil
	}
	return vg, m
}

// metadataOf reads the metadata of a volume group from its devices. It returns nil if it cannot be read, if a physical
// volume is missing, or if the devices show another volume group than the report.
func (k *groupReader) metadataOf(ctx context.Context, vg *lvm.VG) *textmeta.Metadata {
	k.mu.Lock()
	read := k.read
	k.mu.Unlock()
	if read == nil || vg.MissingPVs > 0 {
		return nil
	}
	var devices []ondisk.Device
	for _, pv := range vg.PVs {
		if pv.Missing || pv.Major == 0 {
			return nil
		}
		devices = append(devices, ondisk.Device{Path: pv.Name, Number: fmt.Sprintf("%d:%d", pv.Major, pv.Minor)})
	}
	found, err := read(ctx, devices)
	if err != nil {
		return nil
	}
	m, err := textmeta.Decode(found.Metadata)
	if err != nil || !isUnchanged(vg, found, m) {
		return nil
	}
	return m
}

// isUnchanged returns true if a volume group has the same name and physical volumes in a report and on its devices, and
// none is marked as missing. m is the metadata that was found.
func isUnchanged(vg *lvm.VG, found ondisk.Group, m *textmeta.Metadata) bool {
	if m.VG != vg.Name || m.UUID != vg.UUID || len(m.MissingPVs) > 0 {
		return false
	}
	var known []string
	for _, pv := range vg.PVs {
		known = append(known, pv.UUID)
	}
	return slices.Equal(known, found.UUIDs) &&
		slices.Equal(slices.Sorted(slices.Values(known)), slices.Sorted(slices.Values(m.PVs)))
}
