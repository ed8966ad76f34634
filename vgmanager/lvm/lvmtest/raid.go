package lvmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// CheckRAID implements lvmexec.LVM.
func (f *Fake) CheckRAID(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := begin(&f.Node, "CheckRAID", "of the kernel"); err != nil {
		return err
	}
	if f.noRAID {
		return fmt.Errorf("dm-raid: %w", lvm.ErrNoTarget)
	}
	return nil
}

// lvRepair makes lvm.LVRepair. Progress copies the data.
func lvRepair(node *Node, c lvm.LVRepair) error {
	g, err := startWhole(node, c.VG)
	if err != nil {
		return err
	}
	v, err := g.volume(c.VG, c.Name)
	if err != nil {
		return err
	}
	lost := g.lostImages(v)
	switch {
	case v.kind != 'r':
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Name, lvm.ErrInvalid)
	case v.SyncPercent != nil && *v.SyncPercent < 100:
		return fmt.Errorf("logical volume %s/%s is not in sync", c.VG, c.Name)
	case len(lost) > bears(v):
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Name, lvm.ErrMissingPV)
	}
	for _, number := range lost {
		if err := g.replace(v, number); err != nil {
			return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Name, err)
		}
		v.SyncPercent, v.stale = new(0.0), false
	}
	return nil
}

// lostImages returns the numbers of the images on missing disks.
func (g *group) lostImages(v *volume) []string {
	var lost []string
	for _, p := range v.parts {
		if number, is := strings.CutPrefix(p.suffix, "_rimage_"); is && g.isLost(p) {
			lost = append(lost, number)
		}
	}
	return lost
}

// bears returns how many images a volume can lose. For raid10 it is the number that is always tolerated.
func bears(v *volume) int {
	switch v.SegType {
	case "raid1":
		return len(v.parts)/2 - 1
	case "raid6":
		return 2
	}
	return 1
}

// replace moves an image to a disk that has no image of the volume.
func (g *group) replace(v *volume, number string) error {
	image := v.part("_rimage_" + number)
	meta := v.part("_rmeta_" + number)
	need := image.size() + meta.size()
	for _, path := range g.openDisks(nil) {
		if !v.isOn(path) && g.freeExtents(path) >= need {
			image.on = map[string]int{path: image.size()}
			meta.on = map[string]int{path: meta.size()}
			return nil
		}
	}
	return lvm.ErrNoSpace
}

func (v *volume) part(suffix string) *part {
	return v.parts[slices.IndexFunc(v.parts, func(p *part) bool { return p.suffix == suffix })]
}

func lvRefresh(node *Node, c lvm.LVRefresh) error {
	g, err := start(node, c.VG)
	if err != nil {
		return err
	}
	v, err := g.volume(c.VG, c.Name)
	if err == nil && g.needsMissing(v) {
		return fmt.Errorf("logical volume %s/%s: %w", c.VG, c.Name, lvm.ErrMissingPV)
	}
	if err == nil {
		v.stale = false
	}
	return err
}

func lvRebuild(node *Node, c lvm.LVRebuild) error {
	_, v, err := startVolume(node, c.VG, c.Name)
	if err != nil {
		return err
	}
	elsewhere := slices.ContainsFunc(c.Devices, func(d string) bool { return !v.isOn(d) })
	if elsewhere || len(c.Devices) == 0 || len(c.Devices) > bears(v) {
		return fmt.Errorf("logical volume %s/%s: cannot rebuild %v", c.VG, c.Name, c.Devices)
	}
	v.stale = false
	return nil
}
