// Package wwn compares the World Wide Names of disks of different nodes.
package wwn

import "strings"

// Disk is what identifies a disk on every node that sees it.
type Disk struct {
	// WWN is the World Wide Name as lsblk reports it, "" if the disk has none.
	WWN string
	// Serial is the serial number, or "" if it is not known.
	Serial string
	// Transport is how the disk is attached, as lsblk reports it, for example "nvme".
	Transport string
}

// ownSerial are the transports of disks whose serial number is that of the drive on every host. For other disks, it
// depends on the version of udev which number is reported.
var ownSerial = map[string]bool{"nvme": true, "sata": true, "ata": true}

// Same returns true if two disks of different nodes are the same one, because they have the same Key. Some NVMe and
// SATA drives have the WWN of all drives of their model: those with different serial numbers are not the same.
//
// It never compares serial numbers alone: virtual machines often have the same ones, such as "drive-scsi0", on
// different disks.
func Same(a, b Disk) bool {
	if Key(a.WWN) == "" || Key(a.WWN) != Key(b.WWN) {
		return false
	}
	own := ownSerial[a.Transport] && ownSerial[b.Transport]
	return !own || a.Serial == "" || b.Serial == "" || a.Serial == b.Serial
}

// Key returns a WWN in a form that is the same on every node, or "" if it does not identify one disk among those of all
// nodes. It accepts NAA identifiers ("0x…" of udev, "naa.…" of the kernel), EUI-64 and NGUID ("eui.…") and UUIDs
// ("uuid.…"). Others are made of the vendor, the model and the serial number ("t10.…", "nvme.…"), which copies of a
// virtual machine have too.
func Key(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if digits, ok := strings.CutPrefix(name, "naa."); ok {
		name = "0x" + digits
	}
	for _, kind := range []string{"0x", "eui.", "uuid."} {
		digits, ok := strings.CutPrefix(name, kind)
		if !ok {
			continue
		}
		if len(digits) < shortest || strings.Trim(digits, "0123456789abcdef-") != "" ||
			strings.Trim(digits, "0-") == "" {
			return ""
		}
		return name
	}
	return ""
}

// shortest is the number of hexadecimal digits of the shortest identifier, which has 64 bits.
const shortest = 16

// OfIdentity returns the WWN in the identity of a device (device.Device.Identity): that of a disk, of the disk of a
// partition, or of a multipath device, whose identifier is the one of scsi_id(8) for NAA, with a 3 before the digits.
// It returns "" if the identity has no WWN.
func OfIdentity(id string) string {
	if name, ok := strings.CutPrefix(id, "wwn:"); ok {
		name, _, _ = strings.Cut(name, "-part")
		return name
	}
	name, ok := strings.CutPrefix(id, "dm:mpath-")
	if !ok {
		return ""
	}
	if digits, naa := strings.CutPrefix(name, "3"); naa {
		return "0x" + digits
	}
	return name
}
