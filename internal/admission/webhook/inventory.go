package webhook

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

// inventory is what the node statuses report about devices. It may be outdated or incomplete; the node agent decides
// about devices that are not in it.
type inventory struct {
	nodes []corev1.Node
	// statuses has the node statuses by node. Their devices are reduced by identities.
	statuses map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus
}

// identities reduces devices to their names and the reasons why they are not used: a thousand nodes have tens of
// thousands of devices.
func identities(devices []lvmv1alpha1.DeviceStatus) []lvmv1alpha1.DeviceStatus {
	kept := make([]lvmv1alpha1.DeviceStatus, len(devices))
	for i := range devices {
		d := &devices[i]
		kept[i] = lvmv1alpha1.DeviceStatus{
			Name: d.Name, ID: d.ID, KernelName: d.KernelName, ByID: d.ByID, ByPath: d.ByPath,
			WWN: d.WWN, Serial: d.Serial, Transport: d.Transport, VolumeGroup: d.VolumeGroup,
			VolumeGroupUUID: d.VolumeGroupUUID, PVUUID: d.PVUUID, State: d.State, Reasons: d.Reasons,
		}
	}
	return kept
}

// nodeDevices maps all names of a node's devices to them: names, links, identities, and UUIDs of physical volumes.
type nodeDevices map[string]*lvmv1alpha1.DeviceStatus

func (i inventory) devicesOf(node string) nodeDevices {
	devices := nodeDevices{}
	list := i.statuses[node].Status.Devices
	for n := range list {
		if list[n].State == lvmv1alpha1.DeviceMissing {
			continue
		}
		for _, name := range namesOf(&list[n]) {
			devices[name] = &list[n]
		}
	}
	return devices
}

// namesOf returns all names of a device.
func namesOf(d *lvmv1alpha1.DeviceStatus) []string {
	names := []string{d.Name}
	for _, name := range []string{d.KernelName, d.ID, d.PVUUID} {
		if name != "" {
			names = append(names, name)
		}
	}
	for _, link := range d.ByID {
		names = append(names, "/dev/disk/by-id/"+link)
	}
	for _, link := range d.ByPath {
		names = append(names, "/dev/disk/by-path/"+link)
	}
	return names
}

// at returns the device with a path, name, identity or UUID, or nil if it is unknown.
func (n nodeDevices) at(name string) *lvmv1alpha1.DeviceStatus {
	if strings.HasPrefix(name, "/") {
		name = path.Clean(name)
	}
	return n[name]
}

// usesOn returns the paths that the device classes list for a node.
func usesOn(node *corev1.Node, all []selection) []use {
	var uses []use
	for _, s := range all {
		if selectsNode(s.class.NodeSelector, node) && selectsNode(s.node, node) {
			uses = append(uses, usesOf(s)...)
		}
	}
	return uses
}

// selectsNode reports whether a selector selects a node. It returns false for a selector that cannot be evaluated:
// other rules check that.
func selectsNode(selector *corev1.NodeSelector, node *corev1.Node) bool {
	if selector == nil {
		return true
	}
	selected, err := nodeaffinity.NewLazyErrorNodeSelector(selector).Match(node)
	return err == nil && selected
}

// validateUniqueDevices returns a violation if two paths resolve to the same device on a node, or if a node is selected
// by two selectors with the same path. It ignores pairs of paths that the old spec already had: the target of a name
// and the nodes of a label can change, and the present change may be the fix.
func (i inventory) validateUniqueDevices(old, after []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	reported := map[string]bool{}
	written := writtenIn(old)
	all := selections(after)
	for n := range i.nodes {
		node := &i.nodes[n]
		devices := i.devicesOf(node.Name)
		seen := map[string]use{}
		for _, u := range usesOn(node, all) {
			device := devices.at(u.path)
			what := path.Clean(u.path)
			if device != nil {
				what = device.Name
			}
			other, taken := seen[what]
			if !taken {
				seen[what] = u
				continue
			}
			wereThere := written[u.key()] && written[other.key()]
			if wereThere || reported[u.at.String()] || u.same(other) && u.meets(other.selection) {
				continue // Another rule has already reported selectors that overlap on every node.
			}
			reported[u.at.String()] = true
			violations = append(violations, field.Invalid(u.at, u.path, fmt.Sprintf(
				"resolves to the same device on node %s%s as %s at %s%s", node.Name, known(device), other.path,
				other.at, remedy(u, other))))
		}
	}
	return violations
}

