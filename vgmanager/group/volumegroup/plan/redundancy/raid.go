// Package redundancy decides about volumes with RAID: how they are created, what is wrong with them, and how their
// redundancy is restored.
package redundancy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// Options returns the lvcreate options of a level, in the format of existing configurations.
func Options(raid *v1alpha1.RAIDConfig) []string {
	mirrors := 0
	stripes := 0
	stripeSize := int64(0)
	if classspec.RAIDCopies(raid) > 0 {
		mirrors = classspec.RAIDCopies(raid)
	}
	if raid.Type != v1alpha1.RAIDType1 {
		stripes = classspec.RAIDStripes(raid)
		stripeSize = classspec.RAIDStripeBytes(raid)
	}
	return deviceclass.RAIDOptions(string(raid.Type), mirrors, stripes, stripeSize)
}

// StartProblem returns why a device class cannot start with a number of devices, or "": it is not sufficient, or the
// kernel does not support RAID.
func StartProblem(d state.Desired, s state.NodeState, devices int) string {
	least, why := classspec.MinimumDevices(d.Spec.RAIDConfig, d.Spec.ThinPoolConfig, d.Spec.ThickConfig)
	switch {
	case devices < least:
		return fmt.Sprintf("device class %s on node %s requires at least %d devices for %s, and %d can be used: "+
			"attach more, or see excluded for why the others cannot be used",
			d.Name, d.Node, least, why, devices)
	case d.Spec.RAIDConfig != nil && s.Health.NoRAID != nil:
		return fmt.Sprintf("device class %s: the kernel of node %s does not support %s: %v", d.Name, d.Node,
			d.Spec.RAIDConfig.Type, s.Health.NoRAID)
	}
	return ""
}

// raidVolumes returns the visible volumes with redundancy.
func raidVolumes(vg *lvm.VG) []*lvm.LV {
	var list []*lvm.LV
	for i := range vg.LVs {
		if vg.LVs[i].IsRAID() {
			list = append(list, &vg.LVs[i])
		}
	}
	return list
}

// WrongRAID returns the volumes that are not healthy. failed: data can no longer be read. degraded: a device is
// missing. syncing: the redundancy is being built.
func WrongRAID(vg *lvm.VG) (failed, degraded, syncing []string) {
	for _, lv := range raidVolumes(vg) {
		switch {
		case vg.RAIDFailed(lv):
			failed = append(failed, lv.Name)
		case lv.Health != "" && lv.Health != "mismatches exist":
			degraded = append(degraded, fmt.Sprintf("%s (%s)", lv.Name, lv.Health))
		case lv.SyncPercent != nil && *lv.SyncPercent < 100:
			syncing = append(syncing, fmt.Sprintf("%s (%d%%)", lv.Name, int(*lv.SyncPercent)))
		}
	}
	slices.Sort(failed)
	slices.Sort(degraded)
	slices.Sort(syncing)
	return failed, degraded, syncing
}

// Problems returns the problems of the redundancy. A volume that is being synchronized, initially or again, does
// not tolerate the loss of a device yet.
func Problems(d state.Desired, vg *lvm.VG) []state.Problem {
	failed, degraded, syncing := WrongRAID(vg)
	var problems []state.Problem
	add := func(reason, text string, names []string) {
		if len(names) > 0 {
			problems = append(problems, state.Problem{
				Event: state.EventRAIDHealthCheckFailed, Condition: v1alpha1.ConditionRAIDHealthy, Reason: reason,
				Volumes: plain(names),
				Message: fmt.Sprintf("logical volumes of volume group %s on node %s %s: %s", d.Name, d.Node,
					text, state.Joined(names)),
			})
		}
	}
	add(v1alpha1.ReasonRAIDFailed, "have lost more devices than they tolerate, so their data cannot be read", failed)
	add(v1alpha1.ReasonRAIDDegraded, "have lost redundancy and do not tolerate the loss of another device", degraded)
	add(v1alpha1.ReasonRAIDSyncing,
		"are being synchronized; until then they may not tolerate the loss of a device",
		syncing)
	return problems
}

func plain(names []string) []string {
	var list []string
	for _, n := range names {
		name, _, _ := strings.Cut(n, " ")
		list = append(list, name)
	}
	return list
}

// maxRefreshes is the number of refreshes without an effect after which an image is rebuilt.
const maxRefreshes = 3

