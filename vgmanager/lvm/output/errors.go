package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// patterns match stderr of LVM 2.03.16 and 2.03.31 (errors_test.go has the full texts). The first match decides. A
// message that matches several errors is listed under the one that the caller has to act on.
var patterns = []struct {
	text *regexp.Regexp
	err  error
}{
	// VG vg1 14339 metadata on /dev/sda (521537 bytes) exceeds maximum metadata size (521472 bytes)
	// VG vg1 14339 metadata on /dev/sda (521537 bytes) too large for circular buffer (1043968 bytes with 521300 used)
	{regexp.MustCompile(`metadata on .* (exceeds maximum metadata size|too large for circular buffer)`),
		lvm.ErrMetadataFull},
	// Volume group "vg1" not found, is inconsistent or has PVs missing.
	// Cannot change VG vg1 while PVs are missing.
	// Refusing activation of partial LV vg1/pool.  Use '--activationmode partial' to override.
	// Refusing refresh of partial LV vg1/r1. Use '--activationmode partial' to override.
	// Unable to replace more than 1 PVs from (raid5) vg1/r5.
	{
		regexp.MustCompile(
			`has PVs missing|while PVs are missing|Refusing (activation|refresh) of partial LV|Unable to replace more than`), lvm.ErrMissingPV},
	// Check of pool vg1/pool failed (status:1). Manual repair required!
	{regexp.MustCompile(`Check of pool \S+ failed`), lvm.ErrPoolCheck},
	// Thin pool vg1-pool-tpool (254:2) transaction_id is 5, while expected 3.
	{regexp.MustCompile(`transaction_id is \d+, while expected`), lvm.ErrTransaction},
	// device-mapper: reload ioctl on  (254:4) failed: No data available
	{regexp.MustCompile(`reload ioctl on .* failed: No data available`), lvm.ErrNoData},
	// Thin pool vg1-pool-tpool (254:2) already contain thin device with device_id 2.
	{regexp.MustCompile(`already contain thin device`), lvm.ErrLeftover},
	// raid1: Required device-mapper target(s) not detected in your kernel.
	{regexp.MustCompile(`target\(s\) not detected in your kernel`), lvm.ErrNoTarget},
	// Can't resize locked logical volume vg1/lin.
	// Can't remove locked logical volume vg1/lin.
	{regexp.MustCompile(`Can't \w+ locked logical volume`), lvm.ErrMoving},
	// Cannot update volume group vg1 with duplicate PV devices.
	{regexp.MustCompile(`with duplicate PV devices`), lvm.ErrDuplicatePV},
	// Multiple VGs found with the same name: skipping vg1
	{regexp.MustCompile(`Multiple VGs found with the same name`), lvm.ErrDuplicateVG},
	// WARNING: ext4 signature detected on /dev/ubdc at offset 1080. Wipe it? [y/n]: [n]
	//   Aborted wiping of ext4.
	//   1 existing signature left on the device.
	{regexp.MustCompile(`existing signatures? left on the device`), lvm.ErrSignature},
	// Can't open /dev/ubdb exclusively.  Mounted filesystem?
	// Logical volume vg1/a contains a filesystem in use.
	// Logical volume vg1/a in use.
	// Can't deactivate volume group "vg1" with 1 open logical volume(s)
	// Device vg1-r1_rimage_0 (254:3) is used by another device.
	{
		regexp.MustCompile(
			`(?m)Can't open .* exclusively|contains a filesystem in use|^\s*(Logical volume|Device) \S+ (\(\d+:\d+\) )?(is used by another device|in use)|with \d+ open logical volume`), lvm.ErrInUse},
	// Cannot use /dev/ubdb: device has a signature
	// Cannot use /dev/sda: device is partitioned
	{regexp.MustCompile(`device has a signature|device is partitioned`), lvm.ErrSignature},
	// Physical volume '/dev/ubdb' is already in volume group 'vg1'
	// PV /dev/ubdb is used by VG vg1 so please use vgreduce first.
	// Do you really want to remove volume group "vg1" containing 4 logical volumes? [y/n]: [n]
	// Removing pool vg1/pool will remove 2 dependent volume(s). Proceed? [y/n]: [n]
	// Do you really want to remove active logical volume vg1/t1? [y/n]: [n]
	// Physical volume "/dev/ubdb" still in use
	// Can't remove final physical volume "/dev/sda" from volume group "vg1"
	// There are still partial LVs in VG vg1.
	{
		regexp.MustCompile(
			`(?m)^\s*Physical volume "[^"]*" still in use|Can't remove final physical volume|There are still partial LVs|is already in volume group|is used by VG|containing \d+ logical volumes\?|will remove \d+ dependent volume|remove active logical volume`), lvm.ErrNotEmpty},
	// Volume group "nosuch" not found
	// Failed to find logical volume "vg1/nosuch"
	// Pool nopool not found in Volume group vg1.
	// Snapshot origin LV nosuch not found in Volume group vg1.
	// Logical volume nosuch not found in volume group vg1.
	// No device found for /dev/nosuch.
	// No PV found on device /dev/ubdb.
	// Device not found in devices file.
	// No devices file entry for /dev/ubdb.
	// Cannot use /dev/nosuch: device not found
	// Failed to find physical volume "/dev/sdc".
	// No data to move for vg1.
	{
		regexp.MustCompile(
			`Cannot use \S+: device not found|Failed to find physical volume|No data to move for|Volume group "[^"]*" not found|Failed to find logical volume|not found in [Vv]olume group|No device found for|No PV found on device|No devices? found in devices file|No devices file entry for`), lvm.ErrNotFound},
	// /dev/vg1: already exists in filesystem
	{regexp.MustCompile(`: already exists in filesystem`), lvm.ErrPathExists},
	// A volume group called vg1 already exists.
	// Logical Volume "a" already exists in volume group "vg1"
	{regexp.MustCompile(`already exists`), lvm.ErrExists},
	// Volume group "vg1" has insufficient free space (3 extents): 2385 required.
	// Insufficient free space: 23841 extents needed, but only 2 available
	// Cannot create new thin volume, free space in thin pool vg1/pool reached threshold.
	// Insufficient suitable allocatable extents for logical volume t3: 10 more required
	// No specified PVs have space available.
	// Couldn't allocate areas array.
	{regexp.MustCompile(`(?i)insufficient free space|insufficient suitable|couldn't allocate areas array|` +
		`free space in thin pool .* reached threshold|no specified pvs have space available`), lvm.ErrNoSpace},
	// New size (2 extents) matches existing size (2 extents).
	// New size given (1 extents) not larger than existing size (2 extents)
	// No size change.
	{regexp.MustCompile(`matches existing size|not larger than existing size|(?m)^\s*No size change\.`), lvm.ErrNotLarger},
	// Cannot use /dev/loop0: device is too small (pv_min_size)
	// Cannot use /dev/ubdb: device is not in devices file
	// Error writing device /dev/mapper/disk at 4096 length 4096.
	{regexp.MustCompile(`Cannot use \S+: device|Error (writing|reading) device`), lvm.ErrUnusable},
	// Devices file not enabled.
	// Devices file does not exist.
	{regexp.MustCompile(`Devices file (not enabled|does not exist)`), lvm.ErrNotEnabled},
	// Invalid argument for --size: 10485761b
	// Logical volume name "bad name" is invalid.
	// Command on LV vg1/lin does not accept LV type linear.
	// Command on LV vg1/lin uses options that require LV types thinpool . Command not permitted on LV vg1/lin.
	// --poolmetadatasize can be used only with thin pools.
	// RAID10 currently supports only 2-way mirroring (i.e. '-m 1')
	// Stripes argument cannot be used with segment type, raid1
	{
		regexp.MustCompile(
			`Invalid argument for|is invalid\.|currently supports only|cannot be used with segment type|does not accept LV type|uses options that require LV types|can be used only with thin pools|Error during parsing of command line`), lvm.ErrInvalid},
	// nsenter: failed to execute lvm: No such file or directory
	{regexp.MustCompile(`^nsenter: failed to execute .*: No such file or directory`), lvm.ErrNotInstalled},
}

