package lostdevices

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Status returns the status of the recovery.
func Status(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	switch vg := ownership.GroupOf(d, o.Node); {
	case d.Open.Approved != nil && hasEnded(d.Open.Approved, vg):
		status.Phase = v1alpha1.RecoverySucceeded
		status.Message = succeeded(d, status.Plan)
		status.CompletionTime = &r.Now
	case d.Open.Approved != nil && Recovers(d, o.Node, vg):
		recovery.SetRunning(&status, recovery.Progress(o, vg), r.Now)
	default:
		if d.Open.Approved != nil && d.Open.Approved.Unattended {
			status.Plan = nil // another ID
		}
		d.Open.Approved = nil
		newPlan := func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
			return NewPlan(d, o.Node, r.Volumes, created)
		}
		recovery.RenewPlan(&status, r.Recovery.Spec.ApprovedPlan, r.Now, newPlan, consequence)
	}
	return status
}

// hasEnded returns true if all devices were removed from the volume group. A device that is attached again ends the
// recovery without success.
//
// If the whole group was lost because it was deleted, LVM creates the new one on the same physical volumes. The new one
// has none of the lost volumes, or no volumes at all if none is known to be lost.
func hasEnded(r *state.Recovery, vg *lvm.VG) bool {
	if vg == nil {
		return false
	}
	isLost := func(lv lvm.LV) bool {
		return !lv.Attr.IsThinPool() && (len(r.Names) == 0 || slices.Contains(r.Names, lv.Name))
	}
	if r.WholeGroup && vg.MissingPVs == 0 && !slices.ContainsFunc(vg.LVs, isLost) {
		return true
	}
	return !slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool { return slices.Contains(r.Devices, pv.UUID) })
}

// consequence describes a plan in a sentence.
func consequence(p *v1alpha1.RecoveryPlan) string {
	devices := fmt.Sprintf("%d missing devices are removed from the volume group", len(p.Devices))
	if len(p.Devices) == 1 {
		devices = "1 missing device is removed from the volume group"
	}
	switch {
	case p.LostVolumeCount == 0 && len(p.ThinPools) == 0:
		return devices + ", and no volume is lost" + failingToo(p)
	case p.VolumeGroupUUID == "":
		return fmt.Sprintf("the volume group is created again on other devices, and its volumes are lost: %d",
			p.LostVolumeCount)
	}
	return fmt.Sprintf("%s; volumes lost: %d, volumes kept: %d%s", devices, p.LostVolumeCount, p.KeptVolumeCount,
		failingToo(p))
}

// failingToo describes the devices that stay although they are failing, or returns "".
func failingToo(p *v1alpha1.RecoveryPlan) string {
	var names []string
	for _, d := range p.FailingDevices {
		names = append(names, d.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; failing, and not removed: %s: request the removal of what is failing afterwards, which "+
		"moves its data to other devices", state.Joined(names))
}

// succeeded says what a recovery that has ended has removed.
func succeeded(d state.Desired, p *v1alpha1.RecoveryPlan) string {
	removed := fmt.Sprintf("the missing devices were removed from volume group %s on node %s", d.Name, d.Node)
	if p.LostVolumeCount == 0 {
		return removed + ", and no volume was lost"
	}
	return fmt.Sprintf("%s; volumes lost: %d: delete their PersistentVolumeClaims, and restore the data from a backup",
		removed, p.LostVolumeCount)
}
