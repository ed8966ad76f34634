package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Severity is the severity of a Problem.
type Severity string

// Critical means that data is lost or at risk, or that something cannot be used. Warning means that something is wrong
// or will be soon. Info means that something is in progress, or waits for a decision.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

// Subject is the kind of thing that a Problem is about.
type Subject string

// The subjects. Device is a device outside of volume groups.
const (
	Operator    Subject = "operator"
	Cluster     Subject = "LVMCluster"
	Node        Subject = "node"
	VolumeGroup Subject = "volume group"
	Orphan      Subject = "orphan"
	Device      Subject = "device"
	Recovery    Subject = "recovery"
	Volume      Subject = "volume"
)

// Problem is something that needs attention: what and where it is, what it means, and what to do.
type Problem struct {
	Subject  Subject
	Severity Severity
	// Reason is the machine-readable reason, for example DeviceMissing.
	Reason string
	// Node and DeviceClass say where it is. Device has several devices separated by commas. Claim is the claim of a
	// volume, as NAMESPACE/NAME. Object is KIND NAME or KIND NAMESPACE/NAME, or the name of a logical volume.
	Node, DeviceClass, Device, Claim, Object string
	// Message says what is wrong, and Action what to do.
	Message, Action string
	// Runbook is the name of a file in monitoring/runbooks, without .md, or "".
	Runbook string
}

// Objects are the objects in which problems are found.
type Objects struct {
	Clusters []v1alpha1.LVMCluster
	// Deployments are those of the operator and of its standby replicas.
	Deployments  []appsv1.Deployment
	NodeStatuses []v1alpha1.LVMVolumeGroupNodeStatus
	Recoveries   []v1alpha1.LVMRecovery
	Volumes      []topolvmv1.LogicalVolume
	// Namespaces are those in which an operator must run, in addition to those of LVMClusters.
	Namespaces []string
	// ClustersUnread and DeploymentsUnread: one that is not listed may exist.
	ClustersUnread, DeploymentsUnread bool
}

// Problems returns the problems in objects, causes before consequences. It depends only on its arguments.
func Problems(o Objects, now time.Time) []Problem {
	onNodes := nodeProblems(o.NodeStatuses, now)
	return bounded(slices.Concat(operatorProblems(&o), clusterProblems(&o, onNodes), onNodes,
		recoveryProblems(o.Recoveries), volumeProblems(o.Volumes)))
}

// maxOfReason is the maximum number of volumes and orphans with the same reason, which may be thousands: they must not
// hide the disk that is their cause.
const maxOfReason = 20

// bounded omits volumes and orphans of which there are too many with the same reason, and adds their number.
func bounded(problems []Problem) []Problem {
	count := map[string]int{}
	problems = slices.DeleteFunc(problems, func(p Problem) bool {
		if p.Subject == Volume || p.Subject == Orphan {
			count[p.Reason]++
		}
		return count[p.Reason] > maxOfReason
	})
	for _, reason := range slices.Sorted(maps.Keys(count)) {
		if more := count[reason] - maxOfReason; more > 0 {
			one := problems[slices.IndexFunc(problems, func(p Problem) bool { return p.Reason == reason })]
			problems = append(problems, Problem{Subject: one.Subject, Severity: one.Severity, Reason: reason,
				Message: fmt.Sprintf("There are %d more volumes with this problem.", more), Runbook: one.Runbook,
				Action: "To see all, run `kubectl lvms volumes` and `kubectl lvms orphans`."})
		}
	}
	return problems
}

// newProblem returns the problem at a place, with what its reason means.
func newProblem(reason, message string, at Problem) Problem {
	m := meanings[reason]
	at.Reason = reason
	at.Severity = cmp.Or(m.severity, Warning)
	at.Runbook = cmp.Or(m.runbook, at.Runbook)
	at.Message = oneLine(message)
	at.Action = actionOf(reason, message)
	return at
}

// problemOf returns the problem of a condition that is not True. What is Unknown is not known to be critical.
func problemOf(c metav1.Condition, at Problem) Problem {
	p := newProblem(c.Reason, c.Message, at)
	if p.Severity == Critical && c.Status == metav1.ConditionUnknown {
		p.Severity = Warning
	}
	return p
}
