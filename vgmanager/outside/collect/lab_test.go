//go:build lab

package collect

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// run runs a program on the node for the test.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := host.NewLocal().Run(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestLabCollect reads a node with a thin pool twice, and checks that its disk and directories do not change.
func TestLabCollect(t *testing.T) {
	disk := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")[0]
	run(t, "/usr/sbin/lvm", "vgcreate", "vg1", disk)
	t.Cleanup(func() {
		_, _ = host.NewLocal().Run(context.Background(), "/usr/sbin/lvm", "vgremove", "-ff", "-y", "vg1")
	})
	run(t, "/usr/sbin/lvm", "lvcreate", "--type", "thin-pool", "-L", "100M", "-n", "pool", "vg1")
	run(t, "/usr/sbin/lvm", "lvcreate", "-V", "50M", "--thinpool", "vg1/pool", "-n", "thin")
	// A pool writes its metadata within a second after a change.
	time.Sleep(3 * time.Second)
	run(t, "/usr/bin/sync")
	state := func() string {
		return run(t, "/usr/bin/sha256sum", disk) +
			run(t, "/usr/bin/find", "/etc/lvm", "-type", "f", "-printf", "%p %s %T@\n") +
			run(t, "/usr/sbin/dmsetup", "table")
	}
	before := state()
	for range 2 {
		var out bytes.Buffer
		if err := Write(t.Context(), &out, Options{Runner: host.NewLocal(), Own: host.NewLocal(),
			Since: time.Now().Add(-time.Hour), MaxBytes: 4 << 20}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d bytes", out.Len())
		files, results := unpacked(t, &out)
		for name, r := range results {
			t.Logf("%s: %+v", name, r)
			if r.Error != "" {
				t.Errorf("%s: %s", name, r.Error)
			}
		}
		var report struct {
			Report []struct {
				VG []map[string]string `json:"vg"`
				LV []map[string]string `json:"lv"`
				PV []map[string]string `json:"pv"`
			} `json:"report"`
		}
		if err := json.Unmarshal([]byte(files["lvm-fullreport.json"]), &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Report) == 0 || report.Report[0].VG[0]["vg_name"] != "vg1" ||
			report.Report[0].PV[0]["pv_name"] != disk {
			t.Errorf("LVM's report: %.2000s", files["lvm-fullreport.json"])
		}
		for name, want := range map[string]string{
			"dmsetup-status.txt": "thin-pool", "dmsetup-table.txt": "vg1-pool", "lsblk.json": `"vg1-thin"`,
			"lvm-version.txt": "LVM version",
			"udev-block.txt":  "LVM2_member", "mountinfo.txt": " / ", "uname.txt": "Linux",
		} {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s has no %q: %.500s", name, want, files[name])
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("something was changed:\n%s\n%s", before, after)
	}
}

// TestLabCollectWhileLVMIsLocked checks that a held lock prevents the full report, but not the one without locks.
func TestLabCollectWhileLVMIsLocked(t *testing.T) {
	disk := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")[1]
	run(t, "/usr/sbin/lvm", "vgcreate", "vg2", disk)
	t.Cleanup(func() {
		_, _ = host.NewLocal().Run(context.Background(), "/usr/sbin/lvm", "vgremove", "-ff", "-y", "vg2")
	})
	lock, err := os.OpenFile("/run/lock/lvm/V_vg2", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if out, err := host.NewLocal().Run(t.Context(), "/usr/sbin/lvm", "vgs", "--config", "global/wait_for_locks=0",
		"vg2"); err == nil || !strings.Contains(err.Error(), "lock") {
		t.Fatalf("vg2 is not locked: %s, %v", out, err)
	}
	if out := run(t, fallback.Command[0], fallback.Command[1:]...); !strings.Contains(out, `"vg2"`) {
		t.Errorf("the report without locks: %.1000s", out)
	}
}
