package lvmtest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// Overwrite overwrites the label of a disk. LVM no longer finds the physical volume, but the disk stays attached and
// volumes stay active.
func (node *Node) Overwrite(path string) { setDetached(node, path, true) }

// metadataText returns text metadata of a volume group.
func metadataText(node *Node, vg string) string {
	g := node.groups[vg]
	var text strings.Builder
	_, _ = fmt.Fprintf(&text, "%s {\nid = %q\nseqno = %d\nphysical_volumes {\n", vg, g.uuid, g.changes+1)
	for i, path := range g.disks {
		_, _ = fmt.Fprintf(&text, "pv%d {\nid = %q\n}\n", i, node.disks[path].uuid)
	}
	text.WriteString("}\nlogical_volumes {\n")
	text.WriteString(volumesText(node, g) + "}\n}\n")
	return text.String()
}

// ReadBackup implements lvmexec.LVM.
func (f *Fake) ReadBackup(_ context.Context, vg string) (*textmeta.Metadata, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "ReadBackup", vg); err != nil {
		return nil, err
	}
	if f.groups[vg] == nil {
		return nil, fmt.Errorf("volume group %s: %w", vg, os.ErrNotExist)
	}
	return decoded(metadataText(&f.Node, vg), lvm.BackupDir+vg)
}

// decoded returns the metadata in a text, which a file has.
func decoded(text, file string) (*textmeta.Metadata, error) {
	m, err := textmeta.Decode([]byte(text))
	if err == nil {
		m.File = file
	}
	return m, err
}

// DeleteGroup deletes a volume group with its volumes, as an administrator does with vgremove --force. The labels of
// the disks stay.
func (node *Node) DeleteGroup(vg string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.archive[vg] = archived{node.groups[vg], metadataText(node, vg)}
	for _, path := range node.groups[vg].disks {
		node.disks[path].group = ""
	}
	delete(node.groups, vg)
}

// archived is a deleted volume group.
type archived struct {
	*group
	text string
}

// ReadArchive implements lvmexec.LVM.
func (f *Fake) ReadArchive(_ context.Context, vg, uuid string) (*textmeta.Metadata, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "ReadArchive", vg); err != nil {
		return nil, err
	}
	a := f.archive[vg]
	if a.group == nil || a.uuid != uuid {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrNotFound)
	}
	return decoded(a.text, archiveFile(vg))
}

func archiveFile(vg string) string { return lvm.ArchiveDir + vg + "_00001-1.vg" }

func groupRestore(node *Node, c lvm.GroupRestore) error {
	a := node.archive[c.VG]
	switch {
	case a.group == nil || c.File != archiveFile(c.VG):
		return fmt.Errorf("file %s: %w", c.File, os.ErrNotExist)
	case a.uuid != c.UUID || strings.Contains(a.text, "thin-pool"):
		return fmt.Errorf("file %s: %w", c.File, lvm.ErrDamaged)
	case node.groups[c.VG] != nil:
		return fmt.Errorf("volume group %s: %w", c.VG, lvm.ErrExists)
	}
	for _, path := range a.disks {
		if d := node.disks[path]; d.detached || d.group != "" || d.uuid == "" {
			return fmt.Errorf("physical volume on %s: %w", path, lvm.ErrNotFound)
		}
	}
	for _, path := range a.disks {
		node.disks[path].group = c.VG
	}
	for _, v := range a.lvs {
		v.on = false
	}
	node.groups[c.VG] = a.group
	return nil
}

func metadataDump(node *Node, c lvm.MetadataDump) error {
	d := node.disks[c.Device]
	if d == nil || d.detached || d.group == "" {
		return fmt.Errorf("device %s: %w", c.Device, lvm.ErrNotFound)
	}
	return os.WriteFile(c.File, []byte(metadataText(node, d.group)), 0o600)
}

// LabelCheck implements lvmexec.LVM.
func (f *Fake) LabelCheck(_ context.Context, device string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "LabelCheck", device); err != nil {
		return err
	}
	if d := f.disks[device]; d == nil || d.detached || d.torn {
		return fmt.Errorf("device %s: %w", device, lvm.ErrDamaged)
	}
	return nil
}

// Tear damages the headers of a disk, but not its label, as a killed command does.
func (node *Node) Tear(path string) {
	node.mu.Lock()
	defer node.mu.Unlock()
	node.disks[path].torn = true
}

func labelRestore(node *Node, c lvm.LabelRestore) error {
	d := node.disks[c.Device]
	g := node.groups[c.VG]
	if d == nil || g == nil || d.uuid != c.PV || !slices.Contains(g.disks, c.Device) {
		return fmt.Errorf("physical volume %s on %s: %w", c.PV, c.Device, lvm.ErrNotFound)
	}
	if !d.detached && !d.torn {
		return fmt.Errorf("physical volume %s on %s: %w", c.PV, c.Device, lvm.ErrInUse)
	}
	d.detached = false
	d.torn = false
	return nil
}
