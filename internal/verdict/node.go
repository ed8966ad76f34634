package verdict

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// nodeProblems returns the problems that the node statuses report.
func nodeProblems(nodes []v1alpha1.LVMVolumeGroupNodeStatus, now time.Time) []Problem {
	var problems []Problem
	for i := range nodes {
		node := &nodes[i]
		if reason, message := NotCurrent(node, now); reason != "" {
			problems = append(problems, newProblem(reason, message,
				Problem{Subject: Node, Node: node.Name, Runbook: "LVMSNodeNotObserved"}))
		}
		for j := range node.Status.NodeStatus {
			problems = append(problems, problemsOfGroup(node.Name, &node.Status.NodeStatus[j])...)
		}
		problems = append(problems, deviceProblems(node)...)
	}
	return problems
}

// NotCurrent returns why the status of a node is not current, or "".
func NotCurrent(node *v1alpha1.LVMVolumeGroupNodeStatus, now time.Time) (reason, message string) {
	c := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionDevicesObserved)
	switch {
	case c != nil && c.Status == metav1.ConditionFalse:
		return c.Reason, c.Message
	case node.Status.IsStale(now):
		return v1alpha1.ReasonObservationOutdated, "The node agent has not observed the node since " +
			node.Status.LastObserved.UTC().Format(time.RFC3339) + "."
	case c == nil:
		return v1alpha1.ReasonNotObserved, "The node agent has not listed the devices of the node yet."
	case c.Status != metav1.ConditionTrue:
		return c.Reason, c.Message
	}
	return "", ""
}

func problemsOfGroup(node string, group *v1alpha1.VGStatus) []Problem {
	at := Problem{Subject: VolumeGroup, Node: node, DeviceClass: group.Name}
	problems := conditionProblems(at, group)
	rest := group.Reason
	for _, p := range problems {
		rest = without(rest, p.Message)
	}
	if group.Status != v1alpha1.VGStatusReady && (rest != "" || len(problems) == 0) {
		problems = append(problems, problemOfState(group.Status, rest, at))
	}
	devicesReported := meta.IsStatusConditionFalse(group.Conditions, v1alpha1.ConditionDevicesHealthy)
	return slices.Concat(problems, physicalVolumeProblems(at, group, devicesReported), orphanProblems(at, group))
}

func conditionProblems(at Problem, group *v1alpha1.VGStatus) []Problem {
	var problems []Problem
	for _, c := range group.Conditions {
		// What was not evaluated because of another problem is not one more problem.
		if c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonNotEvaluated {
			continue
		}
		at.Device = ""
		if c.Type == v1alpha1.ConditionDevicesHealthy {
			at.Device = strings.Join(lostDevices(group), ",")
		}
		problems = append(problems, problemOf(c, at))
	}
	isMissing := func(p Problem) bool { return p.Reason == v1alpha1.ReasonDeviceMissing }
	for i := range problems {
		if p := &problems[i]; meanings[p.Reason].action == repairAction && slices.ContainsFunc(problems, isMissing) {
			p.Action = afterDevice
		}
	}
	return problems
}

// lostDevices returns the devices of a volume group that are missing or failing.
func lostDevices(group *v1alpha1.VGStatus) []string {
	var names []string
	for _, pv := range group.PhysicalVolumes {
		if pv.State == v1alpha1.PhysicalVolumeMissing || pv.State == v1alpha1.PhysicalVolumeFailing {
			names = append(names, cmp.Or(pv.Name, pv.UUID))
		}
	}
	return names
}

// separator is between the messages in a reason of a volume group.
const separator = "; "

// without returns the messages in reason that are not in other.
func without(reason, other string) string {
	known := strings.Split(other, separator)
	rest := slices.DeleteFunc(strings.Split(reason, separator),
		func(message string) bool { return slices.Contains(known, message) })
	return strings.Join(rest, separator)
}

// problemOfState returns the problem of a volume group that is not ready.
func problemOfState(state v1alpha1.VGState, message string, at Problem) Problem {
	state = cmp.Or(state, v1alpha1.VGStatusProgressing)
	p := newProblem(groupReason+string(state), message, at)
	if state == v1alpha1.VGStatusProgressing && p.Message != "" {
		p.Action = "Wait. If it lasts for more than a few minutes, resolve the cause: " + p.Message
	}
	p.Action = cmp.Or(adoptAction(p), p.Action)
	return p
}

// adoptable is what the node agent says about a volume group of another node or cluster: what it is, and what would
// allow its use.
var adoptable = regexp.MustCompile(`^(.* so it is not changed\.) .*adopt: \[\{node: \S+, volumeGroupUUID: (\S+)\}\]`)

// adoptAction returns what to do about a volume group of another node or cluster, or "" if that is not the problem.
func adoptAction(p Problem) string {
	found := adoptable.FindStringSubmatch(p.Message)
	if found == nil {
		return ""
	}
	return fmt.Sprintf("%s Detach its disks or rename the device class. Or, if no other node and no other cluster "+
		"uses the disks, use the volume group with its volumes: kubectl lvms adopt --node %s --class %s "+
		"--volume-group %s. To destroy it instead, see its reason: kubectl lvms status -o yaml.", found[1], p.Node,
		p.DeviceClass, found[2])
}

