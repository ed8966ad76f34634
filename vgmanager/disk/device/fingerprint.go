package device

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// fingerprintVersion is the version of the rules for fingerprints. It changes if the same device gets another
// fingerprint, so that an approval for a fingerprint of an earlier version is recognizable.
const fingerprintVersion = "v1-"

// Fingerprints returns the fingerprints of the devices of a node.
type Fingerprints struct {
	byName     map[string]Device
	identities map[Number]string
	pvs        map[Number]PV
}

// NewFingerprints returns the Fingerprints for all devices of a node. pvs are the physical volumes that LVM lists.
func NewFingerprints(devices []Device, pvs map[Number]PV) Fingerprints {
	f := Fingerprints{byName: map[string]Device{}, identities: Identities(devices), pvs: pvs}
	for _, d := range devices {
		f.byName[d.Name] = d
	}
	return f
}

// unread are the reasons after which the content of a device is not known.
var unread = []Code{ProbeError, Unreadable, Busy, Failing}

// Of returns a hash of what a review of a device is about: its identity, size, content and use, and those of its
// partitions. reasons are all reasons against the device. The fingerprint does not depend on names, and stays the same
// over reboots. It is "" if a read failed, or if nothing identifies the device: then it cannot be reviewed.
func (f Fingerprints) Of(d Device, reasons []Reason) string {
	id := f.identity(d)
	if id == "" || len(d.Problems) > 0 ||
		slices.ContainsFunc(reasons, func(r Reason) bool { return slices.Contains(unread, r.Code) }) {
		return ""
	}
	found := struct {
		ID         string
		Device     features
		Partitions []features
	}{ID: id, Device: f.features(d, reasons)}
	for _, name := range d.Partitions {
		part, listed := f.byName[name]
		if !listed || len(part.Problems) > 0 {
			return ""
		}
		found.Partitions = append(found.Partitions, f.features(part, nil))
	}
	slices.SortFunc(found.Partitions, func(a, b features) int { return strings.Compare(encode(a), encode(b)) })
	sum := sha256.Sum256([]byte(encode(found)))
	return fingerprintVersion + hex.EncodeToString(sum[:16])
}

// Blank returns the fingerprint that a device has when all its content was wiped.
func (f Fingerprints) Blank(d Device) string {
	d.Signature, d.Signatures, d.PartitionTable, d.Partitions, d.Children = "", nil, "", nil, nil
	return Fingerprints{byName: f.byName, identities: f.identities}.Of(d, nil)
}

// identity returns what identifies a device without its content: the hardware, the mapping or the array, or where it is
// attached.
func (f Fingerprints) identity(d Device) string {
	id := f.identities[d.Number]
	if id != "" && !strings.HasPrefix(id, "pv:") && !strings.HasPrefix(id, "fs:") {
		return id
	}
	if len(d.ByPath) == 0 {
		return ""
	}
	return "path:" + d.ByPath[0]
}

// features are the parts of a fingerprint that a partition has too.
type features struct {
	Number                   string
	Size                     int64
	ReadOnly                 bool
	Table                    string
	Signatures               []Signature
	Holders, Mounts          []string
	PVUUID, Group, GroupUUID string
}

func (f Fingerprints) features(d Device, reasons []Reason) features {
	pv := f.pvs[d.Number]
	p := features{
		Number: d.properties["ID_PART_ENTRY_NUMBER"], Size: d.Size, ReadOnly: d.ReadOnly, Table: d.PartitionTable,
		Signatures: slices.Clone(d.Signatures), Holders: f.holders(d), Mounts: sorted(d.Mountpoints),
		PVUUID: pv.UUID, Group: pv.Group, GroupUUID: pv.GroupUUID,
	}
	if d.Signature != "" {
		p.Signatures = append(p.Signatures, Signature{Type: d.Signature, UUID: d.UUID, Label: d.Label})
	}
	for _, r := range reasons {
		if r.Signature != nil {
			p.Signatures = append(p.Signatures, *r.Signature)
		}
	}
	slices.SortFunc(p.Signatures, compareSignatures)
	p.Signatures = slices.Compact(p.Signatures)
	return p
}

func compareSignatures(a, b Signature) int {
	return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.UUID, b.UUID), strings.Compare(a.Label, b.Label))
}

// holders returns what is built on a device. Logical volumes are left out: the volume group is in the fingerprint, and
// its volumes may be active or not.
func (f Fingerprints) holders(d Device) []string {
	var holders []string
	for _, c := range d.Children {
		if c.Type != "part" && c.Type != "lvm" {
			holders = append(holders, cmp.Or(f.byName[c.Name].Identity(), c.Name))
		}
	}
	return sorted(holders)
}

// encode returns a value of strings, numbers and lists as JSON, which never fails.
func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}
