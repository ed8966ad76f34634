package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
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

// hidden reads the devices with the label of a physical volume that LVM does not list, if a decision depends on them.
// It starts a process only if there are such devices.
func (r *Reconciler) hidden(ctx context.Context, w plan.Desired, s plan.NodeState, maxAge time.Duration) plan.Hidden {
	devices := plan.LabelsToRead(w, s)
	if len(devices) == 0 {
		return plan.Hidden{}
	}
	devices = devices[:min(len(devices), maxLabels)]
	var keys []string
	for _, d := range devices {
		keys = append(keys, string(d.Number)+"="+d.UUID)
	}
	key := strings.Join(keys, " ")
	if r.labels.devices == key && r.now().Sub(r.labels.at) < maxAge {
		return plan.Hidden{PVs: r.labels.pvs}
	}
	begun := r.now()
	pvs, err := r.LVM.ReadLabels(ctx, device.Names(devices)...)
	if err != nil {
		return plan.Hidden{Err: err}
	}
	r.labels = labelCache{devices: key, at: begun, pvs: map[device.Number]lvm.LabeledPV{}}
	for _, pv := range pvs {
		r.labels.pvs[device.NewNumber(pv.Major, pv.Minor)] = pv
	}
	return plan.Hidden{PVs: r.labels.pvs}
}

// unhide adds the devices of a volume group to LVM's devices file. It reads the labels again before, and checks the
// result.
func (r *Reconciler) unhide(ctx context.Context, w plan.Desired, a plan.Action) error {
	pvs, err := r.LVM.ReadLabels(ctx, device.Names(a.Hidden)...)
	if err != nil {
		return err
	}
	for _, d := range a.Hidden {
		same := func(pv lvm.LabeledPV) bool {
			return device.NewNumber(pv.Major, pv.Minor) == d.Number && pv.VGUUID == a.VGUUID
		}
		if !slices.ContainsFunc(pvs, same) {
			return fmt.Errorf("device %s of node %s no longer has a physical volume of volume group %s", d.Name,
				w.Node, a.VGUUID)
		}
	}
	for _, d := range a.Hidden {
		err := r.LVM.Apply(ctx, lvm.DevicesFileAdd{Device: d.Name})
		if errors.Is(err, lvm.ErrNotEnabled) {
			return fmt.Errorf("node %s has no devices file, so something else hides volume group %s: "+
				"see the filter in lvm.conf, and the system ID of the volume group (lvmsystemid(7)): %w",
				w.Node, w.Name, err)
		}
		if err != nil {
			return err
		}
	}
	report, err := r.LVM.Report(ctx)
	if err != nil {
		return err
	}
	if vg := report.VG(w.Name); vg == nil || vg.UUID != a.VGUUID {
		return fmt.Errorf(
			"LVM still does not list volume group %s (%s) of node %s, although its devices are in the devices file: "+
				"see the filter in lvm.conf, and the system ID of the volume group (lvmsystemid(7))", w.Name,
			a.VGUUID, w.Node)
	}
	return nil
}
