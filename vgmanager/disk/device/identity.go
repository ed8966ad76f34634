package device

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Identity returns what stays the same when the name of the device changes: "wwn:..." or "serial:..." of the disk,
// with "-partN" for a partition; otherwise "dm:..." or "md:..." of a mapping or an array; otherwise "pv:..." or
// "fs:..." of its content. It returns "" if the device has none of these. It never uses the kernel's name.
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

// Marks returns every identity of the hardware or of the mapping, of which other devices may have the same: "wwn:...",
// "serial:...", "dm:..." and "md:...". Content is not part of it.
func (d Device) Marks() []string {
	var marks []string
	for _, m := range []struct{ kind, value string }{{"wwn:", d.WWN}, {"serial:", d.Serial},
		{"dm:", d.properties["DM_UUID"]}, {"md:", d.properties["MD_UUID"]}} {
		mark := m.kind + m.value
		if d.Type == "part" && m.value != "" && m.kind != "dm:" {
			mark = d.partition(mark)
		}
		if m.value != "" && strings.HasPrefix(mark, m.kind) {
			marks = append(marks, mark)
		}
	}
	return marks
}

// partition returns the identity of a partition: the identity of its disk and its number. If one of them is not
// known, partition returns the identity of the content.
func (d Device) partition(disk string) string {
	// A partition of a multipath device is a mapping. The number in its kernel name counts mappings, not partitions.
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
	case d.Signature == SignatureLVM:
		return "pv:" + d.UUID
	}
	return "fs:" + d.UUID
}

// Identities returns the identity of each device with a unique identity. It omits devices that share an identity, for
// example cloned disks or misconfigured arrays, because no decision may depend on it. The paths of a multipath device
// share an identity by design; Identities returns it for the multipath device.
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

// isPath returns true if the device is one of the paths of a multipath device.
func isPath(d Device) bool {
	return d.Signature == "mpath_member" ||
		slices.ContainsFunc(d.Children, func(c Child) bool { return c.Type == "mpath" })
}

// Digest returns a hash of the identity, size, content and users of a device, without its partitions. Two observations
// of a device with the same digest found the same.
func Digest(d Device) string {
	p := struct {
		ID              string
		Size            int64
		Signatures      []Signature
		Partitions      int
		Holders, Mounts []string
		ReadOnlyOrTable string
	}{
		ID: d.Identity(), Size: d.Size, Signatures: slices.Clone(d.Signatures), Partitions: len(d.Partitions),
		Holders: sorted(d.Holders), Mounts: sorted(d.Mountpoints),
		ReadOnlyOrTable: strconv.FormatBool(d.ReadOnly) + d.PartitionTable,
	}
	slices.SortFunc(p.Signatures, compareSignatures)
	sum := sha256.Sum256([]byte(encode(p)))
	return hex.EncodeToString(sum[:8])
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
