package output

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const missingWarning = "WARNING: Couldn't find device with uuid Lp8edL-Hnzu-fE0k-waaR-fy4P-W5Yw-pWxoDf.\n" +
	"  WARNING: VG vg1 is missing PV Lp8edL-Hnzu-fE0k-waaR-fy4P-W5Yw-pWxoDf (last written to /dev/mapper/disk).\n"

const duplicateWarning = "WARNING: Not using device /dev/ubde for PV 6QT6Gm-MEPy-L2uF-mYS2-TblN-PUmV-Tb4AjP.\n" +
	"  WARNING: PV 6QT6Gm-MEPy-L2uF-mYS2-TblN-PUmV-Tb4AjP prefers device /dev/ubdb because device name " +
	"matches previous.\n"

// recordedErrors have the complete stderr of commands of LVM 2.03.16 on a lab node.
var recordedErrors = []struct {
	command string
	stderr  string
	want    error
}{
	{"vgchange -ay with damaged pool metadata", "Check of pool vg1/pool failed (status:1). Manual repair required!",
		lvm.ErrPoolCheck},
	{"vgchange -ay after vgcfgrestore of older metadata",
		"Thin pool vg1-pool-tpool (254:2) transaction_id is 5, while expected 3.", lvm.ErrTransaction},
	{"vgchange -ay after a repair that lost volumes",
		"device-mapper: reload ioctl on  (254:4) failed: No data available", lvm.ErrNoData},
	{"lvcreate with a full metadata area", "VG vg1 217 metadata on /dev/ubdb (63199 bytes) exceeds maximum metadata " +
		"size (62720 bytes)\n  Failed to write VG vg1.", lvm.ErrMetadataFull},
	{"vgs nosuch", "Volume group \"nosuch\" not found\n  Cannot process volume group nosuch", lvm.ErrNotFound},
	{"lvremove -y vg1/nosuch", `Failed to find logical volume "vg1/nosuch"`, lvm.ErrNotFound},
	{"lvextend --size 4194304b vg1/nosuch", "Logical volume nosuch not found in volume group vg1.", lvm.ErrNotFound},
	{"lvcreate -T vg1/nopool", "Pool nopool not found in Volume group vg1.", lvm.ErrNotFound},
	{"lvcreate -s vg1/nosuch", "Snapshot origin LV nosuch not found in Volume group vg1.", lvm.ErrNotFound},
	{"vgcreate vg2 /dev/nosuch", "No device found for /dev/nosuch.", lvm.ErrNotFound},
	{"pvremove /dev/ubdb", "No PV found on device /dev/ubdb.", lvm.ErrNotFound},
	{"vgcreate vg1 /dev/ubdd", "A volume group called vg1 already exists.", lvm.ErrExists},
	{"vgcreate vg1 with a folder /dev/vg1",
		"/dev/vg1: already exists in filesystem\n  Run `vgcreate --help' for more information.", lvm.ErrPathExists},
	{"vgrename other vg1 with a folder /dev/vg1", "/dev/vg1: already exists in filesystem", lvm.ErrPathExists},
	{"lvcreate -n a vg1", `Logical Volume "a" already exists in volume group "vg1"`, lvm.ErrExists},
	{"lvcreate -L 10000000000b vg1", `Volume group "vg1" has insufficient free space (3 extents): 2385 required.`,
		lvm.ErrNoSpace},
	{"lvextend -L 100000000000b vg1/t1", "Insufficient free space: 23841 extents needed, but only 2 available",
		lvm.ErrNoSpace},
	{"lvcreate --type raid1 other",
		"Insufficient suitable allocatable extents for logical volume mirror: 6 more required", lvm.ErrNoSpace},
	{"lvcreate -T vg1/pool in a full pool", "WARNING: Thin pool vg1/pool is out of data space.\n  Cannot create new " +
		"thin volume, free space in thin pool vg1/pool reached threshold.", lvm.ErrNoSpace},
	{"lvextend to the same size", "New size (2 extents) matches existing size (2 extents).", lvm.ErrNotLarger},
	{"lvextend to the same size (LVM 2.03.31)", "No size change.", lvm.ErrNotLarger},
	{"lvextend to a smaller size", "New size given (1 extents) not larger than existing size (2 extents)",
		lvm.ErrNotLarger},
	{"vgcreate on ext4", "WARNING: ext4 signature detected on /dev/ubdc at offset 1080. Wipe it? [y/n]: [n]\n  " +
		"Aborted wiping of ext4.\n  1 existing signature left on the device.", lvm.ErrSignature},
	{"vgcreate on a mounted device", "Can't open /dev/ubdb exclusively.  Mounted filesystem?\n  Can't open /dev/ubdb " +
		"exclusively.  Mounted filesystem?\n  Error opening device /dev/ubdb for reading at 0 length 512.\n  Can't " +
		"open /dev/ubdb exclusively.  Mounted filesystem?\n  Error opening device /dev/ubdb for reading at 0 length " +
		"4096.\n  Cannot use /dev/ubdb: device has a signature", lvm.ErrInUse},
	{"lvremove of a mounted volume", "Logical volume vg1/a contains a filesystem in use.", lvm.ErrInUse},
	{"vgchange -an with a mounted volume", "Logical volume vg1/a contains a filesystem in use.\n  Can't deactivate " +
		"volume group \"vg1\" with 1 open logical volume(s)", lvm.ErrInUse},
	{"vgcreate with a physical volume of vg1", "Physical volume '/dev/ubdb' is already in volume group 'vg1'\n  " +
		"Unable to add physical volume '/dev/ubdb' to volume group 'vg1'\n  /dev/ubdb: physical volume not initialized.", lvm.ErrNotEmpty},
	{"pvremove in a volume group", "PV /dev/ubdb is used by VG vg1 so please use vgreduce first.\n  (If you are " +
		"certain you need pvremove, then confirm by using --force twice.)\n  /dev/ubdb: physical volume " +
		"label not removed.", lvm.ErrNotEmpty},
	{"vgremove with volumes", "Do you really want to remove volume group \"vg1\" containing 4 logical volumes? " +
		"[y/n]: [n]\n  Volume group \"vg1\" not removed", lvm.ErrNotEmpty},
	{"lvremove of a pool with volumes", "Removing pool vg1/pool will remove 2 dependent volume(s). Proceed? [y/n]: " +
		"[n]\n  Logical volume vg1/pool not removed.", lvm.ErrNotEmpty},
	{"lvremove of an active volume",
		"Do you really want to remove active logical volume vg1/t1? [y/n]: [n]\n  Logical volume vg1/t1 not removed.",
		lvm.ErrNotEmpty},
	{"lvcreate with a missing disk", missingWarning + "  Cannot change VG vg1 while PVs are missing.\n  See vgreduce " +
		"--removemissing and vgextend --restoremissing.\n  Cannot process volume group vg1", lvm.ErrMissingPV},
	{"vgremove with a missing disk", missingWarning + "  Volume group \"vg1\" not found, is inconsistent or has PVs " +
		"missing.\n  Consider vgreduce --removemissing if metadata is inconsistent.", lvm.ErrMissingPV},
	{"vgchange -ay with a missing disk", missingWarning +
		"  Refusing activation of partial LV vg1/pool.  Use '--activationmode partial' to override.", lvm.ErrMissingPV},
	{"lvcreate with a duplicate disk", duplicateWarning + "  Cannot update volume group vg1 with duplicate PV devices.",
		lvm.ErrDuplicatePV},
	{"vgcreate on a disk with read errors",
		"Cannot use /dev/mapper/bad: device is not in a usable state\n  Command requires all devices to be found.",
		lvm.ErrUnusable},
	{"vgcreate on a tiny disk",
		"Cannot use /dev/loop0: device is too small (pv_min_size)\n  Command requires all devices to be found.",
		lvm.ErrUnusable},
	{"pvremove of a disk that the devices file does not have",
		"Cannot use /dev/ubdb: device is not in devices file", lvm.ErrUnusable},
	{"vgcreate on a read-only disk", "Error writing device /dev/mapper/disk at 4096 length 4096.\n  WARNING: " +
		"bcache_invalidate: block (0, 0) still dirty.\n  Failed to wipe new metadata area on /dev/mapper/disk at " +
		"4096 len 4096", lvm.ErrUnusable},
	{"lvmdevices --deldev /dev/ubdb", "Devices file not enabled.", lvm.ErrNotEnabled},
	{"lvmdevices", "Devices file does not exist.", lvm.ErrNotEnabled},
	{"lvmdevices --deldev of a disk that the devices file does not have",
		"No devices file entry for /dev/ubdb.", lvm.ErrNotFound},
	{"lvcreate -L 10485761b", "Size is not a multiple of 512. Try using 10485760 or 10486272.\n  Invalid argument " +
		"for --size: 10485761b\n  Error during parsing of command line.", lvm.ErrInvalid},
	{"lvcreate -n 'bad name'",
		"Logical volume name \"bad name\" is invalid.\n  Run `lvcreate --help' for more information.", lvm.ErrInvalid},
	{"vgcreate on a device that is not there",
		"Cannot use /dev/nosuch: device not found\n  0 physical volumes changed / 0 physical volumes not changed",
		lvm.ErrNotFound},
	{"pvmove of a device without label",
		"Failed to find physical volume \"/dev/sdc\".\n  Run `pvmove --help' for more information.", lvm.ErrNotFound},
	{"pvmove of an empty device", "No data to move for vg1.", lvm.ErrNotFound},
	{"lvremove in one of two volume groups of a name", "WARNING: VG name vg1 is used by VGs " +
		"LEz7Dh-T19L-FLLq-rF0g-jb27-Y9UB-MSIn9L and 2ZwiL6-CD6v-HXP1-NN1o-1p23-32dB-JGhsCE.\n  Fix duplicate VG " +
		"names with vgrename uuid, a device filter, or system IDs.\n  Multiple VGs found with the same name: " +
		"skipping vg1\n  Use --select vg_uuid=<uuid> in place of the VG name.", lvm.ErrDuplicateVG},
	{"pvmove to a cordoned device", "WARNING: Physical volume /dev/mapper/contract0 not allocatable.\n  No specified PVs " +
		"have space available.", lvm.ErrNoSpace},
	{"pvmove without room", "Insufficient free space: 25 extents needed, but only 2 available\n  Unable to allocate " +
		"mirror extents for vg1/pvmove0.\n  Failed to convert pvmove LV to mirrored.", lvm.ErrNoSpace},
	{"pvmove without room (LVM 2.03.31)", "Couldn't allocate areas array.\n  Unable to allocate mirror extents for " +
		"vg1/pvmove0.\n  Failed to convert pvmove LV to mirrored.", lvm.ErrNoSpace},
	{"pvmove with a missing disk", missingWarning + "  Cannot change VG vg1 while PVs are missing.\n  See vgreduce " +
		"--removemissing and vgextend --restoremissing.\n  Cannot process volume group vg1\n  Failed to find " +
		"physical volume \"/dev/sdb\".\n  Run `pvmove --help' for more information.", lvm.ErrMissingPV},
	{"pvmove in a kernel without dm-mirror", "modprobe: FATAL: Module dm-mirror not found in directory " +
		"/lib/modules/6.1.176\n  /sbin/modprobe failed: 1\n  Required device-mapper target(s) not " +
		"detected in your kernel.", lvm.ErrNoTarget},
	{"lvcreate --type raid1 in a kernel without dm-raid", "modprobe: FATAL: Module dm-raid not found in directory " +
		"/lib/modules/6.1.176\n  /sbin/modprobe failed: 1\n  raid1: Required device-mapper target(s) not detected in " +
		"your kernel.\n  Run `lvcreate --help' for more information.", lvm.ErrNoTarget},
	{"lvextend while it moves", "Can't resize locked logical volume vg1/lin.", lvm.ErrMoving},
	{"lvremove while it moves", "Can't remove locked logical volume vg1/lin.", lvm.ErrMoving},
	{"lvremove of a thin volume while its pool moves", "Device vg1-r1_rimage_0 (254:3) is used by another device.\n  " +
		"Device vg1-r1_rmeta_0 (254:2) is used by another device.\n  Cannot deactivate logical volume vg1/t3.",
		lvm.ErrInUse},
	{"vgreduce of a device in use", "Physical volume \"/dev/ubdb\" still in use", lvm.ErrNotEmpty},
	{"vgreduce of the last device", "Can't remove final physical volume \"/dev/sda\" from volume group \"vg1\"",
		lvm.ErrNotEmpty},
	{"vgreduce of a device of no group", "Failed to find physical volume \"/dev/sda\".", lvm.ErrNotFound},
	{"vgreduce --removemissing with partial volumes", "WARNING: Partial LV r1 needs to be repaired or removed. \n  " +
		"WARNING: Partial LV r1_rimage_0 needs to be repaired or removed. \n  There are still partial LVs in VG " +
		"vg1.\n  To remove them unconditionally use: vgreduce --removemissing --force.\n  WARNING: Proceeding to " +
		"remove empty missing PVs.", lvm.ErrNotEmpty},
	{"lvconvert --repair without room", "Insufficient free space: 11 extents needed, but only 0 available\n  Failed " +
		"to replace faulty devices in vg1/r1.", lvm.ErrNoSpace},
	{"lvconvert --repair with too many lost",
		"Unable to replace more than 1 PVs from (raid5) vg1/r5.\n  Failed to replace faulty devices in vg1/r5.",
		lvm.ErrMissingPV},
	{"lvconvert --repair of a linear volume",
		"Command on LV vg1/lin does not accept LV type linear.\n  Command not permitted on LV vg1/lin.", lvm.ErrInvalid},
	{"lvchange --discards of a linear volume", "Command on LV contract/thick uses options that require LV types " +
		"thinpool .\n  Command not permitted on LV contract/thick.", lvm.ErrInvalid},
	{"lvchange --refresh of a partial volume",
		"Refusing refresh of partial LV vg1/r1. Use '--activationmode partial' to override.", lvm.ErrMissingPV},
	{"vgchange --addtag 'a b'", "Invalid argument for --addtag: a b\n  Error during parsing of command line.",
		lvm.ErrInvalid},
	{"lvcreate --type raid10 -m 2",
		"RAID10 currently supports only 2-way mirroring (i.e. '-m 1')\n  Run `lvcreate --help' for more information.",
		lvm.ErrInvalid},
	{"lvcreate --type raid1 --stripes 2",
		"Stripes argument cannot be used with segment type, raid1\n  Run `lvcreate --help' for more information.",
		lvm.ErrInvalid},
	{"lvconvert --repair without room (LVM 2.03.31)",
		missingWarning + "  Couldn't allocate areas array.\n  Failed to replace faulty devices in contract/mirror.",
		lvm.ErrNoSpace},
	{"lvextend --poolmetadatasize without room",
		"Insufficient free space: 2048 extents needed, but only 178 available", lvm.ErrNoSpace},
	{"lvextend --poolmetadatasize of a linear volume",
		"--poolmetadatasize can be used only with thin pools.", lvm.ErrInvalid},
	{"nsenter to a node without LVM", "nsenter: failed to execute lvm: No such file or directory",
		lvm.ErrNotInstalled},
	{"a lock that is not given",
		"Interrupted...\n  Giving up waiting for lock.\n  Can't get lock for vg1.\n  Cannot process volume group vg1",
		nil},
	{"a warning alone", strings.TrimSpace(missingWarning), nil},
}

