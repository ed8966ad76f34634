package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// WipeOptions describes the device to wipe.
type WipeOptions struct {
	// Device is the device as it was when the wipe was decided.
	Device Device
	// PVs are the physical volumes that LVM lists.
	PVs map[Number]PV
	// Protected returns why a physical volume must not be destroyed, or "". If it is nil, no physical volume in a
	// volume group is destroyed.
	Protected func(PV) string
	// Carried reads the device and returns why a physical volume on it must not be destroyed, or "". It does not
	// depend on whether LVM lists the device. labeled is true if the label of a physical volume was found on it. If
	// Carried is nil, no device with a label that LVM does not list is wiped.
	Carried func(ctx context.Context, d Device, labeled bool) (string, error)
	// Fingerprint is the fingerprint for which the wipe was approved, with the reasons against the device, or "" if the
	// wipe needs no approval.
	Fingerprint string
	Reasons     []Reason
	// BackupDir is the directory for the saved data. Wipe creates it.
	BackupDir string
}

// WipeResult describes what was destroyed.
type WipeResult struct {
	Found []Signature
	// Backup has the overwritten data, in the order in which to restore it.
	Backup []Area
	// Restore is a file with instructions for restoring the data.
	Restore string
}

// Area is a saved part of a device.
type Area struct {
	// File has the saved bytes. Device and Offset, in bytes, are their location.
	File, Device string
	Offset       int64
}

// backupSize is the number of bytes to save at the beginning and the end of a device, where partition tables, labels
// and superblocks are, and from the start of each signature elsewhere.
const backupSize = 1 << 20

// target is a device to wipe, with its signatures.
type target struct {
	Device
	found []found
}

// wipe is a wipe in progress.
type wipe struct {
	node    *Node
	options WipeOptions
}

// Wipe destroys the signatures of a device and of its partitions. It does not overwrite other data.
//
// Wipe checks again everything that prevents a wipe: the list of devices, mounts, holders, LVM. The device must have
// the number, identity and digest of the device in WipeOptions. If Wipe returns reasons, it changed nothing. An
// error says how far the wipe came. Wipe saves the data that it overwrites. wipefs runs without --force, so that it
// also refuses a device in use.
func (n *Node) Wipe(ctx context.Context, o WipeOptions) (WipeResult, []Reason, error) {
	devices, err := n.List(ctx)
	if err != nil {
		return WipeResult{}, nil, err
	}
	listed, reasons := wipeTargets(devices, o)
	if len(reasons) > 0 {
		return WipeResult{}, reasons, nil
	}
	w := wipe{n, o}
	targets, reasons := w.examine(ctx, listed)
	if len(reasons) == 0 {
		reasons = explainCarried(ctx, targets, o)
	}
	if len(reasons) > 0 {
		return WipeResult{}, reasons, nil
	}
	return w.destroy(ctx, targets)
}

// destroy saves the data to overwrite and wipes the targets. If the device stops responding, the wipe continues in
// the background, and no second one starts meanwhile.
func (w wipe) destroy(ctx context.Context, targets []target) (WipeResult, []Reason, error) {
	type answer struct {
		result WipeResult
		err    error
	}
	got, err := bounded.Do(ctx, w.node.wipes, string(w.options.Device.Number), func(ctx context.Context) answer {
		result, err := w.backupAndWipe(ctx, targets)
		return answer{result, err}
	})
	if err != nil {
		return WipeResult{}, nil, fmt.Errorf("wipe %s: it %w: see the kernel's log; a backup of its data is in %s",
			w.options.Device.Name, err, w.options.BackupDir)
	}
	return got.result, nil, got.err
}

func (w wipe) backupAndWipe(ctx context.Context, targets []target) (result WipeResult, err error) {
	for _, t := range targets {
		for _, f := range t.found {
			result.Found = append(result.Found, f.Signature)
		}
	}
	if result.Backup, result.Restore, err = backupAll(targets, w.options); err != nil {
		return result, fmt.Errorf("back up the data on %s before the wipe; nothing was changed: %w",
			w.options.Device.Name, err)
	}
	if err := w.wipeAll(ctx, targets); err != nil {
		return result, fmt.Errorf("%w; a backup of its data is in %s", err, w.options.BackupDir)
	}
	return result, w.checkBlank(ctx, w.options.Device)
}

// wipeTargets returns the partitions, followed by the device itself.
func wipeTargets(devices []Device, o WipeOptions) ([]Device, []Reason) {
	at := slices.IndexFunc(devices, func(d Device) bool { return d.Number == o.Device.Number })
	if at < 0 {
		return nil, one(ProbeError, "is no longer attached")
	}
	d := devices[at]
	if d.Identity() != o.Device.Identity() || Digest(d) != Digest(o.Device) {
		return nil,
			one(ProbeError, "was replaced, changed or taken into use since it was checked")
	}
	if o.Fingerprint != "" && NewFingerprints(devices, o.PVs).Of(d, o.Reasons) != o.Fingerprint {
		return nil, one(ChangedSinceReview, "has changed since it was reviewed")
	}
	// A boot partition that is named directly is refused. On a disk without the operating system it is wiped with the
	// disk.
	reasons := append(untouchable(d, o), explainReserved(d)...)
	var targets []Device
	for _, child := range devices {
		if child.Type == "part" && slices.Contains(d.Partitions, child.Name) {
			reasons = append(reasons, untouchable(child, o)...)
			targets = append(targets, child)
		}
	}
	if len(targets) != len(d.Partitions) {
		reasons = append(reasons, one(ProbeError, "has partitions that are not listed: %s",
			strings.Join(d.Partitions, ", "))...)
	}
	return append(targets, d), reasons
}

