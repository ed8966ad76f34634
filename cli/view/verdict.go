package view

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/recovery"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// observed are the objects of which `status` tells.
type observed struct {
	clusters     []v1alpha1.LVMCluster
	operators    []operatorState
	nodeStatuses []v1alpha1.LVMVolumeGroupNodeStatus
	recoveries   []v1alpha1.LVMRecovery
	volumes      []topolvmv1.LogicalVolume
	unreadable   []output.Unreadable
	notes        []string
}

// newStatus returns the problems in the objects. It depends only on its arguments.
func newStatus(o observed, now time.Time) output.Status {
	onNodes := nodeProblems(o.nodeStatuses, now)
	problems := slices.Concat(operatorProblems(o.operators), clusterProblems(o, onNodes), onNodes,
		recoveryProblems(o.recoveries),
		volumeProblems(o.volumes))
	if problems == nil {
		problems = []output.Problem{}
	}
	status := output.Status{TypeMeta: output.TypeMeta("Status"), LVMClusters: []output.Cluster{}, Problems: problems,
		Unreadable: append([]output.Unreadable{}, o.unreadable...), Notes: o.notes, Complete: len(o.unreadable) == 0}
	status.SuspendedVolumes, status.SuspendedDevices = suspendedIn(o)
	for _, cluster := range o.clusters {
		status.LVMClusters = append(status.LVMClusters, output.Cluster{Namespace: cluster.Namespace, Name: cluster.Name,
			State: cmp.Or(cluster.Status.State, v1alpha1.LVMStatusUnknown), VolumeGroups: cluster.Status.VolumeGroups,
			Size: cluster.Status.Size, Free: cluster.Status.Free})
	}
	status.Healthy = status.Complete && len(problems) == 0
	return status
}

// suspendedIn returns the numbers of suspended volumes and devices. They are no problem: somebody requested it.
func suspendedIn(o observed) (volumes, devices int) {
	for i := range o.volumes {
		if suspensionText(&o.volumes[i]) != "" {
			volumes++
		}
	}
	for i := range o.nodeStatuses {
		found := map[string]bool{} // several device classes can share a volume group
		for _, group := range o.nodeStatuses[i].Status.NodeStatus {
			for _, pv := range group.PhysicalVolumes {
				found[pv.UUID] = found[pv.UUID] || pv.Suspended
			}
		}
		for _, suspended := range found {
			if suspended {
				devices++
			}
		}
	}
	return volumes, devices
}

// clusterProblems returns the problems of the LVMClusters that the node statuses do not report.
func clusterProblems(o observed, onNodes []output.Problem) []output.Problem {
	if len(o.clusters) == 0 && !isUnreadable(o, session.ClustersResource) {
		return []output.Problem{{Reason: verdict.NoCluster, Message: "There is no LVMCluster.",
			Action: verdict.Action(verdict.NoCluster, "")}}
	}
	var problems []output.Problem
	for i := range o.clusters {
		problems = append(problems, problemsOfCluster(&o.clusters[i], onNodes)...)
	}
	return problems
}

func isUnreadable(o observed, resource string) bool {
	return slices.ContainsFunc(o.unreadable, func(u output.Unreadable) bool { return u.Resource == resource })
}

func problemsOfCluster(cluster *v1alpha1.LVMCluster, onNodes []output.Problem) []output.Problem {
	object := "LVMCluster " + cluster.Namespace + "/" + cluster.Name
	var problems []output.Problem
	if cluster.Status.ObservedGeneration != cluster.Generation {
		problems = append(problems, newProblem(verdict.SpecNotObserved,
			"The operator has not processed the last change of the spec.", output.Problem{Object: object}))
	}
	groups := groupProblems(cluster, onNodes)
	for _, kind := range []string{v1alpha1.ConditionResourcesAvailable, v1alpha1.ConditionVolumeGroupsReady} {
		if kind == v1alpha1.ConditionVolumeGroupsReady && !needsSummary(cluster, groups, onNodes) {
			continue
		}
		problems = append(problems, problemOfCondition(cluster.Status.Conditions, kind, object)...)
	}
	problems = append(problems, groups...)
	if len(problems)+len(onNodes) == 0 {
		problems = problemOfCondition(cluster.Status.Conditions, v1alpha1.ConditionReady, object)
	}
	return problems
}

// problemOfCondition returns the problem of a condition that is not True. A condition that is absent is not True.
func problemOfCondition(conditions []metav1.Condition, kind, object string) []output.Problem {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return []output.Problem{newProblem(v1alpha1.ReasonNotObserved,
			"The object does not have the condition "+kind+".", output.Problem{Object: object})}
	}
	if c.Status == metav1.ConditionTrue {
		return nil
	}
	return []output.Problem{newProblem(c.Reason, c.Message, output.Problem{Object: object})}
}