// same reports whether two uses have the same path.
func (u use) same(other use) bool { return path.Clean(u.path) == path.Clean(other.path) }

// known returns the name and identity of a device in parentheses, or "" if the device is unknown.
func known(d *lvmv1alpha1.DeviceStatus) string {
	if d == nil {
		return ""
	}
	return " (" + calledAs(d) + ")"
}

func calledAs(d *lvmv1alpha1.DeviceStatus) string { return strings.TrimSpace(d.Name + " " + d.ID) }

func remedy(u, other use) string {
	if u.class.Name == other.class.Name {
		return ": name it once"
	}
	return fmt.Sprintf(", in device class %q: a device can belong to only one device class; remove it from one of "+
		"them",
		other.class.Name)
}

// key identifies a path in a device class, regardless of its position.
func (u use) key() string { return u.class.Name + " " + path.Clean(u.path) }

func writtenIn(classes []lvmv1alpha1.DeviceClass) map[string]bool {
	written := map[string]bool{}
	for _, s := range selections(classes) {
		for _, u := range usesOf(s) {
			written[u.key()] = true
		}
	}
	return written
}

// nodesShown is the number of nodes that a warning names. It counts the others.
const nodesShown = 3

func shown(nodes []string) string {
	noun := "node "
	if len(nodes) > 1 {
		noun = "nodes "
	}
	if rest := len(nodes) - nodesShown; rest > 0 {
		return noun + strings.Join(nodes[:nodesShown], ", ") + fmt.Sprintf(" and %d more", rest)
	}
	return noun + strings.Join(nodes, ", ")
}

// unknownNodes returns warnings for requests and adoptions on nodes that do not exist.
func (i inventory) unknownNodes(classes []lvmv1alpha1.DeviceClass) []string {
	exists := func(name string) bool {
		return slices.ContainsFunc(i.nodes, func(n corev1.Node) bool { return n.Name == name })
	}
	var all []string
	for c, class := range classes {
		for r, request := range class.DeviceRequests {
			if !exists(request.Node) {
				all = append(all, fmt.Sprintf("%s: device class %q: node %q does not exist: the request to %s %s "+
					"remains pending until it does; correct the name or delete the request",
					classesPath.Index(c).Child("deviceRequests").Index(r).Child("node"), class.Name, request.Node,
					strings.ToLower(string(request.Action)), request.Device))
			}
		}
		for a, adoption := range class.Adopt {
			if !exists(adoption.Node) {
				all = append(all, fmt.Sprintf("%s: device class %q: node %q does not exist: volume group %s cannot "+
					"be adopted there; correct the name or delete the entry",
					classesPath.Index(c).Child("adopt").Index(a).Child("node"), class.Name, adoption.Node,
					adoption.VolumeGroupUUID))
			}
		}
	}
	return all
}

// holdsOn reports whether a selection applies to a node. For an unknown node it returns true.
func (i inventory) holdsOn(s selection, node string) bool {
	at := slices.IndexFunc(i.nodes, func(n corev1.Node) bool { return n.Name == node })
	return at < 0 || selectsNode(s.class.NodeSelector, &i.nodes[at]) && selectsNode(s.node, &i.nodes[at])
}

// Reason codes of docs/reference/devices.md. Naming a device does not override the obstacles. A wipe removes the
// contents.
var (
	obstacles = []string{
		"IsOSDisk", "Mounted", "SwapInUse", "HasHolders", "InVolumeGroup", "ReadOnly", "PartitionReserved",
		"MultipathMember", "Busy",
		"DuplicatePV", "UnsupportedType", "LVMInternal", "KubernetesLoop", "TooSmall",
	}
	contents = []string{"HasSignature", "HasPartitions", "RAIDMember", "LUKSLocked", "CephBlueStore"}
)

