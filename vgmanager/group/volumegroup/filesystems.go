package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/fsck"
)

// Checker checks and repairs the file systems of volumes that nothing uses. No other part of the agent mounts or
// publishes a volume meanwhile.
type Checker interface {
	// MountPoints returns where volumes are mounted or published, by name.
	MountPoints(volumes []fsck.Volume) (map[string][]string, error)
	// Identify returns the file system of a volume, or fsck.ErrUnsupported.
	Identify(ctx context.Context, v fsck.Volume) (string, error)
	// Check and Repair first check that nothing uses the volume, and that it still has this file system. They return
	// fsck.ErrInUse or fsck.ErrLocked otherwise. Repair does not end with its context.
	Check(ctx context.Context, v fsck.Volume, kind string) (fsck.Result, error)
	Repair(ctx context.Context, v fsck.Volume, kind string) (fsck.Result, error)
	// EndReplay unmounts a file system that a repair of a killed agent has mounted, to replay its log.
	EndReplay(ctx context.Context) error
}

// checkOf returns what an open recovery checks, or nil if it has another action.
func checkOf(r *v1alpha1.LVMRecovery) *plan.Check {
	if r.Spec.Action != v1alpha1.RecoveryCheckFileSystems {
		return nil
	}
	return &plan.Check{Recovery: fmt.Sprintf("%s %s", r.Name, r.UID), Volumes: r.Spec.Volumes,
		Planned: r.Status.Plan != nil}
}

// openRetries is how often the agent looks again whether a volume is open that is not mounted: udev opens a volume for
// a moment after it was written. openDelay is the delay in between.
const (
	openRetries = 3
	openDelay   = time.Second
)

// observeFileSystems adds the progress of a check or repair of file systems, and what uses the volumes.
func (r *Reconciler) observeFileSystems(ctx context.Context, w plan.Desired, s *plan.NodeState) {
	s.FileSystems = r.checkRun(w)
	running := s.FileSystems != nil && s.FileSystems.Running
	vg := plan.GroupOf(w, *s)
	if w.Check == nil || w.Recovery != nil || running || vg == nil {
		return
	}
	s.Users = r.users(ctx, w, vg)
	if s.FileSystems != nil && s.FileSystems.Other == "" && plan.IsCheckBlocked(w, *s) {
		r.checks.forget(w.Name)
		s.FileSystems = nil
	}
}

// checkRun returns the progress of the check or of the approved repair of a class, or nil. A run that is no longer
// requested is canceled. A repair ends after the current volume then.
func (r *Reconciler) checkRun(w plan.Desired) *plan.FileSystemRun {
	state := r.checks.of(w.Name, checkKey(w), r.now(), func(p plan.FileSystemRun) plan.FileSystemRun {
		p.Results = maps.Clone(p.Results)
		return p
	})
	if state == nil || w.Check == nil {
		return nil
	}
	p := state.progress
	p.Running, p.Err, p.Other = state.running, state.err, state.other
	return &p
}

// checkKey identifies the request for a run, or is "".
func checkKey(w plan.Desired) string {
	switch {
	case w.Check == nil:
		return ""
	case w.Recovery != nil:
		return "repair " + w.Check.Recovery + " " + w.Recovery.PlanID
	}
	return "check " + w.Check.Recovery
}

