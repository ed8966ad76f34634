package stack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// process adds a process with a mount namespace, mounts as "NUMBER POINT", and a cgroup.
func (f *fakeNode) process(pid, name, space, cgroup string, mounts ...string) {
	dir := filepath.Join(f.Proc, pid)
	f.ok(os.MkdirAll(filepath.Join(dir, "ns"), 0o755))
	f.ok(os.Symlink("mnt:["+space+"]", filepath.Join(dir, "ns/mnt")))
	var table strings.Builder
	for _, m := range mounts {
		number, point, _ := strings.Cut(m, " ")
		table.WriteString("36 35 " + number + " / " + point + " rw - ext4 /dev/x rw\n")
	}
	for file, text := range map[string]string{"mountinfo": table.String(), "comm": name + "\n", "cgroup": cgroup} {
		f.ok(os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
}

const podUID = "0a1b2c3d-1111-2222-3333-444455556666"

func TestUsersAreNamedWithWhatEndsTheUse(t *testing.T) {
	f := node(t)
	f.process("1", "systemd", "1", "0::/init.scope", "254:9 /other")
	f.process("20", "monitor", "2",
		"0::/kubepods.slice/kubepods-pod"+strings.ReplaceAll(podUID, "-", "_")+".slice/cri-x.scope",
		"254:3 /host/pods/x")
	f.process("21", "monitor", "2", "", "254:3 /host/pods/x") // the same namespace
	f.process("30", "backup", "3", "0::/system.slice/backup.service", "254:5 /mnt")
	f.ok(os.MkdirAll(filepath.Join(f.Proc, "1/root/var/log/pods", "team_monitor-0_"+podUID), 0o755))
	search := NewSearch(&f.Reader)
	tests := map[string]struct {
		number string
		want   []string
	}{
		"mount in a Pod": {"254:3", []string{"it is used by Pod team/monitor-0 (mounted at /host/pods/x), ",
			"encrypted device /dev/mapper/lvms-crypt-x", "; if nothing needs it, delete the Pod team/monitor-0, then ",
			"mdadm --stop /dev/md127", "then run on the node: losetup --detach /dev/loop1"}},
		"volume group of the guest": {"254:2", []string{
			"backup with the PID 30 (mounted on /dev/mapper/vg1-root at /mnt), encrypted device /dev/mapper/secret, " +
				"logical volume /dev/mapper/vg1-root of a volume group in the volume, which the node activated",
			"run on the node: nsenter --target 30 --mount umount /mnt, then run on the node: " +
				"cryptsetup close secret, then run on the node: dmsetup remove vg1-root"}},
		"nothing": {"8:99", []string{"was not found"}},
	}
	for name, tt := range tests {
		got := search.Describe(t.Context(), tt.number)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %q, without %q", name, got, want)
			}
		}
		if again := search.Describe(t.Context(), tt.number); again != got {
			t.Errorf("%s: got %q, and then %q", name, got, again)
		}
	}
}

func TestAFailedSearchSaysSo(t *testing.T) {
	f := node(t)
	f.Proc = filepath.Join(f.Proc, "nothing")
	got := NewSearch(&f.Reader).Describe(t.Context(), "254:3")
	if !strings.Contains(got, "could not be found: list the processes") {
		t.Errorf("got %q", got)
	}
}

// TestOpenFilesAreFound uses the files of this process: /dev/null is no block device, and the test's directory is on
// some device.
func TestOpenFilesAreFound(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	number := deviceOf(t, file)
	p := process{folder: "/proc/self", pid: "self", proc: "/proc"}
	n := 0
	got := p.files(map[string]string{number: " on x"}, &n)
	if len(got) != 1 || got[0] != "with an open file on x" || n == 0 {
		t.Errorf("got %q of %d files", got, n)
	}
	if got := p.files(map[string]string{"0:0": ""}, &n); len(got) != 0 {
		t.Errorf("got %q for another device", got)
	}
}

func deviceOf(t *testing.T, file *os.File) string {
	t.Helper()
	var info unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &info); err != nil {
		t.Fatal(err)
	}
	return numberOf(info.Dev)
}

func TestALoopDeviceThatTheKubeletCannotReleaseIsNamed(t *testing.T) {
	f := node(t)
	search := NewSearch(&f.Reader)
	if got, err := search.Detained(t.Context()); err != nil || len(got) > 0 ||
		slices.Contains(f.opened, "/dev/loop0") {
		t.Errorf("in use: got %v, %v, opened %v", got, err, f.opened)
	}
	f.write("devices/loop0/loop/autoclear", "1")
	f.write("devices/loop1/loop/autoclear", "1") // not of the kubelet
	for range 2 {
		got, err := search.Detained(t.Context())
		if err != nil || len(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
		for _, want := range []string{"its Pod cannot end", "/dev/loop0: it is used by encrypted device", "vg1-root",
			"dmsetup remove vg1-root"} {
			if !strings.Contains(got["254:2"], want) {
				t.Errorf("got %q, without %q", got["254:2"], want)
			}
		}
	}
	f.loop("loop5", "7:5", "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/y", Backing{Device: "254:7"})
	f.write("devices/loop5/loop/autoclear", "1")
	if got, err := search.Detained(t.Context()); err != nil || !strings.Contains(got["254:3"], "/dev/loop5") {
		t.Errorf("encrypted volume: got %v, %v", got, err)
	}
	f.fails["/dev/loop0"] = unix.EIO
	if got, err := search.Detained(t.Context()); err == nil {
		t.Errorf("the read failed: got %v", got)
	}
}
