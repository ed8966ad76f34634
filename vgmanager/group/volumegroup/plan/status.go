package plan

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/devicerequests"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/redundancy"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// Event returns the reason of the event for the outcome, or "".
func Event(o state.Outcome) state.EventReason {
	switch {
	case o.ObserveFailed:
		return state.EventObserveFailed
	case o.Err != nil:
		return o.Plan.Action.Kind.FailureEvent()
	}
	return o.Plan.Event()
}

// Entry returns the entry of a volume group in the node status, even if the action failed. before is the previous
// entry. now is the transition time of the conditions whose status changes.
func Entry(o state.Outcome, d state.Desired, before v1alpha1.VGStatus, now metav1.Time) v1alpha1.VGStatus {
	if o.ObserveFailed {
		// The last known state stays. State and reason show that it is outdated.
		before.Status, before.Reason, before.ObservedGeneration = state.Failed(len(before.Devices) > 0), o.Err.Error(),
			d.Generation
		before.Conditions = unknownConditions(before.Conditions, d.Generation, o.Err, now)
		return before
	}
	entry := v1alpha1.VGStatus{
		Name: d.Name, VolumeGroup: d.Spec.ExistingVolumeGroup, ObservedGeneration: d.Generation,
		Excluded: o.Plan.Excluded, WipedDevices: selection.WipedDevices(d, o.Node),
		Status: o.Plan.State, Reason: strings.Join(o.Plan.Messages(), "; "),
	}
	vg := ownership.GroupOf(d, o.Node)
	if o.Plan.Lost {
		keepLost(&entry, before)
		entry.Conditions = newConditions(d, o.Plan, before.Conditions, now)
	}
	switch {
	case o.Err != nil:
		entry.Status = state.Failed(vg != nil)
		entry.Reason = strings.Join(append([]string{o.Err.Error()}, o.Plan.Messages()...), "; ")
	case entry.Reason == "" && o.Plan.Note != "":
		entry.Reason = o.Plan.Note
	case entry.Reason == "" && entry.Status == v1alpha1.VGStatusProgressing:
		entry.Reason = "in progress: " + string(o.Plan.Action.Kind)
	}
	if vg != nil && isUsed(d, o.Node, vg) {
		addGroup(&entry, d, o, vg)
		entry.Conditions = newConditions(d, o.Plan, before.Conditions, now)
	}
	return entry
}

// isUsed returns true if the device class uses the volume group.
func isUsed(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	if d.UsesExisting() {
		return s.Class != nil
	}
	return ownership.NotOurs(d, vg) == ""
}

// keepLost keeps the last known state of a missing volume group.
func keepLost(entry *v1alpha1.VGStatus, before v1alpha1.VGStatus) {
	entry.UUID, entry.Size, entry.PhysicalVolumes = before.UUID, before.Size, slices.Clone(before.PhysicalVolumes)
	for i := range entry.PhysicalVolumes {
		pv := &entry.PhysicalVolumes[i]
		pv.State = v1alpha1.PhysicalVolumeMissing
		pv.MovedPercent = nil
		pv.Message = ""
		entry.Devices = append(entry.Devices, pv.Name+" (missing)")
	}
	slices.Sort(entry.Devices)
}

// newConditions converts the problems into conditions. The transition time of a condition changes only with its
// status.
func newConditions(d state.Desired, p state.Plan, before []metav1.Condition, now metav1.Time) []metav1.Condition {
	var conditions []metav1.Condition
	for _, kind := range state.HealthConditions(d) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: d.Generation}
		var messages []string
		for _, problem := range p.Problems {
			if problem.Condition == kind {
				messages = append(messages, problem.Message)
				if len(messages) == 1 {
					c.Status = metav1.ConditionFalse
					c.Reason = problem.Reason
					if problem.Unknown {
						c.Status = metav1.ConditionUnknown
					}
				}
			}
		}
		if len(messages) == 0 && !p.LookedAtHealth {
			c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonNotEvaluated
			messages = append(messages, notEvaluated)
		}
		c.Message = text.Truncate(strings.Join(messages, "; "), state.MaxConditionMessage)
		conditions = append(conditions, state.WithTransition(c, before, now))
	}
	return conditions
}

// notEvaluated is the message of a health condition that the plan did not look at.
const notEvaluated = "not evaluated in the present state of the volume group, see its reason"

// unknownConditions returns the conditions of a node that could not be observed.
func unknownConditions(before []metav1.Condition, generation int64, err error, now metav1.Time) []metav1.Condition {
	var conditions []metav1.Condition
	for _, old := range before {
		conditions = append(conditions, state.WithTransition(metav1.Condition{
			Type: old.Type, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonObservationFailed,
			ObservedGeneration: generation,
			Message:            text.Truncate(err.Error(), state.MaxConditionMessage),
		}, before, now))
	}
	return conditions
}