// users returns what uses the volumes that a recovery checks.
func (r *Reconciler) users(ctx context.Context, w plan.Desired, vg *lvm.VG) plan.Users {
	users := plan.Users{Open: map[string]bool{}, MountPoints: map[string][]string{}}
	var volumes []fsck.Volume
	var targets []*lvm.LV
	for _, name := range w.Check.Volumes {
		if lv := vg.LV(name); lv != nil && lv.Major != 0 {
			volumes, targets = append(volumes, volumeOf(lv)), append(targets, lv)
		}
	}
	mounted, err := r.Checker.MountPoints(volumes)
	if err != nil {
		users.Err = err
		return users
	}
	retries := openRetries
	for _, lv := range targets {
		if points := mounted[lv.Name]; len(points) > 0 {
			users.MountPoints[lv.UUID] = points
			continue
		}
		for lv != nil && lv.Attr.Open() && retries > 0 {
			retries--
			r.pause(openDelay)
			if lv, err = r.currentVolume(ctx, vg.UUID, lv.UUID); err != nil {
				users.Err = err
				return users
			}
		}
		if lv != nil && lv.Attr.Open() {
			users.Open[lv.UUID] = true
		}
	}
	return users
}

// currentVolume returns a volume from a new report, or nil if it no longer exists.
func (r *Reconciler) currentVolume(ctx context.Context, group, uuid string) (*lvm.LV, error) {
	report, err := r.LVM.Report(ctx)
	if err != nil {
		return nil, err
	}
	for i := range report.VGs {
		if report.VGs[i].UUID != group {
			continue
		}
		for j := range report.VGs[i].LVs {
			if lv := &report.VGs[i].LVs[j]; lv.UUID == uuid {
				return lv, nil
			}
		}
	}
	return nil, nil
}

// volumeOf returns a volume for a check of its file system. The file system of an encrypted volume is not on its
// device, so it is not passed on: a check must not look for its backup superblocks there.
func volumeOf(lv *lvm.LV) fsck.Volume {
	v := fsck.Volume{Name: lv.Name, Device: lv.Path, Major: lv.Major, Minor: lv.Minor}
	for _, tag := range lv.Tags {
		if strings.HasPrefix(tag, v1alpha1.EncryptionTagPrefix) {
			v.Formatted = ""
			break
		}
		if kind, is := strings.CutPrefix(tag, v1alpha1.FormattedTagPrefix); is {
			v.Formatted = kind
		}
	}
	return v
}

// startCheck checks or repairs the file systems of volumes in the background, one after the other. If the agent is
// killed, the next one starts with the first volume again that has no result in the status.
func (r *Reconciler) startCheck(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) {
	c := &fileSystemWork{Reconciler: r, group: plan.GroupOf(w, s).UUID, kinds: map[string]string{}}
	c.run = &run[plan.FileSystemRun]{key: checkKey(w), progress: plan.FileSystemRun{
		Repairing: a.Kind == plan.RepairVolumes, Results: map[string]plan.FileSystemResult{}}}
	if w.Recovery != nil {
		for _, v := range w.Recovery.Checked {
			c.kinds[v.UUID] = v.FSType
		}
	}
	work := c.checkAll
	if a.Kind == plan.RepairVolumes {
		work = c.repairAll
	}
	r.checks.start(ctx, w.Name, c.run, r.now, r.Wake, func(ctx context.Context) error { return work(ctx, a.Volumes) })
}

// fileSystemWork is a check or a repair of file systems.
type fileSystemWork struct {
	*Reconciler
	run   *run[plan.FileSystemRun]
	group string
	// kinds are the file systems by the UUID of the volume.
	kinds map[string]string
}

// checkAll checks the file systems of volumes. It first identifies all of them, so that no check that takes hours is in
// vain. An error means that not all were checked.
func (c *fileSystemWork) checkAll(ctx context.Context, uuids []string) error {
	unsupported := false
	for _, uuid := range uuids {
		lv, err := c.unused(ctx, uuid)
		if err != nil {
			return err
		}
		kind, err := c.Checker.Identify(ctx, volumeOf(lv))
		switch {
		case errors.Is(err, fsck.ErrUnsupported):
			unsupported = true
			c.record(uuid, plan.FileSystemResult{Problem: err.Error()})
		case err != nil:
			return err
		}
		c.kinds[uuid] = kind
	}
	if unsupported {
		return nil
	}
	for _, uuid := range uuids {
		lv, err := c.unused(ctx, uuid)
		if err != nil {
			return err
		}
		result, err := c.perform(ctx, lv, c.Checker.Check)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fsck.ErrUnreadable):
			c.record(uuid, plan.FileSystemResult{Problem: err.Error()})
		case errors.Is(err, fsck.ErrLocked):
			return err // it names the volume
		case err != nil:
			return fmt.Errorf("volume %s: %w", lv.Name, err)
		default:
			c.record(uuid, plan.FileSystemResult{Kind: c.kinds[uuid], Result: result})
		}
	}
	return nil
}

