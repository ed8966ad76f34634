package volumegroup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// observe observes the node. With a maxAge of 0 it reads everything again. If a read fails, observe returns an error,
// so that no rule gets an empty list instead of data that could not be read.
func (r *Reconciler) observe(ctx context.Context, w plan.Desired, before v1alpha1.VGStatus,
	maxAge time.Duration) (plan.NodeState, error) {
	s := plan.NodeState{Names: r.names, Before: before, Trim: r.trimOf(w), Erasing: r.erasing[w.Name],
		Failures: r.failures[w.Name]}
	if s.Trim.HasEnded() {
		maxAge = 0 // what was freed is only in a report from after the end
	}
	var err error
	if s.Report, err = r.report(ctx, maxAge); err != nil {
		return s, err
	}
	released, err := r.released.read(w.Name)
	if err != nil {
		return s, err
	}
	s.Released = released.PhysicalVolumes
	if s.Removed, err = r.removed.read(w.Name); err != nil {
		return s, err
	}
	if s.Wiped, err = r.wipes.read(w.Name); err != nil {
		return s, err
	}
	if class, ok := r.Classes.Class(w.Name); ok {
		s.Class = &class
	}
	r.remember(s.Report)
	if w.UsesExisting() {
		return r.observeExisting(ctx, w, s, maxAge)
	}
	s.Unattended = r.unattended(plan.GroupOf(w, s))
	if s.Seen = r.sequences.of(ctx, w.Name, plan.GroupOf(w, s), before); maxAge > 0 && plan.WentBack(w, s) {
		return r.observe(ctx, w, before, 0) // a report from before the last change is not earlier metadata
	}
	if plan.IsRemoval(w, s) {
		s.Owners = r.readOwners(ctx)
	}
	if w.Deleting && plan.IsRemoval(w, s) {
		// A removal does not depend on devices, unless some are missing.
		s.PoolFault = r.faults[w.Name]
		return s, nil
	}
	s.ResolvePaths(w, r.Devices.Resolve)
	if err = r.labeled(ctx, w, &s, maxAge); err != nil {
		return s, err
	}
	s.Identities, s.Watched = device.Identities(s.Devices), r.watch(s.Devices)
	s.Fingerprints = device.NewFingerprints(s.Devices, plan.PhysicalVolumes(s.Report))
	s.Hidden = r.hidden(ctx, w, s, maxAge)
	if plan.GroupOf(w, s) == nil && before.UUID != "" {
		if s.Mapped, err = r.Devices.Mapped(before.UUID); err != nil {
			return s, err
		}
	}
	if w.RestoringGroup && plan.GroupOf(w, s) == nil && before.UUID != "" {
		s.Archive.Metadata, s.Archive.Err = r.LVM.ReadArchive(ctx, w.Name, before.UUID)
	}
	if w.Restoring && plan.GroupOf(w, s) == nil {
		s.Backup.Metadata, s.Backup.Err = r.LVM.ReadBackup(ctx, w.Name)
	}
	if !w.Restoring {
		delete(r.verified, w.Name)
	}
	s.Verified = slices.Clone(r.verified[w.Name])
	s.PoolFault = r.faults[w.Name]
	s.Inspection = r.inspections.of(w, plan.GroupOf(w, s), r.now())
	if s.Rollback, err = r.rollback(ctx, w, s); err != nil {
		return s, err
	}
	if len(w.Orphans) > 0 || w.Import != nil {
		s.Owners = r.readOwners(ctx)
	}
	s.LastMounts = r.lastMounts(ctx, w, s)
	if vg := plan.GroupOf(w, s); vg != nil {
		absent, err := r.absent(ctx, w, vg)
		if err != nil {
			return s, err
		}
		if s.Replaced = r.replaced(ctx, w, vg, absent); plan.LacksPool(w, s, vg) {
			s.Absent = absent
		}
	}
	r.observeDeletions(ctx, w, &s, maxAge)
	s.Mounted = r.mounted(ctx, w, plan.GroupOf(w, s))
	s.Stale = r.stale(plan.GroupOf(w, s))
	s.Failing, s.Held = r.Health.Failing(), r.Health.Suspended()
	s.HealthUnknown = r.Health.Unknown(w.Name)
	s.Attempts = r.attempts.of(w.Name, plan.NeedsReload(s, plan.GroupOf(w, s)), r.now())
	if w.Spec.RAIDConfig != nil && plan.GroupOf(w, s) == nil {
		s.NoRAID = r.LVM.CheckRAID(ctx)
	}
	r.observeFileSystems(ctx, w, &s)
	return s, nil
}

