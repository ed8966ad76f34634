package plan

import (
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// suspension plans the tag of a physical volume that is suspended. The tag is on the device, so that it is in effect
// without the API server. LVM cannot change the tag of a missing device.
func (r *deviceRequests) suspension(w Desired, s NodeState, vg *lvm.VG, pv lvm.PV) Action {
	request := deviceRequest(w, s, deviceOf(s, pv), pv.UUID)
	suspended := isSuspended(pv)
	switch {
	case pv.Missing:
	case request.Suspend && suspended:
		r.noteSuspended(vg, pv, request.SuspendReason)
	case request.Suspend:
		return Action{Kind: SuspendPV, PVs: []lvm.PV{pv}}
	case suspended:
		return Action{Kind: ResumePV, PVs: []lvm.PV{pv}}
	}
	return Action{}
}

func isSuspended(pv lvm.PV) bool { return slices.Contains(pv.Tags, deviceclass.SuspendedTag) }

// noteSuspended adds the suspension to the message of a device.
func (r *deviceRequests) noteSuspended(vg *lvm.VG, pv lvm.PV, reason string) {
	note, noted := r.notes[pv.UUID]
	if !noted {
		note.state = v1alpha1.PhysicalVolumeReady
	}
	text := "suspended (deviceRequests): it has no data of a volume"
	if volumes := vg.VolumesOn(pv.UUID); len(volumes) > 0 {
		text = "suspended (deviceRequests): new Pods do not get the volumes " + joined(volumes)
	}
	if reason := strings.Join(strings.Fields(reason), " "); reason != "" {
		text += "; suspended " + reason
	}
	if note.message != "" {
		text += "; " + note.message
	}
	note.message = text
	r.notes[pv.UUID] = note
}
