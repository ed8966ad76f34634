package device

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
)

// runner returns the same output for every command.
type runner struct {
	out      []byte
	err      error
	commands []string
}

func (r *runner) Run(_ context.Context, name string, args ...string) ([]byte, error) {
	r.commands = append(r.commands, name+" "+strings.Join(args, " "))
	return r.out, r.err
}

// record returns the output of util-linux 2.38.1 on a lab node.
func record(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/2.38.1/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// recorded returns the devices of a record, by name.
func recorded(t *testing.T, name string) map[string]Device {
	t.Helper()
	devices, err := decode(record(t, name))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]Device{}
	for _, d := range devices {
		byName[d.Name] = d
	}
	if len(byName) != len(devices) {
		t.Errorf("%s: a device is listed twice", name)
	}
	return byName
}

func TestDecodeBlankDisks(t *testing.T) {
	devices := recorded(t, "lsblk-blank")
	want := Device{Name: "/dev/ubdb", KernelName: "/dev/ubdb", Number: "98:16", Type: "disk", Size: 419430400}
	if diff := cmp.Diff(want, devices["/dev/ubdb"], cmpopts.IgnoreUnexported(Device{})); diff != "" ||
		len(devices) != 5 {
		t.Errorf("got %d devices; %s", len(devices), diff)
	}
}

func TestDecodeTreeListsEachDeviceOnce(t *testing.T) {
	devices := recorded(t, "lsblk-volumes")
	disk := devices["/dev/ubdb"]
	if disk.Signature != "LVM2_member" || len(disk.Children) == 0 || disk.Children[0].Type != "lvm" {
		t.Errorf("got %+v", disk)
	}
	if lv, ok := devices["/dev/mapper/vg1-t1"]; !ok || lv.Type != "lvm" || lv.KernelName == lv.Name {
		t.Errorf("got %+v", lv)
	}
}

// TestAnOpenEncryptedVolumeIsALogicalVolume checks that an encrypted volume that is open is never chosen for a volume
// group, even if it is blank, and that another encrypted device is still one.
func TestAnOpenEncryptedVolumeIsALogicalVolume(t *testing.T) {
	for path, want := range map[string]string{"/dev/mapper/lvms-crypt-8a6e": "lvm", "/dev/mapper/luks-8a6e": "crypt"} {
		devices, err := decode([]byte(`{"blockdevices":[{"name":"` + path + `","kname":"/dev/dm-3","path":"` + path +
			`","type":"crypt","size":104857600,"ro":false,"rm":false,"maj:min":"253:3"}]}`))
		if err != nil || len(devices) != 1 || devices[0].Type != want {
			t.Fatalf("%s: got %+v, %v", path, devices, err)
		}
		reasons := Explain(devices[0], nil)
		if refused := len(reasons) == 1 && reasons[0].Code == LVMInternal; refused != (want == "lvm") {
			t.Errorf("%s: got %v", path, reasons)
		}
	}
}

func TestDecodeDetails(t *testing.T) {
	devices := recorded(t, "lsblk-busy")
	if d := devices["/dev/sda"]; d.Model != "scsi_debug" || d.Serial != "2000" || d.WWN != "0x33333330000007d0" ||
		d.State != "running" {
		t.Errorf("got %+v", d)
	}
	if d := devices["/dev/ubde"]; d.Signature != "ext4" || d.Label != "data" ||
		!cmp.Equal(d.Mountpoints, []string{"/tmp/m"}) {
		t.Errorf("got %+v", d)
	}
	if d := devices["/dev/mapper/ro"]; !d.ReadOnly || d.KernelName != "/dev/dm-0" {
		t.Errorf("got %+v", d)
	}
}

func TestDecodeOldFlagsAndRefusesNonsense(t *testing.T) {
	old := `{"blockdevices":[{"name":"/dev/sda","kname":"/dev/sda","path":"/dev/sda","type":"disk","size":"1024","ro":"1","rm":"0","maj:min":"8:0  "}]}`
	devices, err := decode([]byte(old))
	if err != nil {
		t.Fatalf("got %+v, %v", devices, err)
	}
	expect.Equal(t, "devices[0].ReadOnly", devices[0].ReadOnly, true)
	expect.Equal(t, "devices[0].Removable", devices[0].Removable, false)
	expect.Equal(t, "devices[0].Number", devices[0].Number, "8:0")
	expect.Equal(t, "devices[0].Size", devices[0].Size, 1024)
	for _, bad := range []string{"", "{}", `{"blockdevices":[{"name":"/dev/sda"}]}`,
		strings.Replace(old, `"1"`, `"yes"`, 1), strings.Replace(old, `"1024"`, `"1K"`, 1)} {
		if devices, err := decode([]byte(bad)); err == nil {
			t.Errorf("%q: got %+v, want an error", bad, devices)
		}
	}
}

