package device

import (
	"slices"
	"strings"
	"testing"
)

// reviewed returns the devices of a node: a disk with a partition and an array on it, and a blank disk.
func reviewed() []Device {
	return []Device{
		{Name: "/dev/sdb", KernelName: "/dev/sdb", Number: "8:16", Type: "disk", Serial: "s", Size: 1 << 30,
			PartitionTable: "gpt", Signatures: []Signature{{Type: "gpt", UUID: "t"}}, Partitions: []string{"/dev/sdb1"},
			Children: []Child{{"/dev/sdb1", "part"}, {"/dev/md127", "raid1"}}, ByPath: []string{"/dev/disk/by-path/b"}},
		{Name: "/dev/sdb1", KernelName: "/dev/sdb1", Number: "8:17", Type: "part", Parent: "/dev/sdb", Size: 1 << 29,
			Signatures: []Signature{{Type: "ext4", UUID: "u", Label: "data"}}, Mountpoints: []string{"/a", "/b"}},
		{Name: "/dev/md127", Number: "9:127", Type: "raid1", properties: map[string]string{"MD_UUID": "m"}},
		{Name: "/dev/sdc", KernelName: "/dev/sdc", Number: "8:32", Type: "disk", Size: 1 << 30,
			ByPath: []string{"/dev/disk/by-path/c"}},
	}
}

func fingerprintOf(devices []Device, pvs map[Number]PV, reasons ...Reason) string {
	return NewFingerprints(devices, pvs).Of(devices[0], reasons)
}

func TestAFingerprintStaysTheSameWhenNamesChange(t *testing.T) {
	base := fingerprintOf(reviewed(), nil)
	if !strings.HasPrefix(base, "v1-") || len(base) != 35 {
		t.Errorf("got %q", base)
	}
	for name, change := range map[string]func([]Device){
		"kernel names": func(list []Device) {
			list[0].Name, list[0].KernelName, list[0].Number = "/dev/sdz", "/dev/sdz", "65:144"
			list[0].Partitions, list[0].Children[0].Name = []string{"/dev/sdz1"}, "/dev/sdz1"
			list[1].Name, list[1].KernelName, list[1].Number = "/dev/sdz1", "/dev/sdz1", "65:145"
		},
		"name of an array": func(list []Device) { list[0].Children[1].Name, list[2].Name = "/dev/md0", "/dev/md0" },
		"order of mounts":  func(list []Device) { list[1].Mountpoints = []string{"/b", "/a"} },
		"an open volume": func(list []Device) {
			list[0].Children = append(list[0].Children, Child{"/dev/dm-0", "lvm"})
		},
		"links of a hard disk": func(list []Device) { list[0].ByPath = []string{"/dev/disk/by-path/other"} },
		"its age":              func(list []Device) { list[0].Appeared = 1 },
	} {
		list := reviewed()
		change(list)
		if got := fingerprintOf(list, nil); got != base {
			t.Errorf("%s: got %s, was %s", name, got, base)
		}
	}
	signature := reviewed()[0].Signatures[0]
	if got := fingerprintOf(reviewed(), nil, Reason{Code: HasSignature, Signature: &signature}); got != base {
		t.Errorf("a read that finds what udev knows: got %s, was %s", got, base)
	}
}

