package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// Outcome is the result of a step: an observation, its plan, and the error of the plan's action.
type Outcome struct {
	Node NodeState
	Plan Plan
	// ObserveFailed: the node could not be observed, so Node and Plan are empty.
	ObserveFailed bool
	// Err is the error of the observation or of the action, or nil.
	Err error
}

// Event returns the reason of the event for the outcome, or "".
func (o Outcome) Event() EventReason {
	switch {
	case o.ObserveFailed:
		return EventObserveFailed
	case o.Err != nil:
		return failureEvents[o.Plan.Action.Kind]
	}
	return o.Plan.event()
}

// Entry returns the entry of a volume group in the node status, even if the action failed. before is the previous
// entry. now is the transition time of the conditions whose status changes.
func (o Outcome) Entry(w Desired, before v1alpha1.VGStatus, now metav1.Time) v1alpha1.VGStatus {
	if o.ObserveFailed {
		// The last known state stays. State and reason show that it is outdated.
		before.Status, before.Reason, before.ObservedGeneration = failed(len(before.Devices) > 0), o.Err.Error(),
			w.Generation
		before.Conditions = unknownConditions(before.Conditions, w.Generation, o.Err, now)
		return before
	}
	entry := v1alpha1.VGStatus{
		Name: w.Name, VolumeGroup: w.Spec.ExistingVolumeGroup, ObservedGeneration: w.Generation,
		Excluded: o.Plan.Excluded, WipedDevices: wipedDevices(w, o.Node),
		Status: o.Plan.State, Reason: strings.Join(o.Plan.messages(), "; "),
	}
	vg := GroupOf(w, o.Node)
	if o.Plan.Lost {
		keepLost(&entry, before)
		entry.Conditions = newConditions(w, o.Plan, before.Conditions, now)
	}
	switch {
	case o.Err != nil:
		entry.Status = failed(vg != nil)
		entry.Reason = strings.Join(append([]string{o.Err.Error()}, o.Plan.messages()...), "; ")
	case entry.Reason == "" && o.Plan.Note != "":
		entry.Reason = o.Plan.Note
	case entry.Reason == "" && entry.Status == v1alpha1.VGStatusProgressing:
		entry.Reason = "in progress: " + string(o.Plan.Action.Kind)
	}
	if vg != nil && isUsed(w, o.Node, vg) {
		addGroup(&entry, w, o, vg)
		entry.Conditions = newConditions(w, o.Plan, before.Conditions, now)
	}
	return entry
}

// isUsed returns true if the device class uses the volume group.
func isUsed(w Desired, s NodeState, vg *lvm.VG) bool {
	if w.UsesExisting() {
		return s.Class != nil
	}
	return notOurs(w, vg) == ""
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

// failed returns the state for a problem. A volume group that exists still provides its volumes.
func failed(exists bool) v1alpha1.VGState {
	if exists {
		return v1alpha1.VGStatusDegraded
	}
	return v1alpha1.VGStatusFailed
}

// healthConditions returns the condition types of a device class' volume group.
func healthConditions(w Desired) []string {
	types := []string{v1alpha1.ConditionDevicesHealthy, v1alpha1.ConditionVolumesHealthy}
	if w.Spec.ThinPoolConfig != nil {
		types = append(types, v1alpha1.ConditionThinPoolHealthy)
	}
	if w.Spec.RAIDConfig != nil {
		types = append(types, v1alpha1.ConditionRAIDHealthy)
	}
	return types
}

// newConditions converts the problems into conditions. The transition time of a condition changes only with its
// status.
func newConditions(w Desired, p Plan, before []metav1.Condition, now metav1.Time) []metav1.Condition {
	var conditions []metav1.Condition
	for _, kind := range healthConditions(w) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: w.Generation}
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
		c.Message = text.Truncate(strings.Join(messages, "; "), maxConditionMessage)
		conditions = append(conditions, withTransition(c, before, now))
	}
	return conditions
}

// notEvaluated is the message of a health condition that the plan did not look at.
const notEvaluated = "not evaluated in the present state of the volume group, see its reason"