// repairAll repairs the file systems of volumes. A volume that is in use, or whose repair fails, does not delay the
// others. An error means that the repair of a volume must be tried again later.
func (c *fileSystemWork) repairAll(ctx context.Context, uuids []string) error {
	if err := c.Checker.EndReplay(ctx); err != nil {
		return err
	}
	var later []error
	for _, uuid := range uuids {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lv, err := c.unused(ctx, uuid)
		var result fsck.Result
		if err == nil {
			result, err = c.perform(ctx, lv, c.Checker.Repair)
		}
		switch {
		case errors.Is(err, fsck.ErrLocked) || errors.Is(err, errNoReport):
			later = append(later, err)
		case err != nil:
			c.record(uuid, plan.FileSystemResult{Problem: err.Error()})
		default:
			c.record(uuid, plan.FileSystemResult{Kind: c.kinds[uuid], Result: result})
		}
	}
	return errors.Join(later...)
}

// errNoReport: LVM could not be read.
var errNoReport = errors.New("LVM cannot be read")

// unused returns a volume that exists, is active and is not open.
func (c *fileSystemWork) unused(ctx context.Context, uuid string) (*lvm.LV, error) {
	for retries := openRetries; ; retries-- {
		lv, err := c.currentVolume(ctx, c.group, uuid)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errNoReport, err)
		case lv == nil || lv.Major == 0:
			return nil, fmt.Errorf("the volume with the UUID %s is not active or no longer exists", uuid)
		case !lv.Attr.Open():
			return lv, nil
		case retries == 0:
			return nil, c.usedBy(lv)
		}
		c.pause(openDelay)
	}
}

// usedBy returns the error for a volume that is open.
func (c *fileSystemWork) usedBy(lv *lvm.LV) error {
	mounted, err := c.Checker.MountPoints([]fsck.Volume{volumeOf(lv)})
	if err == nil && len(mounted[lv.Name]) > 0 {
		return fmt.Errorf("%w: it is mounted at %s", fsck.ErrInUse, strings.Join(mounted[lv.Name], ", "))
	}
	return fmt.Errorf("%w: its device %s is open", fsck.ErrInUse, lv.Path)
}

// perform checks or repairs a volume, and records that it runs.
func (c *fileSystemWork) perform(ctx context.Context, lv *lvm.LV,
	do func(context.Context, fsck.Volume, string) (fsck.Result, error)) (fsck.Result, error) {
	kind, begun := c.kinds[lv.UUID], c.now()
	c.checks.update(c.run, func(p *plan.FileSystemRun) {
		p.Current, p.Since, p.Program = lv.Name, begun.UTC().Format(time.RFC3339), fsck.Program(kind)
	})
	c.Wake() // reports what runs
	result, err := do(ctx, volumeOf(lv), kind)
	logger := log.FromContext(ctx).WithValues("lv", lv.Name, "took", c.now().Sub(begun))
	if err != nil {
		logger.Info("did not check or repair a file system", "cause", err.Error())
		return result, err
	}
	logger.Info("checked or repaired a file system: " + result.Finding)
	return result, nil
}

func (c *fileSystemWork) record(uuid string, result plan.FileSystemResult) {
	c.checks.update(c.run, func(p *plan.FileSystemRun) {
		p.Current, p.Program = "", ""
		p.Results[uuid] = result
	})
	c.Wake()
}
