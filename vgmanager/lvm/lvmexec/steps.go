package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// steps makes a change that is more than one command (lvm.Command, Steps).
func steps(ctx context.Context, l *LVM, change lvm.Change) error {
	main := command{Command: change.Command()}
	switch c := change.(type) {
	case lvm.VGCreate:
		return createGroup(ctx, l, c.String(), main)
	case lvm.VGRename:
		return renameGroup(ctx, l, c, main)
	case lvm.GroupDeactivate:
		return deactivateGroup(ctx, l, c, main)
	case lvm.GroupBackup:
		return backUpGroup(ctx, l, c, main)
	case lvm.GroupRestore:
		return restoreGroup(ctx, l, c, main)
	case lvm.MetadataDump:
		return dumpMetadata(ctx, l, c, main)
	case lvm.MetadataRestore:
		return restoreMetadata(ctx, l, c, main)
	case lvm.LabelRestore:
		return restoreLabel(ctx, l, c, main)
	case lvm.PVRemove:
		return removeUnfinished(ctx, l, c, main)
	case lvm.DevicesFileAdd:
		return addToDevicesFile(ctx, l, c, main)
	case lvm.DevicesFileRemove:
		return removeFromDevicesFile(ctx, l, c, main)
	case lvm.ThinMetadataDeactivate:
		return deactivateMetadata(ctx, l, c, main)
	case lvm.LVRemoveByUUID:
		return removeByUUID(ctx, l, c)
	case lvm.LVRemoveLost:
		return removeLost(ctx, l, c)
	}
	return fmt.Errorf("%s: the steps of %T are not known", change, change)
}

// createGroup creates a volume group without autoactivation, if LVM knows it.
func createGroup(ctx context.Context, l *LVM, object string, main command) error {
	c := main
	c.Args = append(slices.Clone(main.Args), "--setautoactivation", "n")
	err := l.apply(ctx, object, c)
	if e := (*host.Error)(nil); errors.As(err, &e) && strings.Contains(e.Stderr, "unrecognized option") {
		return l.apply(ctx, object, main)
	}
	return err
}

// renameGroup returns ErrExists instead of ErrPathExists if the path in /dev is of a volume group with the new name:
// vgrename looks for the path first.
func renameGroup(ctx context.Context, l *LVM, c lvm.VGRename, main command) error {
	cause := l.apply(ctx, c.String(), main)
	if !errors.Is(cause, lvm.ErrPathExists) {
		return cause
	}
	report, err := l.Report(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	if report.VG(c.Name) == nil {
		return cause
	}
	return fmt.Errorf("%s: volume group %s %w", c, c.Name, lvm.ErrExists)
}

// backUpGroup only reads, so it does not wait for changes.
func backUpGroup(ctx context.Context, l *LVM, c lvm.GroupBackup, main command) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	args := main.Args
	_, err := l.runner.Run(ctx, program, append(args, devicesOptions(c.Group.Devices)...)...)
	if output.LacksDevices(err) {
		_, err = l.executor.execute(ctx, args...)
	}
	return output.Classify(c.String(), err)
}

func restoreGroup(ctx context.Context, l *LVM, c lvm.GroupRestore, main command) error {
	m, err := readMetadataInTime(ctx, l.runner, c.File)
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if m.VG != c.VG || m.UUID != c.UUID || len(m.ThinPools) > 0 {
		return fmt.Errorf("%s: the file is of volume group %s (%s) with %d thin pools: %w", c, m.VG, m.UUID,
			len(m.ThinPools), lvm.ErrDamaged)
	}
	report, err := l.Report(ctx)
	if err != nil {
		return err
	}
	if len(report.Named(c.VG)) > 0 {
		return fmt.Errorf("%s: %w", c, lvm.ErrExists)
	}
	for _, uuid := range m.PVs {
		if !slices.ContainsFunc(report.Unassigned, func(pv lvm.PV) bool { return pv.UUID == uuid }) {
			return fmt.Errorf("%s: physical volume %s: %w", c, uuid, lvm.ErrNotFound)
		}
	}
	return l.apply(ctx, c.String(), main)
}

// dumpMetadata only reads, so it does not wait for changes.
func dumpMetadata(ctx context.Context, l *LVM, c lvm.MetadataDump, main command) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := l.executor.execute(ctx, main.Args...)
	return output.Classify(c.String(), err)
}

func restoreMetadata(ctx context.Context, l *LVM, c lvm.MetadataRestore, main command) error {
	m, err := readMetadataInTime(ctx, l.runner, c.File)
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	main.Check = checkRestorable(c, m)
	return l.apply(ctx, c.String(), main)
}