// withTransition returns a condition with its transition time: that of the previous condition if the status is the
// same, or now. meta.SetStatusCondition would read the clock.
func withTransition(c metav1.Condition, before []metav1.Condition, now metav1.Time) metav1.Condition {
	c.LastTransitionTime = now
	if old := meta.FindStatusCondition(before, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

// maxConditionMessage is below the limit of a condition (metav1.Condition, 32,768 bytes), to keep messages readable.
const maxConditionMessage = 4096

// unknownConditions returns the conditions of a node that could not be observed.
func unknownConditions(before []metav1.Condition, generation int64, err error, now metav1.Time) []metav1.Condition {
	var conditions []metav1.Condition
	for _, old := range before {
		conditions = append(conditions, withTransition(metav1.Condition{
			Type: old.Type, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonObservationFailed,
			ObservedGeneration: generation,
			Message:            text.Truncate(err.Error(), maxConditionMessage),
		}, before, now))
	}
	return conditions
}

func addGroup(entry *v1alpha1.VGStatus, w Desired, o Outcome, vg *lvm.VG) {
	entry.UUID, entry.Seqno = vg.UUID, int64(o.Node.Seen.Seqno)
	entry.Devices = pvNames(o.Node, vg.PVs)
	entry.PhysicalVolumes = physicalVolumes(w, o, vg)
	entry.Size, entry.Free = quantity(vg.Size), quantity(vg.Free)
	entry.MetadataArea = metadataAreaStatus(vg)
	if w.Spec.RAIDConfig != nil {
		entry.RAIDStatus = newRAIDStatus(o.Node, vg)
	}
	if w.Spec.ThinPoolConfig == nil {
		return
	}
	pool := vg.ThinPool(w.Spec.ThinPoolConfig.Name)
	if pool == nil {
		if hasLostPool(w, o.Node, vg) {
			entry.ThinPool = o.Node.Before.ThinPool // it says that the pool was there
		}
		return
	}
	entry.ThinPool = &v1alpha1.ThinPoolStatus{
		Name: pool.Name, Size: *quantity(pool.Size), MetadataSize: *quantity(pool.MetadataSize),
		ChunkSize: quantity(pool.ChunkSize), DataPercent: wholePercent(pool.DataPercent),
		MetadataPercent: wholePercent(pool.MetadataPercent),
		VirtualSize:     quantity(pool.VirtualSize()),
	}
	if pool.DataPercent != nil {
		entry.ThinPool.Free = quantity(pool.Size - pool.Size/100*lvm.Bytes(entry.ThinPool.DataPercent))
	}
	limit := lvm.Bytes(w.Spec.ThinPoolConfig.OverprovisionRatio) * pool.Size
	entry.ThinPool.VirtualFree = quantity(max(0, limit-pool.VirtualSize()))
	entry.ThinPool.CopyFree = copyFree(w.Spec.ThinPoolConfig, vg, pool)
}

// copyFree returns how much data can be copied to a thin pool, or nil if its usage is not known. It depends on the
// usage in whole percent, so that the status changes no more often.
func copyFree(config *v1alpha1.ThinPoolConfig, vg *lvm.VG, pool *lvm.ThinPool) *resource.Quantity {
	if pool.DataPercent == nil || pool.MetadataPercent == nil {
		return nil
	}
	usage := deviceclass.PoolUsage{Size: int64(pool.Size), MetadataSize: int64(pool.MetadataSize),
		Data: float64(wholePercent(pool.DataPercent)), Metadata: float64(wholePercent(pool.MetadataPercent)),
		Mark: float64(cmp.Or(config.HighWaterMarkPercent, deviceclass.DefaultHighWaterMark))}
	if config.AutoExtend != nil {
		usage.Extendable = int64(max(0, min(dataRoom(config, vg), MaxPoolSize(pool.ChunkSize)-pool.Size)))
	}
	return resource.NewQuantity(usage.CopyFree(), resource.BinarySI)
}

// pvNames returns the sorted devices of a group for the status.
func pvNames(s NodeState, pvs []lvm.PV) []string {
	var list []string
	for _, pv := range pvs {
		name := pv.Name
		if pv.Missing {
			name = "missing: " + pv.UUID
			if last := lastName(s, pv); last != "" {
				name = last + " (missing)"
			}
		}
		list = append(list, name)
	}
	slices.SortFunc(list, strings.Compare)
	return list
}

// physicalVolumes returns the physical volumes of the group for the status.
func physicalVolumes(w Desired, o Outcome, vg *lvm.VG) []v1alpha1.PhysicalVolumeStatus {
	var list []v1alpha1.PhysicalVolumeStatus
	for _, pv := range vg.PVs {
		status := physicalVolume(o, pv)
		status.RequestedAs = requestedAs(w, o.Node, pv)
		list = append(list, status)
	}
	slices.SortFunc(list, func(a, b v1alpha1.PhysicalVolumeStatus) int { return strings.Compare(a.UUID, b.UUID) })
	return list
}

func physicalVolume(o Outcome, pv lvm.PV) v1alpha1.PhysicalVolumeStatus {
	before := beforeOf(o.Node, pv.UUID)
	status := v1alpha1.PhysicalVolumeStatus{
		UUID: pv.UUID, Name: pv.Name, DeviceID: o.Node.Identities[NumberOf(pv)], Path: pathOf(o.Node, pv, before.Path),
		Size: quantity(pv.Size), Free: quantity(pv.Free), State: v1alpha1.PhysicalVolumeReady,
		Suspended: isSuspended(pv),
	}
	if note, ok := o.Plan.notes[pv.UUID]; ok {
		status.State = note.state
		status.Message = note.message
		status.MovedPercent = note.moved
	}
	if err := o.Node.Failing[NumberOf(pv)]; err != nil {
		status.State, status.Message = v1alpha1.PhysicalVolumeFailing, err.Error()
	}
	if pv.Missing {
		status.Name = lastName(o.Node, pv)
		status.DeviceID = before.DeviceID
		status.Path = before.Path
		status.State = v1alpha1.PhysicalVolumeMissing
	}
	return status
}

// pathOf returns the path by which a physical volume was selected. It returns the previous path while that is a path of
// the selectors, wherever it leads (movedPath), and if no path leads to the physical volume. Otherwise it returns the
// first path that does.
func pathOf(s NodeState, pv lvm.PV, before string) string {
	number := NumberOf(pv)
	found := ""
	for _, p := range s.Paths {
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

func quantity(b lvm.Bytes) *resource.Quantity {
	return resource.NewQuantity(int64(b), resource.BinarySI)
}

// wholePercent rounds up, so that a usage of 99.2 is reported as 100.
func wholePercent(p *float64) int32 {
	if p == nil {
		return 0
	}
	return int32(math.Ceil(*p))
}