// obstacle returns why a device of a node that a selector names cannot be used, or "".
func obstacle(d *lvmv1alpha1.DeviceStatus, class lvmv1alpha1.DeviceClass, node string,
	selector *lvmv1alpha1.DeviceSelector) string {
	if d.State == lvmv1alpha1.DeviceAvailable || d.VolumeGroup == class.Name {
		return ""
	}
	codes := slices.Clone(obstacles)
	if !wipes(selector) {
		codes = append(codes, contents...)
	}
	if len(selector.WipeVolumeGroups) > 0 && d.VolumeGroup != "" || adopts(class, node, d) {
		// The logical volumes of a volume group hold its devices.
		codes = slices.DeleteFunc(codes, func(c string) bool { return c == "InVolumeGroup" || c == "HasHolders" })
	}
	for _, code := range codes {
		for _, reason := range d.Reasons {
			if reason.Code != code {
				continue
			}
			if reason.Message == "" {
				return code
			}
			return code + ": " + reason.Message
		}
	}
	return ""
}

// adopts reports whether a device class uses the volume group of a device of a node with its volumes.
func adopts(class lvmv1alpha1.DeviceClass, node string, d *lvmv1alpha1.DeviceStatus) bool {
	return d.VolumeGroupUUID != "" && slices.Contains(class.Adopt,
		lvmv1alpha1.VolumeGroupAdoption{Node: node, VolumeGroupUUID: d.VolumeGroupUUID})
}

// unusable returns warnings for paths whose devices cannot be used on any node that is known to have them.
func (i inventory) unusable(classes []lvmv1alpha1.DeviceClass) []string {
	type finding struct {
		use
		nodes  []string
		reason string
		usable bool
	}
	found := map[string]*finding{}
	order := []string(nil)
	all := selections(classes)
	for n := range i.nodes {
		node := &i.nodes[n]
		devices := i.devicesOf(node.Name)
		for _, u := range usesOn(node, all) {
			device := devices.at(u.path)
			if device == nil {
				continue
			}
			f, known := found[u.at.String()]
			if !known {
				f = &finding{use: u}
				found[u.at.String()] = f
				order = append(order, u.at.String())
			}
			reason := obstacle(device, u.class, node.Name, u.selector)
			if reason == "" {
				f.usable = true
				continue
			}
			if f.nodes = append(f.nodes, node.Name); f.reason == "" {
				f.reason = calledAs(device) + " " + reason
			}
		}
	}
	var warnings []string
	for _, at := range order {
		if f := found[at]; !f.usable {
			warnings = append(warnings, fmt.Sprintf("%s: device class %q: %s cannot be used on %s: %s", at,
				f.class.Name, f.path, shown(f.nodes), f.reason))
		}
	}
	return warnings
}

// tooFewDevices returns warnings for nodes on which fewer devices are named than the RAID level or the stripes of the
// device class need. This is not an error: the administrator of the LVMCluster may not control which nodes exist.
func (i inventory) tooFewDevices(classes []lvmv1alpha1.DeviceClass) []string {
	var warnings []string
	for _, class := range classes {
		least, why := classspec.MinimumDevices(class.RAIDConfig, class.ThinPoolConfig, class.ThickConfig)
		if least <= 1 || !allNamed(class) {
			continue
		}
		var nodes []string
		for n := range i.nodes {
			count := len(usesOn(&i.nodes[n], selections([]lvmv1alpha1.DeviceClass{class})))
			if count > 0 && count < least {
				nodes = append(nodes, i.nodes[n].Name)
			}
		}
		if len(nodes) > 0 {
			warnings = append(warnings, fmt.Sprintf(
				"device class %q: %s requires at least %d devices, but fewer are named for %s: no volume can be "+
					"created there",
				class.Name, why, least, shown(nodes)))
		}
	}
	return warnings
}

// allNamed reports whether a device class uses only named devices.
func allNamed(class lvmv1alpha1.DeviceClass) bool {
	all := selections([]lvmv1alpha1.DeviceClass{class})
	return len(all) > 0 && !slices.ContainsFunc(all, func(s selection) bool { return !named(s.selector) })
}