// LockHint is advice for a command that did not end. LVM waits for its locks without a time limit.
const LockHint = "another program may hold LVM's lock, or a device does not answer; see on the node: " +
	"ps -eo pid,etime,stat,wchan,args | grep -w lvm; fuser -v /run/lock/lvm/*"

// Classify returns err with the name of the object. It wraps the sentinel error that matches the stderr of the
// command.
func Classify(object string, err error) error {
	if err == nil {
		return nil
	}
	if sentinel := sentinelOf(err); sentinel != nil {
		return fmt.Errorf("%s: %w: %w", object, sentinel, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: LVM did not answer within the time limit: %s: %w", object, LockHint, err)
	}
	return fmt.Errorf("%s: %w", object, err)
}

func sentinelOf(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return lvm.ErrNotInstalled
	}
	var failure *host.Error
	if !errors.As(err, &failure) {
		return nil
	}
	for _, p := range patterns {
		if p.text.MatchString(failure.Stderr) {
			return p.err
		}
	}
	return nil
}

// LacksDevices returns true if err shows that the node's LVM is older than 2.03.12, which does not support --devices.
func LacksDevices(err error) bool {
	var failure *host.Error
	return errors.As(err, &failure) && strings.Contains(failure.Stderr, "unrecognized option '--devices'")
}
