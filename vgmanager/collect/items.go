package collect

import (
	"strconv"
	"time"
)

// Item is one read of the node.
type Item struct {
	// File of the archive that gets what the program prints.
	File string
	// Command has the absolute path of a program of the node, and its arguments.
	Command []string
	// Limit is the time limit.
	Limit time.Duration
	// Optional: a node may do without the program or the file. Its absence is noted, and no failure.
	Optional bool
	// Accept: the program is one of this container, not of the node, and an exit code that it says yes to is a part of
	// the answer.
	Accept func(code int) bool
	// Log: what is too long is cut at its beginning, which is its oldest part.
	Log bool
}

const (
	short = 15 * time.Second
	long  = 40 * time.Second
	// maxLines is how much of a journal is read.
	maxLines = "30000"
)

// Items are all reads of a node, the most valuable first. Since is from when on logs are wanted.
//
// None of them changes anything: LVM is asked for reports and configuration only, with backups of metadata turned off,
// and its last resort is --readonly, which takes no lock; `dmsetup status` gets --noflush, since a thin pool would
// write its metadata otherwise, and `dmsetup table` no --showkeys; smartctl does not wake a disk up.
func Items(since time.Time) []Item {
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
		file("lvmd.yaml", "/etc/topolvm/lvmd.yaml"),
		files("topolvm-files.txt", "/etc/topolvm"),
		{File: "topolvm-notes.txt", Command: []string{grep, "-rH", "--include=*.json", "", "/etc/topolvm"},
			Limit: short, Optional: true},
		files("csi-files.txt", "/var/lib/kubelet/plugins/topolvm.io"),
		files("csi-registry-files.txt", "/var/lib/kubelet/plugins_registry"),
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

// fallback is read where the full report failed: LVM reads the metadata on the disks without any lock, and does not ask
// the kernel.
var fallback = Item{File: "lvm-fullreport-readonly.json", Limit: long,
	Command: lvm("fullreport", "--readonly", "--all", "--reportformat", "json", "--units", "b", "--nosuffix")}

func lvm(args ...string) []string {
	return append(append([]string{"/usr/sbin/lvm"}, args...), "--config", "backup{backup=0 archive=0}")
}

func file(name, path string) Item {
	return Item{File: name, Command: []string{"/usr/bin/cat", path}, Limit: short, Optional: true}
}

// files lists a folder, and does not read what is in it.
func files(name, folder string) Item {
	return Item{File: name, Command: []string{"/usr/bin/find", folder, "-printf", "%M %s %TY-%Tm-%TdT%TT %p\n"},
		Limit: short, Optional: true}
}

const grep = "/usr/bin/grep"

const smartctl = "/usr/sbin/smartctl"

// spoke tells whether smartctl had an answer: the first three bits of its exit code are failures to ask, the others
// what is wrong with the disk (smartctl(8), exit status).
func spoke(code int) bool { return code&7 == 0 }

// smart is the state of a disk by its own word.
func smart(disk, name string) Item {
	return Item{File: "smart-" + name + ".json",
		Command: []string{smartctl, "--json", "--all", "--nocheck=standby", disk}, Limit: short,
		Optional: true, Accept: spoke}
}