// observeExisting completes the observation for a volume group that an administrator created. What the agent would need
// to change the group is not read.
func (r *Reconciler) observeExisting(ctx context.Context, w plan.Desired, s plan.NodeState,
	maxAge time.Duration) (plan.NodeState, error) {
	if w.Deleting {
		return s, nil
	}
	var err error
	if s.Devices, err = r.list(ctx, maxAge); err != nil {
		return s, err
	}
	s.Identities = device.Identities(s.Devices)
	s.Failing, s.Held = r.Health.Failing(), r.Health.Suspended()
	s.HealthUnknown = r.Health.Unknown(w.Group())
	return s, nil
}

// lastMounts reads when the ext4 file systems of volumes that may be imported were mounted last. The administrator
// reads it before an approval. It omits what cannot be read.
func (r *Reconciler) lastMounts(ctx context.Context, w plan.Desired, s plan.NodeState) map[string]time.Time {
	vg := plan.GroupOf(w, s)
	if w.Import == nil || w.Recovery != nil || vg == nil {
		return nil
	}
	times := map[string]time.Time{}
	for i := range vg.LVs {
		d := plan.DeviceOf(s, &vg.LVs[i])
		if d == nil || d.Signature != string(v1alpha1.FilesystemTypeExt4) {
			continue
		}
		last, err := r.Devices.LastMount(ctx, *d)
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot read when a file system was mounted last", "deviceClass", w.Name,
				"lv", vg.LVs[i].Name)
			continue
		}
		times[vg.LVs[i].Name] = last
	}
	return times
}

// stale returns the volumes that the kernel maps to other devices than those of their physical volumes. It skips a
// volume that cannot be read, because it was just deactivated.
func (r *Reconciler) stale(vg *lvm.VG) []string {
	if vg == nil {
		return nil
	}
	numbers := map[string]device.Number{}
	for _, pv := range vg.PVs {
		numbers[pv.UUID] = plan.NumberOf(pv)
	}
	var names []string
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			lv := &list[i]
			if len(lv.PVs) == 0 || lv.Major == 0 || lv.MoveSource != "" || lv.Attr.Locked() {
				continue
			}
			below, err := r.below(device.NewNumber(lv.Major, lv.Minor), layersOfLVM)
			lost := func(uuid string) bool { return numbers[uuid] != "" && !slices.Contains(below, numbers[uuid]) }
			top := plan.TopOf(vg, lv)
			if err == nil && slices.ContainsFunc(lv.PVs, lost) && !slices.Contains(names, top) {
				names = append(names, top)
			}
		}
	}
	slices.Sort(names)
	return names
}

// layersOfLVM is the number of layers below a logical volume to look through: an origin has one of its own ("-real")
// between it and its physical volumes.
const layersOfLVM = 2

// below returns the devices on which a device is built, down to a number of layers. A device below, such as a
// partition, may have none.
func (r *Reconciler) below(number device.Number, depth int) ([]device.Number, error) {
	list, err := r.Devices.Below(number)
	if err != nil || depth == 1 {
		return list, err
	}
	all := slices.Clone(list)
	for _, n := range list {
		if deeper, err := r.below(n, depth-1); err == nil {
			all = append(all, deeper...)
		}
	}
	return all, nil
}

