package collect

import (
	"strconv"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
)

// Item is one command that reads from the node.
type Item struct {
	// File is the file in the archive for the output.
	File string
	// Command has the path of a program, and its arguments. host.Runner defines how the path is used.
	Command []string
	// Limit is the time limit.
	Limit time.Duration
	// Optional: the node may not have the program or the file. Its absence is recorded, but not as a failure.
	Optional bool
	// Accept is set for a program of this container, not of the node. It returns true for an exit code that is part
	// of the result.
	Accept func(code int) bool
	// Log: if the output is too long, it is truncated at the beginning, which is the oldest part.
	Log bool
}

const (
	short = 15 * time.Second
	long  = 40 * time.Second
	// maxLines is the maximum number of lines to read from a journal.
	maxLines = "30000"
)

// Items returns all items of a node, the most important first. since is the start time for logs.
//
// The commands change nothing. LVM only gets commands for reports and configuration, with metadata backups disabled.
// Its fallback is --readonly, which takes no lock. `dmsetup status` gets --noflush, because a thin pool would write
// its metadata otherwise. `dmsetup table` does not get --showkeys. smartctl does not wake a disk.
func Items(layout hostpaths.Layout, since time.Time) []Item {
	from := "--since=@" + strconv.FormatInt(since.Unix(), 10)
	journal := func(file string, selection ...string) Item {
		command := append([]string{"/usr/bin/journalctl", "--no-pager", "--utc", "--output=short-iso",
			"--lines=" + maxLines, from}, selection...)
		return Item{File: file, Command: command, Limit: long, Optional: true, Log: true}
	}
	return []Item{
		{File: "lvm-fullreport.json", Command: lvm("fullreport", "--all", "--reportformat", "json", "--units", "b",
			"--nosuffix"), Limit: long},
		{File: "lsblk.json", Command: []string{"/usr/bin/lsblk", "--json", "--bytes", "--output-all"}, Limit: long},
		{File: "lsblk.txt", Command: []string{"/usr/bin/lsblk", "--output",
			"NAME,KNAME,MAJ:MIN,TYPE,SIZE,RO,STATE,FSTYPE,MOUNTPOINT,SERIAL,WWN,MODEL"}, Limit: long},
		{File: "dmsetup-status.txt", Command: []string{"/usr/sbin/dmsetup", "status", "--noflush"}, Limit: short},
		{File: "dmsetup-table.txt", Command: []string{"/usr/sbin/dmsetup", "table"}, Limit: short},
		{File: "dmsetup-info.txt", Command: []string{"/usr/sbin/dmsetup", "info", "-c"}, Limit: short},
		{File: "dmsetup-deps.txt", Command: []string{"/usr/sbin/dmsetup", "deps", "-o", "devname"}, Limit: short},
		{File: "dmesg.txt", Command: []string{"/usr/bin/dmesg", "--time-format", "iso"}, Limit: short, Log: true},
		journal("journal-kernel.log", "--dmesg"),
		journal("journal-kubelet.log", "--unit=kubelet"),
		journal("journal-lvm.log", "--unit=lvm2-*", "--unit=dm-event*", "--unit=blk-availability*",
			"--unit=multipathd*", "--unit=systemd-udevd*"),
		{File: "udev-block.txt", Command: []string{grep, "-rH", "--include=b*", "", "/run/udev/data"}, Limit: short},
		file("mountinfo.txt", "/proc/1/mountinfo"),
		{File: "disk-links.txt", Command: []string{"/usr/bin/find", "/dev/disk", "-type", "l", "-printf",
			"%p -> %l\n"}, Limit: short},
		file("lvmd.yaml", layout.StateDir()+"/lvmd.yaml"),
		files("topolvm-files.txt", layout.StateDir()),
		{File: "topolvm-notes.txt", Command: []string{grep, "-rH", "--include=*.json", "", layout.StateDir()},
			Limit: short, Optional: true},
		files("csi-files.txt", layout.DriverDir()),
		files("csi-registry-files.txt", layout.RegistryDir()),
		{File: "lvm-version.txt", Command: lvm("version"), Limit: short},
		{File: "lvm-config-diff.txt", Command: lvm("lvmconfig", "--typeconfig", "diff"), Limit: short},
		{File: "lvm-devices.txt", Command: []string{"/usr/bin/cat", "/etc/lvm/devices/system.devices"}, Limit: short,
			Optional: true},
		files("lvm-archive-list.txt", "/etc/lvm/archive"),
		files("lvm-backup-list.txt", "/etc/lvm/backup"),
		file("mdstat.txt", "/proc/mdstat"),
		{File: "multipath.txt", Command: []string{"/usr/sbin/multipath", "-ll"}, Limit: short, Optional: true},
		{File: "nvme-list.json", Command: []string{"/usr/sbin/nvme", "list", "--output-format=json"}, Limit: short,
			Optional: true},
		file("diskstats.txt", "/proc/diskstats"),
		file("partitions.txt", "/proc/partitions"),
		file("swaps.txt", "/proc/swaps"),
		file("modules.txt", "/proc/modules"),
		file("meminfo.txt", "/proc/meminfo"),
		file("loadavg.txt", "/proc/loadavg"),
		file("uptime.txt", "/proc/uptime"),
		file("os-release.txt", "/etc/os-release"),
		{File: "uname.txt", Command: []string{"/usr/bin/uname", "-a"}, Limit: short},
	}
}

// fallback is read if the full report failed. LVM then reads the metadata from the disks without a lock, and does not
// use the kernel's state.
var fallback = Item{File: "lvm-fullreport-readonly.json", Limit: long,
	Command: lvm("fullreport", "--readonly", "--all", "--reportformat", "json", "--units", "b", "--nosuffix")}

func lvm(args ...string) []string {
	return append(append([]string{"/usr/sbin/lvm"}, args...), "--config", "backup{backup=0 archive=0}")
}

func file(name, path string) Item {
	return Item{File: name, Command: []string{"/usr/bin/cat", path}, Limit: short, Optional: true}
}

// files lists a directory without reading its files.
func files(name, folder string) Item {
	return Item{File: name, Command: []string{"/usr/bin/find", folder, "-printf", "%M %s %TY-%Tm-%TdT%TT %p\n"},
		Limit: short, Optional: true}
}

const grep = "/usr/bin/grep"

const smartctl = "/usr/sbin/smartctl"

// spoke returns true if smartctl had a result. The first three bits of its exit code are failures to read the disk.
// The others describe the health of the disk (smartctl(8), exit status).
func spoke(code int) bool { return code&7 == 0 }

// smart reads the S.M.A.R.T. state of a disk.
func smart(disk, name string) Item {
	return Item{File: "smart-" + name + ".json",
		Command: []string{smartctl, "--json", "--all", "--nocheck=standby", disk}, Limit: short,
		Optional: true, Accept: spoke}
}
