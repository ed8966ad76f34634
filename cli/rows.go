package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// typeMeta returns the type of an output.
func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: OutputVersion, Kind: kind}
}

// newDevices returns the devices of nodes that are in one of the states, or all if there are no states.
func newDevices(nodes []v1alpha1.LVMVolumeGroupNodeStatus, states []string, now time.Time) DeviceList {
	all := DeviceList{TypeMeta: typeMeta("DeviceList"), Items: []Device{}, Nodes: newNodes(nodes, now)}
	for i := range nodes {
		node := &nodes[i]
		for j := range node.Status.Devices {
			device := &node.Status.Devices[j]
			if len(states) == 0 || slices.Contains(states, string(device.State)) {
				suspended, message := membershipOf(node, device)
				all.Items = append(all.Items, Device{Node: node.Name, DeviceClasses: classesOf(node, device),
					Suspended: suspended, Message: message, DeviceStatus: *device})
			}
		}
	}
	slices.SortStableFunc(all.Items, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// newClasses returns the device classes of nodes that have a name, or all if it is empty.
func newClasses(nodes []v1alpha1.LVMVolumeGroupNodeStatus, name string, now time.Time) ClassList {
	all := ClassList{TypeMeta: typeMeta("ClassList"), Items: []Class{}, Nodes: newNodes(nodes, now)}
	for i := range nodes {
		for _, group := range nodes[i].Status.NodeStatus {
			if name == "" || group.Name == name {
				all.Items = append(all.Items, Class{Node: nodes[i].Name, VGStatus: group})
			}
		}
	}
	slices.SortStableFunc(all.Items, func(a, b Class) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Node, b.Node))
	})
	return all
}

// newNodes returns whether what is known about nodes is current, by name.
func newNodes(statuses []v1alpha1.LVMVolumeGroupNodeStatus, now time.Time) []Node {
	nodes := []Node{}
	for i := range statuses {
		reason, message := notCurrent(&statuses[i], now)
		nodes = append(nodes, Node{Name: statuses[i].Name, Current: reason == "", Message: single(message),
			DevicesOmitted: statuses[i].Status.DevicesOmitted})
	}
	slices.SortStableFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// classesOf returns the device classes of a node that use a device. Several can share a volume group.
func classesOf(node *v1alpha1.LVMVolumeGroupNodeStatus, device *v1alpha1.DeviceStatus) []string {
	var names []string
	for i := range node.Status.NodeStatus {
		if group := &node.Status.NodeStatus[i]; uses(group, device) {
			names = append(names, group.Name)
		}
	}
	return names
}

// membershipOf returns whether a device of a volume group is suspended, and the message about the device there.
func membershipOf(node *v1alpha1.LVMVolumeGroupNodeStatus,
	device *v1alpha1.DeviceStatus) (suspended bool, text string) {
	for _, group := range node.Status.NodeStatus {
		for _, pv := range group.PhysicalVolumes {
			if uses(&v1alpha1.VGStatus{PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{pv}}, device) {
				suspended = suspended || pv.Suspended
				text = cmp.Or(text, single(pv.Message))
			}
		}
	}
	return suspended, text
}

// uses returns true if a volume group uses a device. The UUID of the physical volume decides, because the name of a
// missing device can be that of another one now. Upstream LVMS reports no physical volumes.
func uses(group *v1alpha1.VGStatus, device *v1alpha1.DeviceStatus) bool {
	if len(group.PhysicalVolumes) == 0 {
		return slices.Contains(group.Devices, device.Name)
	}
	return slices.ContainsFunc(group.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		if device.PVUUID != "" {
			return pv.UUID == device.PVUUID
		}
		return pv.Name == device.Name && pv.State != v1alpha1.PhysicalVolumeMissing
	})
}

// place is a device class on a node.
type place struct{ node, class string }

// location is where a device is used.
type location struct {
	// places are the device classes whose volume group has the device.
	places []place
	// shared is true if a volume group has other devices too, so that a volume of it need not be on the device.
	shared bool
}

