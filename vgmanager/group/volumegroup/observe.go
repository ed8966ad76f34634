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
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/devicerequests"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/redundancy"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// observe observes the node. With a maxAge of 0 it reads everything again. If a read fails, observe returns an error,
// so that no rule gets an empty list instead of data that could not be read.
func (r *Reconciler) observe(ctx context.Context, w state.Desired, before v1alpha1.VGStatus,
	maxAge time.Duration) (state.NodeState, error) {
	s := state.NodeState{Names: r.known.names, Before: before, Trim: r.trims.Progress(w),
		Erasing: r.orphans.Erasing[w.Name], Failures: r.failures[w.Name]}
	if s.Trim.HasEnded() {
		maxAge = 0 // what was freed is only in a report from after the end
	}
	var err error
	if s.Report, err = reportOf(ctx, r.LVM, maxAge); err != nil {
		return s, err
	}
	released, err := r.group.released.Read(w.Name)
	if err != nil {
		return s, err
	}
	s.Released = released.PhysicalVolumes
	if s.Removed, err = r.group.removed.Read(w.Name); err != nil {
		return s, err
	}
	if s.Wiped, err = r.wiper.records.Read(w.Name); err != nil {
		return s, err
	}
	if class, ok := r.Classes.Class(w.Name); ok {
		s.Class = &class
	}
	r.known.remember(s.Report)
	if w.UsesExisting() {
		return r.observeExisting(ctx, w, s, maxAge)
	}
	s.Unattended = r.moves.unattended(ownership.GroupOf(w, s))
	if s.Seen = r.restores.Sequences.Of(ctx, w.Name, ownership.GroupOf(w, s), before); maxAge > 0 &&
		doubt.WentBack(w, s) {
		return r.observe(ctx, w, before, 0) // a report from before the last change is not earlier metadata
	}
	if plan.IsRemoval(w, s) {
		s.Owners = r.objects.ReadOwners(ctx)
	}
	if w.Deleting && plan.IsRemoval(w, s) {
		// A removal does not depend on devices, unless some are missing.
		s.PoolFault = r.pools.Faults[w.Name]
		return s, nil
	}
	s.ResolvePaths(w, r.Devices.Resolve)
	if err = r.labeled(ctx, w, &s, maxAge); err != nil {
		return s, err
	}
	s.Identities, s.Watched = device.Identities(s.Devices), r.known.watch(s.Devices)
	s.Fingerprints = device.NewFingerprints(s.Devices, state.PhysicalVolumes(s.Report))
	s.Hidden = r.hidden.Observe(ctx, w, s, maxAge)
	if ownership.GroupOf(w, s) == nil && before.UUID != "" {
		if s.Mapped, err = r.Devices.Mapped(before.UUID); err != nil {
			return s, err
		}
	}
	if w.Open == v1alpha1.RecoveryRestoreMetadata && ownership.GroupOf(w, s) == nil && before.UUID != "" {
		s.Archive.Metadata, s.Archive.Err = r.LVM.ReadArchive(ctx, w.Name, before.UUID)
	}
	if w.Open == v1alpha1.RecoveryRestoreLabels && ownership.GroupOf(w, s) == nil {
		s.Backup.Metadata, s.Backup.Err = r.LVM.ReadBackup(ctx, w.Name)
	}
	if w.Open != v1alpha1.RecoveryRestoreLabels {
		delete(r.restores.Verified, w.Name)
	}
	s.Verified = slices.Clone(r.restores.Verified[w.Name])
	s.PoolFault = r.pools.Faults[w.Name]
	s.Inspection = r.pools.Inspections.Of(w, ownership.GroupOf(w, s), r.now())
	if s.Rollback, err = r.restores.Rollback(ctx, w, s); err != nil {
		return s, err
	}
	if len(w.Orphans) > 0 || w.Import != nil {
		s.Owners = r.objects.ReadOwners(ctx)
	}
	s.LastMounts = lastMounts(ctx, r.Devices, w, s)
	if vg := ownership.GroupOf(w, s); vg != nil {
		absent, err := r.objects.Absent(ctx, w, vg)
		if err != nil {
			return s, err
		}
		if s.Replaced = r.restores.Replaced(ctx, w, vg, absent); thinpool.LacksPool(w, s, vg) {
			s.Absent = absent
		}
	}
	r.orphans.Observe(ctx, w, &s, maxAge)
	s.Mounted = r.trims.Mounted(ctx, w, ownership.GroupOf(w, s))
	s.Stale = stale(r.Devices, ownership.GroupOf(w, s))
	s.Failing, s.Held = r.Health.Failing(), r.Health.Suspended()
	s.HealthUnknown = r.Health.Unknown(w.Name)
	s.Attempts = r.group.attempts.Of(w.Name, redundancy.NeedsReload(s, ownership.GroupOf(w, s)), r.now())
	if w.Spec.RAIDConfig != nil && ownership.GroupOf(w, s) == nil {
		s.NoRAID = r.LVM.CheckRAID(ctx)
	}
	r.checks.Observe(ctx, w, &s)
	return s, nil
}

