package verdict

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// The Deployments of the operator and of its standby replicas. One replica of them must be available.
const (
	OperatorName = "lvms-operator"
	StandbyName  = "lvms-operator-standby"
)

const operatorConsequence = ": no volume is created or deleted, changes to LVMClusters are rejected, and the state " +
	"of the LVMCluster may be outdated."

// operatorProblems returns a problem for each namespace without an operator that runs. What it reported earlier may be
// outdated.
func operatorProblems(o *Objects) []Problem {
	namespaces := slices.Clone(o.Namespaces)
	for i := range o.Clusters {
		namespaces = append(namespaces, o.Clusters[i].Namespace)
	}
	installed := map[string]*appsv1.Deployment{}
	available := map[string]int32{}
	for i := range o.Deployments {
		d := &o.Deployments[i]
		if d.Name == OperatorName {
			installed[d.Namespace] = d
			namespaces = append(namespaces, d.Namespace)
		}
		if d.Name == OperatorName || d.Name == StandbyName {
			available[d.Namespace] += d.Status.AvailableReplicas
		}
	}
	slices.Sort(namespaces)
	var problems []Problem
	for _, namespace := range slices.Compact(namespaces) {
		d := installed[namespace]
		message := "The Deployment of the operator does not exist" + operatorConsequence
		switch {
		case available[namespace] > 0 || d == nil && o.DeploymentsUnread:
			continue
		case d != nil:
			message = "The operator has no Pod that is ready" + operatorConsequence + " " + whyUnavailable(d)
		}
		problems = append(problems, newProblem(OperatorDown, message,
			Problem{Subject: Operator, Object: "Deployment " + namespace + "/" + OperatorName}))
	}
	return problems
}

func whyUnavailable(d *appsv1.Deployment) string {
	if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
		return "It is scaled to 0."
	}
	why := fmt.Sprintf("%d of its Pods exist.", d.Status.Replicas)
	for _, c := range d.Status.Conditions {
		if c.Message != "" && (c.Status != corev1.ConditionTrue || c.Reason == "FailedCreate") {
			why += " " + c.Message
		}
	}
	return why
}

// clusterProblems returns the problems of the LVMClusters that the node statuses do not report.
func clusterProblems(o *Objects, onNodes []Problem) []Problem {
	if len(o.Clusters) == 0 && !o.ClustersUnread {
		return []Problem{newProblem(NoCluster, "There is no LVMCluster.", Problem{Subject: Cluster})}
	}
	var problems []Problem
	for i := range o.Clusters {
		problems = append(problems, problemsOfCluster(&o.Clusters[i], onNodes)...)
	}
	return problems
}

func problemsOfCluster(cluster *v1alpha1.LVMCluster, onNodes []Problem) []Problem {
	at := Problem{Subject: Cluster, Object: "LVMCluster " + cluster.Namespace + "/" + cluster.Name,
		Runbook: "LVMSClusterNotReady"}
	var problems []Problem
	if cluster.Status.ObservedGeneration != cluster.Generation {
		problems = append(problems, newProblem(SpecNotObserved,
			"The operator has not processed the last change of the spec.", at))
	}
	if len(cluster.Status.Conditions) == 0 {
		return append(problems, newProblem(v1alpha1.ReasonNotObserved,
			"The LVMCluster has not been reconciled: it has no conditions.", at))
	}
	groups := groupProblems(cluster, onNodes)
	for _, kind := range []string{v1alpha1.ConditionResourcesAvailable, v1alpha1.ConditionVolumeGroupsReady} {
		if kind == v1alpha1.ConditionVolumeGroupsReady && !needsSummary(cluster, groups, onNodes) {
			continue
		}
		problems = append(problems, problemOfCondition(cluster.Status.Conditions, kind, at)...)
	}
	problems = append(problems, groups...)
	if len(problems)+len(onNodes) == 0 {
		problems = problemOfCondition(cluster.Status.Conditions, v1alpha1.ConditionReady, at)
	}
	return problems
}

// problemOfCondition returns the problem of a condition that is not True. A condition that is absent is not True.
func problemOfCondition(conditions []metav1.Condition, kind string, at Problem) []Problem {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return []Problem{newProblem(v1alpha1.ReasonNotObserved, "The object does not have the condition "+kind+".", at)}
	}
	if c.Status == metav1.ConditionTrue {
		return nil
	}
	return []Problem{problemOf(*c, at)}
}

// groupProblems returns the problems of volume groups that only the LVMCluster reports, because the node has not
// reported the device class, or its agent cannot run.
func groupProblems(cluster *v1alpha1.LVMCluster, onNodes []Problem) []Problem {
	var problems []Problem
	for _, class := range cluster.Status.DeviceClassStatuses {
		for i := range class.NodeStatus {
			entry := &class.NodeStatus[i]
			reported := slices.ContainsFunc(onNodes, func(p Problem) bool {
				return p.Node == entry.Node && p.DeviceClass == class.Name
			})
			if entry.Status != v1alpha1.VGStatusReady && !reported {
				problems = append(problems, problemOfState(entry.Status, entry.Reason,
					Problem{Subject: VolumeGroup, Node: entry.Node, DeviceClass: class.Name}))
			}
		}
	}
	return problems
}

// needsSummary returns true if the condition VolumeGroupsReady may have a problem that no volume group has: a device
// class selects no node, or none of its nodes has a device.
func needsSummary(cluster *v1alpha1.LVMCluster, groups, onNodes []Problem) bool {
	if len(groups) == 0 && !slices.ContainsFunc(onNodes, func(p Problem) bool { return p.DeviceClass != "" }) {
		return true
	}
	return slices.ContainsFunc(cluster.Status.DeviceClassStatuses, func(class v1alpha1.DeviceClassStatus) bool {
		return !slices.ContainsFunc(class.NodeStatus, func(n v1alpha1.NodeStatus) bool {
			return n.Status != v1alpha1.VGStatusReady || len(n.Devices) > 0
		})
	})
}
