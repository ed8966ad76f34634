package volumegroup

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd/deviceclass"
)

// Seen is an observation of the node.
type Seen struct {
	Report  *lvm.Report
	Devices []device.Device
	// Identities are the stable identities of the devices.
	Identities map[device.Number]string
	// Paths are the resolved paths of the selectors.
	Paths []Path
	// OtherPaths are the resolved paths of the other device classes.
	OtherPaths map[string][]Path
	// Probed has the devices that were read in this observation, with the reasons found.
	Probed map[device.Number][]device.Reason
	// Watched is how long this agent has observed a device, for devices that udev does not know.
	Watched map[device.Number]time.Duration
	// Failing are the devices that return errors or do not respond.
	Failing map[device.Number]error
	// Held are the logical volumes that have been suspended for longer than LVM's operations take.
	Held map[device.Number]bool
	// Blind is set if the health of the volume group is not known.
	Blind error
	// Stale are the logical volumes that the kernel still maps to a removed device, although the device returned with
	// another number.
	Stale []string
	// Unattended are the moves that no process polls.
	Unattended map[string]bool
	// NoRAID is set if the kernel does not support RAID.
	NoRAID error
	// Class is the published class, or nil.
	Class *deviceclass.Class
	// Hidden has the physical volumes that LVM on this node does not list.
	Hidden Hidden
	// Released are the UUIDs of physical volumes that this product is removing from the volume group, or removed
	// together with the group.
	Released []string
	// Removed are the devices that were removed from the volume group on request.
	Removed []removal
	// Wiped are the wipes for the device class.
	Wiped []wipeRecord
	// Names are the last known devices of physical volumes, by UUID. LVM has no name for a missing one.
	Names map[string]string
	// Before is the last status.
	Before v1alpha1.VGStatus
}

// Path is a path of a selector and the device that it leads to.
type Path struct {
	Path     string
	Optional bool
	// Selector is the index of the selector in Wanted.Selectors.
	Selector int
	Number   device.Number
	Err      error
}

// observe observes the node. With a maxAge of 0 it reads everything again. If a read fails, observe returns an error,
// so that no rule gets an empty list instead of data that could not be read.
func (r *Reconciler) observe(ctx context.Context, w Wanted, before v1alpha1.VGStatus,
	maxAge time.Duration) (Seen, error) {
	s := Seen{Names: r.names, Before: before}
	var err error
	if s.Report, err = r.report(ctx, maxAge); err != nil {
		return s, err
	}
	if s.Released, err = r.released.read(w.Name); err != nil {
		return s, err
	}
	if s.Removed, err = r.removed.read(w.Name); err != nil {
		return s, err
	}
	if s.Wiped, err = r.wipes.read(w.Name); err != nil {
		return s, err
	}
	if class, ok := r.Classes.Class(w.Name); ok {
		s.Class = &class
	}
	r.remember(s.Report)
	s.Unattended = r.unattended(groupOf(w, s))
	if w.Deleting {
		// A removal does not depend on devices.
		return s, nil
	}
	s.resolvePaths(w, r.Devices.Resolve)
	if s.Devices, err = r.list(ctx, maxAge); err != nil {
		return s, err
	}
	s.Identities, s.Watched = device.Identities(s.Devices), r.watch(s.Devices)
	s.Hidden = r.hidden(ctx, w, s, maxAge)
	s.Stale = r.stale(groupOf(w, s))
	s.Failing, s.Held = r.Health.Failing(), r.Health.Suspended()
	s.Blind = r.Health.Unknown(w.Name)
	if w.Spec.RAIDConfig != nil && groupOf(w, s) == nil {
		s.NoRAID = r.LVM.CheckRAID(ctx)
	}
	return s, nil
}

// stale returns the volumes that the kernel maps to other devices than those of their physical volumes. It skips a
// volume that cannot be read, because it was just deactivated.
func (r *Reconciler) stale(vg *lvm.VG) []string {
	if vg == nil {
		return nil
	}
	numbers := map[string]device.Number{}
	for _, pv := range vg.PVs {
		numbers[pv.UUID] = numberOf(pv)
	}
	var names []string
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			lv := &list[i]
			if len(lv.PVs) == 0 || lv.Major == 0 || lv.MoveSource != "" || lv.Attr.Locked() {
				continue
			}
			below, err := r.Devices.Below(device.NewNumber(lv.Major, lv.Minor))
			lost := func(uuid string) bool { return numbers[uuid] != "" && !slices.Contains(below, numbers[uuid]) }
			if top := topOf(vg, lv); err == nil && slices.ContainsFunc(lv.PVs, lost) && !slices.Contains(names, top) {
				names = append(names, top)
			}
		}
	}
	slices.Sort(names)
	return names
}

