package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// PerformLabel restores a label, or verifies one that was restored.
func (t *Restores) PerformLabel(ctx context.Context, d state.Desired, s state.NodeState, kind state.Kind,
	l state.Label) error {
	if kind == state.VerifyLabel {
		return t.verifyLabel(ctx, d, s, l)
	}
	return t.restoreLabel(ctx, d, s, l)
}

// restoreLabel restores the label of a device. It reads the device again: the label is restored only on the same disk,
// and only if nothing else was written to it.
func (t *Restores) restoreLabel(ctx context.Context, d state.Desired, s state.NodeState, l state.Label) error {
	if err := t.checkOverwritten(ctx, s, l); err != nil {
		return fmt.Errorf("%s: the label is not restored: %w", whereLabel(d, l), err)
	}
	return t.writeLabel(ctx, d, s, l)
}

// verifyLabel checks a label that was restored, and writes it again if the command that wrote it was killed.
func (t *Restores) verifyLabel(ctx context.Context, d state.Desired, s state.NodeState, l state.Label) error {
	err := t.LVM.LabelCheck(ctx, l.Device.Name)
	if errors.Is(err, lvm.ErrDamaged) {
		return t.writeLabel(ctx, d, s, l)
	}
	if err == nil {
		t.Verified[d.Name] = append(t.Verified[d.Name], l.UUID)
	}
	return err
}

func whereLabel(d state.Desired, l state.Label) string {
	return fmt.Sprintf("volume group %s on node %s: physical volume %s on device %s", d.Name, d.Node, l.UUID,
		l.Device.Name)
}

// writeLabel writes a label with metadata of the same volume group.
func (t *Restores) writeLabel(ctx context.Context, d state.Desired, s state.NodeState, l state.Label) error {
	file, metadata, err := t.metadataFile(ctx, d, s, l)
	if err != nil {
		return fmt.Errorf("%s: %w", whereLabel(d, l), err)
	}
	uuid := s.Before.UUID
	if vg := ownership.GroupOf(d, s); vg != nil {
		uuid = vg.UUID
	}
	if metadata.VG != d.Name || metadata.UUID != uuid || !metadata.Has(l.UUID) {
		return fmt.Errorf("%s: the metadata in %s on the node is of volume group %s (%s) and does not fit",
			whereLabel(d, l), file, metadata.VG, metadata.UUID)
	}
	return t.LVM.Apply(ctx, lvm.LabelRestore{VG: d.Name, PV: l.UUID, Device: l.Device.Name, File: file})
}

// checkOverwritten returns an error if the device is not the disk that had the label, or has other content.
func (t *Restores) checkOverwritten(ctx context.Context, s state.NodeState, l state.Label) error {
	devices, err := t.Devices.List(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(devices, func(d device.Device) bool { return d.Number == l.Device.Number })
	id := s.Disks.Identities[l.Device.Number]
	if at < 0 || id == "" || device.Identities(devices)[l.Device.Number] != id {
		return errors.New("the device was replaced")
	}
	signatures, reasons := t.Devices.Content(ctx, devices[at])
	if len(reasons) > 0 {
		return fmt.Errorf("the device %s", reasons[0].Message)
	}
	for _, signature := range signatures {
		if signature.Type != device.SignatureLVM || signature.UUID != l.UUID {
			return fmt.Errorf("the device has the signature %s now", signature.Type)
		}
	}
	return nil
}

// metadataFile returns a file on the node with the metadata of a volume group, and its content. If LVM finds the group,
// it is a copy of the metadata on another device of it; otherwise it is LVM's backup.
func (t *Restores) metadataFile(ctx context.Context, d state.Desired, s state.NodeState,
	l state.Label) (string, *textmeta.Metadata, error) {
	vg := ownership.GroupOf(d, s)
	if vg == nil {
		metadata, err := t.LVM.ReadBackup(ctx, d.Name)
		return lvm.BackupDir + d.Name, metadata, err
	}
	at := slices.IndexFunc(vg.PVs, func(pv lvm.PV) bool {
		return !pv.Missing && pv.UUID != l.UUID && s.Health.Failing[state.NumberOf(pv)] == nil
	})
	if at < 0 {
		return "", nil, errors.New("no other device of the volume group can be read")
	}
	file := filepath.Join(t.StateDir, "metadata-"+d.Name+".vg")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", nil, err
	}
	if err := t.LVM.Apply(ctx, lvm.MetadataDump{Device: vg.PVs[at].Name, File: file}); err != nil {
		return "", nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", nil, fmt.Errorf("LVM did not copy the metadata on device %s: %w", vg.PVs[at].Name, err)
	}
	metadata, err := textmeta.Decode(content)
	return file, metadata, err
}
