package lvmtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// CheckRAID implements lvm.LVM.
func (f *Fake) CheckRAID(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin("CheckRAID", "of the kernel"); err != nil {
		return err
	}
	if f.noRAID {
		return fmt.Errorf("dm-raid: %w", lvm.ErrNoTarget)
	}
	return nil
}

// LVRepair implements lvm.LVM. Progress copies the data.
func (f *Fake) LVRepair(_ context.Context, vg, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.changeWhole("LVRepair", vg)
	if err != nil {
		return err
	}
	v := g.lvs[name]
	switch {
	case v == nil:
		return fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrNotFound)
	case v.kind != 'r':
		return fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrInvalid)
	}
	lost := f.lostImages(v)
	if len(lost) > bears(v) {
		return fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrMissingPV)
	}
	for _, number := range lost {
		if err := f.replace(g, v, number); err != nil {
			return fmt.Errorf("logical volume %s/%s: %w", vg, name, err)
		}
	}
	if len(lost) > 0 {
		none := 0.0
		v.SyncPercent = &none
		v.stale = false
	}
	return nil
}

// lostImages returns the numbers of the images on missing disks.
func (f *Fake) lostImages(v *volume) []string {
	var lost []string
	for _, p := range v.parts {
		if number, is := strings.CutPrefix(p.suffix, "_rimage_"); is && f.isLost(p) {
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
func (f *Fake) replace(g *group, v *volume, number string) error {
	image := v.part("_rimage_" + number)
	meta := v.part("_rmeta_" + number)
	need := image.size() + meta.size()
	for _, path := range f.openDisks(g, nil) {
		if !v.isOn(path) && f.freeExtents(g, path) >= need {
			image.on, meta.on = map[string]int{path: image.size()}, map[string]int{path: meta.size()}
			return nil
		}
	}
	return lvm.ErrNoSpace
}

func (v *volume) part(suffix string) *part {
	return v.parts[slices.IndexFunc(v.parts, func(p *part) bool { return p.suffix == suffix })]
}

// LVRefresh implements lvm.LVM.
func (f *Fake) LVRefresh(_ context.Context, vg, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.changeIncomplete("LVRefresh", vg)
	if err != nil {
		return err
	}
	v := g.lvs[name]
	switch {
	case v == nil:
		return fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrNotFound)
	case f.needsMissing(g, v):
		return fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrMissingPV)
	}
	v.stale = false
	return nil
}

// LVRebuild implements lvm.LVM.
func (f *Fake) LVRebuild(_ context.Context, vg, name string, devices ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, err := f.change("LVRebuild", vg)
	if err != nil {
		return err
	}
	v := g.lvs[name]
	if v == nil {
		return fmt.Errorf("logical volume %s/%s: %w", vg, name, lvm.ErrNotFound)
	}
	elsewhere := slices.ContainsFunc(devices, func(d string) bool { return !v.isOn(d) })
	if elsewhere || len(devices) == 0 || len(devices) > bears(v) {
		return fmt.Errorf("logical volume %s/%s: cannot rebuild %v", vg, name, devices)
	}
	v.stale = false
	return nil
}
