package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Hidden has the physical volumes that LVM on this node does not list, because of its devices file, a filter, or the
// host that owns their volume group. Their labels were read directly from the devices.
type Hidden struct {
	// PVs are the physical volumes that could be read.
	PVs map[device.Number]lvm.LabeledPV
	// Err is set if the labels could not be read.
	Err error
}

// protected returns why a device with a label that LVM does not list is not wiped, or "".
func (h Hidden) protected(w Wanted, number device.Number) string {
	pv, known := h.PVs[number]
	switch {
	case h.Err != nil:
		return fmt.Sprintf("it is a physical volume that LVM on this node does not list, and it could not be read: %v",
			h.Err)
	case !known:
		return unresolvedPV
	}
	return protectedLabel(w, pv)
}

// deviceOf returns the device of a hidden physical volume.
func (h Hidden) deviceOf(s Seen, uuid string) (device.Device, bool) {
	for _, d := range s.Devices {
		if pv, ok := h.PVs[d.Number]; ok && pv.UUID == uuid {
			return d, true
		}
	}
	return device.Device{}, false
}

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
func (r *Reconciler) hidden(ctx context.Context, w Wanted, s Seen, maxAge time.Duration) Hidden {
	devices := labelsToRead(w, s)
	if len(devices) == 0 {
		return Hidden{}
	}
	devices = devices[:min(len(devices), maxLabels)]
	var keys []string
	for _, d := range devices {
		keys = append(keys, string(d.Number)+"="+d.UUID)
	}
	key := strings.Join(keys, " ")
	if r.labels.devices == key && r.now().Sub(r.labels.at) < maxAge {
		return Hidden{PVs: r.labels.pvs}
	}
	begun := r.now()
	pvs, err := r.LVM.ReadLabels(ctx, device.Names(devices)...)
	if err != nil {
		return Hidden{Err: err}
	}
	r.labels = labelCache{devices: key, at: begun, pvs: map[device.Number]lvm.LabeledPV{}}
	for _, pv := range pvs {
		r.labels.pvs[device.NewNumber(pv.Major, pv.Minor)] = pv
	}
	return Hidden{PVs: r.labels.pvs}
}

// labelsToRead returns the devices with the label of a physical volume that LVM does not list, sorted by name, if the
// plan depends on them. Their labels are read directly from the devices, into Seen.Hidden.
func labelsToRead(w Wanted, s Seen) []device.Device {
	if !needsHidden(w, s) {
		return nil
	}
	return hiddenDevices(s)
}

// needsHidden returns true if hidden physical volumes matter, because a volume group is missing or incomplete, or
// because devices may be wiped.
func needsHidden(w Wanted, s Seen) bool {
	vg := groupOf(w, s)
	return vg == nil || vg.MissingPVs > 0 ||
		slices.ContainsFunc(w.Selectors, func(d v1alpha1.DeviceSelector) bool { return mayWipe(&d) })
}

// hiddenDevices returns the devices with the label of a physical volume that LVM does not list, sorted by name. It
// omits a copy of a listed physical volume, and disks of virtual machines on logical volumes.
func hiddenDevices(s Seen) []device.Device {
	numbers := map[device.Number]bool{}
	uuids := map[string]bool{}
	for _, pv := range s.Report.PVs() {
		if !pv.Missing {
			numbers[numberOf(pv)] = true
			uuids[pv.UUID] = true
		}
	}
	var hidden []device.Device
	for _, d := range s.Devices {
		path := slices.ContainsFunc(d.Children, func(c device.Child) bool { return c.Type == "mpath" })
		if d.Signature == device.SignatureLVM && d.Type != "lvm" && !path && !numbers[d.Number] && !uuids[d.UUID] {
			hidden = append(hidden, d)
		}
	}
	return hidden
}

// hiddenVG is a volume group of a device class that LVM does not list.
type hiddenVG struct {
	lvm.VG
	systemID string
	devices  []device.Device
}

// hiddenGroup returns the volume groups of this product that have the name of a device class and that LVM does not
// list.
func hiddenGroup(w Wanted, s Seen) []hiddenVG {
	var groups []hiddenVG
	for _, d := range s.Devices {
		pv, ok := s.Hidden.PVs[d.Number]
		if !ok || pv.VGName != w.Name || !isOfProduct(pv.VGTags) {
			continue
		}
		at := slices.IndexFunc(groups, func(g hiddenVG) bool { return g.UUID == pv.VGUUID })
		if at < 0 {
			at = len(groups)
			groups = append(groups, hiddenVG{VG: lvm.VG{Name: pv.VGName, UUID: pv.VGUUID, Tags: pv.VGTags},
				systemID: pv.SystemID})
		}
		groups[at].devices = append(groups[at].devices, d)
	}
	return groups
}

// planHidden is the plan if LVM does not list the volume group of the device class, although its disks have it. No
// new group is created. If adopt has its UUID, the disks are added to the devices file.
func planHidden(w Wanted, s Seen, groups []hiddenVG, c choice) Plan {
	p := Plan{State: v1alpha1.VGStatusFailed, Excluded: c.excluded, Lost: wasThere(w, s)}
	for _, g := range groups {
		problem := notOurs(w, &g.VG)
		if problem == "" && adopted(w, &g.VG) {
			p.State = v1alpha1.VGStatusProgressing
			p.Action = Action{Kind: UnhideVG, Hidden: g.devices, VGUUID: g.UUID}
			return p
		}
		p.Problems = append(p.Problems, g.problem(w, problem, p.Lost))
	}
	if p.Lost {
		p.State = v1alpha1.VGStatusDegraded
	}
	p.Problems = append(p.Problems, c.problems...)
	return p
}

// problem describes a hidden volume group: its owner, if it is not this node, and how to make LVM list the group.
func (g hiddenVG) problem(w Wanted, foreign string, lost bool) Problem {
	names := strings.Join(device.Names(g.devices), " ")
	var commands []string
	for _, d := range g.devices {
		commands = append(commands, "lvmdevices --adddev "+d.Name)
	}
	hint := fmt.Sprintf(
		"LVM on this node does not list its devices %s: see its devices file (%s), the filter in lvm.conf",
		names, strings.Join(commands, "; "))
	if g.systemID != "" {
		hint += fmt.Sprintf(", and the system ID of the volume group, %s (lvmsystemid(7))", g.systemID)
	}
	if foreign == "" {
		foreign = fmt.Sprintf("volume group %s (%s) is on the disks of node %s, and its LVM does not list it: to use "+
			"it with the volumes in it, "+
			"add to the device class: adopt: [{node: %s, volumeGroupUUID: %s}]", w.Name, g.UUID, w.Node, w.Node, g.UUID)
	}
	p := Problem{Event: EventForeignVolumeGroup, Message: foreign + "; " + hint}
	if lost {
		p = deviceProblem(v1alpha1.ReasonDeviceMissing, p.Message, nil)
		p.WholeClass = true
	}
	return p
}

// unhide adds the devices of a volume group to LVM's devices file. It reads the labels again before, and checks the
// result.
func (r *Reconciler) unhide(ctx context.Context, w Wanted, a Action) error {
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
		err := r.LVM.DevicesFileAdd(ctx, d.Name)
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
			"volume group %s (%s) of node %s is still not listed by LVM, though its devices are in the devices file: "+
				"see the filter in lvm.conf, and the system ID of the volume group (lvmsystemid(7))", w.Name,
			a.VGUUID, w.Node)
	}
	return nil
}