var sentinels = []error{
	lvm.ErrNotFound, lvm.ErrExists, lvm.ErrPathExists, lvm.ErrNoSpace, lvm.ErrInUse, lvm.ErrNotEmpty,
	lvm.ErrSignature, lvm.ErrUnusable, lvm.ErrMissingPV, lvm.ErrDuplicatePV, lvm.ErrDuplicateVG, lvm.ErrNotLarger,
	lvm.ErrInvalid, lvm.ErrNotEnabled, lvm.ErrNotInstalled, lvm.ErrMoving, lvm.ErrNoTarget,
}

func TestClassifyRecordedErrors(t *testing.T) {
	seen := map[error]bool{}
	for _, tt := range recordedErrors {
		err := Classify("object", &host.Error{Command: tt.command, ExitCode: 5, Stderr: tt.stderr,
			Err: errors.New("exit status 5")})
		for _, s := range sentinels {
			if is := errors.Is(err, s); is != errors.Is(tt.want, s) {
				t.Errorf("%s: is %q: %v", tt.command, s, is)
			}
		}
		seen[tt.want] = true
		if !strings.Contains(err.Error(), "object") {
			t.Errorf("%s: the error does not name its object: %v", tt.command, err)
		}
	}
	for _, s := range sentinels {
		if !seen[s] {
			t.Errorf("no recorded example for %q", s)
		}
	}
}

func TestClassifyOtherErrors(t *testing.T) {
	if err := Classify("x", nil); err != nil {
		t.Errorf("got %v for no error", err)
	}
	if err := Classify("x", &host.Error{Err: &fs.PathError{Err: fs.ErrNotExist}}); !errors.Is(err, lvm.ErrNotInstalled) {
		t.Errorf("got %v for a program that does not exist", err)
	}
	if err := Classify("x", context.DeadlineExceeded); !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, lvm.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// TestMetadataFullOfOlderLVM: before LVM had a maximum size, it compared the two texts.
func TestMetadataFullOfOlderLVM(t *testing.T) {
	err := Classify("create", &host.Error{Err: errors.New("exit status 5"), Stderr: "VG vg1 14339 metadata on /dev/sda " +
		"(521537 bytes) too large for circular buffer (1043968 bytes with 521300 used)\n  Failed to write VG vg1."})
	if !errors.Is(err, lvm.ErrMetadataFull) {
		t.Errorf("got %v", err)
	}
}
