// Package hiddenpvs reads physical volumes that LVM on the node does not list, and makes LVM list them.
package hiddenpvs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/hiddengroup"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// labelCache caches the labels of hidden devices.
type labelCache struct {
	// devices identifies the devices that were read.
	devices string
	at      time.Time
	pvs     map[device.Number]lvm.LabeledPV
}

// maxLabels is the maximum number of hidden devices to read. The others stay unresolved.
const maxLabels = 64

// LVM reads physical volumes, and adds their devices to LVM's devices file.
type LVM interface {
	Apply(ctx context.Context, c lvm.Change) error
	ReadLabels(ctx context.Context, devices ...string) ([]lvm.LabeledPV, error)
	Report(ctx context.Context) (*lvm.Report, error)
}

// Groups reads the physical volumes that LVM on this node does not list, and makes LVM list them.
type Groups struct {
	LVM LVM
	// labels is the cache of the labels of hidden devices.
	labels labelCache
	Now    func() time.Time
}

// Observe reads the devices with the label of a physical volume that LVM does not list, if a decision depends on them.
// It starts a process only if there are such devices.
func (h *Groups) Observe(ctx context.Context, desired state.Desired, s state.NodeState,
	maxAge time.Duration) state.Hidden {
	devices := hiddengroup.LabelsToRead(desired, s)
	if len(devices) == 0 {
		return state.Hidden{}
	}
	devices = devices[:min(len(devices), maxLabels)]
	var keys []string
	for _, d := range devices {
		keys = append(keys, string(d.Number)+"="+d.UUID)
	}
	key := strings.Join(keys, " ")
	if h.labels.devices == key && h.Now().Sub(h.labels.at) < maxAge {
		return state.Hidden{PVs: h.labels.pvs}
	}
	begun := h.Now()
	pvs, err := h.LVM.ReadLabels(ctx, device.Names(devices)...)
	if err != nil {
		return state.Hidden{Err: err}
	}
	h.labels = labelCache{devices: key, at: begun, pvs: map[device.Number]lvm.LabeledPV{}}
	for _, pv := range pvs {
		h.labels.pvs[device.NewNumber(pv.Major, pv.Minor)] = pv
	}
	return state.Hidden{PVs: h.labels.pvs}
}

// Unhide adds the devices of a volume group to LVM's devices file. It reads the labels again before, and checks the
// result.
func (h *Groups) Unhide(ctx context.Context, desired state.Desired, g state.HiddenGroup) error {
	pvs, err := h.LVM.ReadLabels(ctx, device.Names(g.Devices)...)
	if err != nil {
		return err
	}
	for _, d := range g.Devices {
		same := func(pv lvm.LabeledPV) bool {
			return device.NewNumber(pv.Major, pv.Minor) == d.Number && pv.VGUUID == g.UUID
		}
		if !slices.ContainsFunc(pvs, same) {
			return fmt.Errorf("device %s of node %s no longer has a physical volume of volume group %s", d.Name,
				desired.Node, g.UUID)
		}
	}
	for _, d := range g.Devices {
		err := h.LVM.Apply(ctx, lvm.DevicesFileAdd{Device: d.Name})
		if errors.Is(err, lvm.ErrNotEnabled) {
			return fmt.Errorf("node %s has no devices file, so something else hides volume group %s: "+
				"see the filter in lvm.conf, and the system ID of the volume group (lvmsystemid(7)): %w",
				desired.Node, desired.Name, err)
		}
		if err != nil {
			return err
		}
	}
	report, err := h.LVM.Report(ctx)
	if err != nil {
		return err
	}
	if vg := report.VG(desired.Name); vg == nil || vg.UUID != g.UUID {
		return fmt.Errorf(
			"LVM still does not list volume group %s (%s) of node %s, although its devices are in the devices file: "+
				"see the filter in lvm.conf, and the system ID of the volume group (lvmsystemid(7))", desired.Name,
			g.UUID, desired.Node)
	}
	return nil
}