func TestAFingerprintChangesWithTheDevice(t *testing.T) {
	base := fingerprintOf(reviewed(), nil)
	seen := map[string]string{base: "the device"}
	for name, change := range map[string]func([]Device){
		"disk":      func(list []Device) { list[0].Serial = "t" },
		"size":      func(list []Device) { list[0].Size++ },
		"read-only": func(list []Device) { list[0].ReadOnly = true },
		"table":     func(list []Device) { list[0].PartitionTable = "dos" },
		"UUID":      func(list []Device) { list[0].Signatures[0].UUID = "v" },
		"label":     func(list []Device) { list[0].Signatures[0].Label = "l" },
		"another signature": func(list []Device) {
			list[0].Signatures = append(list[0].Signatures, Signature{Type: "xfs"})
		},
		"mount":                 func(list []Device) { list[0].Mountpoints = []string{"/a"} },
		"holder":                func(list []Device) { list[0].Children = list[0].Children[:1] },
		"another array":         func(list []Device) { list[2].properties = map[string]string{"MD_UUID": "n"} },
		"partitions":            func(list []Device) { list[0].Partitions = nil },
		"content of partitions": func(list []Device) { list[1].Signatures[0].UUID = "w" },
		"mounts of partitions":  func(list []Device) { list[1].Mountpoints = nil },
	} {
		list := reviewed()
		change(list)
		got := fingerprintOf(list, nil)
		if other := seen[got]; got == "" || other != "" {
			t.Errorf("%s: got %q, as for %q", name, got, other)
		}
		seen[got] = name
	}
	for name, pv := range map[string]PV{"physical volume": {UUID: "p"}, "volume group": {UUID: "p", Group: "g"}} {
		got := fingerprintOf(reviewed(), map[Number]PV{"8:16": pv})
		if seen[got] != "" {
			t.Errorf("%s: as for %s", name, seen[got])
		}
		seen[got] = name
	}
}

func TestADeviceThatWasNotReadHasNoFingerprint(t *testing.T) {
	for _, code := range []Code{ProbeError, Unreadable, Busy, Failing} {
		if got := fingerprintOf(reviewed(), nil, Reason{Code: HasSignature}, Reason{Code: code}); got != "" {
			t.Errorf("%s: got %s", code, got)
		}
	}
	for name, change := range map[string]func([]Device) []Device{
		"problem of the disk":       func(list []Device) []Device { list[0].Problems = []string{"x"}; return list },
		"problem of a partition":    func(list []Device) []Device { list[1].Problems = []string{"x"}; return list },
		"a partition is not listed": func(list []Device) []Device { return slices.Delete(list, 1, 2) },
		"nothing identifies it": func(list []Device) []Device {
			list[0].Serial, list[0].ByPath = "", nil
			return list
		},
		"only its content does": func(list []Device) []Device {
			list[0].Serial, list[0].ByPath, list[0].UUID, list[0].Signature = "", nil, "u", "ext4"
			return list
		},
	} {
		if got := fingerprintOf(change(reviewed()), nil); got != "" {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestDevicesWithTheSameIdentityHaveDifferentFingerprints(t *testing.T) {
	list := reviewed()
	list[3].Serial = "s" // a clone
	f := NewFingerprints(list, nil)
	if a, b := f.Blank(list[0]), f.Blank(list[3]); a == b || a == "" || b == "" {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestBlankIsTheFingerprintAfterAWipe(t *testing.T) {
	list := reviewed()
	pvs := map[Number]PV{"8:16": {UUID: "p", Group: "g"}}
	want := NewFingerprints(list, pvs).Blank(list[0])
	list[0].Signatures, list[0].PartitionTable, list[0].Partitions, list[0].Children = nil, "", nil, nil
	if got := fingerprintOf(list, nil); got != want || want == "" {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDigest(t *testing.T) {
	d := Device{Name: "/dev/sdb", KernelName: "/dev/sdb", Type: "disk", Serial: "s", Size: 1 << 30,
		Mountpoints: []string{"/a", "/b"}, Signatures: []Signature{{Type: "ext4", UUID: "u"}}}
	base := Digest(d)
	renamed := d
	renamed.Name, renamed.KernelName, renamed.Mountpoints = "/dev/sdz", "/dev/sdz", []string{"/b", "/a"}
	if got := Digest(renamed); got != base {
		t.Errorf("another name: %s, was %s", got, base)
	}
	for name, change := range map[string]func(*Device){
		"size":    func(d *Device) { d.Size++ },
		"content": func(d *Device) { d.Signatures = []Signature{{Type: "ext4", UUID: "v"}} },
		"mount":   func(d *Device) { d.Mountpoints = nil },
		"holder":  func(d *Device) { d.Holders = []string{"/dev/md0"} },
		"disk":    func(d *Device) { d.Serial = "t" }, "read-only": func(d *Device) { d.ReadOnly = true },
	} {
		other := d
		change(&other)
		if Digest(other) == base {
			t.Errorf("another %s has the same digest", name)
		}
	}
}
