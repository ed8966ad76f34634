package plan

import (
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/text"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// OutdatedEntry returns the entry of a volume group on a node that could not be observed because of err. The last known
// state stays. State and reason show that it is outdated.
func OutdatedEntry(w Wanted, before v1alpha1.VGStatus, err error) v1alpha1.VGStatus {
	before.Status, before.Reason, before.ObservedGeneration = failed(len(before.Devices) > 0), err.Error(), w.Generation
	before.Conditions = unknownConditions(before.Conditions, w.Generation, err)
	return before
}

// NewEntry returns the entry of a volume group after an observation of the node, even if the change failed. p is the
// plan for the observation, failure is the error of its action or nil, and before is the previous entry.
func NewEntry(w Wanted, s Seen, p Plan, failure error, before v1alpha1.VGStatus) v1alpha1.VGStatus {
	entry := v1alpha1.VGStatus{
		Name: w.Name, ObservedGeneration: w.Generation, Excluded: p.Excluded, WipedDevices: wipedDevices(w, s),
		Status: p.State, Reason: strings.Join(p.messages(), "; "),
	}
	vg := GroupOf(w, s)
	if p.Lost {
		keepLost(&entry, w, p, before)
	}
	switch {
	case failure != nil:
		entry.Status = failed(vg != nil)
		entry.Reason = strings.Join(append([]string{failure.Error()}, p.messages()...), "; ")
	case entry.Reason == "" && p.Note != "":
		entry.Reason = p.Note
	case entry.Reason == "" && entry.Status == v1alpha1.VGStatusProgressing:
		entry.Reason = "in progress: " + string(p.Action.Kind)
	}
	if vg != nil && notOurs(w, vg) == "" {
		addGroup(&entry, w, s, p, vg)
		entry.Conditions = newConditions(w, p, before.Conditions)
	}
	return entry
}

// keepLost keeps the last known state of a missing volume group.
func keepLost(entry *v1alpha1.VGStatus, w Wanted, p Plan, before v1alpha1.VGStatus) {
	entry.UUID, entry.Size, entry.PhysicalVolumes = before.UUID, before.Size, slices.Clone(before.PhysicalVolumes)
	for i := range entry.PhysicalVolumes {
		pv := &entry.PhysicalVolumes[i]
		pv.State = v1alpha1.PhysicalVolumeMissing
		pv.MovedPercent = nil
		pv.Message = ""
		entry.Devices = append(entry.Devices, pv.Name+" (missing)")
	}
	slices.Sort(entry.Devices)
	entry.Conditions = newConditions(w, p, before.Conditions)
}

// failed returns the state for a problem. A volume group that exists still provides its volumes.
func failed(exists bool) v1alpha1.VGState {
	if exists {
		return v1alpha1.VGStatusDegraded
	}
	return v1alpha1.VGStatusFailed
}

// healthConditions returns the condition types of a device class' volume group.
func healthConditions(w Wanted) []string {
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
func newConditions(w Wanted, p Plan, before []metav1.Condition) []metav1.Condition {
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
		c.Message = text.Truncate(strings.Join(messages, "; "), maxConditionMessage)
		if old := meta.FindStatusCondition(before, kind); old != nil {
			conditions = append(conditions, *old)
		}
		meta.SetStatusCondition(&conditions, c)
	}
	return conditions
}

// maxConditionMessage is below the limit of a condition (metav1.Condition, 32,768 bytes), to keep messages readable.
const maxConditionMessage = 4096

// unknownConditions returns the conditions of a node that could not be observed.
func unknownConditions(before []metav1.Condition, generation int64, err error) []metav1.Condition {
	conditions := slices.Clone(before)
	for _, old := range before {
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: old.Type, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonObservationFailed,
			ObservedGeneration: generation,
			Message:            text.Truncate(err.Error(), maxConditionMessage),
		})
	}
	return conditions
}

func addGroup(entry *v1alpha1.VGStatus, w Wanted, s Seen, p Plan, vg *lvm.VG) {
	entry.UUID = vg.UUID
	entry.Devices = pvNames(s, vg.PVs)
	entry.PhysicalVolumes = physicalVolumes(s, p, vg)
	entry.Size, entry.Free = quantity(vg.Size), quantity(vg.Free)
	if w.Spec.RAIDConfig != nil {
		entry.RAIDStatus = newRAIDStatus(s, vg)
	}
	if w.Spec.ThinPoolConfig == nil {
		return
	}
	pool := vg.ThinPool(w.Spec.ThinPoolConfig.Name)
	if pool == nil {
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
}

// pvNames returns the sorted devices of a group for the status.
func pvNames(s Seen, pvs []lvm.PV) []string {
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
func physicalVolumes(s Seen, p Plan, vg *lvm.VG) []v1alpha1.PhysicalVolumeStatus {
	var list []v1alpha1.PhysicalVolumeStatus
	for _, pv := range vg.PVs {
		list = append(list, physicalVolume(s, p, pv))
	}
	slices.SortFunc(list, func(a, b v1alpha1.PhysicalVolumeStatus) int { return strings.Compare(a.UUID, b.UUID) })
	return list
}

func physicalVolume(s Seen, p Plan, pv lvm.PV) v1alpha1.PhysicalVolumeStatus {
	before := beforeOf(s, pv.UUID)
	status := v1alpha1.PhysicalVolumeStatus{
		UUID: pv.UUID, Name: pv.Name, DeviceID: s.Identities[NumberOf(pv)], Path: pathOf(s, pv, before.Path),
		Size: quantity(pv.Size), Free: quantity(pv.Free), State: v1alpha1.PhysicalVolumeReady,
	}
	if note, ok := p.notes[pv.UUID]; ok {
		status.State = note.state
		status.Message = note.message
		status.MovedPercent = note.moved
	}
	if err := s.Failing[NumberOf(pv)]; err != nil {
		status.State, status.Message = v1alpha1.PhysicalVolumeFailing, err.Error()
	}
	if pv.Missing {
		status.Name = lastName(s, pv)
		status.DeviceID = before.DeviceID
		status.Path = before.Path
		status.State = v1alpha1.PhysicalVolumeMissing
	}
	return status
}

// pathOf returns the path by which a physical volume was selected. It returns the previous path while that path leads
// to the physical volume, and if no path leads to it. Otherwise it returns the first path that does.
func pathOf(s Seen, pv lvm.PV, before string) string {
	number := NumberOf(pv)
	found := ""
	for _, p := range s.Paths {
		if p.Err == nil && p.Number == number {
			if p.Path == before {
				return before
			}
			if found == "" {
				found = p.Path
			}
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
