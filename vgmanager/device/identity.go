package device

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Identity is what stays the same when the device has another name: "wwn:…" or "serial:…" of the disk, with "-partN"
// for a partition; else "dm:…" or "md:…" of a mapping or an array; else "pv:…" or "fs:…" of what it carries. Empty if
// it has none of these. It is never the kernel's name.
func (d Device) Identity() string {
	if d.Type == "part" {
		return d.partition(d.hardware())
	}
	if id := d.hardware(); id != "" {
		return id
	}
	switch {
	case d.properties["DM_UUID"] != "":
		return "dm:" + d.properties["DM_UUID"]
	case d.properties["MD_UUID"] != "":
		return "md:" + d.properties["MD_UUID"]
	}
	return d.carried()
}

func (d Device) hardware() string {
	switch {
	case d.WWN != "":
		return "wwn:" + d.WWN
	case d.Serial != "":
		return "serial:" + d.Serial
	}
	return ""
}

// partition is the identity of a partition: that of its disk and its number. Without one of them it is what it carries.
func (d Device) partition(disk string) string {
	// The partition of a multipath device is a mapping as well: the number in its name counts mappings, not partitions.
	if uuid := d.properties["DM_UUID"]; uuid != "" {
		return "dm:" + uuid
	}
	number := d.properties["ID_PART_ENTRY_NUMBER"]
	if number == "" && !strings.HasPrefix(d.KernelName, "/dev/dm-") {
		number = trailingNumber(d.KernelName)
	}
	if disk != "" && number != "" {
		return disk + "-part" + number
	}
	if uuid := d.properties["ID_PART_ENTRY_UUID"]; uuid != "" {
		return "part:" + uuid
	}
	return d.carried()
}

func trailingNumber(name string) string {
	at := len(name)
	for at > 0 && name[at-1] >= '0' && name[at-1] <= '9' {
		at--
	}
	if n, err := strconv.Atoi(name[at:]); err != nil || n == 0 {
		return ""
	}
	return name[at:]
}

func (d Device) carried() string {
	switch {
	case d.UUID == "":
		return ""
	case d.Signature == "LVM2_member":
		return "pv:" + d.UUID
	}
	return "fs:" + d.UUID
}

// Identities returns the identity of each device that has one of its own. Two devices with one identity, which cloned
// disks and careless arrays give, have none: nothing may be decided by it. The paths of a multipath device share one
// rightly, and leave it to the device that is made of them.
func Identities(devices []Device) map[Number]string {
	owners := map[string][]Number{}
	for _, d := range devices {
		if id := d.Identity(); id != "" && d.Type != "lvm" && !isPath(d) {
			owners[id] = append(owners[id], d.Number)
		}
	}
	identities := map[Number]string{}
	for id, numbers := range owners {
		if len(numbers) == 1 {
			identities[numbers[0]] = id
		}
	}
	return identities
}

// isPath tells whether the device is one of the paths to a multipath device.
func isPath(d Device) bool {
	return d.Signature == "mpath_member" ||
		slices.ContainsFunc(d.Children, func(c Child) bool { return c.Type == "mpath" })
}

// Fingerprint changes with all that a decision about a device depends on: what it is, how large it is, what it carries,
// and who uses it; not with its name. It has 16 hexadecimal digits.
func Fingerprint(d Device, pv *PV, reasons []Reason) string {
	type part struct {
		ID                             string
		Size                           int64
		Signatures                     []Signature
		Partitions                     int
		Holders, Mounts, Codes         []string
		PVUUID, Group, ReadOnlyOrTable string
	}
	p := part{
		ID: d.Identity(), Size: d.Size, Signatures: slices.Clone(d.Signatures), Partitions: len(d.Partitions),
		Holders: sorted(d.Holders), Mounts: sorted(d.Mountpoints),
		ReadOnlyOrTable: strconv.FormatBool(d.ReadOnly) + d.PartitionTable,
	}
	if pv != nil {
		p.PVUUID = pv.UUID
		p.Group = pv.Group
	}
	for _, r := range reasons {
		p.Codes = append(p.Codes, string(r.Code))
		if s := r.Signature; s != nil && !slices.Contains(p.Signatures, *s) {
			p.Signatures = append(p.Signatures, *s)
		}
	}
	p.Codes = slices.Compact(sorted(p.Codes))
	slices.SortFunc(p.Signatures, func(a, b Signature) int {
		return strings.Compare(a.Type+a.UUID+a.Label,
			b.Type+b.UUID+b.Label)
	})
	data, err := json.Marshal(p)
	if err != nil {
		// Strings and numbers always encode.
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