func (r *Reconciler) report(ctx context.Context, maxAge time.Duration) (*lvm.Report, error) {
	if maxAge == 0 {
		return r.LVM.Report(ctx)
	}
	return r.LVM.Recent(ctx, maxAge)
}

func (r *Reconciler) list(ctx context.Context, maxAge time.Duration) ([]device.Device, error) {
	if maxAge == 0 {
		return r.Devices.List(ctx)
	}
	return r.Devices.Recent(ctx, maxAge)
}

// labeled lists the devices, with their labels if these decide which devices are used. An observation that can lead to
// a change reads the labels from the API server, because the label of a device may just have been removed.
func (r *Reconciler) labeled(ctx context.Context, w plan.Desired, s *plan.NodeState, maxAge time.Duration) error {
	devices, err := r.list(ctx, maxAge)
	if err != nil || !plan.NeedsLabels(w) {
		s.Devices = devices
		return err
	}
	from := client.Reader(r.Client)
	if maxAge <= sameLook {
		from = r.Live
	}
	nodeStatus, err := r.nodeStatus(ctx, from)
	if err != nil {
		return fmt.Errorf("the labels of devices are not known, so no device is selected: %w", err)
	}
	if nodeStatus.Name == "" {
		return fmt.Errorf("the labels of devices are not known, so no device is selected: node status %s was "+
			"deleted, and the operator recreates it without labels: set them again with kubectl lvms label", r.Node)
	}
	s.Devices = plan.WithLabels(devices, nodeStatus.Spec.DeviceLabels)
	s.UnmatchedLabels = plan.UnmatchedLabels(devices, nodeStatus.Spec.DeviceLabels)
	return nil
}

// probe reads the devices that a plan uses. It reads them in parallel, so that one that does not respond does not
// delay the others.
func (r *Reconciler) probe(ctx context.Context, s *plan.NodeState, devices []device.Device) {
	results := make([][]device.Reason, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		// The label of a physical volume is ignored here. LVM's information about it decides.
		all.Go(func() { results[i] = r.Devices.Probe(ctx, d, device.SignatureLVM) })
	}
	all.Wait()
	s.Probed = map[device.Number][]device.Reason{}
	for i, d := range devices {
		s.Probed[d.Number] = results[i]
	}
}

// remember stores the devices of physical volumes, for messages about a missing one.
func (r *Reconciler) remember(report *lvm.Report) {
	for _, pv := range report.PVs() {
		if !pv.Missing {
			r.names[pv.UUID] = pv.Name
		}
	}
}

// watch returns how long this agent has observed each device. It forgets devices that were removed.
func (r *Reconciler) watch(devices []device.Device) map[device.Number]time.Duration {
	now := r.now()
	since := map[device.Number]time.Time{}
	ages := map[device.Number]time.Duration{}
	for _, d := range devices {
		first, known := r.firstSeen[d.Number]
		if !known {
			first = now
		}
		since[d.Number], ages[d.Number] = first, now.Sub(first)
	}
	r.firstSeen = since
	return ages
}

// move is the last known progress of a move.
type move struct {
	percent float64
	since   time.Time
}

// unattended returns the moves without progress for moveStalls, and the moves that this process did not start or
// resume.
func (r *Reconciler) unattended(vg *lvm.VG) map[string]bool {
	list := map[string]bool{}
	if vg == nil {
		return list
	}
	for _, m := range vg.Moves() {
		key := vg.UUID + m.Name
		percent := 0.0
		if m.Percent != nil {
			percent = *m.Percent
		}
		last, known := r.moves[key]
		switch {
		case !known:
			list[m.Name] = true
		case percent != last.percent:
			r.moves[key] = move{percent: percent, since: r.now()}
		case r.now().Sub(last.since) > moveStalls:
			list[m.Name] = true
		}
	}
	return list
}

// attend records that a process now polls the moves of a volume group.
func (r *Reconciler) attend(vg *lvm.VG) {
	for _, m := range vg.Moves() {
		r.moves[vg.UUID+m.Name] = move{since: r.now()}
	}
}
