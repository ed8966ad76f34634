package volumegroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// choice is what the rules say about each device.
type choice struct {
	// candidates passed all rules and are not in the volume group yet.
	candidates []device.Device
	excluded   []v1alpha1.ExcludedDevice
	// problems are devices that are asked for and cannot be had.
	problems []string
}

// choose applies the deviceSelector, or the discovery policy where there is none.
func choose(w Wanted, s Seen, vg *lvm.VG) choice {
	c := choice{}
	pvs := physicalVolumes(s.Report)
	if w.Spec.DeviceSelector != nil {
		c.named(w, s, pvs)
	} else {
		c.discovered(w, s, pvs, vg != nil)
	}
	slices.SortFunc(c.excluded, func(a, b v1alpha1.ExcludedDevice) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// physicalVolumes is LVM's view of the devices, by number.
func physicalVolumes(report *lvm.Report) map[device.Number]device.PV {
	pvs := map[device.Number]device.PV{}
	for _, pv := range report.PVs() {
		if !pv.Missing {
			pvs[device.NewNumber(pv.Major, pv.Minor)] = device.PV{UUID: pv.UUID, Group: pv.VGName, InUse: pv.InUse}
		}
	}
	return pvs
}

// named goes through the paths of the deviceSelector.
func (c *choice) named(w Wanted, s Seen, pvs map[device.Number]device.PV) {
	taken := map[device.Number]bool{}
	for _, path := range s.Paths {
		if path.Err != nil {
			c.unresolved(w, path)
			continue
		}
		if pvs[path.Number].Group == w.Name || taken[path.Number] {
			continue
		}
		taken[path.Number] = true
		d, reasons := examine(s, pvs, path.Number)
		reasons = slices.DeleteFunc(reasons, func(r device.Reason) bool { return slices.Contains(acceptedWhenNamed, r.Code) })
		if len(reasons) == 0 {
			c.candidates = append(c.candidates, d)
			continue
		}
		c.exclude(path.Path, reasons)
		if !path.Optional {
			c.problems = append(c.problems, fmt.Sprintf("device %s of node %s cannot be used: it %s", path.Path, w.Node, sentences(reasons)))
		}
	}
}

// acceptedWhenNamed are reasons against a device that is found, but not against one that somebody named. A physical volume of no
// volume group is what "pvcreate" leaves, and holds no data; LVM itself takes it without a question.
var acceptedWhenNamed = []device.Code{device.Removable, device.UnassignedPV}

// examine returns a device and everything against it.
func examine(s Seen, pvs map[device.Number]device.PV, number device.Number) (device.Device, []device.Reason) {
	at := slices.IndexFunc(s.Devices, func(d device.Device) bool { return d.Number == number })
	if at < 0 {
		return device.Device{}, []device.Reason{{Code: device.Unreadable, Message: "is not listed by lsblk: it has no medium, or no size"}}
	}
	d := s.Devices[at]
	return d, merge(device.Explain(d, pvs), s.Probed[d.Number])
}

// merge appends the reasons of a probe. It finds again what udev had noted.
func merge(reasons, probed []device.Reason) []device.Reason {
	for _, r := range probed {
		if !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
	}
	return reasons
}

// unresolved is no reason to do anything, above all not to remove anything: links of udev come and go.
func (c *choice) unresolved(w Wanted, path Path) {
	missing := errors.Is(path.Err, device.ErrMissing)
	if path.Optional && missing {
		return
	}
	if missing {
		c.problems = append(c.problems, fmt.Sprintf("device %s does not exist on node %s: attach it, or correct deviceSelector.paths", path.Path, w.Node))
		return
	}
	c.problems = append(c.problems, fmt.Sprintf("device %s of node %s cannot be used: %v", path.Path, w.Node, path.Err))
}

// discovered goes through all devices of the node.
func (c *choice) discovered(w Wanted, s Seen, pvs map[device.Number]device.PV, exists bool) {
	late := exists && w.Spec.DeviceDiscoveryPolicy != v1alpha1.DeviceDiscoveryDynamic
	for _, d := range s.Devices {
		if pvs[d.Number].Group == w.Name {
			continue
		}
		_, reasons := examine(s, pvs, d.Number)
		if slices.ContainsFunc(reasons, func(r device.Reason) bool { return slices.Contains(unlisted, r.Code) }) {
			continue
		}
		if len(reasons) == 0 && late {
			reasons = []device.Reason{{Code: notAtCreation, Message: "appeared after the volume group was made, and deviceDiscoveryPolicy is Static: name it in deviceSelector, or use the policy Dynamic"}}
		}
		if len(reasons) == 0 {
			c.candidates = append(c.candidates, d)
			continue
		}
		c.exclude(d.Name, reasons)
	}
}

// notAtCreation is the reason against a good device that came too late.
const notAtCreation device.Code = "NotAtCreation"

// unlisted devices are no disks that anybody would look for among the excluded ones.
var unlisted = []device.Code{device.LVMInternal, device.UnsupportedType, device.KubernetesLoop}

func (c *choice) exclude(name string, reasons []device.Reason) {
	excluded := v1alpha1.ExcludedDevice{Name: name}
	for _, r := range reasons {
		excluded.Reasons = append(excluded.Reasons, r.String())
	}
	c.excluded = append(c.excluded, excluded)
}

func sentences(reasons []device.Reason) string {
	var list []string
	for _, r := range reasons {
		list = append(list, r.Message)
	}
	return strings.Join(list, "; ")
}