// observeExisting completes the observation for a volume group that an administrator created. What the agent would need
// to change the group is not read.
func (r *Reconciler) observeExisting(ctx context.Context, w state.Desired, s state.NodeState,
	maxAge time.Duration) (state.NodeState, error) {
	if w.Deleting {
		return s, nil
	}
	var err error
	if s.Devices, err = listDevices(ctx, r.Devices, maxAge); err != nil {
		return s, err
	}
	s.Identities = device.Identities(s.Devices)
	s.Failing, s.Held = r.Health.Failing(), r.Health.Suspended()
	s.HealthUnknown = r.Health.Unknown(w.Group())
	return s, nil
}

// lastMounts reads when the ext4 file systems of volumes that may be imported were mounted last. The administrator
// reads it before an approval. It omits what cannot be read.
func lastMounts(ctx context.Context, contents Contents, w state.Desired, s state.NodeState) map[string]time.Time {
	vg := ownership.GroupOf(w, s)
	if w.Import == nil || w.Recovery != nil || vg == nil {
		return nil
	}
	times := map[string]time.Time{}
	for i := range vg.LVs {
		d := state.DeviceOf(s, &vg.LVs[i])
		if d == nil || d.Signature != string(v1alpha1.FilesystemTypeExt4) {
			continue
		}
		last, err := contents.LastMount(ctx, *d)
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
func stale(mappings Mappings, vg *lvm.VG) []string {
	if vg == nil {
		return nil
	}
	numbers := map[string]device.Number{}
	for _, pv := range vg.PVs {
		numbers[pv.UUID] = state.NumberOf(pv)
	}
	var names []string
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			lv := &list[i]
			if len(lv.PVs) == 0 || lv.Major == 0 || lv.MoveSource != "" || lv.Attr.Locked() {
				continue
			}
			below, err := below(mappings, device.NewNumber(lv.Major, lv.Minor), layersOfLVM)
			lost := func(uuid string) bool { return numbers[uuid] != "" && !slices.Contains(below, numbers[uuid]) }
			top := health.TopOf(vg, lv)
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
func below(mappings Mappings, number device.Number, depth int) ([]device.Number, error) {
	list, err := mappings.Below(number)
	if err != nil || depth == 1 {
		return list, err
	}
	all := slices.Clone(list)
	for _, n := range list {
		if deeper, err := below(mappings, n, depth-1); err == nil {
			all = append(all, deeper...)
		}
	}
	return all, nil
}

func reportOf(ctx context.Context, reports Reports, maxAge time.Duration) (*lvm.Report, error) {
	if maxAge == 0 {
		return reports.Report(ctx)
	}
	return reports.Recent(ctx, maxAge)
}

func listDevices(ctx context.Context, devices DeviceList, maxAge time.Duration) ([]device.Device, error) {
	if maxAge == 0 {
		return devices.List(ctx)
	}
	return devices.Recent(ctx, maxAge)
}

// labeled lists the devices, with their labels if these decide which devices are used. An observation that can lead to
// a change reads the labels from the API server, because the label of a device may just have been removed.
func (r *Reconciler) labeled(ctx context.Context, w state.Desired, s *state.NodeState, maxAge time.Duration) error {
	devices, err := listDevices(ctx, r.Devices, maxAge)
	if err != nil || !selection.NeedsLabels(w) {
		s.Devices = devices
		return err
	}
	from := client.Reader(r.objects.Client)
	if maxAge <= sameLook {
		from = r.objects.Live
	}
	nodeStatus, err := r.entries.nodeStatus(ctx, from)
	if err != nil {
		return fmt.Errorf("the labels of devices are not known, so no device is selected: %w", err)
	}
	if nodeStatus.Name == "" {
		return fmt.Errorf("the labels of devices are not known, so no device is selected: node status %s was "+
			"deleted, and the operator recreates it without labels: set them again with kubectl lvms label", r.Node)
	}
	s.Devices = selection.WithLabels(devices, nodeStatus.Spec.DeviceLabels)
	s.UnmatchedLabels = devicerequests.UnmatchedLabels(devices, nodeStatus.Spec.DeviceLabels)
	return nil
}

// probe reads the devices that a plan uses. It reads them in parallel, so that one that does not respond does not
// delay the others.
func probe(ctx context.Context, contents Contents, s *state.NodeState, devices []device.Device) {
	results := make([][]device.Reason, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		// The label of a physical volume is ignored here. LVM's information about it decides.
		all.Go(func() { results[i] = contents.Probe(ctx, d, device.SignatureLVM) })
	}
	all.Wait()
	s.Probed = map[device.Number][]device.Reason{}
	for i, d := range devices {
		s.Probed[d.Number] = results[i]
	}
}

// knownDevices are the devices that this agent has seen.
type knownDevices struct {
	// names are the last known devices of physical volumes, by UUID.
	names     map[string]string
	firstSeen map[device.Number]time.Time
	now       func() time.Time
}

// remember stores the devices of physical volumes, for messages about a missing one.
func (k *knownDevices) remember(report *lvm.Report) {
	for _, pv := range report.PVs() {
		if !pv.Missing {
			k.names[pv.UUID] = pv.Name
		}
	}
}

// watch returns how long this agent has observed each device. It forgets devices that were removed.
func (k *knownDevices) watch(devices []device.Device) map[device.Number]time.Duration {
	now := k.now()
	since := map[device.Number]time.Time{}
	ages := map[device.Number]time.Duration{}
	for _, d := range devices {
		first, known := k.firstSeen[d.Number]
		if !known {
			first = now
		}
		since[d.Number], ages[d.Number] = first, now.Sub(first)
	}
	k.firstSeen = since
	return ages
}
