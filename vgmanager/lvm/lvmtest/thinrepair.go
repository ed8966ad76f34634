package lvmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
)

// metadata is the state of the metadata of a thin pool.
type metadata struct {
	// damaged: LVM does not activate the pool. flagged: a check is required before the metadata can be changed.
	damaged, flagged bool
	// gone are the volumes that thin_repair cannot read, and missing are those that are not in the metadata.
	gone, missing []string
	// open: the metadata volume is active. blank: its first block has only zeros, so an activation of the pool deletes
	// all volumes.
	open, blank bool
	// salvaged: thin_repair would write less than thinmeta.Salvage.
	salvaged bool
}

// DamagePool damages the metadata of an inactive pool. A repair cannot save the volumes that are gone.
func (node *Node) DamagePool(vg, pool string, gone ...string) {
	node.edit(vg, pool, func(v *volume) { v.metadata = metadata{damaged: true, gone: gone} })
}

// SalvagePool damages the metadata of an inactive pool as DamagePool, so that thin_repair would save no volume.
func (node *Node) SalvagePool(vg, pool string, gone ...string) {
	node.edit(vg, pool, func(v *volume) { v.metadata = metadata{damaged: true, gone: gone, salvaged: true} })
}

// BlankPool overwrites the first block of the metadata of an inactive pool with zeros.
func (node *Node) BlankPool(vg, pool string) {
	node.edit(vg, pool, func(v *volume) { v.metadata.blank = true })
}

// IsBlank returns what thinmeta.IsBlank returns for an active metadata volume.
func (f *Fake) IsBlank(_ context.Context, device string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := inspect(&f.Node, "IsBlank", thinmeta.Pool{Device: device})
	return err == nil && m.SuperblockLost, err
}

// poolOn returns the thin pool whose active metadata volume a device is, and its group.
func poolOn(node *Node, device string) (*group, *volume, error) {
	vg, name, _ := strings.Cut(strings.TrimPrefix(device, "/dev/"), "/")
	name = strings.TrimSuffix(name, "_tmeta")
	g := node.groups[vg]
	if g == nil || g.lvs[name] == nil || !g.lvs[name].metadata.open {
		return nil, nil, fmt.Errorf("device %s does not exist", device)
	}
	return g, g.lvs[name], nil
}

// FlagPool makes the kernel require a check of the metadata of an active pool.
func (node *Node) FlagPool(vg, pool string) {
	node.edit(vg, pool, func(v *volume) { v.metadata.flagged = true })
}

// Inspect returns what thinmeta.Inspect returns for an active metadata volume.
func (f *Fake) Inspect(_ context.Context, pool thinmeta.Pool) (*thinmeta.Metadata, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return inspect(&f.Node, "Inspect", pool)
}

// Salvage writes a file and returns what thinmeta.Salvage returns for an active metadata volume.
func (f *Fake) Salvage(_ context.Context, pool thinmeta.Pool, file string) (map[uint64]thinmeta.Device, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, err := inspect(&f.Node, "Salvage", pool)
	if err != nil {
		return nil, err
	}
	return m.Devices, os.WriteFile(file, []byte("<superblock>"), 0o600)
}

func inspect(node *Node, call string, pool thinmeta.Pool) (*thinmeta.Metadata, error) {
	if err := begin(node, call, pool.Device); err != nil {
		return nil, err
	}
	g, p, err := poolOn(node, pool.Device)
	if err != nil {
		return nil, err
	}
	m := p.metadata
	result := &thinmeta.Metadata{Intact: !m.damaged && !m.blank, SuperblockLost: m.blank, NeedsCheck: m.flagged,
		Salvaged: m.salvaged, TransactionID: p.kernelTransaction(), Devices: map[uint64]thinmeta.Device{}}
	if m.damaged {
		result.Problem = "bad checksum in metadata block"
	}
	if p.kernel != nil {
		for id := range p.kernel.devices {
			result.Devices[id] = thinmeta.Device{Recorded: 1, Found: 1}
		}
	}
	for _, v := range g.lvs {
		if slices.Contains(m.gone, v.Name) || slices.Contains(m.missing, v.Name) {
			delete(result.Devices, deviceID(node, v))
		}
	}
	return result, nil
}

func deviceID(node *Node, v *volume) uint64 {
	if v.deviceID == 0 {
		node.serial++
		v.deviceID = uint64(node.serial)
	}
	return v.deviceID
}

func thinMetadataActivate(node *Node, c lvm.ThinMetadataActivate) error {
	g, err := startChecked(node, c.Command())
	if err != nil {
		return err
	}
	g.lvs[c.Pool].metadata.open = true
	return nil
}

func thinMetadataDeactivate(node *Node, c lvm.ThinMetadataDeactivate) error {
	_, p, err := startVolume(node, c.VG, c.Pool)
	if err == nil {
		p.metadata.open = false
	}
	return err
}