// Refresh reloads volumes whose device was missing and returned. Until then the kernel does not use the RAID image on
// the device, or still uses the removed device. If the other devices of the volume have returned errors in the
// meantime, the kernel does not add an image again (md sets recovery_disabled): a refresh does not help, but LVM can
// rebuild the image while the volume is in use.
func Refresh(s state.NodeState, vg *lvm.VG) state.Action {
	if vg.MissingPVs > 0 {
		return state.Action{}
	}
	for _, name := range slices.Concat(s.Health.Stale, notRefreshed(vg)) {
		switch attempt := s.Records.Attempts[name]; {
		case attempt.Waiting:
		case attempt.Ineffective >= maxRefreshes && len(rebuildable(s, vg, name)) > 0:
			pvs := rebuildable(s, vg, name)
			return state.Action{Kind: state.Rebuild, Target: state.Volume{Name: name, PVs: pvs},
				Change: lvm.LVRebuild{VG: vg.Name, Name: name, Devices: lvm.PVNames(pvs)}}
		default:
			return state.Action{Kind: state.Refresh, Target: state.Volume{Name: name},
				Change: lvm.LVRefresh{VG: vg.Name, Name: name}}
		}
	}
	return state.Action{}
}

// CloseImages deactivates the images of RAID volumes that a killed activation or deactivation left active. LVM does not
// activate the volumes meanwhile.
func CloseImages(vg *lvm.VG) state.Action {
	left := vg.ImagesLeft()
	if len(left) == 0 {
		return state.Action{}
	}
	return state.Action{Kind: state.CloseImages,
		Change: lvm.LVDeactivate{VG: vg.Name, Names: left[:min(len(left), state.MaxNamesOfCommand)]}}
}

// notRefreshed returns the active volumes with an image that the kernel does not use, although its device is present.
func notRefreshed(vg *lvm.VG) []string {
	var names []string
	for _, lv := range raidVolumes(vg) {
		if lv.Health == lvm.HealthRefreshNeeded && lv.Attr.Active() {
			names = append(names, lv.Name)
		}
	}
	return names
}

// rebuildable returns the physical volumes with images of a volume that the kernel does not use. It returns none if the
// volume cannot be read, or if one of its devices is failing: a rebuild overwrites the images.
func rebuildable(s state.NodeState, vg *lvm.VG, name string) []lvm.PV {
	lv := vg.LV(name)
	if lv == nil || vg.RAIDFailed(lv) {
		return nil
	}
	for _, pv := range vg.PVs {
		if s.Health.Failing[state.NumberOf(pv)] != nil && slices.Contains(vg.VolumesOn(pv.UUID), name) {
			return nil
		}
	}
	unused := vg.UnusedImages(lv)
	var pvs []lvm.PV
	for _, pv := range vg.PVs {
		if slices.ContainsFunc(unused, func(image *lvm.LV) bool { return slices.Contains(image.PVs, pv.UUID) }) {
			pvs = append(pvs, pv)
		}
	}
	return pvs
}

// NeedsReload returns the volumes of a group that have to be refreshed, resumed or rebuilt. vg may be nil.
func NeedsReload(s state.NodeState, vg *lvm.VG) []string {
	if vg == nil {
		return nil
	}
	return slices.Concat(s.Health.Stale, notRefreshed(vg), health.HeldVolumes(s, vg))
}

// Syncing returns the first of the named volumes that is not in sync, or "".
func Syncing(vg *lvm.VG, names []string) string {
	for _, lv := range raidVolumes(vg) {
		if slices.Contains(names, lv.Name) && lv.SyncPercent != nil && *lv.SyncPercent < 100 {
			return lv.Name
		}
	}
	return ""
}

// maxHealthEntries is the maximum length of the list of volumes in the status.
const maxHealthEntries = 32

// Status returns the redundancy for the status.
func Status(s state.NodeState, vg *lvm.VG) *v1alpha1.RAIDStatus {
	failed, degraded, syncing := WrongRAID(vg)
	status := &v1alpha1.RAIDStatus{Status: v1alpha1.RAIDHealthy, MemberCount: int32(len(vg.PVs))}
	for _, pv := range vg.PVs {
		if pv.Missing || s.Health.Failing[state.NumberOf(pv)] != nil {
			status.DegradedMemberCount++
		}
	}
	switch {
	case len(failed) > 0:
		status.Status = v1alpha1.RAIDFailed
	case len(degraded)+len(syncing) > 0 || status.DegradedMemberCount > 0:
		status.Status = v1alpha1.RAIDDegraded
	}
	for _, lv := range raidVolumes(vg) {
		percent := floorPercent(lv.SyncPercent)
		if percent != nil && (status.MinSyncPercent == nil || *percent < *status.MinSyncPercent) {
			status.MinSyncPercent = percent
		}
		if (lv.Health != "" || percent == nil || *percent < 100) && len(status.LVHealth) < maxHealthEntries {
			status.LVHealth = append(status.LVHealth,
				v1alpha1.LVHealth{Name: lv.Name, RAIDType: lv.SegType, SyncPercent: percent, HealthStatus: lv.Health})
		}
	}
	slices.SortFunc(status.LVHealth, func(a, b v1alpha1.LVHealth) int { return strings.Compare(a.Name, b.Name) })
	return status
}

func floorPercent(p *float64) *int32 {
	if p == nil {
		return nil
	}
	whole := int32(*p)
	return &whole
}
