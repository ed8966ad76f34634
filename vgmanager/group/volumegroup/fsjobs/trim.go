package fsjobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// FileSystems are the mounted file systems of the node. Devices are "MAJOR:MINOR". A file system that does not respond
// does not block its methods.
type FileSystems interface {
	// Used returns what the file systems on devices use in bytes, by device: 0 for a file system that does not respond,
	// and no entry for a device that is not mounted.
	Used(ctx context.Context, devices []string) (map[string]int64, error)
	// Trim trims the file system on a device.
	Trim(ctx context.Context, device string) error
}

// Trims trim the file systems of thin pools on this node.
type Trims struct {
	LVM         Reader
	FileSystems FileSystems
	Runs        *Runs[state.Trim]
	Now         func() time.Time
	Wake        func()
}

// Mounted returns the Mounted file systems of the thin pool of a class if a recovery frees space of the pool and is not
// approved.
func (t *Trims) Mounted(ctx context.Context, d state.Desired, vg *lvm.VG) state.Mounted {
	asked := d.Open.Action == v1alpha1.RecoveryFreePoolSpace && d.Open.Approved == nil
	if !asked || d.Spec.ThinPoolConfig == nil || vg == nil {
		return state.Mounted{}
	}
	volumes := map[string]string{} // UUIDs of volumes by device
	var devices []string
	for i := range vg.LVs {
		if lv := &vg.LVs[i]; lv.PoolName == d.Spec.ThinPoolConfig.Name && lv.Major != 0 {
			number := string(device.NewNumber(lv.Major, lv.Minor))
			volumes[number] = lv.UUID
			devices = append(devices, number)
		}
	}
	used, err := t.FileSystems.Used(ctx, devices)
	m := state.Mounted{Used: map[string]int64{}, Err: err}
	for number, bytes := range used {
		m.Used[volumes[number]] = bytes
	}
	return m
}

// Progress returns the Progress for the approved plan of a class, or nil. It cancels the run of a plan that is no
// longer approved.
func (t *Trims) Progress(d state.Desired) *state.Trim {
	key := ""
	if d.Open.Action == v1alpha1.RecoveryFreePoolSpace && d.Open.Approved != nil {
		key = d.Open.Approved.PlanID
	}
	current := t.Runs.Of(d.Name, key, t.Now(), func(p state.Trim) state.Trim {
		p.Failed = slices.Clone(p.Failed)
		return p
	})
	if current == nil {
		return nil
	}
	p := current.progress
	p.Running = current.running
	p.Err = current.err
	p.Other = current.other
	return &p
}

// tried records that a volume was tried. failed says why it was not trimmed, or is "".
func (t *Trims) tried(run *Run[state.Trim], failed string) {
	t.Runs.update(run, func(p *state.Trim) {
		p.Tried++
		if failed != "" {
			p.Failed = append(p.Failed, failed)
		}
	})
}

// Start trims the file systems of an approved plan in the background, one after the other. If the agent is killed,
// the next one begins with the first volume again, which is harmless. Only one runs on a node, because the plan waits
// for its end.
func (t *Trims) Start(ctx context.Context, d state.Desired, s state.NodeState, uuids []string) {
	vg, name := ownership.GroupOf(d, s), d.Spec.ThinPoolConfig.Name
	run := &Run[state.Trim]{progress: state.Trim{Before: thinpool.Allocated(&vg.ThinPool(name).LV)},
		key: d.Open.Approved.PlanID}
	t.Runs.Start(ctx, d.Name, run, t.Now, t.Wake, func(ctx context.Context) error {
		return t.trimVolumes(ctx, run, vg.UUID, name, uuids)
	})
}

// trimVolumes trims the file systems of volumes of a pool. An error means that not all were tried.
func (t *Trims) trimVolumes(ctx context.Context, run *Run[state.Trim], group, pool string,
	volumes []string) error {
	for _, uuid := range volumes {
		lv, err := t.thinVolume(ctx, group, pool, uuid)
		if err != nil {
			return err
		}
		if lv == nil {
			t.tried(run, fmt.Sprintf("the volume with the UUID %s is not active or no longer exists", uuid))
			continue
		}
		begun := t.Now()
		err = t.FileSystems.Trim(ctx, string(device.NewNumber(lv.Major, lv.Minor)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		logger := log.FromContext(ctx).WithValues("lv", lv.Name, "took", t.Now().Sub(begun))
		if err != nil {
			logger.Error(err, "cannot trim a file system")
			t.tried(run, fmt.Sprintf("volume %s: %v", lv.Name, err))
			continue
		}
		logger.Info("trimmed a file system")
		t.tried(run, "")
	}
	return nil
}

// reportAge is the maximum age of the report before a volume is trimmed.
const reportAge = 2 * time.Second

// thinVolume returns an active volume of a pool, or nil. The device number of a volume that was removed in the meantime
// can be that of another volume.
func (t *Trims) thinVolume(ctx context.Context, group, pool, uuid string) (*lvm.LV, error) {
	report, err := t.LVM.Recent(ctx, reportAge)
	if err != nil {
		return nil, err
	}
	for i := range report.VGs {
		if report.VGs[i].UUID != group {
			continue
		}
		for _, lv := range report.VGs[i].LVs {
			if lv.UUID == uuid && lv.PoolName == pool && lv.Major != 0 {
				return &lv, nil
			}
		}
	}
	return nil, nil
}