// groupProblems returns the problems of volume groups that only the LVMCluster reports, because the node has not
// reported the device class, or its agent cannot run.
func groupProblems(cluster *v1alpha1.LVMCluster, onNodes []output.Problem) []output.Problem {
	var problems []output.Problem
	for _, class := range cluster.Status.DeviceClassStatuses {
		for i := range class.NodeStatus {
			entry := &class.NodeStatus[i]
			reported := slices.ContainsFunc(onNodes, func(p output.Problem) bool {
				return p.Node == entry.Node && p.DeviceClass == class.Name
			})
			if entry.Status != v1alpha1.VGStatusReady && !reported {
				problems = append(problems, problemOfState(entry.Status, entry.Reason,
					output.Problem{Node: entry.Node, DeviceClass: class.Name}))
			}
		}
	}
	return problems
}

// needsSummary returns true if the condition VolumeGroupsReady may have a problem that no volume group has: a device
// class selects no node, or none of its nodes has a device.
func needsSummary(cluster *v1alpha1.LVMCluster, groups, onNodes []output.Problem) bool {
	if len(groups) == 0 && !slices.ContainsFunc(onNodes, func(p output.Problem) bool { return p.DeviceClass != "" }) {
		return true
	}
	return slices.ContainsFunc(cluster.Status.DeviceClassStatuses, func(class v1alpha1.DeviceClassStatus) bool {
		return !slices.ContainsFunc(class.NodeStatus, func(n v1alpha1.NodeStatus) bool {
			return n.Status != v1alpha1.VGStatusReady || len(n.Devices) > 0
		})
	})
}

// nodeProblems returns the problems that the node statuses report.
func nodeProblems(nodes []v1alpha1.LVMVolumeGroupNodeStatus, now time.Time) []output.Problem {
	var problems []output.Problem
	for i := range nodes {
		node := &nodes[i]
		if reason, message := objects.NotCurrent(node, now); reason != "" {
			problems = append(problems, newProblem(reason, message, output.Problem{Node: node.Name}))
		}
		for j := range node.Status.NodeStatus {
			problems = append(problems, problemsOfGroup(node.Name, &node.Status.NodeStatus[j])...)
		}
		problems = append(problems, deviceProblems(node)...)
	}
	return problems
}