// checkRestorable returns why metadata cannot replace the one of a volume group.
func checkRestorable(o lvm.MetadataRestore, m *textmeta.Metadata) func(*lvm.VG) error {
	return func(v *lvm.VG) error {
		var pvs []string
		for _, pv := range v.PVs {
			pvs = append(pvs, pv.UUID)
		}
		slices.Sort(pvs)
		active := func(lv lvm.LV) bool { return lv.Attr.Active() || lv.Attr.IsStateUnknown() }
		switch {
		case m.VG != o.VG || m.UUID != o.UUID || v.UUID != o.UUID:
			return fmt.Errorf("the file is of volume group %s (%s), want %s (%s): %w", m.VG, m.UUID, v.Name, v.UUID,
				lvm.ErrDamaged)
		case v.MissingPVs > 0 || len(m.MissingPVs) > 0:
			return fmt.Errorf("volume group %s: %w", v.Name, lvm.ErrMissingPV)
		case !slices.Equal(pvs, slices.Sorted(slices.Values(m.PVs))):
			return fmt.Errorf("the file has the physical volumes %s, and volume group %s has %s: %w",
				strings.Join(m.PVs, ", "), v.Name, strings.Join(pvs, ", "), lvm.ErrDamaged)
		case len(v.Moves()) > 0:
			return fmt.Errorf("volume group %s: %w", v.Name, lvm.ErrMoving)
		case slices.ContainsFunc(v.LVs, active) || slices.ContainsFunc(v.Hidden, active):
			return fmt.Errorf("volume group %s has active volumes: %w", v.Name, lvm.ErrInUse)
		}
		return nil
	}
}

func restoreLabel(ctx context.Context, l *LVM, c lvm.LabelRestore, main command) error {
	report, err := l.Report(ctx)
	if err != nil {
		return err
	}
	for _, pv := range report.PVs() {
		if pv.UUID == c.PV && !pv.Missing && pv.VGName != "" && pv.Name != c.Device {
			return fmt.Errorf("%s: LVM finds it on %s: %w", c, pv.Name, lvm.ErrInUse)
		}
		if pv.Name == c.Device && pv.UUID != c.PV {
			return fmt.Errorf("%s: physical volume %s is on the device: %w", c, pv.UUID, lvm.ErrInUse)
		}
	}
	return l.apply(ctx, c.String(), main)
}

func addToDevicesFile(ctx context.Context, l *LVM, c lvm.DevicesFileAdd, main command) error {
	exists, err := l.executor.devicesFileExists(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if !exists {
		return fmt.Errorf("%s: %w", c, lvm.ErrNotEnabled)
	}
	return l.apply(ctx, c.String(), main)
}

func removeFromDevicesFile(ctx context.Context, l *LVM, c lvm.DevicesFileRemove, main command) error {
	exists, err := l.executor.devicesFileExists(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if !exists {
		return nil
	}
	err = l.apply(ctx, c.String(), main)
	if errors.Is(err, lvm.ErrNotFound) || errors.Is(err, lvm.ErrNotEnabled) {
		return nil
	}
	return err
}

// deactivateGroup also removes the mapped devices of thin pools themselves, if a killed command has left them.
func deactivateGroup(ctx context.Context, l *LVM, c lvm.GroupDeactivate, main command) error {
	err := l.apply(ctx, c.String(), main)
	failure := (*host.Error)(nil)
	if !errors.As(err, &failure) {
		return err
	}
	pools := poolsInUse(failure.Stderr)
	for _, pool := range pools {
		prefix := "LVM-" + strings.ReplaceAll(c.Group.UUID, "-", "")
		if kept := removePoolDevice(ctx, l, c.Group.Name, pool, prefix); kept != nil {
			return errors.Join(err, kept)
		}
	}
	if len(pools) == 0 {
		return err
	}
	return l.apply(ctx, c.String(), main)
}

// deactivateMetadata also removes the mapped device of the pool itself, if a killed command has left it.
func deactivateMetadata(ctx context.Context, l *LVM, c lvm.ThinMetadataDeactivate, main command) error {
	err := l.apply(ctx, c.String(), main)
	if !errors.Is(err, lvm.ErrInUse) {
		return err
	}
	pool := devicemapper.VolumeName(c.VG, c.Pool) + devicemapper.PoolSuffix
	if kept := removePoolDevice(ctx, l, c.VG, pool, "LVM-"); kept != nil {
		return errors.Join(err, kept)
	}
	return l.apply(ctx, c.String(), main)
}

func removeByUUID(ctx context.Context, l *LVM, c lvm.LVRemoveByUUID) error {
	group, err := l.groupNow(ctx, c.VG)
	if err != nil {
		return err
	}
	names := group.NamesOf(c.UUIDs)
	remove := command{Command: c.Remove(names)}
	if err := remove.Check(group); err != nil {
		return err
	}
	return l.apply(ctx, "remove logical volume "+lvm.FullNames(c.VG, names), remove)
}

func removeLost(ctx context.Context, l *LVM, c lvm.LVRemoveLost) error {
	group, err := l.groupNow(ctx, c.VG)
	if err != nil {
		return err
	}
	names := group.NamesOf(c.UUIDs)
	remove := command{Command: c.Remove(names)}
	if err := remove.Check(group); err != nil {
		return err
	}
	for _, name := range names {
		object := "activate lost logical volume " + lvm.FullName(c.VG, name)
		switch err := l.apply(ctx, object, command{Command: c.Activate(name)}); {
		case err == nil:
			return fmt.Errorf("logical volume %s can be activated, so it is not lost: %w", lvm.FullName(c.VG, name),
				lvm.ErrInUse)
		case !errors.Is(err, lvm.ErrNoData):
			return err
		}
	}
	return l.apply(ctx, "remove lost logical volume "+lvm.FullNames(c.VG, names), remove)
}

// groupNow returns a volume group from a new report.
func (l *LVM) groupNow(ctx context.Context, vg string) (*lvm.VG, error) {
	report, err := l.Report(ctx)
	if err != nil {
		return nil, err
	}
	group := report.VG(vg)
	if group == nil {
		return nil, fmt.Errorf("volume group %s: %w", vg, lvm.ErrNotFound)
	}
	return group, nil
}