func TestListThatFailsIsNeverEmpty(t *testing.T) {
	for _, r := range []*runner{{err: errors.New("exit status 1")}, {out: []byte("{}")}, {}} {
		if devices, err := New(r).List(t.Context()); err == nil || devices != nil {
			t.Errorf("got %v, %v", devices, err)
		}
	}
}

func TestRecentIsSharedUntilItIsOld(t *testing.T) {
	r := &runner{out: record(t, "lsblk-blank")}
	n := New(r)
	now := time.Now()
	n.now = func() time.Time { return now }
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 1}, {30 * time.Second, 1}, {31 * time.Second, 2}} {
		now = now.Add(step.later)
		if _, err := n.Recent(t.Context(), time.Minute); err != nil || len(r.commands) != step.want {
			t.Errorf("after %s: %d commands and %v, want %d", step.later, len(r.commands), err, step.want)
		}
	}
}

func TestListReadsTheFileOfALoopDevice(t *testing.T) {
	sysfs := t.TempDir()
	dir := filepath.Join(sysfs, "block", "loop0", "loop")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pvc-1/dev/uid"
	if err := os.WriteFile(filepath.Join(dir, "backing_file"), []byte(file+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := New(&runner{out: []byte(`{"blockdevices":[
		{"name":"/dev/loop0","kname":"/dev/loop0","path":"/dev/loop0","type":"loop","size":99999999,"maj:min":"7:0"},
		{"name":"/dev/loop1","kname":"/dev/loop1","path":"/dev/loop1","type":"loop","size":99999999,"maj:min":"7:1"}]}`)})
	n.sysfs = sysfs
	if err := os.MkdirAll(filepath.Join(sysfs, "class/block"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.loop = func(string) (stack.Backing, error) { return stack.Backing{}, nil }
	devices, err := n.List(t.Context())
	if err != nil || devices[0].BackingFile != file || devices[1].BackingFile != "" {
		t.Errorf("got %+v, %v", devices, err)
	}
}

func TestResolve(t *testing.T) {
	n := New(&runner{})
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	tests := map[string]error{
		filepath.Join(dir, "nothing"):  ErrMissing,
		filepath.Join(dir, "dangling"): ErrMissing,
		file:                           ErrNotBlock,
		"/dev/null":                    ErrNotBlock,
		dir:                            ErrNotBlock,
	}
	for path, want := range tests {
		if _, err := n.Resolve(path); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", path, err, want)
		}
	}
	// A path below a file is a separate error, not a missing device.
	if _, err := n.Resolve(filepath.Join(file, "x")); err == nil || errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
}

func TestProbeOfADeviceThatCannotBeReadIsNotBlank(t *testing.T) {
	r := &runner{out: []byte(`{"signatures": []}`)}
	for name, d := range map[string]Device{
		"it does not exist": {Name: filepath.Join(t.TempDir(), "sdx"), Number: "8:0", Size: 1 << 30},
		"it is a file":      {Name: "/etc/hostname", Number: "8:0", Size: 1 << 30},
	} {
		reasons := New(r).Probe(t.Context(), d)
		if len(reasons) != 1 || reasons[0].Code != Unreadable {
			t.Errorf("%s: got %v", name, reasons)
		}
	}
}

func TestDecodeSignatures(t *testing.T) {
	got, err := decodeSignatures(record(t, "wipefs-ext4"))
	if err != nil || len(got) != 1 || got[0].Type != "ext4" || got[0].Label != "data" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, none := range []string{"", "\n", `{"signatures": []}`} {
		if got, err := decodeSignatures([]byte(none)); err != nil || len(got) != 0 {
			t.Errorf("%q: got %v, %v", none, got, err)
		}
	}
	if _, err := decodeSignatures([]byte("wipefs: error")); err == nil {
		t.Error("text was taken for a list")
	}
}