// locate returns where the device with a name is used, itself or through devices that are built on it, and false if no
// node has it. The name is a path, the ID, a link in /dev/disk/by-id or /dev/disk/by-path, or the UUID of the physical
// volume.
func locate(nodes []v1alpha1.LVMVolumeGroupNodeStatus, name string) (location, bool) {
	at, found := location{}, false
	for i := range nodes {
		node := &nodes[i]
		devices := devicesNamed(node, name)
		found = found || len(devices) > 0
		for j := range node.Status.NodeStatus {
			group := &node.Status.NodeStatus[j]
			if slices.ContainsFunc(devices, func(d *v1alpha1.DeviceStatus) bool { return uses(group, d) }) ||
				len(devices) == 0 && hasPhysicalVolume(group, name) {
				found = true
				at.places = append(at.places, place{node: node.Name, class: group.Name})
				at.shared = at.shared || max(len(group.PhysicalVolumes), len(group.Devices)) > 1
			}
		}
	}
	return at, found
}

// devicesNamed returns the devices of a node with a name, and those that are built on them: partitions, multipath
// devices, arrays and mappings.
func devicesNamed(node *v1alpha1.LVMVolumeGroupNodeStatus, name string) []*v1alpha1.DeviceStatus {
	var found []*v1alpha1.DeviceStatus
	for names := []string{name}; len(names) > 0; names = names[1:] {
		for i := range node.Status.Devices {
			device := &node.Status.Devices[i]
			if isNamed(device, names[0]) && !slices.Contains(found, device) {
				found = append(found, device)
				names = slices.Concat(names, device.Partitions, device.Holders)
			}
		}
	}
	return found
}

// isNamed returns true if a name is one of those of a device.
func isNamed(device *v1alpha1.DeviceStatus, name string) bool {
	return slices.Contains(namesOfDevice(device), name)
}

// namesOfDevice returns all names of a device; some may be empty.
func namesOfDevice(device *v1alpha1.DeviceStatus) []string {
	names := []string{device.Name, device.KernelName, device.ID, device.PVUUID}
	for _, link := range device.ByID {
		names = append(names, "/dev/disk/by-id/"+link)
	}
	for _, link := range device.ByPath {
		names = append(names, "/dev/disk/by-path/"+link)
	}
	return names
}

// hasPhysicalVolume returns true if a volume group has a device that the list of devices does not have.
func hasPhysicalVolume(group *v1alpha1.VGStatus, name string) bool {
	return slices.ContainsFunc(group.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return pv.Name == name || pv.DeviceID == name || pv.UUID == name
	})
}

// volumeFilter selects volumes. An empty field selects all.
type volumeFilter struct {
	namespace, claim string
	node, class      string
	// places are the device classes that have a device. If it is nil, it selects all.
	places []place
}

func (f volumeFilter) matches(v Volume) bool {
	namespace, name, _ := strings.Cut(v.Claim, "/")
	isAt := f.places == nil || slices.ContainsFunc(f.places, func(p place) bool {
		// A LogicalVolume without a device class is in the default one, which may be any.
		return p.node == v.Node && (v.DeviceClass == "" || p.class == v.DeviceClass)
	})
	return isAt && (f.namespace == "" || f.namespace == namespace) && (f.claim == "" || f.claim == name) &&
		(f.node == "" || f.node == v.Node) && (f.class == "" || f.class == v.DeviceClass)
}

// newVolumes returns the volumes that a filter selects.
func newVolumes(volumes []topolvmv1.LogicalVolume, filter volumeFilter) VolumeList {
	all := VolumeList{TypeMeta: typeMeta("VolumeList"), Items: []Volume{}}
	for i := range volumes {
		if v := newVolume(&volumes[i]); filter.matches(v) {
			all.Items = append(all.Items, v)
		}
	}
	slices.SortStableFunc(all.Items, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Node, b.Node),
			cmp.Compare(a.LogicalVolume, b.LogicalVolume))
	})
	return all
}