// physicalVolumeProblems returns the physical volumes that need attention. If the condition of the devices reports
// those that are lost, it leaves them out.
func physicalVolumeProblems(at Problem, group *v1alpha1.VGStatus, lostReported bool) []Problem {
	var problems []Problem
	for _, pv := range group.PhysicalVolumes {
		reason := ""
		switch pv.State {
		case v1alpha1.PhysicalVolumeBlocked:
			reason = "DeviceBlocked"
		case v1alpha1.PhysicalVolumeMissing:
			reason = v1alpha1.ReasonDeviceMissing
		case v1alpha1.PhysicalVolumeFailing:
			reason = v1alpha1.ReasonDeviceFailing
		}
		if reason == "" || lostReported && pv.State != v1alpha1.PhysicalVolumeBlocked {
			continue
		}
		at.Device = cmp.Or(pv.Name, pv.UUID)
		problems = append(problems, newProblem(reason, pv.Message, at))
	}
	return problems
}

// orphans has what each kind of orphan means, and what to do.
var orphans = map[v1alpha1.OrphanKind]struct{ message, action string }{
	v1alpha1.OrphanLogicalVolume: {"The logical volume has no LogicalVolume object.",
		"If you need the data, run `kubectl lvms import`; otherwise, run `kubectl lvms orphans delete`."},
	v1alpha1.OrphanObject: {"The LogicalVolume object has no logical volume.",
		"If another node has the volume, which is then an orphan of the kind OtherNode there, import it on that " +
			"node. Otherwise, attach the disks with the volume again, or restore the data from a backup to a new " +
			"claim and delete the old one."},
	v1alpha1.OrphanOtherNode: {"LogicalVolume %s names node %s, which does not have the volume: the data is here.",
		"Do not delete the claim. Run `kubectl lvms import`, which moves the objects to this node and changes no " +
			"data."},
	v1alpha1.OrphanUnclaimed: {"No PersistentVolume, snapshot or claim refers to the volume.",
		"If you need the data, create an LVMRecovery with the action ImportVolumes; otherwise, delete the " +
			"LogicalVolume, and its data: kubectl delete logicalvolume NAME."},
}

func orphanProblems(at Problem, group *v1alpha1.VGStatus) []Problem {
	at.Subject = Orphan
	at.Severity = Info
	at.Runbook = "LVMSOrphansGrowing"
	var problems []Problem
	for _, orphan := range group.Orphans {
		p := at
		p.Claim = orphan.Claim
		p.Object = orphan.Name
		p.Reason = orphanReason + string(orphan.Kind)
		p.Message = orphans[orphan.Kind].message
		p.Action = orphans[orphan.Kind].action
		switch {
		case orphan.Kind == v1alpha1.OrphanOtherNode:
			p.Message = fmt.Sprintf(p.Message, orphan.Object, orphan.ObjectNode)
		case p.Message == "":
			p.Message = "The volume is an orphan of the kind " + string(orphan.Kind) + "."
			p.Action = p.Message
		}
		if orphan.RemovalTime != nil {
			p.Action = "Nothing: it is removed at " + orphan.RemovalTime.UTC().Format(time.RFC3339) +
				". To keep it, create an LVMRecovery with the action ImportVolumes before."
		}
		problems = append(problems, p)
	}
	if more := int(group.OrphanCount) - len(group.Orphans); more > 0 {
		at.Reason = orphanReason
		at.Message = fmt.Sprintf("There are %d more orphans, which the node status does not list.", more)
		at.Action = "Remove the orphans that are listed; the others are then listed."
		problems = append(problems, at)
	}
	return problems
}

// deviceActions has what to do for a device in a state that needs attention.
var deviceActions = map[v1alpha1.DeviceState]string{
	v1alpha1.DeviceFailing: "See the kernel's log of the node, and replace the device.",
	v1alpha1.DeviceUnknown: "See the kernel's log of the node; repair or detach the device.",
}

// deviceProblems returns the devices that fail or cannot be examined, and that no device class reports. A missing
// device is always one of a volume group. If no volume group has it, it was removed from one, and the list is older.
func deviceProblems(node *v1alpha1.LVMVolumeGroupNodeStatus) []Problem {
	var problems []Problem
	for i := range node.Status.Devices {
		device := &node.Status.Devices[i]
		action := deviceActions[device.State]
		if action == "" || len(ClassesOf(node, device)) > 0 {
			continue
		}
		problems = append(problems, Problem{Subject: Device, Severity: Warning, Reason: "Device" + string(device.State),
			Node: node.Name, Device: device.Name, Message: MessagesOf(device.Reasons), Action: action})
	}
	return problems
}

// ClassesOf returns the device classes of a node that use a device. Several can share a volume group.
func ClassesOf(node *v1alpha1.LVMVolumeGroupNodeStatus, device *v1alpha1.DeviceStatus) []string {
	var names []string
	for i := range node.Status.NodeStatus {
		if group := &node.Status.NodeStatus[i]; Uses(group, device) {
			names = append(names, group.Name)
		}
	}
	return names
}

// Uses returns true if a volume group uses a device. The UUID of the physical volume decides, because the name of a
// missing device can be that of another one now. Upstream LVMS reports no physical volumes.
func Uses(group *v1alpha1.VGStatus, device *v1alpha1.DeviceStatus) bool {
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

// MessagesOf returns the messages of reasons, or the codes of those without a message.
func MessagesOf(reasons []v1alpha1.DeviceReason) string {
	var messages []string
	for _, r := range reasons {
		messages = append(messages, oneLine(cmp.Or(r.Message, r.Code)))
	}
	return strings.Join(messages, separator)
}
