package volumegroup

import (
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/orphans"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// statusSteps is by how many changes the node status can be behind, so that a new volume does not cost an update of the
// status. The file on the node is exact.
const statusSteps = 100

// withoutSmallSteps returns the new entry, or the previous one if only the number of changes differs, by little.
func withoutSmallSteps(before, after v1alpha1.VGStatus) v1alpha1.VGStatus {
	if before.UUID != after.UUID || after.Seqno <= before.Seqno || after.Seqno-before.Seqno >= statusSteps {
		return after
	}
	same := after
	if same.Seqno = before.Seqno; equality.Semantic.DeepEqual(before, same) {
		return same
	}
	return after
}

// entryOf returns the entry of a volume group in a node status. If there is none, the result only has the name.
func entryOf(nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, name string) v1alpha1.VGStatus {
	for _, entry := range nodeStatus.Status.NodeStatus {
		if entry.Name == name {
			return *entry.DeepCopy()
		}
	}
	return v1alpha1.VGStatus{Name: name}
}

// writeEntry writes the entry of a volume group if it changed, and returns the previous and the new entry.
func (r *Reconciler) writeEntry(ctx context.Context, nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, d state.Desired,
	o outcome) (before, after v1alpha1.VGStatus, err error) {
	err = r.entries.patchEntries(ctx, nodeStatus, func(status *v1alpha1.LVMVolumeGroupNodeStatus) []v1alpha1.VGStatus {
		before = entryOf(status, d.Name)
		after = plan.Entry(o.Outcome, d, before, metav1.NewTime(r.now()))
		r.addOrphans(&after, removalTimes(d, before, o))
		after = withoutSmallSteps(before, after)
		return append(withoutEntry(status.Status.NodeStatus, d.Name), after)
	})
	return before, after, err
}

// removalTimes returns when orphans are removed, by name of the logical volume. If the node could not be observed, it
// returns what the status says.
func removalTimes(d state.Desired, before v1alpha1.VGStatus, o outcome) map[string]time.Time {
	if !o.ObserveFailed {
		return orphans.RemovalTimes(d, o.Node)
	}
	times := map[string]time.Time{}
	for _, orphan := range before.Orphans {
		if _, name, _ := strings.Cut(orphan.Name, "/"); orphan.RemovalTime != nil {
			times[name] = orphan.RemovalTime.Time
		}
	}
	return times
}

// maxOrphans is the maximum number of orphans of a device class in the status (OrphanStatus).
const maxOrphans = 32

// addOrphans adds at most maxOrphans orphans to an entry. removals says which of them are removed, and when.
func (r *Reconciler) addOrphans(entry *v1alpha1.VGStatus, removals map[string]time.Time) {
	if r.orphans.Orphans == nil {
		return
	}
	orphans := r.orphans.Orphans(entry.Name)
	entry.OrphanCount = int32(len(orphans))
	entry.Orphans = orphans[:min(len(orphans), maxOrphans)]
	for i := range entry.Orphans {
		o := &entry.Orphans[i]
		_, name, _ := strings.Cut(o.Name, "/")
		if removal, due := removals[name]; due && o.Kind == v1alpha1.OrphanLogicalVolume {
			o.RemovalTime = &metav1.Time{Time: removal}
		}
	}
}

// replaceEntry replaces an entry. nil removes it.
func (e *statusEntries) replaceEntry(ctx context.Context, nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, name string,
	entry *v1alpha1.VGStatus) error {
	return e.patchEntries(ctx, nodeStatus, func(status *v1alpha1.LVMVolumeGroupNodeStatus) []v1alpha1.VGStatus {
		entries := withoutEntry(status.Status.NodeStatus, name)
		if entry != nil {
			entries = append(entries, *entry)
		}
		return entries
	})
}

func withoutEntry(entries []v1alpha1.VGStatus, name string) []v1alpha1.VGStatus {
	return slices.DeleteFunc(slices.Clone(entries), func(e v1alpha1.VGStatus) bool { return e.Name == name })
}

func sorted(entries []v1alpha1.VGStatus) []v1alpha1.VGStatus {
	slices.SortFunc(entries, func(a, b v1alpha1.VGStatus) int { return strings.Compare(a.Name, b.Name) })
	return entries
}

// patchTries is the maximum number of attempts to write an entry after a conflict.
const patchTries = 4

// patchEntries uses the optimistic lock, because the list of devices is in the same object and the operator changes
// its metadata. After a conflict it reads the object from the API server, because the cache may not have the change
// yet.
func (e *statusEntries) patchEntries(ctx context.Context, nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus,
	change func(*v1alpha1.LVMVolumeGroupNodeStatus) []v1alpha1.VGStatus) error {
	for try := 1; ; try++ {
		next := nodeStatus.DeepCopy()
		next.Status.NodeStatus = sorted(change(nodeStatus))
		if equality.Semantic.DeepEqual(nodeStatus.Status, next.Status) {
			return nil
		}
		err := e.Client.Status().Patch(ctx, next,
			client.MergeFromWithOptions(nodeStatus, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) || try == patchTries {
			return err
		}
		latest := &v1alpha1.LVMVolumeGroupNodeStatus{}
		if err := e.Live.Get(ctx, client.ObjectKeyFromObject(nodeStatus), latest); err != nil {
			return client.IgnoreNotFound(err) // the operator deleted the node status
		}
		nodeStatus = latest
	}
}
