package device

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func codes(reasons []Reason) []Code {
	var list []Code
	for _, r := range reasons {
		list = append(list, r.Code)
	}
	return list
}

func TestExplain(t *testing.T) {
	blank := Device{Name: "/dev/sdb", KernelName: "/dev/sdb", Number: "8:16", Type: "disk", Size: 1 << 30}
	with := func(edit func(*Device)) Device {
		d := blank
		edit(&d)
		return d
	}
	pvs := map[Number]PV{"8:32": {UUID: "known", Group: "vg1", InUse: true}}
	tests := map[string]struct {
		device Device
		pvs    map[Number]PV
		want   []Code
		says   string
	}{
		"a blank disk": {device: blank},
		"a blank partition": {device: with(func(d *Device) {
			d.Type = "part"
			d.PartitionLabel = "data"
		})},
		"a blank multipath": {device: with(func(d *Device) {
			d.Type = "mpath"
			d.Name = "/dev/mapper/mpatha"
		})},
		"a loop device of a user": {device: with(func(d *Device) {
			d.Type = "loop"
			d.BackingFile = "/srv/disk"
		})},
		"a DASD": {device: with(func(d *Device) { d.PartitionTable = "dasd" }), want: []Code{UnsupportedType},
			says: "`fdasd --auto /dev/sdb`"},
		"a DASD with a partition": {
			device: with(func(d *Device) {
				d.PartitionTable = "dasd"
				d.Children = []Child{{"/dev/sdb1", "part"}}
			}),
			want: []Code{UnsupportedType, HasPartitions},
		},
		"read-only": {device: with(func(d *Device) { d.ReadOnly = true }), want: []Code{ReadOnly}},
		"removable": {device: with(func(d *Device) { d.Removable = true }), want: []Code{Removable}},
		"suspended": {device: with(func(d *Device) { d.State = "suspended" }), want: []Code{Suspended},
			says: "dmsetup resume /dev/sdb"},
		"too small":      {device: with(func(d *Device) { d.Size = MinimumSize - 1 }), want: []Code{TooSmall}},
		"the least size": {device: with(func(d *Device) { d.Size = MinimumSize })},
		"a disc drive":   {device: with(func(d *Device) { d.Type = "rom" }), want: []Code{UnsupportedType}},
		"zram": {device: with(func(d *Device) { d.KernelName = "/dev/zram0" }),
			want: []Code{UnsupportedType}},
		"a logical volume": {device: with(func(d *Device) { d.Type = "lvm" }), want: []Code{LVMInternal}},
		"a loop device of kubelet": {
			device: with(func(d *Device) {
				d.Type = "loop"
				d.BackingFile = "/var/lib/kubelet/plugins/kubernetes.io/x"
			}), want: []Code{KubernetesLoop},
		},
		"mounted": {
			device: with(func(d *Device) {
				d.Signature = "xfs"
				d.Mountpoints = []string{"/a", "/b"}
			}),
			want: []Code{Mounted, Mounted, HasSignature}, says: "is mounted on /b",
		},
		"swap in use": {
			device: with(func(d *Device) {
				d.Signature = "swap"
				d.Mountpoints = []string{"[SWAP]"}
			}),
			want: []Code{SwapInUse, HasSignature}, says: "swapoff /dev/sdb",
		},
		"partitioned": {
			device: with(func(d *Device) {
				d.PartitionTable = "gpt"
				d.Children = []Child{{"/dev/sdb1", "part"}}
			}),
			want: []Code{HasPartitions}, says: "/dev/sdb1",
		},
		"an empty partition table": {device: with(func(d *Device) { d.PartitionTable = "dos" }),
			want: []Code{HasPartitions}, says: "without partitions"},
		"encrypted and open": {
			device: with(func(d *Device) {
				d.Signature = "crypto_LUKS"
				d.Children = []Child{{"/dev/mapper/luks", "crypt"}}
			}),
			want: []Code{HasHolders, HasSignature}, says: "/dev/mapper/luks (crypt)",
		},
		"an EFI partition": {
			device: with(func(d *Device) {
				d.Type = "part"
				d.PartitionType = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
			}),
			want: []Code{PartitionReserved}, says: "EFI",
		},
		"a partition labeled BIOS": {device: with(func(d *Device) {
			d.Type = "part"
			d.PartitionLabel = "BIOS-BOOT"
		}), want: []Code{PartitionReserved}},
		"a partition labeled reserved": {device: with(func(d *Device) {
			d.Type = "part"
			d.PartitionLabel = "Reserved"
		}), want: []Code{PartitionReserved}},
		"a file system": {
			device: with(func(d *Device) {
				d.Signature = "ext4"
				d.UUID = "1-2"
				d.Label = "data"
			}),
			want: []Code{HasSignature}, says: `carries ext4, uuid 1-2, label "data"`,
		},
		"a multipath member": {device: with(func(d *Device) { d.Signature = "mpath_member" }),
			want: []Code{MultipathMember}},
		"an array member": {device: with(func(d *Device) { d.Signature = "linux_raid_member" }),
			want: []Code{RAIDMember}},
		"in a volume group": {
			device: with(func(d *Device) { d.Signature = "LVM2_member" }),
			pvs:    map[Number]PV{"8:16": {UUID: "a", Group: "rhel", InUse: true}},
			want:   []Code{InVolumeGroup}, says: "volume group rhel",
		},
		"a physical volume that udev has not noticed": {device: blank, pvs: map[Number]PV{"8:16": {Group: "rhel"}},
			want: []Code{InVolumeGroup}},
		"a physical volume of no group": {
			device: with(func(d *Device) { d.Signature = "LVM2_member" }), pvs: map[Number]PV{"8:16": {UUID: "a"}},
			want: []Code{UnassignedPV}, says: "pvremove /dev/sdb",
		},
		"a physical volume whose group cannot be seen": {
			device: with(func(d *Device) { d.Signature = "LVM2_member" }),
			pvs:    map[Number]PV{"8:16": {UUID: "a", InUse: true}}, want: []Code{UnknownPV},
		},
		"a label that LVM does not list": {device: with(func(d *Device) {
			d.Signature = "LVM2_member"
			d.UUID = "b"
		}), pvs: pvs, want: []Code{UnknownPV}, says: "lvmdevices"},
		"a copy of a physical volume": {device: with(func(d *Device) {
			d.Signature = "LVM2_member"
			d.UUID = "known"
		}), pvs: pvs, want: []Code{DuplicatePV}},
		"everything at once": {
			device: with(func(d *Device) {
				d.ReadOnly = true
				d.Removable = true
				d.State = "suspended"
				d.Signature = "ext4"
				d.Mountpoints = []string{"/a"}
			}),
			want: []Code{ReadOnly, Removable, Suspended, Mounted, HasSignature},
		},
	}
	for name, tt := range tests {
		reasons := Explain(tt.device, tt.pvs)
		inUse := len(tt.device.Mountpoints)+len(tt.device.Children) > 0
		if inUse && strings.Contains(sentencesOf(reasons), "wipefs") {
			t.Errorf("%s: it is in use, and the advice is to wipe it", name)
		}
		if diff := cmp.Diff(tt.want, codes(reasons)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if text := sentencesOf(reasons); !strings.Contains(text, tt.says) {
			t.Errorf("%s: %q should say %q", name, text, tt.says)
		}
	}
}

func sentencesOf(reasons []Reason) string {
	var list []string
	for _, r := range reasons {
		list = append(list, r.String())
	}
	return strings.Join(list, "; ")
}

func TestExplainRecordedDevices(t *testing.T) {
	devices := recorded(t, "lsblk-busy")
	pvs := map[Number]PV{"98:80": {UUID: "x"}, "98:16": {UUID: "y", Group: "vg1"}, "98:48": {UUID: "z", Group: "other"}}
	want := map[string][]Code{
		"/dev/sda":           {TooSmall},
		"/dev/ubdb":          {InVolumeGroup},
		"/dev/ubdc":          {SwapInUse, HasSignature},
		"/dev/ubdd":          {HasHolders, InVolumeGroup},
		"/dev/ubde":          {Mounted, HasSignature},
		"/dev/ubdf":          {UnassignedPV},
		"/dev/mapper/ro":     {ReadOnly, TooSmall, UnknownPV},
		"/dev/mapper/frozen": {Suspended, TooSmall},
	}
	for name, d := range devices {
		if diff := cmp.Diff(want[name], codes(Explain(d, pvs))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestExplainRecordedDuplicate(t *testing.T) {
	devices := recorded(t, "lsblk-duplicate")
	copied := devices["/dev/ubde"]
	if copied.UUID == "" || copied.UUID != devices["/dev/ubdb"].UUID {
		t.Fatalf("the record shows no copy: %+v", copied)
	}
	pvs := map[Number]PV{devices["/dev/ubdb"].Number: {UUID: copied.UUID, Group: "vg1", InUse: true}}
	if got := codes(Explain(copied, pvs)); !cmp.Equal(got, []Code{DuplicatePV}) {
		t.Errorf("got %v", got)
	}
}