// topOf returns the visible volume that contains a logical volume.
func topOf(vg *lvm.VG, lv *lvm.LV) string {
	name := lv.Name
	for range vg.Hidden {
		at := slices.IndexFunc(vg.Hidden, func(h lvm.LV) bool { return h.Name == name && h.Parent != "" })
		if at < 0 {
			break
		}
		name = vg.Hidden[at].Parent
	}
	return name
}

func (r *Reconciler) report(ctx context.Context, maxAge time.Duration) (*lvm.Report, error) {
	if maxAge == 0 {
		return r.LVM.Report(ctx)
	}
	return r.LVM.Recent(ctx, maxAge)
}

func (r *Reconciler) list(ctx context.Context, maxAge time.Duration) ([]device.Device, error) {
	if maxAge == 0 {
		return r.Devices.List(ctx)
	}
	return r.Devices.Recent(ctx, maxAge)
}

// resolvePaths sets the paths of a device class and those of the other device classes. resolve returns the device that
// a path leads to.
func (s *Seen) resolvePaths(w Wanted, resolve func(string) (device.Number, error)) {
	s.Paths = pathsOf(w.Selectors, resolve)
	s.OtherPaths = map[string][]Path{}
	for _, o := range w.Others {
		s.OtherPaths[o.Name] = pathsOf(o.Selectors, resolve)
	}
}

func pathsOf(selectors []v1alpha1.DeviceSelector, resolve func(string) (device.Number, error)) []Path {
	var paths []Path
	add := func(i int, list []v1alpha1.DevicePath, optional bool) {
		for _, p := range list {
			number, err := resolve(string(p))
			paths = append(paths, Path{Path: string(p), Optional: optional, Selector: i, Number: number, Err: err})
		}
	}
	for i := range selectors {
		add(i, selectors[i].Paths, false)
		add(i, selectors[i].OptionalPaths, true)
	}
	return paths
}

// probe reads the devices that a plan uses. It reads them in parallel, so that one that does not respond does not
// delay the others.
func (r *Reconciler) probe(ctx context.Context, s *Seen, devices []device.Device) {
	results := make([][]device.Reason, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		// The label of a physical volume is ignored here. LVM's information about it decides.
		all.Go(func() { results[i] = r.Devices.Probe(ctx, d, device.SignatureLVM) })
	}
	all.Wait()
	s.Probed = map[device.Number][]device.Reason{}
	for i, d := range devices {
		s.Probed[d.Number] = results[i]
	}
}

// remember stores the devices of physical volumes, for messages about a missing one.
func (r *Reconciler) remember(report *lvm.Report) {
	for _, pv := range report.PVs() {
		if !pv.Missing {
			r.names[pv.UUID] = pv.Name
		}
	}
}

// watch returns how long this agent has observed each device. It forgets devices that were removed.
func (r *Reconciler) watch(devices []device.Device) map[device.Number]time.Duration {
	now := r.now()
	since := map[device.Number]time.Time{}
	ages := map[device.Number]time.Duration{}
	for _, d := range devices {
		first, known := r.firstSeen[d.Number]
		if !known {
			first = now
		}
		since[d.Number], ages[d.Number] = first, now.Sub(first)
	}
	r.firstSeen = since
	return ages
}

// move is the last known progress of a move.
type move struct {
	percent float64
	since   time.Time
}

// unattended returns the moves without progress for moveStalls, and the moves that this process did not start or
// resume.
func (r *Reconciler) unattended(vg *lvm.VG) map[string]bool {
	list := map[string]bool{}
	if vg == nil {
		return list
	}
	for _, m := range vg.Moves() {
		key := vg.UUID + m.Name
		percent := 0.0
		if m.Percent != nil {
			percent = *m.Percent
		}
		last, known := r.moves[key]
		switch {
		case !known:
			list[m.Name] = true
		case percent != last.percent:
			r.moves[key] = move{percent: percent, since: r.now()}
		case r.now().Sub(last.since) > moveStalls:
			list[m.Name] = true
		}
	}
	return list
}

// attend records that a process now polls the moves of a volume group.
func (r *Reconciler) attend(vg *lvm.VG) {
	for _, m := range vg.Moves() {
		r.moves[vg.UUID+m.Name] = move{since: r.now()}
	}
}

// Sight is an observation of the node for several device classes.
type Sight struct {
	seen    Seen
	resolve func(string) (device.Number, error)
}

// NewSight returns an observation from data of the caller, for the evaluation of devices.
func NewSight(report *lvm.Report, devices []device.Device, failing map[device.Number]error,
	resolve func(string) (device.Number, error)) Sight {
	return Sight{seen: Seen{Report: report, Devices: devices, Identities: device.Identities(devices), Failing: failing},
		resolve: resolve}
}

// For returns the observation for one device class.
func (v Sight) For(w Wanted) Seen {
	s := v.seen
	s.resolvePaths(w, v.resolve)
	return s
}
