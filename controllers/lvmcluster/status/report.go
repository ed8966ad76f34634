// Package status computes the status of an LVMCluster from the results of a reconcile and the state of the cluster: the
// conditions, the state in one word, and the volume groups of each device class on each node. It reads and writes
// nothing; the controller writes the result, once for a reconcile.
package status

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/kube/condition"
)

// Report collects the results of a reconcile.
type Report struct {
	// Failures are errors, and Waits is what the reconcile waits for.
	Failures, Waits []string
	// ManualCleanup is what the administrator must do, because the reconcile would wait forever.
	ManualCleanup []string
	// State is the state of the LVMCluster in one word.
	State lvmv1alpha1.LVMState

	cluster    *lvmv1alpha1.LVMCluster
	conditions *condition.Accumulator
	classes    []lvmv1alpha1.DeviceClassStatus
	overview   *overview // nil if the node statuses could not be read
	// volumeGroups is the reason of VolumeGroupsReady; "" if the node statuses could not be read.
	volumeGroups string
}

// New returns an empty Report. Until SetVolumeGroupsReady is called, the volume groups are those of the last status.
func New(cluster *lvmv1alpha1.LVMCluster) *Report {
	return &Report{cluster: cluster, classes: cluster.Status.DeviceClassStatuses,
		conditions: condition.New(cluster.Generation, lvmv1alpha1.ConditionReady,
			lvmv1alpha1.ConditionResourcesAvailable, lvmv1alpha1.ConditionVolumeGroupsReady)}
}

// waiting is an error that is not a failure: something takes time.
type waiting interface {
	error
	Waits() []string
}

// cleanup is a wait that only the administrator can end.
type cleanup interface{ ManualCleanup() string }

// Add adds the error of a manager or step to the failures or the waits. It splits joined errors.
func (r *Report) Add(manager string, err error) {
	var wait waiting
	joined, isJoined := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case isJoined:
		for _, part := range joined.Unwrap() {
			r.Add(manager, part)
		}
	case errors.As(err, &wait):
		r.Waits = append(r.Waits, wait.Waits()...)
		if manual, is := wait.(cleanup); is && manual.ManualCleanup() != "" {
			r.ManualCleanup = append(r.ManualCleanup, manual.ManualCleanup())
		}
	default:
		r.Failures = append(r.Failures, manager+": "+err.Error())
	}
}

// Err joins all failures into one error, which triggers the back-off.
func (r *Report) Err() error {
	if len(r.Failures) == 0 {
		return nil
	}
	return errors.New(strings.Join(r.Failures, "; "))
}

// SetVolumeGroupsReady sets the volume groups, and VolumeGroupsReady.
func (r *Report) SetVolumeGroupsReady(current observe.State) {
	classes, err := deviceClassStatuses(r.cluster, current)
	if err != nil {
		r.Add("status", err)
		return
	}
	o := overviewOf(classes)
	r.overview = &o
	truncated, err := truncate(classes)
	if err != nil {
		r.Add("status", err)
		return
	}
	r.classes = truncated
	r.volumeGroups = reportVolumeGroups(r.conditions, r.cluster, current, classes)
}

// SetResourcesAvailable sets ResourcesAvailable and the state. It comes after everything but SetReady.
func (r *Report) SetResourcesAvailable() {
	const available = lvmv1alpha1.ConditionResourcesAvailable
	switch {
	case len(r.Failures) > 0:
		r.conditions.False(available, lvmv1alpha1.ReasonResourcesSyncIncomplete, strings.Join(r.Failures, "; "))
	case len(r.Waits) > 0:
		r.conditions.False(available, lvmv1alpha1.ReasonReconciliationInProgress, strings.Join(r.Waits, "; "))
	default:
		r.conditions.True(available, lvmv1alpha1.ReasonResourcesAvailable, "all operands are applied and run")
	}
	r.State = r.summarize()
}

// SetDeletionPending sets ResourcesAvailable and the state of an LVMCluster whose deletion is not complete.
func (r *Report) SetDeletionPending() {
	r.conditions.False(lvmv1alpha1.ConditionResourcesAvailable, lvmv1alpha1.ReasonDeletionPending,
		firstProblems(slices.Concat(r.Failures, r.Waits)))
	r.State = lvmv1alpha1.LVMStatusProgressing
}

// summarize returns the state of the LVMCluster.
func (r *Report) summarize() lvmv1alpha1.LVMState {
	switch {
	case len(r.Failures) > 0 || r.volumeGroups == lvmv1alpha1.ReasonVGsFailed:
		return lvmv1alpha1.LVMStatusFailed
	case r.volumeGroups == lvmv1alpha1.ReasonVGsDegraded:
		return lvmv1alpha1.LVMStatusDegraded
	case len(r.Waits) > 0 || r.volumeGroups == lvmv1alpha1.ReasonVGReadinessInProgress:
		return lvmv1alpha1.LVMStatusProgressing
	case r.volumeGroups == "":
		return lvmv1alpha1.LVMStatusUnknown
	default:
		return lvmv1alpha1.LVMStatusReady
	}
}

// SetReady sets the condition Ready, for `kubectl wait`, from all results of the reconcile.
func (r *Report) SetReady() {
	const ready = lvmv1alpha1.ConditionReady
	why := slices.Concat(r.Failures, r.Waits)
	switch {
	case r.State == lvmv1alpha1.LVMStatusReady:
		r.conditions.True(ready, string(r.State), r.Success())
	case !r.cluster.DeletionTimestamp.IsZero():
		r.conditions.False(ready, lvmv1alpha1.ReasonDeletionPending,
			strings.Join(append([]string{"the LVMCluster is being deleted"}, why...), ": "))
	default:
		if problems, none := r.problems(); !none && problems != "" {
			why = append(why, problems)
		}
		r.conditions.False(ready, string(cmp.Or(r.State, lvmv1alpha1.LVMStatusUnknown)), strings.Join(why, "; "))
	}
}

// Success returns the message of an LVMCluster that is ready.
func (r *Report) Success() string {
	if len(r.cluster.Spec.Storage.DeviceClasses) == 0 {
		return "all operands are running; without device classes, the devices of the nodes are only listed"
	}
	return "all operands are running, and all volume groups are ready"
}

// Problems returns the message of VolumeGroupsReady.
func (r *Report) Problems() string {
	problems, _ := r.problems()
	return problems
}

// problems returns the message of VolumeGroupsReady, and whether the condition is True.
func (r *Report) problems() (message string, none bool) {
	for _, condition := range r.conditions.Merge(nil, metav1.Time{}) {
		if condition.Type == lvmv1alpha1.ConditionVolumeGroupsReady {
			return condition.Message, condition.Status == metav1.ConditionTrue
		}
	}
	return "", false
}

// Status returns the status to write.
func (r *Report) Status(now metav1.Time) lvmv1alpha1.LVMClusterStatus {
	last := r.cluster.Status
	next := lvmv1alpha1.LVMClusterStatus{
		Ready:               r.State == lvmv1alpha1.LVMStatusReady,
		State:               r.State,
		ObservedGeneration:  r.cluster.Generation,
		Conditions:          r.conditions.Merge(last.Conditions, now),
		VolumeGroups:        last.VolumeGroups,
		Size:                last.Size,
		Free:                last.Free,
		DeviceClassStatuses: r.classes,
	}
	if r.overview != nil {
		r.overview.write(&next)
	}
	return next
}
