package doubt

import (
	"fmt"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// WasReplaced returns a function for lvm.FindMetadata that returns "" for metadata that was replaced with that of an
// earlier time: it has volumes that the volume group does not have, and an equal or higher number of changes than later
// metadata without them. LVM increases the number at each change, so no command that removes a volume leads to that.
// The function must be called with the newest metadata first. absent are volumes that the present metadata does not
// have.
func WasReplaced(present *textmeta.Metadata, absent []string) func(*textmeta.Metadata) string {
	// lowest is the lowest number of changes of the metadata without a volume that was found so far.
	lowest := map[string]uint64{}
	for _, name := range absent {
		if present.Volume(name) == nil {
			lowest[name] = present.Seqno
		}
	}
	return func(m *textmeta.Metadata) string {
		if m.UUID != present.UUID {
			return "another UUID of the volume group"
		}
		if len(replacedVolumes(lowest, m)) > 0 {
			return ""
		}
		for name, seqno := range lowest {
			if m.Volume(name) == nil {
				lowest[name] = min(seqno, m.Seqno)
			}
		}
		return "no volume of the device class was lost since then"
	}
}

// replacedVolumes returns the sorted volumes of metadata that later metadata with the same number of changes, or a
// lower one, does not have.
func replacedVolumes(lowest map[string]uint64, m *textmeta.Metadata) []string {
	var names []string
	for name, seqno := range lowest {
		if m.Volume(name) != nil && m.Seqno >= seqno {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// NewReplaced returns what is known if metadata was found with WasReplaced, or nil was.
func NewReplaced(present, found *textmeta.Metadata, absent []string) state.Replaced {
	if found == nil {
		return state.Replaced{}
	}
	r := state.Replaced{File: found.File}
	for _, name := range absent {
		if found.Volume(name) != nil && present.Volume(name) == nil {
			r.Volumes = append(r.Volumes, name)
		}
	}
	slices.Sort(r.Volumes)
	return r
}

// ReplacedProblems reports that the metadata of the volume group was replaced. If a thin pool does not work, its own
// problem names the action.
func ReplacedProblems(d state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	if d.Spec.ThinPoolConfig != nil {
		if pool := vg.ThinPool(d.Spec.ThinPoolConfig.Name); pool == nil || !thinpool.Works(pool) {
			return nil
		}
	}
	replaced := s.Metadata.Replaced
	p := state.Problem{Event: state.EventInconsistentVolumes, Condition: v1alpha1.ConditionVolumesHealthy,
		Reason: v1alpha1.ReasonVolumesBroken, Volumes: replaced.Volumes}
	switch {
	case replaced.Err != nil:
		p.Event, p.Reason, p.Unknown = state.EventObserveFailed, v1alpha1.ReasonObservationFailed, true
		p.Message = fmt.Sprintf("volume group %s on node %s does not have all volumes of the device class, and it is "+
			"not known whether its metadata was replaced with that of an earlier time: %v", d.Name, d.Node,
			replaced.Err)
	case len(replaced.Volumes) > 0:
		p.Message = fmt.Sprintf("the metadata of volume group %s on node %s was replaced with that of an earlier "+
			"time: volumes of the device class that it does not have, but the metadata in %s: %d; to restore the "+
			"metadata, %s; if these volumes are not needed, delete their claims", d.Name, d.Node, replaced.File,
			len(replaced.Volumes), recovery.RollbackHint(d))
	default:
		return nil
	}
	return []state.Problem{p}
}
