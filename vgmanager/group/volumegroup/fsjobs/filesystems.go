package fsjobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/filesystems"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
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

// openRetries is how often the agent looks again whether a volume is open that is not mounted: udev opens a volume for
// a moment after it was written. openDelay is the delay in between.
const (
	openRetries = 3
	openDelay   = time.Second
)

// Reader reads LVM.
type Reader interface {
	Report(ctx context.Context) (*lvm.Report, error)
	Recent(ctx context.Context, maxAge time.Duration) (*lvm.Report, error)
}

// Checks are the checks and repairs of file systems on this node.
type Checks struct {
	LVM     Reader
	Checker Checker
	Runs    *Runs[state.FileSystemRun]
	Now     func() time.Time
	Pause   func(time.Duration)
	Wake    func()
}

// Observe returns what uses the volumes that a recovery checks, and the progress of the check or the repair, or nil.
func (c *Checks) Observe(ctx context.Context, d state.Desired, s state.NodeState) (state.Users, *state.FileSystemRun) {
	run, vg := c.progress(d), ownership.GroupOf(d, s)
	if d.Open.Check == nil || d.Open.Approved != nil || run != nil && run.Running || vg == nil {
		return state.Users{}, run
	}
	s.FileSystems.Run, s.FileSystems.Users = run, c.users(ctx, d, vg)
	if run != nil && run.Other == "" && filesystems.IsCheckBlocked(d, s) {
		c.Runs.forget(d.Name)
		run = nil
	}
	return s.FileSystems.Users, run
}

// progress returns the progress of the check or of the approved repair of a class, or nil. A run that is no longer
// requested is canceled. A repair ends after the current volume then.
func (c *Checks) progress(d state.Desired) *state.FileSystemRun {
	current := c.Runs.Of(d.Name, checkKey(d), c.Now(), func(p state.FileSystemRun) state.FileSystemRun {
		p.Results = maps.Clone(p.Results)
		return p
	})
	if current == nil || d.Open.Check == nil {
		return nil
	}
	p := current.progress
	p.Running = current.running
	p.Err = current.err
	p.Other = current.other
	return &p
}

// checkKey identifies the request for a run, or is "".
func checkKey(d state.Desired) string {
	switch {
	case d.Open.Check == nil:
		return ""
	case d.Open.Approved != nil:
		return "repair " + d.Open.Check.Recovery + " " + d.Open.Approved.PlanID
	}
	return "check " + d.Open.Check.Recovery
}

// users returns what uses the volumes that a recovery checks.
func (c *Checks) users(ctx context.Context, d state.Desired, vg *lvm.VG) state.Users {
	users := state.Users{Open: map[string]bool{}, MountPoints: map[string][]string{}}
	var volumes []fsck.Volume
	var targets []*lvm.LV
	for _, name := range d.Open.Check.Volumes {
		if lv := vg.LV(name); lv != nil && lv.Major != 0 {
			volumes, targets = append(volumes, volumeOf(lv)), append(targets, lv)
		}
	}
	mounted, err := c.Checker.MountPoints(volumes)
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
			c.Pause(openDelay)
			if lv, err = c.currentVolume(ctx, vg.UUID, lv.UUID); err != nil {
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
func (c *Checks) currentVolume(ctx context.Context, group, uuid string) (*lvm.LV, error) {
	report, err := c.LVM.Report(ctx)
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
		if strings.HasPrefix(tag, wellknown.EncryptionTagPrefix) {
			v.Formatted = ""
			break
		}
		if kind, is := strings.CutPrefix(tag, wellknown.FormattedTagPrefix); is {
			v.Formatted = kind
		}
	}
	return v
}

// Start checks or repairs the file systems of volumes in the background, one after the other. If the agent is
// killed, the next one starts with the first volume again that has no result in the status.
func (c *Checks) Start(ctx context.Context, d state.Desired, s state.NodeState, repair bool, uuids []string) {
	work := &fileSystemWork{Checks: c, group: ownership.GroupOf(d, s).UUID, kinds: map[string]string{}}
	work.run = &Run[state.FileSystemRun]{key: checkKey(d), progress: state.FileSystemRun{
		Repairing: repair, Results: map[string]state.FileSystemResult{}}}
	if d.Open.Approved != nil {
		for _, v := range d.Open.Approved.Checked {
			work.kinds[v.UUID] = v.FSType
		}
	}
	perform := work.checkAll
	if repair {
		perform = work.repairAll
	}
	c.Runs.Start(ctx, d.Name, work.run, c.Now, c.Wake, func(ctx context.Context) error { return perform(ctx, uuids) })
}

// fileSystemWork is a check or a repair of file systems.
type fileSystemWork struct {
	*Checks
	run   *Run[state.FileSystemRun]
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
			c.record(uuid, state.FileSystemResult{Problem: err.Error()})
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
			c.record(uuid, state.FileSystemResult{Problem: err.Error()})
		case errors.Is(err, fsck.ErrLocked):
			return err // it names the volume
		case err != nil:
			return fmt.Errorf("volume %s: %w", lv.Name, err)
		default:
			c.record(uuid, state.FileSystemResult{Kind: c.kinds[uuid], Result: result})
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
			c.record(uuid, state.FileSystemResult{Problem: err.Error()})
		default:
			c.record(uuid, state.FileSystemResult{Kind: c.kinds[uuid], Result: result})
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
		c.Pause(openDelay)
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
	kind, begun := c.kinds[lv.UUID], c.Now()
	c.Runs.update(c.run, func(p *state.FileSystemRun) {
		p.Current, p.Since, p.Program = lv.Name, begun.UTC().Format(time.RFC3339), fsck.Program(kind)
	})
	c.Wake() // reports what runs
	result, err := do(ctx, volumeOf(lv), kind)
	logger := log.FromContext(ctx).WithValues("lv", lv.Name, "took", c.Now().Sub(begun))
	if err != nil {
		logger.Info("did not check or repair a file system", "cause", err.Error())
		return result, err
	}
	logger.Info("checked or repaired a file system: " + result.Finding)
	return result, nil
}

func (c *fileSystemWork) record(uuid string, result state.FileSystemResult) {
	c.Runs.update(c.run, func(p *state.FileSystemRun) {
		p.Current, p.Program = "", ""
		p.Results[uuid] = result
	})
	c.Wake()
}