// untouchable returns the reasons that consent to a wipe does not override.
func untouchable(d Device, o WipeOptions) []Reason {
	var reasons []Reason
	for _, rule := range []func(Device) []Reason{explainProblems, explainType, explainReadOnly, explainSuspended,
		explainMounts, explainOS, explainHolders} {
		reasons = append(reasons, rule(d)...)
	}
	if isPath(d) {
		reasons = append(reasons, one(MultipathMember, "is one path of a multipath device")...)
	}
	return append(reasons, explainProtected(d, o)...)
}

func explainProtected(d Device, o WipeOptions) []Reason {
	pv, ok := o.PVs[d.Number]
	switch {
	case !ok:
		return nil
	case o.Protected != nil:
		if why := o.Protected(pv); why != "" {
			return one(InVolumeGroup, "%s", why)
		}
		return nil
	}
	if pv.Group == "" && !pv.InUse {
		return nil
	}
	return explainPV(d, pv)
}

// examine opens each device exclusively, reads it and lists its signatures.
func (w wipe) examine(ctx context.Context, devices []Device) ([]target, []Reason) {
	var targets []target
	for _, d := range devices {
		signatures, reasons := w.node.read(ctx, d, w.exclusive)
		if len(reasons) > 0 {
			return nil, reasons
		}
		targets = append(targets, target{d, signatures})
	}
	return targets, nil
}

// explainCarried returns why physical volumes on the devices must not be destroyed, according to the devices
// themselves. LVM may not list them because of a devices file, a filter, or because the volume group belongs to
// another host.
func explainCarried(ctx context.Context, targets []target, o WipeOptions) []Reason {
	var reasons []Reason
	for _, t := range targets {
		if o.Carried == nil {
			if _, listed := o.PVs[t.Number]; t.isLabeled() && !listed {
				reasons = append(reasons, one(UnknownPV,
					"contains a physical volume that LVM on this node does not list")...)
			}
			continue
		}
		why, err := o.Carried(ctx, t.Device, t.isLabeled())
		switch {
		case err != nil:
			reasons = append(reasons, one(ProbeError, "could not be checked for a physical volume: %v", err)...)
		case why != "":
			reasons = append(reasons, one(InVolumeGroup, "%s", why)...)
		}
	}
	return reasons
}

// isLabeled returns true if udev or wipefs found the label of a physical volume of LVM 1 or 2.
func (t target) isLabeled() bool {
	label := func(kind string) bool { return strings.HasPrefix(kind, "LVM") }
	return label(t.Signature) || slices.ContainsFunc(t.found, func(f found) bool { return label(f.Type) })
}

// exclusive is examine without the reasons about content.
func (w wipe) exclusive(d Device) []Reason {
	return slices.DeleteFunc(w.node.examine(d), func(r Reason) bool { return r.Code == CephBlueStore })
}

// backupAll saves data of the devices, the disk before its partitions, and restore instructions.
func backupAll(targets []target, o WipeOptions) ([]Area, string, error) {
	if err := os.MkdirAll(o.BackupDir, 0o700); err != nil {
		return nil, "", err
	}
	var areas []Area
	for _, t := range slices.Backward(targets) {
		saved, err := backup(t, o.BackupDir)
		if err != nil {
			return nil, "", err
		}
		areas = append(areas, saved...)
	}
	restore := filepath.Join(o.BackupDir, "restore.sh")
	if err := save([]byte(RestoreHint(o.Device, areas)), restore); err != nil {
		return nil, "", err
	}
	return areas, restore, syncDir(o.BackupDir)
}

// RestoreHint returns the commands that restore the data that a wipe overwrote, after a warning.
func RestoreHint(d Device, areas []Area) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a wipe overwrote on %s, a device of %d bytes", d.Name, d.Size)
	if id := d.Identity(); id != "" {
		fmt.Fprintf(&b, " with the identity %s", id)
	}
	b.WriteString(".\n# It destroys the current content of the device. The name of the device may have changed: " +
		"check it before you run this.\nset -eu\n")
	for i, a := range areas {
		if i > 0 && a.Device != areas[i-1].Device && areas[i-1].Device == d.Name {
			fmt.Fprintf(&b, "udevadm settle\nblockdev --rereadpt '%s'\nudevadm settle\n", d.Name)
		}
		fmt.Fprintf(&b, "dd if='%s' of='%s' bs=1M oflag=seek_bytes seek=%d conv=notrunc,fsync\n", a.File,
			a.Device, a.Offset)
	}
	fmt.Fprintf(&b, "udevadm trigger '%s'\n", d.Name)
	return b.String()
}

