package webhook

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/wwn"
)

// place is a disk of a node.
type place struct {
	wwn.Disk
	node, device string
}

// namedDisk is a disk of a node that a path of a device class names.
type namedDisk struct {
	use
	place
}

// placeOf returns the disk that a device is on, for the comparison with other nodes. Its Key is "" if it cannot be
// compared: a serial number without a WWN does not count, because virtual machines often have the same ones.
func placeOf(node string, d *lvmv1alpha1.DeviceStatus) place {
	disk := wwn.Disk{WWN: d.WWN, Serial: d.Serial, Transport: d.Transport}
	if wwn.Key(disk.WWN) == "" {
		disk.WWN = wwn.OfIdentity(d.ID)
	}
	return place{Disk: disk, node: node, device: d.Name}
}

// namedDisks returns the disks with a WWN that device classes name, sorted by node.
func (i inventory) namedDisks(classes []lvmv1alpha1.DeviceClass) []namedDisk {
	var list []namedDisk
	all := selections(classes)
	for n := range i.nodes {
		node := &i.nodes[n]
		devices := i.devicesOf(node.Name)
		for _, u := range usesOn(node, all) {
			if d := devices.at(u.path); d != nil && wwn.Key(placeOf(node.Name, d).WWN) != "" {
				list = append(list, namedDisk{use: u, place: placeOf(node.Name, d)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b namedDisk) int { return strings.Compare(a.node, b.node) })
	return list
}

// on identifies a disk on a node.
func (p place) on() string { return p.node + " " + wwn.Key(p.WWN) }

// elsewhere returns the places of other nodes that have the same disk.
func (p place) elsewhere(all []place) []place {
	return slices.DeleteFunc(slices.Clone(all),
		func(o place) bool { return o.node == p.node || !wwn.Same(p.Disk, o.Disk) })
}

// sharedDisks returns a violation for each path that newly names a disk on several nodes. It returns a warning if the
// old spec already named all of them, and for a disk that is named on one node and attached to others.
func (i inventory) sharedDisks(old, after []lvmv1alpha1.DeviceClass) (field.ErrorList, []string) {
	named := i.namedDisks(after)
	if len(named) == 0 {
		return nil, nil
	}
	before := map[string]bool{}
	for _, d := range i.namedDisks(old) {
		before[d.on()] = true
	}
	var chosen []place
	for _, d := range named {
		chosen = append(chosen, d.place)
	}
	attached := i.places(chosen)
	var violations field.ErrorList
	var warnings []string
	reported := map[string]bool{}
	for _, d := range named {
		others := d.elsewhere(chosen)
		visible := d.elsewhere(attached)
		isNew := func(o place) bool { return !before[o.on()] }
		switch {
		case reported[d.at.String()]:
			continue
		case len(others) > 0 && isNew(d.place):
			violations = append(violations, field.Invalid(d.at, d.path, "names one disk on several nodes"+
				describeShared(d.place, others)))
		case len(others) > 0 && slices.ContainsFunc(others, isNew):
			continue // the violation is at the path that names the other one
		case len(others) > 0:
			warnings = append(warnings, fmt.Sprintf("%s: device class %q: %s names one disk on several nodes%s", d.at,
				d.class.Name, d.path, describeShared(d.place, others)))
		case len(visible) > 0:
			warnings = append(warnings, fmt.Sprintf("%s: device class %q: %s names a disk that is attached to several "+
				"nodes%s", d.at, d.class.Name, d.path, describeShared(d.place, visible)))
		default:
			continue
		}
		reported[d.at.String()] = true
	}
	return violations, warnings
}

// places returns where disks with the WWNs of some are attached.
func (i inventory) places(some []place) []place {
	keys := map[string]bool{}
	for _, p := range some {
		keys[wwn.Key(p.WWN)] = true
	}
	var all []place
	for node := range i.statuses {
		devices := i.statuses[node].Status.Devices
		for n := range devices {
			p := placeOf(node, &devices[n])
			if devices[n].State != lvmv1alpha1.DeviceMissing && keys[wwn.Key(p.WWN)] {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return strings.Compare(a.node+" "+a.device, b.node+" "+b.device)
	})
	return all
}

// describeShared returns the nodes that have one disk, and what to do, as the end of a message.
func describeShared(p place, others []place) string {
	var names []string
	for _, o := range append([]place{p}, others...) {
		if name := fmt.Sprintf("%s (%s)", o.node, o.device); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return fmt.Sprintf(", by its WWN %s: %s. Two nodes that use one disk destroy its data, so none takes it: present "+
		"the disk to one node only (zoning, LUN masking), and name it for that node only (nodeSelector of the device "+
		"class or of an entry of deviceSelectors); if these are different disks with the same WWN, give each its own",
		p.WWN, shown(names))
}
