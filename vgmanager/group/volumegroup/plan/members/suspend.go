package members

import (
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/devicerequests"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// suspension plans the tag of a physical volume that is suspended. The tag is on the device, so that it is in effect
// without the API server. LVM cannot change the tag of a missing device.
func (r *Requests) suspension(d state.Desired, s state.NodeState, vg *lvm.VG, pv lvm.PV) state.Action {
	request := devicerequests.For(d, s, state.DeviceOfPV(s, pv), pv.UUID)
	suspended := IsSuspended(pv)
	switch {
	case pv.Missing:
	case request.Suspend && suspended:
		r.noteSuspended(vg, pv, request.SuspendReason)
	case request.Suspend:
		return state.Action{Kind: state.SuspendPV, Target: state.PVs{pv}, Change: lvm.PVSetAllocatable{Device: pv.Name,
			Allocatable: pv.Allocatable, AddTag: wellknown.SuspendedTag}}
	case suspended:
		return state.Action{Kind: state.ResumePV, Target: state.PVs{pv}, Change: lvm.PVSetAllocatable{Device: pv.Name,
			Allocatable: pv.Allocatable, RemoveTag: wellknown.SuspendedTag}}
	}
	return state.Action{}
}

// IsSuspended returns true if new Pods are kept from the volumes of a physical volume.
func IsSuspended(pv lvm.PV) bool { return slices.Contains(pv.Tags, wellknown.SuspendedTag) }

// noteSuspended adds the suspension to the message of a device.
func (r *Requests) noteSuspended(vg *lvm.VG, pv lvm.PV, reason string) {
	note, noted := r.Notes[pv.UUID]
	if !noted {
		note.State = v1alpha1.PhysicalVolumeReady
	}
	text := "suspended (deviceRequests): it has no data of a volume"
	if volumes := vg.VolumesOn(pv.UUID); len(volumes) > 0 {
		text = "suspended (deviceRequests): new Pods do not get the volumes " + state.Joined(volumes)
	}
	if reason := strings.Join(strings.Fields(reason), " "); reason != "" {
		text += "; suspended " + reason
	}
	if note.Message != "" {
		text += "; " + note.Message
	}
	note.Message = text
	r.Notes[pv.UUID] = note
}