func newVolume(lv *topolvmv1.LogicalVolume) Volume {
	state, message := stateOf(lv)
	inForce, requested := limitsOf(lv)
	return Volume{Claim: lv.Annotations[v1alpha1.ClaimAnnotation], Node: lv.Spec.NodeName,
		PartOfMove:  lv.Annotations[v1alpha1.MoveAnnotation] != "",
		DeviceClass: lv.Spec.DeviceClass, State: state, Message: single(message), Size: lv.Spec.Size,
		CurrentSize: lv.Status.CurrentSize, LogicalVolume: lv.Name, VolumeID: lv.Status.VolumeID,
		Suspended: suspensionText(lv), Source: lv.Spec.Source,
		Encryption: single(lv.Annotations[v1alpha1.EncryptionAnnotation]), IOLimits: inForce,
		IOLimitsRequested: requested, IOLimitsError: single(lv.Annotations[v1alpha1.IOLimitsErrorAnnotation])}
}

// limitsOf returns the I/O limits of a volume that are in force, and those that are requested but not in force.
func limitsOf(lv *topolvmv1.LogicalVolume) (inForce, requested string) {
	inForce, requested = lv.Annotations[v1alpha1.IOLimitsInForceAnnotation],
		lv.Annotations[v1alpha1.IOLimitsAnnotation]
	if requested == inForce {
		requested = ""
	}
	if inForce == v1alpha1.NoIOLimits {
		inForce = ""
	}
	return inForce, requested
}

// limitsText is the cell of a table for the I/O limits of a volume.
func limitsText(v Volume) string {
	if v.IOLimitsRequested == "" {
		return v.IOLimits
	}
	return cmp.Or(v.IOLimits, v1alpha1.NoIOLimits) + " (requested: " + v.IOLimitsRequested + ")"
}

// suspensionText says why new Pods do not get a volume, or returns "" if they do.
func suspensionText(lv *topolvmv1.LogicalVolume) string {
	var reasons []string
	if text, suspended := lv.Annotations[v1alpha1.SuspendedAnnotation]; suspended {
		reasons = append(reasons, "suspended "+cmp.Or(single(text), "by an unknown user"))
	}
	if devices := lv.Annotations[v1alpha1.SuspendedDevicesAnnotation]; devices != "" {
		reasons = append(reasons, "has data on the suspended device "+devices)
	}
	return strings.Join(reasons, separator)
}

// isCopying reports whether the data of another volume is being copied to a volume, which the node agent reports with
// this code. Errors of a copy have other codes.
func isCopying(lv *topolvmv1.LogicalVolume) bool {
	return lv.Spec.Source != "" && lv.Status.VolumeID == "" && lv.Status.Code == codes.Aborted
}

func stateOf(lv *topolvmv1.LogicalVolume) (VolumeState, string) {
	condition := lv.Annotations[v1alpha1.ConditionAnnotation]
	switch {
	case lv.DeletionTimestamp != nil:
		return VolumeDeleting, cmp.Or(lv.Status.Message, condition)
	case isCopying(lv):
		return VolumeCopying, lv.Status.Message
	case lv.Status.Code != codes.OK:
		return VolumeFailed, cmp.Or(lv.Status.Message, lv.Status.Code.String())
	case condition != "":
		return VolumeAbnormal, condition
	case suspensionText(lv) != "":
		return VolumeSuspended, suspensionText(lv)
	case lv.Status.VolumeID == "":
		return VolumePending, ""
	case lv.Status.CurrentSize != nil && lv.Status.CurrentSize.Cmp(lv.Spec.Size) < 0:
		return VolumeExpanding, fmt.Sprintf("The size is %s now.", sizeOf(lv.Status.CurrentSize))
	case lv.Annotations[v1alpha1.UnclaimedAnnotation] == "true":
		return VolumeUnclaimed, "No PersistentVolume, snapshot or claim refers to the volume."
	}
	return VolumeReady, ""
}

// messagesOf returns the messages of reasons, or the codes of those without a message.
func messagesOf(reasons []v1alpha1.DeviceReason) string {
	var messages []string
	for _, r := range reasons {
		messages = append(messages, single(cmp.Or(r.Message, r.Code)))
	}
	return strings.Join(messages, separator)
}