// ThinDeviceIDs implements lvmexec.LVM.
func (f *Fake) ThinDeviceIDs(_ context.Context, vg, pool string) (map[string]uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "ThinDeviceIDs", vg); err != nil {
		return nil, err
	}
	g := f.groups[vg]
	if g == nil {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrNotFound)
	}
	ids := map[string]uint64{}
	for _, v := range g.lvs {
		if v.PoolName == pool {
			ids[v.UUID] = deviceID(&f.Node, v)
		}
	}
	return ids, nil
}

func thinPoolRepair(node *Node, c lvm.ThinPoolRepair) error {
	return rewriteMetadata(node, c.Command(), c.Pool)
}

// thinPoolRestore makes lvm.ThinPoolRestore. The volumes that are gone are those that Salvage did not write.
func thinPoolRestore(node *Node, c lvm.ThinPoolRestore) error {
	if _, err := os.Stat(c.File); err != nil {
		return err
	}
	return rewriteMetadata(node, c.Command(), c.Pool)
}

// rewriteMetadata writes the metadata of an inactive pool without the volumes that are gone, and keeps the previous.
func rewriteMetadata(node *Node, c lvm.Command, pool string) error {
	g, err := startChecked(node, c)
	if err != nil {
		return err
	}
	p := g.lvs[pool]
	n := 0
	for g.lvs[fmt.Sprintf("%s_meta%d", pool, n)] != nil {
		n++
	}
	kept := &volume{kind: '-', LV: lvm.LV{Name: fmt.Sprintf("%s_meta%d", pool, n), Size: p.MetadataSize,
		SegType: "linear"}}
	if err := add(node, g, c.VG, kept); err != nil {
		return err
	}
	kept.on = false
	p.metadata = metadata{missing: append(p.metadata.missing, p.metadata.gone...)}
	return nil
}

func thinPoolActivate(node *Node, c lvm.ThinPoolActivate) error {
	g, err := startComplete(node, c.VG)
	if err != nil {
		return err
	}
	for _, v := range g.lvs {
		v.metadata.flagged = v.metadata.flagged && v.metadata.damaged
	}
	return g.activateAll()
}

// activateAll activates the volumes of a group, as far as the metadata of their pools allows it.
func (g *group) activateAll() error {
	var failures []error
	for _, v := range g.lvs {
		failures = append(failures, g.activate(v))
	}
	return errors.Join(failures...)
}

// activate activates a volume, unless it is skipped. Its pool is active while the volume is.
func (g *group) activate(v *volume) error {
	if v.skip {
		return nil
	}
	pool := g.lvs[v.PoolName]
	if v.kind == 't' {
		pool = v
	}
	if pool == nil {
		v.on = true
		return nil
	}
	if pool.metadata.blank && !pool.metadata.open {
		pool.metadata = metadata{missing: g.inPool(pool.Name)}
	}
	switch {
	case pool.transaction+1 != pool.kernelTransaction():
		return fmt.Errorf("volume %s: %w", v.Name, lvm.ErrTransaction)
	case pool.metadata.damaged:
		return fmt.Errorf("volume %s: %w", v.Name, lvm.ErrPoolCheck)
	case pool.metadata.open:
		return fmt.Errorf("volume %s: the metadata of its pool is active", v.Name)
	}
	pool.on = true
	if slices.Contains(pool.metadata.missing, v.Name) {
		return fmt.Errorf("volume %s: %w", v.Name, lvm.ErrNoData)
	}
	v.on = true
	return nil
}

func lvRemoveLost(node *Node, c lvm.LVRemoveLost) error {
	g, err := startChecked(node, c.Remove(nil))
	if err != nil {
		return err
	}
	names := g.named(c.UUIDs)
	for _, name := range names {
		if !slices.Contains(g.lvs[c.Pool].metadata.missing, name) {
			g.lvs[name].on = true
			return fmt.Errorf("volume %s can be activated: %w", name, lvm.ErrInUse)
		}
	}
	return removeAll(node, g, c.VG, names)
}

// inPool returns the names of the volumes of a pool.
func (g *group) inPool(pool string) []string {
	var names []string
	for _, v := range g.lvs {
		if v.PoolName == pool {
			names = append(names, v.Name)
		}
	}
	return names
}

// named returns the names of the volumes with these UUIDs.
func (g *group) named(uuids []string) []string {
	var names []string
	for _, v := range g.lvs {
		if slices.Contains(uuids, v.UUID) {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}

func lvRemoveInactive(node *Node, c lvm.LVRemoveInactive) error {
	g, err := startWhole(node, c.VG)
	if err != nil {
		return err
	}
	for _, name := range c.Names {
		if v := g.lvs[name]; v != nil && v.on {
			return fmt.Errorf("logical volume %s/%s: %w", c.VG, name, lvm.ErrNotEmpty)
		}
	}
	return removeAll(node, g, c.VG, c.Names)
}