// areas returns the offsets of the data to save: beginning, end, and each signature.
func (t target) areas() []int64 {
	offsets := []int64{0, max(0, t.Size-backupSize)}
	for _, f := range t.found {
		start := f.offset / direct.BlockSize * direct.BlockSize
		covered := func(from int64) bool { return start >= from && start+direct.BlockSize <= from+backupSize }
		if start < t.Size && !slices.ContainsFunc(offsets, covered) {
			offsets = append(offsets, start)
		}
	}
	slices.Sort(offsets)
	return slices.Compact(offsets)
}

// backup saves the areas of one device. It bypasses the page cache, because a partition and its disk have separate
// ones.
func backup(t target, dir string) (areas []Area, err error) {
	f, err := os.OpenFile(t.Name, os.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return t.saveAreas(f, dir)
}

func (t target) saveAreas(f io.ReaderAt, dir string) ([]Area, error) {
	var areas []Area
	for _, offset := range t.areas() {
		content, err := direct.Read(f, offset, min(backupSize, t.Size-offset))
		if err != nil {
			return nil, fmt.Errorf("read %s at byte %d: %w", t.Name, offset, err)
		}
		a := Area{File: filepath.Join(dir, fmt.Sprintf("%s-%d.bin", filepath.Base(t.KernelName), offset)),
			Device: t.Name, Offset: offset}
		if err := save(content, a.File); err != nil {
			return nil, err
		}
		areas = append(areas, a)
	}
	return areas, nil
}

// save writes a new file with mode 0600 and syncs it to the disk. It returns an error if the file exists.
func save(content []byte, path string) (err error) {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if _, err = to.Write(content); err != nil {
		return err
	}
	return to.Sync()
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// wipeAll wipes the partitions and then the disk. It continues if the caller cancels.
func (w wipe) wipeAll(ctx context.Context, targets []target) error {
	var done []string
	for _, t := range targets {
		if err := w.wipeOne(ctx, t.Device); err != nil {
			if len(done) > 0 {
				return fmt.Errorf("%w; already wiped: %s", err, strings.Join(done, ", "))
			}
			return err
		}
		done = append(done, t.Name)
	}
	return nil
}

// wipeOne removes all signatures of one device that libblkid recognizes.
func (w wipe) wipeOne(ctx context.Context, d Device) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	if _, err := w.node.runner.Run(ctx, wipefs, "--all", "--quiet", d.Name); err != nil {
		return fmt.Errorf("wipe %s: %w", d.Name, err)
	}
	return zeroBlueStore(d)
}

// zeroBlueStore removes the signature of a Ceph OSD if wipefs is too old to do it.
func zeroBlueStore(d Device) (err error) {
	f, err := os.OpenFile(d.Name, os.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("wipe %s: %w", d.Name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	begin := make([]byte, len(blueStore))
	if _, err := f.ReadAt(begin, 0); err != nil || string(begin) != blueStore {
		return err
	}
	if _, err := f.WriteAt(make([]byte, direct.BlockSize), 0); err != nil {
		return fmt.Errorf("wipe %s: %w", d.Name, err)
	}
	return f.Sync()
}

// checkBlank makes the kernel drop removed partitions and checks that the device is blank.
func (w wipe) checkBlank(ctx context.Context, d Device) error {
	if len(d.Partitions) > 0 {
		if err := w.forgetPartitions(ctx, d); err != nil {
			return fmt.Errorf("%s was wiped, but the kernel still has its partitions: %w; stop what uses them, and "+
				"run on the node: blockdev --rereadpt %s", d.Name, err, d.Name)
		}
	}
	if reasons := w.node.Probe(ctx, d); len(reasons) > 0 {
		var said []string
		for _, r := range reasons {
			said = append(said, r.Message)
		}
		return fmt.Errorf("%s was wiped but is not blank: it %s", d.Name, strings.Join(said, "; "))
	}
	return nil
}

// forgetTime is the time limit for the kernel to drop partitions. It cannot drop a partition while udev reads it.
const forgetTime = 10 * time.Second

// forgetPartitions waits until the kernel has no partitions of the device. wipefs asks the kernel only once.
func (w wipe) forgetPartitions(ctx context.Context, d Device) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forgetTime)
	defer cancel()
	for {
		err := rereadPartitions(d)
		left, listErr := w.partitionsLeft(d)
		if listErr != nil || (err == nil && len(left) == 0) {
			return listErr
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s", strings.Join(left, ", ")), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// partitionsLeft returns the partitions of a disk in the kernel.
func (w wipe) partitionsLeft(d Device) ([]string, error) {
	dir := filepath.Join(w.node.sysfs, "class/block", filepath.Base(d.KernelName))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "partition")); err == nil {
			left = append(left, e.Name())
		}
	}
	return left, nil
}

func rereadPartitions(d Device) error {
	f, err := os.OpenFile(d.Name, os.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return unix.IoctlSetInt(int(f.Fd()), unix.BLKRRPART, 0)
}
