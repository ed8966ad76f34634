package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd/deviceclass"
)

// raidOptions returns the lvcreate options of a level, in the format of existing configurations.
func raidOptions(raid *v1alpha1.RAIDConfig) []string {
	mirrors := 0
	stripes := 0
	stripeSize := int64(0)
	if raid.Copies() > 0 {
		mirrors = raid.Copies()
	}
	if raid.Type != v1alpha1.RAIDType1 {
		stripes = raid.DataStripes()
		stripeSize = v1alpha1.DefaultStripeSize
		if raid.StripeSize != nil {
			stripeSize = raid.StripeSize.Value()
		}
	}
	return deviceclass.RAIDOptions(string(raid.Type), mirrors, stripes, stripeSize)
}

// raidProblem returns why a device class with redundancy cannot start, or "": the number of devices is not sufficient,
// or the kernel does not support RAID.
func raidProblem(w Desired, s NodeState, devices int) string {
	raid := w.Spec.RAIDConfig
	switch {
	case raid == nil:
		return ""
	case devices < raid.MinimumDevices():
		return fmt.Sprintf("device class %s on node %s requires at least %d devices for %s, and %d can be used: "+
			"attach more, or see excluded for why the others cannot be used",
			w.Name, w.Node, raid.MinimumDevices(), raid.Type, devices)
	case s.NoRAID != nil:
		return fmt.Sprintf("device class %s: the kernel of node %s does not support %s: %v", w.Name, w.Node,
			raid.Type, s.NoRAID)
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

// wrongRAID returns the volumes that are not healthy. failed: data can no longer be read. degraded: a device is
// missing. syncing: the redundancy is being built.
func wrongRAID(vg *lvm.VG) (failed, degraded, syncing []string) {
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

// raidProblems returns the problems of the redundancy. A volume that is being synchronized, initially or again, does
// not tolerate the loss of a device yet.
func raidProblems(w Desired, vg *lvm.VG) []Problem {
	failed, degraded, syncing := wrongRAID(vg)
	var problems []Problem
	add := func(reason, text string, names []string) {
		if len(names) > 0 {
			problems = append(problems, Problem{
				Event: EventRAIDHealthCheckFailed, Condition: v1alpha1.ConditionRAIDHealthy, Reason: reason,
				Volumes: plain(names),
				Message: fmt.Sprintf("logical volumes of volume group %s on node %s %s: %s", w.Name, w.Node,
					text, joined(names)),
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

// refresh reloads volumes whose device was missing and returned. Until then the kernel does not use the RAID image on
// the device, or still uses the removed device.
func refresh(s NodeState, vg *lvm.VG) Action {
	if vg.MissingPVs > 0 {
		return Action{}
	}
	if len(s.Stale) > 0 {
		return Action{Kind: Refresh, Volume: s.Stale[0]}
	}
	for _, lv := range raidVolumes(vg) {
		if lv.Health == "refresh needed" && lv.Attr.Active() {
			return Action{Kind: Refresh, Volume: lv.Name}
		}
	}
	return Action{}
}

// syncing returns the first of the named volumes that is not in sync, or "".
func syncing(vg *lvm.VG, names []string) string {
	for _, lv := range raidVolumes(vg) {
		if slices.Contains(names, lv.Name) && lv.SyncPercent != nil && *lv.SyncPercent < 100 {
			return lv.Name
		}
	}
	return ""
}

// maxHealthEntries is the maximum length of the list of volumes in the status.
const maxHealthEntries = 32

// newRAIDStatus returns the redundancy for the status.
func newRAIDStatus(s NodeState, vg *lvm.VG) *v1alpha1.RAIDStatus {
	failed, degraded, syncing := wrongRAID(vg)
	status := &v1alpha1.RAIDStatus{Status: v1alpha1.RAIDHealthy, MemberCount: int32(len(vg.PVs))}
	for _, pv := range vg.PVs {
		if pv.Missing || s.Failing[NumberOf(pv)] != nil {
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
