package volumegroup

import (
	"context"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/devicerequests"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/redundancy"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// observe observes the node. With a maxAge of 0 it reads everything again. If a read fails, observe returns an error,
// so that no rule gets an empty list instead of data that could not be read.
func (r *Reconciler) observe(ctx context.Context, d state.Desired, before v1alpha1.VGStatus,
	maxAge time.Duration) (state.NodeState, error) {
	s := state.NodeState{Before: before, FileSystems: state.FileSystems{Trim: r.trims.Progress(d)}}
	if s.FileSystems.Trim.HasEnded() {
		maxAge = 0 // what was freed is only in a report from after the end
	}
	err := r.observeRecords(ctx, d, &s, maxAge)
	if err == nil && d.UsesExisting() {
		err = r.observeExisting(ctx, d, &s, maxAge)
	}
	if err != nil || d.UsesExisting() {
		return s, err
	}
	vg := ownership.GroupOf(d, s)
	s.Records.Unattended = r.moves.unattended(vg)
	s.Metadata.Seen = r.restores.Sequences.Of(ctx, d.Name, vg, before)
	if maxAge > 0 && doubt.WentBack(d, s) {
		return r.observe(ctx, d, before, 0) // a report from before the last change is not earlier metadata
	}
	removal := plan.IsRemoval(d, s)
	if removal {
		s.Owners = r.objects.ReadOwners(ctx)
	}
	if removal && d.Deleting { // it does not depend on devices, unless some are missing
		s.Pool.Fault = r.pools.Faults[d.Name]
		return s, nil
	}
	err = r.observeGroup(ctx, d, &s, maxAge)
	return s, err
}

// observeRecords reads what every plan depends on: LVM's report, the records of the agent, and the class.
func (r *Reconciler) observeRecords(ctx context.Context, d state.Desired, s *state.NodeState,
	maxAge time.Duration) error {
	s.Records.Names, s.Records.Failures = r.known.names, r.failures[d.Name]
	s.Orphans.Erasing = r.orphans.Erasing[d.Name]
	var err error
	if s.Report, err = reportOf(ctx, r.LVM, maxAge); err != nil {
		return err
	}
	released, err := r.group.released.Read(d.Name)
	if err != nil {
		return err
	}
	s.Records.Released = released.PhysicalVolumes
	if s.Records.Adding, err = r.group.additions.Read(d.Name); err != nil {
		return err
	}
	if s.Records.Removed, err = r.group.removed.Read(d.Name); err != nil {
		return err
	}
	if s.Records.Wiped, err = r.wiper.records.Read(d.Name); err != nil {
		return err
	}
	if class, ok := r.Classes.Class(d.Name); ok {
		s.Class = &class
	}
	r.known.remember(s.Report)
	return nil
}

// observeGroup reads what the plan of a volume group depends on. The order matters: each part depends on those before
// it.
func (r *Reconciler) observeGroup(ctx context.Context, d state.Desired, s *state.NodeState,
	maxAge time.Duration) error {
	err := r.observeDisks(ctx, d, s, maxAge)
	if err != nil {
		return err
	}
	vg := ownership.GroupOf(d, *s)
	s.Pool = r.pools.Observe(d, vg)
	if s.Metadata, err = r.restores.Observe(ctx, d, *s); err != nil {
		return err
	}
	if len(d.Open.Orphans) > 0 || d.Open.Import != nil {
		s.Owners = r.objects.ReadOwners(ctx)
	}
	s.Orphans = r.orphans.Observe(ctx, d, *s, maxAge)
	if s.Health, err = r.observeHealth(ctx, d, *s); err != nil {
		return err
	}
	s.Records.Attempts = r.group.attempts.Of(d.Name, redundancy.NeedsReload(*s, vg), r.now())
	s.FileSystems.LastMounts = lastMounts(ctx, r.Devices, d, *s)
	s.FileSystems.Mounted = r.trims.Mounted(ctx, d, vg)
	s.FileSystems.Users, s.FileSystems.Run = r.checks.Observe(ctx, d, *s)
	return nil
}

// observeDisks lists the devices, and reads what decides which of them are used.
func (r *Reconciler) observeDisks(ctx context.Context, d state.Desired, s *state.NodeState,
	maxAge time.Duration) error {
	s.Disks.ResolvePaths(d, r.Devices.Resolve)
	if err := r.labeled(ctx, d, s, maxAge); err != nil {
		return err
	}
	s.Disks.Identities = device.Identities(s.Devices)
	s.Disks.Watched = r.known.watch(s.Devices)
	s.Disks.Fingerprints = device.NewFingerprints(s.Devices, state.PhysicalVolumes(s.Report))
	s.Disks.Hidden = r.hidden.Observe(ctx, d, *s, maxAge)
	return nil
}

// observeExisting completes the observation for a volume group that an administrator created. What the agent would need
// to change the group is not read.
func (r *Reconciler) observeExisting(ctx context.Context, d state.Desired, s *state.NodeState,
	maxAge time.Duration) error {
	if d.Deleting {
		return nil
	}
	var err error
	if s.Devices, err = listDevices(ctx, r.Devices, maxAge); err != nil {
		return err
	}
	s.Disks.Identities = device.Identities(s.Devices)
	s.Health = healthOf(r.Health, d.Group())
	return nil
}

// lastMounts reads when the ext4 file systems of volumes that may be imported were mounted last. The administrator
// reads it before an approval. It omits what cannot be read.
func lastMounts(ctx context.Context, contents Contents, desired state.Desired, s state.NodeState) map[string]time.Time {
	vg := ownership.GroupOf(desired, s)
	if desired.Open.Import == nil || desired.Open.Approved != nil || vg == nil {
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
			log.FromContext(ctx).Error(err, "cannot read when a file system was mounted last", "deviceClass",
				desired.Name, "lv", vg.LVs[i].Name)
			continue
		}
		times[vg.LVs[i].Name] = last
	}
	return times
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
func (r *Reconciler) labeled(ctx context.Context, d state.Desired, s *state.NodeState, maxAge time.Duration) error {
	devices, err := listDevices(ctx, r.Devices, maxAge)
	if err != nil || !selection.NeedsLabels(d) {
		s.Devices = devices
		return err
	}
	from := client.Reader(r.objects.Client)
	if maxAge <= maxAgeOfAdditions {
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
	s.Disks.UnmatchedLabels = devicerequests.UnmatchedLabels(devices, nodeStatus.Spec.DeviceLabels)
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
	s.Disks.Probed = map[device.Number][]device.Reason{}
	for i, d := range devices {
		s.Disks.Probed[d.Number] = results[i]
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
