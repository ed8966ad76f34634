package volumegroup

import (
	"context"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

// Seen is one look at the node.
type Seen struct {
	Report  *lvm.Report
	Devices []device.Device
	// Paths are those of the deviceSelector, resolved.
	Paths []Path
	// Probed has the devices that were read in this look, with what was found.
	Probed map[device.Number][]device.Reason
	// Class is the published class, or nil.
	Class *lvmd.DeviceClass
	// Released are the UUIDs of the physical volumes of the volume group that is being removed, or was.
	Released []string
	// Names are the last known devices of physical volumes, by UUID. LVM has no name for a missing one.
	Names map[string]string
}

// Path is a path of the deviceSelector and what it leads to.
type Path struct {
	Path     string
	Optional bool
	Number   device.Number
	Err      error
}

// observe looks at the node. With a maxAge of 0 everything is read anew. A read that fails fails the look: no rule ever
// sees an empty list in place of one that could not be read.
func (r *Reconciler) observe(ctx context.Context, w Wanted, maxAge time.Duration) (Seen, error) {
	s := Seen{Names: r.names}
	var err error
	if s.Report, err = r.report(ctx, maxAge); err != nil {
		return s, err
	}
	if s.Released, err = r.released.read(w.Name); err != nil {
		return s, err
	}
	if class, ok := r.Classes.Class(w.Name); ok {
		s.Class = &class
	}
	r.remember(s.Report)
	if w.Deleting {
		// A removal is not about devices.
		return s, nil
	}
	s.Paths = r.resolve(w)
	s.Devices, err = r.list(ctx, maxAge)
	return s, err
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

func (r *Reconciler) resolve(w Wanted) []Path {
	selector := w.Spec.DeviceSelector
	if selector == nil {
		return nil
	}
	var paths []Path
	for _, p := range selector.Paths {
		number, err := r.Devices.Resolve(string(p))
		paths = append(paths, Path{Path: string(p), Number: number, Err: err})
	}
	for _, p := range selector.OptionalPaths {
		number, err := r.Devices.Resolve(string(p))
		paths = append(paths, Path{Path: string(p), Optional: true, Number: number, Err: err})
	}
	return paths
}

// probe reads the devices that a plan wants to use.
func (r *Reconciler) probe(ctx context.Context, s *Seen, devices []device.Device) {
	s.Probed = map[device.Number][]device.Reason{}
	for _, d := range devices {
		// The label of a physical volume is judged by what LVM says about it, not by its being there.
		s.Probed[d.Number] = r.Devices.Probe(ctx, d, signatureLVM)
	}
}

// remember keeps the devices of physical volumes for the day when one is missing.
func (r *Reconciler) remember(report *lvm.Report) {
	for _, pv := range report.PVs() {
		if !pv.Missing {
			r.names[pv.UUID] = pv.Name
		}
	}
}
