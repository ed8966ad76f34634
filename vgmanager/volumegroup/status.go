package volumegroup

import (
	"context"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// entryOf returns the entry of a volume group in a node status; one with only the name if there is none.
func entryOf(nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, name string) v1alpha1.VGStatus {
	for _, entry := range nodeStatus.Status.NodeStatus {
		if entry.Name == name {
			return *entry.DeepCopy()
		}
	}
	return v1alpha1.VGStatus{Name: name}
}

// newEntry is the status after a look at the node, whether the change that it led to went well or not.
func newEntry(w Wanted, o outcome, before v1alpha1.VGStatus) v1alpha1.VGStatus {
	if o.blind {
		// Nothing is known, so what was known stays, marked as such by state and reason.
		before.Status, before.Reason, before.ObservedGeneration = failed(len(before.Devices) > 0), o.err.Error(), w.Generation
		return before
	}
	entry := v1alpha1.VGStatus{
		Name: w.Name, ObservedGeneration: w.Generation, Excluded: o.plan.Excluded,
		Status: o.plan.State, Reason: strings.Join(o.plan.Problems, "; "),
	}
	vg := o.seen.Report.VG(w.Name)
	switch {
	case o.err != nil:
		entry.Status = failed(vg != nil)
		entry.Reason = strings.Join(append([]string{o.err.Error()}, o.plan.Problems...), "; ")
	case entry.Reason == "" && entry.Status == v1alpha1.VGStatusProgressing:
		entry.Reason = "in progress: " + string(o.plan.Action.Kind)
	}
	if vg != nil {
		addGroup(&entry, w, o.seen, vg)
	}
	return entry
}

// failed is the state of something that is wrong: a volume group that exists serves its volumes still.
func failed(exists bool) v1alpha1.VGState {
	if exists {
		return v1alpha1.VGStatusDegraded
	}
	return v1alpha1.VGStatusFailed
}

func addGroup(entry *v1alpha1.VGStatus, w Wanted, s Seen, vg *lvm.VG) {
	entry.Devices = pvNames(vg, s.Names)
	entry.Size, entry.Free = quantity(vg.Size), quantity(vg.Free)
	if w.Spec.ThinPoolConfig == nil {
		return
	}
	pool := vg.ThinPool(w.Spec.ThinPoolConfig.Name)
	if pool == nil {
		return
	}
	entry.ThinPool = &v1alpha1.ThinPoolStatus{
		Name: pool.Name, Size: *quantity(pool.Size), MetadataSize: *quantity(pool.MetadataSize),
		DataPercent: wholePercent(pool.DataPercent), MetadataPercent: wholePercent(pool.MetadataPercent),
	}
}

func quantity(b lvm.Bytes) *resource.Quantity {
	return resource.NewQuantity(int64(b), resource.BinarySI)
}

// wholePercent rounds up, so that 99.2 is not taken for a pool with room.
func wholePercent(p *float64) int32 {
	if p == nil {
		return 0
	}
	return int32(math.Ceil(*p))
}

// writeEntry writes an entry if it differs from what is there. Only this agent writes the status of its node; the
// optimistic lock is for the operator, which changes the object's metadata.
func (r *Reconciler) writeEntry(ctx context.Context, nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, entry v1alpha1.VGStatus) error {
	return r.patchEntries(ctx, nodeStatus, func(entries []v1alpha1.VGStatus) []v1alpha1.VGStatus {
		return append(withoutEntry(entries, entry.Name), entry)
	})
}

// removeEntry removes an entry.
func (r *Reconciler) removeEntry(ctx context.Context, nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, name string) error {
	return r.patchEntries(ctx, nodeStatus, func(entries []v1alpha1.VGStatus) []v1alpha1.VGStatus {
		return withoutEntry(entries, name)
	})
}

func withoutEntry(entries []v1alpha1.VGStatus, name string) []v1alpha1.VGStatus {
	return slices.DeleteFunc(slices.Clone(entries), func(e v1alpha1.VGStatus) bool { return e.Name == name })
}

func (r *Reconciler) patchEntries(ctx context.Context, nodeStatus *v1alpha1.LVMVolumeGroupNodeStatus, change func([]v1alpha1.VGStatus) []v1alpha1.VGStatus) error {
	next := nodeStatus.DeepCopy()
	next.Status.NodeStatus = change(next.Status.NodeStatus)
	slices.SortFunc(next.Status.NodeStatus, func(a, b v1alpha1.VGStatus) int { return strings.Compare(a.Name, b.Name) })
	if equality.Semantic.DeepEqual(nodeStatus.Status, next.Status) {
		return nil
	}
	return r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(nodeStatus, client.MergeFromWithOptimisticLock{}))
}
