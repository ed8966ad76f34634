package lab

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// Kind is the kind of a data disk.
type Kind string

const (
	// Plain is a disk /dev/ubdX with a by-id link and a serial number in udev. It can be added while the node runs, but
	// removed or grown only while nothing uses it. LVM on the node accepts such disks.
	Plain Kind = spec.KindPlain
	// SCSI is a disk /dev/sdX with vendor, model, serial number and WWN. While it is in use, it can be pulled
	// ([Node.RemoveDisk]), made to fail every read and write ([Node.FailDisk]), and grown. It has a write cache: data
	// that was not flushed is lost in a power cut. Its device name may change after a restart. It uses space on the
	// node's root disk.
	SCSI Kind = spec.KindSCSI
	// Shared is a plain disk that several nodes see, like a LUN: all nodes that have a shared disk of one name have the
	// same one, with a WWN and a by-id link for it. It cannot grow, and its content stays until the lab is removed.
	Shared Kind = spec.KindShared
)

// DiskSpec describes a data disk to create.
type DiskSpec struct {
	// Name is the name of the disk in the lab; by default disk1, disk2, … on every node.
	Name string
	// Kind is the kind of the disk; by default Plain, or that of the lab's flavor.
	Kind Kind
	// Size is the size in bytes, a multiple of 1 MiB. The disk is sparse on the machine.
	Size int64
}

// Sizes of disks.
const (
	MiB int64 = 1 << 20
	GiB int64 = 1 << 30
	TiB int64 = 1 << 40
)

const maxDiskSize = 16 * TiB

var units = map[string]int64{"M": MiB, "MI": MiB, "G": GiB, "GI": GiB, "T": TiB, "TI": TiB}

// ParseSize parses a size such as 512M, 8G or 1T. The units are binary and required.
func ParseSize(text string) (int64, error) {
	digits := strings.TrimRight(strings.ToUpper(text), "BIGMT")
	unit, ok := units[strings.TrimSuffix(strings.ToUpper(text[len(digits):]), "B")]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n <= 0 || n > maxDiskSize/unit {
		return 0, fmt.Errorf("size %q: want a number with M, G or T, at most 16T", text)
	}
	return n * unit, nil
}

// ParseDisks parses disks in the format of the command line: "8G,scsi:1G,plain:1G". The flavor sets a missing kind.
func ParseDisks(text string) ([]DiskSpec, error) {
	if text == "" {
		return nil, nil
	}
	var disks []DiskSpec
	for _, word := range strings.Split(text, ",") {
		kind, size, found := strings.Cut(word, ":")
		if !found {
			kind = ""
			size = word
		}
		bytes, err := ParseSize(size)
		if err != nil {
			return nil, err
		}
		disks = append(disks, DiskSpec{Kind: Kind(kind), Size: bytes})
	}
	return disks, nil
}

func (d DiskSpec) validate() error {
	switch {
	case !validName.MatchString(d.Name):
		return fmt.Errorf("disk %q: a name has to be like disk-1", d.Name)
	case d.Kind != Plain && d.Kind != SCSI && d.Kind != Shared:
		return fmt.Errorf("disk %s: kind %q is neither %s nor %s nor %s", d.Name, d.Kind, Plain, SCSI, Shared)
	case d.Size <= 0 || d.Size > maxDiskSize || d.Size%MiB != 0:
		return fmt.Errorf("disk %s: size %d is no multiple of 1 MiB up to 16 TiB", d.Name, d.Size)
	}
	return nil
}

// withDefaults sets missing names and kinds of disks: the given kind, or Plain.
func withDefaults(disks []DiskSpec, kind Kind) []DiskSpec {
	if kind == "" {
		kind = Plain
	}
	out := make([]DiskSpec, len(disks))
	for i, d := range disks {
		if d.Name == "" {
			d.Name = fmt.Sprintf("disk%d", i+1)
		}
		if d.Kind == "" {
			d.Kind = kind
		}
		out[i] = d
	}
	return out
}