func addGroup(entry *v1alpha1.VGStatus, d state.Desired, o state.Outcome, vg *lvm.VG) {
	entry.UUID, entry.Seqno = vg.UUID, int64(o.Node.Metadata.Seen.Seqno)
	entry.Devices = pvNames(o.Node, vg.PVs)
	entry.PhysicalVolumes = physicalVolumes(d, o, vg)
	entry.Size, entry.Free = state.Quantity(vg.Size), state.Quantity(vg.Free)
	entry.MetadataArea = members.MetadataAreaStatus(vg)
	if d.Spec.RAIDConfig != nil {
		entry.RAIDStatus = redundancy.Status(o.Node, vg)
	}
	if d.Spec.ThinPoolConfig == nil {
		return
	}
	pool := vg.ThinPool(d.Spec.ThinPoolConfig.Name)
	if pool == nil {
		if thinpool.HasLost(d, o.Node, vg) {
			entry.ThinPool = o.Node.Before.ThinPool // it says that the pool was there
		}
		return
	}
	entry.ThinPool = &v1alpha1.ThinPoolStatus{
		Name: pool.Name, Size: *state.Quantity(pool.Size), MetadataSize: *state.Quantity(pool.MetadataSize),
		ChunkSize: state.Quantity(pool.ChunkSize), DataPercent: state.WholePercent(pool.DataPercent),
		MetadataPercent: state.WholePercent(pool.MetadataPercent),
		VirtualSize:     state.Quantity(pool.VirtualSize()),
	}
	if pool.DataPercent != nil {
		entry.ThinPool.Free = state.Quantity(pool.Size - pool.Size/100*lvm.Bytes(entry.ThinPool.DataPercent))
	}
	limit := lvm.Bytes(d.Spec.ThinPoolConfig.OverprovisionRatio) * pool.Size
	entry.ThinPool.VirtualFree = state.Quantity(max(0, limit-pool.VirtualSize()))
	entry.ThinPool.CopyFree = copyFree(d.Spec.ThinPoolConfig, vg, pool)
}

// copyFree returns how much data can be copied to a thin pool, or nil if its usage is not known. It depends on the
// usage in whole percent, so that the status changes no more often.
func copyFree(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) *resource.Quantity {
	if pool.DataPercent == nil || pool.MetadataPercent == nil {
		return nil
	}
	usage := deviceclass.PoolUsage{Size: int64(pool.Size), MetadataSize: int64(pool.MetadataSize),
		Data:     float64(state.WholePercent(pool.DataPercent)),
		Metadata: float64(state.WholePercent(pool.MetadataPercent)), Mark: float64(cmp.Or(config.HighWaterMarkPercent,
			deviceclass.DefaultHighWaterMark))}
	if config.AutoExtend != nil {
		usage.Extendable = int64(max(0, min(thinpool.DataRoom(config, vg),
			thinpool.MaxPoolSize(pool.ChunkSize)-pool.Size)))
	}
	return resource.NewQuantity(usage.CopyFree(), resource.BinarySI)
}

// pvNames returns the sorted devices of a group for the status.
func pvNames(s state.NodeState, pvs []lvm.PV) []string {
	var list []string
	for _, pv := range pvs {
		name := pv.Name
		if pv.Missing {
			name = "missing: " + pv.UUID
			if last := state.LastName(s, pv); last != "" {
				name = last + " (missing)"
			}
		}
		list = append(list, name)
	}
	slices.SortFunc(list, strings.Compare)
	return list
}

// physicalVolumes returns the physical volumes of the group for the status.
func physicalVolumes(d state.Desired, o state.Outcome, vg *lvm.VG) []v1alpha1.PhysicalVolumeStatus {
	var list []v1alpha1.PhysicalVolumeStatus
	for _, pv := range vg.PVs {
		status := physicalVolume(o, pv)
		status.RequestedAs = devicerequests.RequestedAs(d, o.Node, pv)
		list = append(list, status)
	}
	slices.SortFunc(list, func(a, b v1alpha1.PhysicalVolumeStatus) int { return strings.Compare(a.UUID, b.UUID) })
	return list
}

func physicalVolume(o state.Outcome, pv lvm.PV) v1alpha1.PhysicalVolumeStatus {
	before := state.BeforeOf(o.Node, pv.UUID)
	status := v1alpha1.PhysicalVolumeStatus{
		UUID: pv.UUID, Name: pv.Name, DeviceID: o.Node.Disks.Identities[state.NumberOf(pv)], Path: pathOf(o.Node, pv,
			before.Path),
		Size: state.Quantity(pv.Size), Free: state.Quantity(pv.Free), State: v1alpha1.PhysicalVolumeReady,
		Suspended: members.IsSuspended(pv),
	}
	if note, ok := o.Plan.Notes[pv.UUID]; ok {
		status.State = note.State
		status.Message = note.Message
		status.MovedPercent = note.Moved
	}
	if err := o.Node.Health.Failing[state.NumberOf(pv)]; err != nil {
		status.State, status.Message = v1alpha1.PhysicalVolumeFailing, err.Error()
	}
	if pv.Missing {
		status.Name = state.LastName(o.Node, pv)
		status.DeviceID = before.DeviceID
		status.Path = before.Path
		status.State = v1alpha1.PhysicalVolumeMissing
	}
	return status
}

// pathOf returns the path by which a physical volume was selected. It returns the previous path while that is a path of
// the selectors, wherever it leads (selection.movedPath), and if no path leads to the physical volume. Otherwise it
// returns the first path that does.
func pathOf(s state.NodeState, pv lvm.PV, before string) string {
	number := state.NumberOf(pv)
	found := ""
	for _, p := range s.Disks.Paths {
		if p.Path == before {
			return before
		}
		if p.Err == nil && p.Number == number && found == "" {
			found = p.Path
		}
	}
	if found == "" {
		return before
	}
	return found
}
