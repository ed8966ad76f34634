package device

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsWiped(t *testing.T) {
	disk := Device{Name: "/dev/sdb", KernelName: "/dev/sdb", Number: "8:16", Type: "disk", Size: 1 << 30, Serial: "s",
		Signature: "ext4", UUID: "u"}
	with := func(change func(*Device)) Device {
		d := disk
		change(&d)
		return d
	}
	parts := with(func(d *Device) {
		d.Signature = ""
		d.UUID = ""
		d.PartitionTable = "gpt"
		d.Partitions = []string{"/dev/sdb1"}
		d.Children = []Child{{"/dev/sdb1", "part"}}
	})
	part := Device{Name: "/dev/sdb1", KernelName: "/dev/sdb1", Number: "8:17", Type: "part", Size: 1 << 20}
	mountedPart := part
	mountedPart.Mountpoints = []string{"/data"}
	esp := part
	esp.PartitionType = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	protect := func(pv PV) string {
		if pv.Group == "vg1" {
			return "belongs to vg1"
		}
		return ""
	}
	tests := map[string]struct {
		now, decided Device
		more         []Device
		pvs          map[Number]PV
		want         []string
		refused      []Code
	}{
		"a file system": {now: disk, decided: disk, want: []string{"/dev/sdb"}},
		"partitions first": {now: parts, decided: parts, more: []Device{part},
			want: []string{"/dev/sdb1", "/dev/sdb"}},
		"an old disk for booting": {now: parts, decided: parts, more: []Device{esp},
			want: []string{"/dev/sdb1", "/dev/sdb"}},
		"a partition for booting": {now: esp, decided: esp, refused: []Code{PartitionReserved}},
		"a mounted partition": {now: parts, decided: parts, more: []Device{mountedPart},
			refused: []Code{Mounted}},
		"a partition nobody lists": {now: parts, decided: parts, refused: []Code{ProbeError}},
		"mounted meanwhile": {now: with(func(d *Device) { d.Mountpoints = []string{"/x"} }), decided: disk,
			refused: []Code{ProbeError}},
		"mounted all the time": {now: with(func(d *Device) { d.Mountpoints = []string{"/x"} }),
			decided: with(func(d *Device) { d.Mountpoints = []string{"/x"} }), refused: []Code{Mounted}},
		"another disk has the number": {now: with(func(d *Device) { d.Serial = "t" }), decided: disk,
			refused: []Code{ProbeError}},
		"another size": {now: with(func(d *Device) { d.Size = 2 << 30 }), decided: disk,
			refused: []Code{ProbeError}},
		"gone": {now: part, decided: disk, refused: []Code{ProbeError}},
		"swap": {now: with(func(d *Device) { d.Mountpoints = []string{"[SWAP]"} }),
			decided: with(func(d *Device) { d.Mountpoints = []string{"[SWAP]"} }), refused: []Code{SwapInUse}},
		"held": {now: with(func(d *Device) { d.Children = []Child{{"/dev/md0", "raid1"}} }),
			decided: with(func(d *Device) { d.Children = []Child{{"/dev/md0", "raid1"}} }),
			refused: []Code{HasHolders}},
		"the system's": {now: with(func(d *Device) { d.OSDisk = true }),
			decided: with(func(d *Device) { d.OSDisk = true }), refused: []Code{IsOSDisk}},
		"read-only": {now: with(func(d *Device) { d.ReadOnly = true }),
			decided: with(func(d *Device) { d.ReadOnly = true }), refused: []Code{ReadOnly}},
		"a path of a multipath": {now: with(func(d *Device) { d.Signature = "mpath_member" }),
			decided: with(func(d *Device) { d.Signature = "mpath_member" }), refused: []Code{MultipathMember}},
		"not all could be found out": {now: with(func(d *Device) { d.Problems = []string{"x"} }),
			decided: with(func(d *Device) { d.Problems = []string{"x"} }), refused: []Code{ProbeError}},
		"a physical volume of nobody": {now: disk, decided: disk, pvs: map[Number]PV{"8:16": {UUID: "p"}},
			want: []string{"/dev/sdb"}},
		"a protected physical volume": {now: disk, decided: disk,
			pvs: map[Number]PV{"8:16": {UUID: "p", Group: "vg1"}}, refused: []Code{InVolumeGroup}},
		"one on a partition of the disk": {now: parts, decided: parts, more: []Device{part},
			pvs: map[Number]PV{"8:17": {UUID: "p", Group: "vg1"}}, refused: []Code{InVolumeGroup}},
	}
	for name, tt := range tests {
		targets, reasons := wipeTargets(append([]Device{tt.now}, tt.more...),
			WipeOptions{Device: tt.decided, PVs: tt.pvs, Protected: protect})
		if diff := cmp.Diff(tt.refused, codes(reasons)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		var names []string
		for _, d := range targets {
			names = append(names, d.Name)
		}
		if len(tt.refused) == 0 && !cmp.Equal(names, tt.want) {
			t.Errorf("%s: got %v, want %v", name, names, tt.want)
		}
	}
}

func TestNoConsentIsAskedForAboutAVolumeGroup(t *testing.T) {
	disk := Device{Name: "/dev/sdb", KernelName: "/dev/sdb", Number: "8:16", Type: "disk", Size: 1 << 30, Serial: "s"}
	for name, tt := range map[string]struct {
		pv   PV
		want []Code
	}{
		"in a group":             {PV{UUID: "p", Group: "vg1"}, []Code{InVolumeGroup}},
		"in one that is missing": {PV{UUID: "p", InUse: true}, []Code{UnknownPV}},
		"in none":                {PV{UUID: "p"}, nil},
	} {
		_, reasons := wipeTargets([]Device{disk}, WipeOptions{Device: disk, PVs: map[Number]PV{"8:16": tt.pv}})
		if diff := cmp.Diff(tt.want, codes(reasons)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestWhatIsSaved(t *testing.T) {
	const mib = 1 << 20
	tests := map[string]struct {
		size    int64
		offsets []int64
		want    []int64
	}{
		"beginning and end":      {5 * mib, nil, []int64{0, 4 * mib}},
		"a small device is one":  {mib / 2, []int64{0x438}, []int64{0}},
		"exactly one":            {mib, nil, []int64{0}},
		"two that overlap":       {mib + mib/2, nil, []int64{0, mib / 2}},
		"signatures at the ends": {5 * mib, []int64{0x438, 0x1fe, 5*mib - 512}, []int64{0, 4 * mib}},
		"one in the middle":      {50 * mib, []int64{2*mib + 100, 2*mib + 200}, []int64{0, 2 * mib, 49 * mib}},
		"one across the edge":    {50 * mib, []int64{mib - 100}, []int64{0, 49 * mib}},
		"one behind the end":     {5 * mib, []int64{6 * mib}, []int64{0, 4 * mib}},
	}
	for name, tt := range tests {
		target := target{Device: Device{Size: tt.size}}
		for _, o := range tt.offsets {
			target.found = append(target.found, found{offset: o})
		}
		if diff := cmp.Diff(tt.want, target.areas()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestBackupIsNeverOverwritten(t *testing.T) {
	content := make([]byte, 5<<20)
	for i := range content {
		content[i] = byte(i >> 12)
	}
	d := target{Device: Device{Name: "/dev/sdb", KernelName: "/dev/sdb", Size: 5 << 20}}
	dir := t.TempDir()
	areas, err := d.saveAreas(bytes.NewReader(content), dir)
	if err != nil || len(areas) != 2 {
		t.Fatalf("got %v, %v", areas, err)
	}
	for _, a := range areas {
		info, err := os.Stat(a.File)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", a.File, info, err)
		}
		if got, err := os.ReadFile(a.File); err != nil || !bytes.Equal(got, content[a.Offset:a.Offset+backupSize]) {
			t.Errorf("%s is not what is at %d: %v", a.File, a.Offset, err)
		}
	}
	if _, err := d.saveAreas(bytes.NewReader(content), dir); err == nil {
		t.Error("a second backup replaces the first")
	}
	if _, err := d.saveAreas(bytes.NewReader(content[:100]), t.TempDir()); err == nil {
		t.Error("a device that cannot be read is saved")
	}
}

func TestRestoreHint(t *testing.T) {
	got := RestoreHint(Device{Name: "/dev/sdb", Size: 9, Serial: "s"},
		[]Area{{"/b/sdb-0.bin", "/dev/sdb", 0}, {"/b/sdb-8.bin", "/dev/sdb", 8}, {"/b/sdb1-0.bin", "/dev/sdb1", 0}})
	want := `# What a wipe overwrote on /dev/sdb, a device of 9 bytes with the identity serial:s.
# It destroys the current content of the device. The name of the device may have changed: check it before you run this.
set -eu
dd if='/b/sdb-0.bin' of='/dev/sdb' bs=1M oflag=seek_bytes seek=0 conv=notrunc,fsync
dd if='/b/sdb-8.bin' of='/dev/sdb' bs=1M oflag=seek_bytes seek=8 conv=notrunc,fsync
udevadm settle
blockdev --rereadpt '/dev/sdb'
udevadm settle
dd if='/b/sdb1-0.bin' of='/dev/sdb1' bs=1M oflag=seek_bytes seek=0 conv=notrunc,fsync
udevadm trigger '/dev/sdb'
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range Codes() {
		if !containsCode(string(page), code) {
			t.Errorf("docs/reference/conditions.md does not explain %s", code)
		}
	}
}

func containsCode(page string, code Code) bool {
	return strings.Contains(page, "| `"+string(code)+"` |")
}

func TestWhatADeviceCarriesForbidsItsWipe(t *testing.T) {
	blank := target{Device: Device{Name: "/dev/sdb", Number: "8:16"}}
	noted := target{Device: Device{Name: "/dev/sdb", Number: "8:16", Signature: "LVM2_member"}}
	read := target{Device: blank.Device, found: []found{{Signature: Signature{Type: "ext4"}},
		{Signature: Signature{Type: "LVM2_member"}}}}
	answer := func(why string, err error) func(context.Context, Device, bool) (string, error) {
		return func(context.Context, Device, bool) (string, error) { return why, err }
	}
	listed := map[Number]PV{"8:16": {UUID: "p"}}
	tests := map[string]struct {
		targets []target
		pvs     map[Number]PV
		carried func(context.Context, Device, bool) (string, error)
		want    []Code
	}{
		"nothing":               {[]target{blank}, nil, answer("", nil), nil},
		"what is not protected": {[]target{read}, nil, answer("", nil), nil},
		"what is protected": {[]target{blank}, nil, answer("belongs to vg1", nil),
			[]Code{InVolumeGroup}},
		"on the second": {[]target{blank, read}, nil, labeledOnly, []Code{InVolumeGroup}},
		"that could not be read": {[]target{blank}, nil, answer("", errors.New("no answer")),
			[]Code{ProbeError}},
		"nobody asks, blank":                {[]target{blank}, nil, nil, nil},
		"nobody asks, labeled":              {[]target{read}, nil, nil, []Code{UnknownPV}},
		"nobody asks, labeled as udev says": {[]target{noted}, nil, nil, []Code{UnknownPV}},
		"nobody asks, LVM lists it":         {[]target{read}, listed, nil, nil},
	}
	for name, tt := range tests {
		reasons := explainCarried(t.Context(), tt.targets, WipeOptions{PVs: tt.pvs, Carried: tt.carried})
		if diff := cmp.Diff(tt.want, codes(reasons)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func labeledOnly(_ context.Context, _ Device, labeled bool) (string, error) {
	if labeled {
		return "belongs to vg1", nil
	}
	return "", nil
}
