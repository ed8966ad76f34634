package volumegroup

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
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

// mounted returns the mounted file systems of the thin pool of a class if a recovery frees space of the pool and is not
// approved.
func (r *Reconciler) mounted(ctx context.Context, w plan.Desired, vg *lvm.VG) plan.Mounted {
	if !w.FreeingSpace || w.Recovery != nil || w.Spec.ThinPoolConfig == nil || vg == nil {
		return plan.Mounted{}
	}
	volumes := map[string]string{} // UUIDs of volumes by device
	var devices []string
	for i := range vg.LVs {
		if lv := &vg.LVs[i]; lv.PoolName == w.Spec.ThinPoolConfig.Name && lv.Major != 0 {
			number := string(device.NewNumber(lv.Major, lv.Minor))
			volumes[number] = lv.UUID
			devices = append(devices, number)
		}
	}
	used, err := r.FileSystems.Used(ctx, devices)
	m := plan.Mounted{Used: map[string]int64{}, Err: err}
	for number, bytes := range used {
		m.Used[volumes[number]] = bytes
	}
	return m
}

// trimOf returns the progress for the approved plan of a class, or nil. It cancels the run of a plan that is no longer
// approved.
func (r *Reconciler) trimOf(w plan.Desired) *plan.Trim {
	key := ""
	if w.FreeingSpace && w.Recovery != nil {
		key = w.Recovery.PlanID
	}
	state := r.trims.of(w.Name, key, r.now(), func(t plan.Trim) plan.Trim {
		t.Failed = slices.Clone(t.Failed)
		return t
	})
	if state == nil {
		return nil
	}
	t := state.progress
	t.Running, t.Err, t.Other = state.running, state.err, state.other
	return &t
}

// tried records that a volume was tried. failed says why it was not trimmed, or is "".
func (r *Reconciler) tried(run *run[plan.Trim], failed string) {
	r.trims.update(run, func(t *plan.Trim) {
		t.Tried++
		if failed != "" {
			t.Failed = append(t.Failed, failed)
		}
	})
}

// startTrim trims the file systems of an approved plan in the background, one after the other. If the agent is killed,
// the next one begins with the first volume again, which is harmless. Only one runs on a node, because the plan waits
// for its end.
func (r *Reconciler) startTrim(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) {
	run := &run[plan.Trim]{progress: plan.Trim{Before: a.Size}, key: w.Recovery.PlanID}
	group := plan.GroupOf(w, s).UUID
	r.trims.start(ctx, w.Name, run, r.now, r.Wake, func(ctx context.Context) error {
		return r.trimVolumes(ctx, run, group, w.Spec.ThinPoolConfig.Name, a.Volumes)
	})
}

// trimVolumes trims the file systems of volumes of a pool. An error means that not all were tried.
func (r *Reconciler) trimVolumes(ctx context.Context, run *run[plan.Trim], group, pool string, volumes []string) error {
	for _, uuid := range volumes {
		lv, err := r.thinVolume(ctx, group, pool, uuid)
		if err != nil {
			return err
		}
		if lv == nil {
			r.tried(run, fmt.Sprintf("the volume with the UUID %s is not active or no longer exists", uuid))
			continue
		}
		begun := r.now()
		err = r.FileSystems.Trim(ctx, string(device.NewNumber(lv.Major, lv.Minor)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		logger := log.FromContext(ctx).WithValues("lv", lv.Name, "took", r.now().Sub(begun))
		if err != nil {
			logger.Error(err, "cannot trim a file system")
			r.tried(run, fmt.Sprintf("volume %s: %v", lv.Name, err))
			continue
		}
		logger.Info("trimmed a file system")
		r.tried(run, "")
	}
	return nil
}

// thinVolume returns an active volume of a pool, or nil. The device number of a volume that was removed in the meantime
// can be that of another volume.
func (r *Reconciler) thinVolume(ctx context.Context, group, pool, uuid string) (*lvm.LV, error) {
	report, err := r.LVM.Recent(ctx, sameLook)
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