func problemsOfGroup(node string, group *v1alpha1.VGStatus) []output.Problem {
	at := output.Problem{Node: node, DeviceClass: group.Name}
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

func conditionProblems(at output.Problem, group *v1alpha1.VGStatus) []output.Problem {
	var problems []output.Problem
	for _, c := range group.Conditions {
		// What was not evaluated because of another problem is not one more problem.
		if c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonNotEvaluated {
			continue
		}
		at.Device = ""
		if c.Type == v1alpha1.ConditionDevicesHealthy {
			at.Device = strings.Join(lostDevices(group), ",")
		}
		problems = append(problems, newProblem(c.Reason, c.Message, at))
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

// without returns the messages in reason that are not in other.
func without(reason, other string) string {
	known := strings.Split(other, output.Separator)
	rest := slices.DeleteFunc(strings.Split(reason, output.Separator),
		func(message string) bool { return slices.Contains(known, message) })
	return strings.Join(rest, output.Separator)
}

// problemOfState returns the problem of a volume group that is not ready.
func problemOfState(state v1alpha1.VGState, message string, at output.Problem) output.Problem {
	state = cmp.Or(state, v1alpha1.VGStatusProgressing)
	p := newProblem("VolumeGroup"+string(state), message, at)
	if state == v1alpha1.VGStatusProgressing && p.Message != "" {
		p.Action = "Wait. If it lasts for more than a few minutes, resolve the cause: " + p.Message
	}
	if action := adoptAction(p); action != "" {
		p.Action = action
	}
	return p
}

// adoptable is what the node agent says about a volume group of another node or cluster: what it is, and what would
// allow its use.
var adoptable = regexp.MustCompile(`^(.* so it is not changed\.) .*adopt: \[\{node: \S+, volumeGroupUUID: (\S+)\}\]`)

// adoptAction returns what to do about a volume group of another node or cluster, or "" if that is not the problem.
func adoptAction(p output.Problem) string {
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
func physicalVolumeProblems(at output.Problem, group *v1alpha1.VGStatus, lostReported bool) []output.Problem {
	var problems []output.Problem
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

// orphanReason is the begin of the reasons of orphans, which ends with their kind.
const orphanReason = "Orphan"

func orphanProblems(at output.Problem, group *v1alpha1.VGStatus) []output.Problem {
	var problems []output.Problem
	for _, orphan := range group.Orphans {
		at.Claim = orphan.Claim
		at.Object = orphan.Name
		at.Reason = orphanReason + string(orphan.Kind)
		at.Message = orphanMessage(orphan)
		at.Action = cmp.Or(orphanActions[orphan.Kind], at.Message)
		if orphan.RemovalTime != nil {
			at.Action = "Nothing: it is removed at " + orphan.RemovalTime.UTC().Format(time.RFC3339) +
				". To keep it, create an LVMRecovery with the action ImportVolumes before."
		}
		problems = append(problems, at)
	}
	if more := int(group.OrphanCount) - len(group.Orphans); more > 0 {
		problems = append(problems, output.Problem{Reason: orphanReason, Node: at.Node, DeviceClass: at.DeviceClass,
			Message: fmt.Sprintf("There are %d more orphans, which the node status does not list.", more),
			Action:  "Remove the orphans that are listed; the others are then listed."})
	}
	return problems
}

func orphanMessage(orphan v1alpha1.OrphanStatus) string {
	switch orphan.Kind {
	case v1alpha1.OrphanLogicalVolume:
		return "The logical volume has no LogicalVolume object."
	case v1alpha1.OrphanObject:
		return "The LogicalVolume object has no logical volume."
	case v1alpha1.OrphanUnclaimed:
		return "No PersistentVolume, snapshot or claim refers to the volume."
	case v1alpha1.OrphanOtherNode:
		return fmt.Sprintf("LogicalVolume %s names node %s, which does not have the volume: the data is here.",
			orphan.Object, orphan.ObjectNode)
	}
	return "The volume is an orphan of the kind " + string(orphan.Kind) + "."
}

// deviceProblems returns the devices that fail or cannot be examined, and that no device class reports. A missing
// device is always one of a volume group. If no volume group has it, it was removed from one, and the list is older.
func deviceProblems(node *v1alpha1.LVMVolumeGroupNodeStatus) []output.Problem {
	var problems []output.Problem
	for i := range node.Status.Devices {
		device := &node.Status.Devices[i]
		action := deviceActions[device.State]
		if action == "" || len(objects.ClassesOf(node, device)) > 0 {
			continue
		}
		problems = append(problems, output.Problem{Reason: "Device" + string(device.State), Node: node.Name,
			Device: device.Name, Message: objects.MessagesOf(device.Reasons), Action: action})
	}
	return problems
}

// recoveryProblems returns the recoveries that have not ended.
func recoveryProblems(recoveries []v1alpha1.LVMRecovery) []output.Problem {
	var problems []output.Problem
	for i := range recoveries {
		r := &recoveries[i]
		if recovery.HasEnded(r) {
			continue
		}
		name := r.Namespace + "/" + r.Name
		at := output.Problem{Node: r.Spec.NodeName, DeviceClass: r.Spec.DeviceClassName,
			Object: "LVMRecovery " + name}
		created := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionObjectsCreated)
		switch r.Status.Phase {
		case v1alpha1.RecoveryAwaitingApproval:
			at = newProblem(string(r.Status.Phase), r.Status.Message, at)
			at.Action = approval(r)
		case "":
			at = newProblem(verdict.NotPlanned, "The node agent has not made a plan yet.", at)
		default:
			at = newProblem(string(r.Status.Phase), r.Status.Message, at)
			if created != nil && created.Reason == v1alpha1.ReasonObjectsBlocked {
				at = newProblem(created.Reason, created.Message, at)
			}
		}
		problems = append(problems, at)
	}
	return problems
}

// approval returns the command that shows the plan of a recovery and approves it.
func approval(r *v1alpha1.LVMRecovery) string {
	if r.Status.Plan == nil {
		return output.OneLine(r.Status.Message)
	}
	if command := recovery.CommandOf(r); command != "" {
		return fmt.Sprintf("Check the plan (lost volumes: %d). To see and approve it: %s",
			r.Status.Plan.LostVolumeCount, command)
	}
	return fmt.Sprintf("Check status.plan (lost volumes: %d). To approve it: kubectl -n %s patch lvmrecovery %s "+
		`--type merge -p '{"spec":{"approvedPlan":"%s"}}'`, r.Status.Plan.LostVolumeCount, r.Namespace,
		r.Name, r.Status.Plan.ID)
}

// volumeProblems returns the volumes with a failed request or a problem of the volume. Orphans are in the status of
// their node.
func volumeProblems(volumes []topolvmv1.LogicalVolume) []output.Problem {
	var problems []output.Problem
	for i := range volumes {
		lv := &volumes[i]
		at := output.Problem{Node: lv.Spec.NodeName, DeviceClass: lv.Spec.DeviceClass,
			Claim: lv.Annotations[wellknown.ClaimAnnotation], Object: "LogicalVolume " + lv.Name}
		if lv.Status.Code != codes.OK && !isCopying(lv) {
			problems = append(problems, newProblem(verdict.VolumeFailed,
				cmp.Or(lv.Status.Message, lv.Status.Code.String()), at))
		}
		if condition := lv.Annotations[wellknown.ConditionAnnotation]; condition != "" {
			problems = append(problems, newProblem(verdict.VolumeAbnormal, condition, at))
		}
	}
	return problems
}

// newProblem returns the problem at a place, with what to do.
func newProblem(reason, message string, at output.Problem) output.Problem {
	at.Reason = reason
	at.Message = output.OneLine(message)
	at.Action = verdict.Action(reason, message)
	return at
}
