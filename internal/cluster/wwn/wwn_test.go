package wwn

import "testing"

func TestSame(t *testing.T) {
	const lun = "0x6001405a1b2c3d4e5f60718293a4b5c6"
	tests := map[string]struct {
		a, b Disk
		want bool
	}{
		"a LUN": {Disk{WWN: lun, Transport: "fc"}, Disk{WWN: lun, Transport: "iscsi"}, true},
		"a LUN whose serial number is another one in another version of udev": {
			Disk{WWN: lun, Serial: "6001405a", Transport: "fc"}, Disk{WWN: lun, Serial: "a1b2", Transport: "fc"}, true},
		"as the kernel and as udev writes it": {
			Disk{WWN: "naa.6001405A1B2C3D4E5F60718293A4B5C6"}, Disk{WWN: lun}, true},
		"other LUNs":         {Disk{WWN: lun}, Disk{WWN: "0x6001405a1b2c3d4e5f60718293a4b5c7"}, false},
		"no WWN":             {Disk{Serial: "drive-scsi0"}, Disk{Serial: "drive-scsi0"}, false},
		"a disk without WWN": {Disk{WWN: lun, Serial: "s"}, Disk{Serial: "s"}, false},
		"an NVMe namespace": {Disk{WWN: "eui.0025385b71b0a1c2", Serial: "S4", Transport: "nvme"},
			Disk{WWN: "eui.0025385b71b0a1c2", Serial: "S4", Transport: "nvme"}, true},
		"NVMe drives with the WWN of their model": {
			Disk{WWN: "eui.0000000001000000", Serial: "1", Transport: "nvme"},
			Disk{WWN: "eui.0000000001000000", Serial: "2", Transport: "nvme"}, false},
		"an NVMe drive without a serial number": {Disk{WWN: "eui.0025385b71b0a1c2", Serial: "S4", Transport: "nvme"},
			Disk{WWN: "eui.0025385b71b0a1c2", Transport: "nvme"}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Same(tt.a, tt.b); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
			if got := Same(tt.b, tt.a); got != tt.want {
				t.Errorf("the other way round: got %t, want %t", got, tt.want)
			}
		})
	}
}

func TestKey(t *testing.T) {
	for name, want := range map[string]string{
		"":                     "",
		"0x5000c500a1b2c3d4":   "0x5000c500a1b2c3d4",
		" 0X5000C500A1B2C3D4 ": "0x5000c500a1b2c3d4",
		"naa.5000c500a1b2c3d4": "0x5000c500a1b2c3d4",
		"eui.0025385b71b0a1c2": "eui.0025385b71b0a1c2",
		"uuid.1f0d3c5a-7b9e-4d21-8c64-0a5b6c7d8e9f": "uuid.1f0d3c5a-7b9e-4d21-8c64-0a5b6c7d8e9f",
		"0x0000000000000000":                        "",
		"eui.00000000000000000000000000000000":      "",
		"uuid.00000000-0000-0000-0000-000000000000": "",
		"0x5":                                 "",
		"t10.ATA     QEMU HARDDISK   QM00001": "",
		"nvme.1b36-6465616462656566-51454d55204e564d65204374726c-00000001": "",
		"0QEMU    QEMU HARDDISK   drive-scsi0":                             "",
	} {
		if got := Key(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestOfIdentity(t *testing.T) {
	for id, want := range map[string]string{
		"wwn:0x5000c500a1b2c3d4":                     "0x5000c500a1b2c3d4",
		"wwn:0x5000c500a1b2c3d4-part2":               "0x5000c500a1b2c3d4",
		"dm:mpath-36001405a1b2c3d4e5f60718293a4b5c6": "0x6001405a1b2c3d4e5f60718293a4b5c6",
		"dm:mpath-eui.0025385b71b0a1c2":              "eui.0025385b71b0a1c2",
		"dm:LVM-abc":                                 "",
		"serial:drive-scsi0":                         "",
		"":                                           "",
	} {
		if got := OfIdentity(id); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}
