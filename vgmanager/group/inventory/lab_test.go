//go:build lab

package inventory

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// TestLabTwoHundredDevices lists a node with 200 devices, one of which only returns errors.
func TestLabTwoHundredDevices(t *testing.T) {
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	const count, sectors = 200, 40960 // 20 MiB each, all on the same 20 MiB, which nothing writes
	t.Cleanup(func() { _ = exec.Command("/usr/sbin/dmsetup", "remove_all", "--force").Run() })
	for i := range count {
		table := fmt.Sprintf("0 %d linear %s 2048", sectors, disk)
		if i == 100 {
			table = fmt.Sprintf("0 %d error", sectors)
		}
		if out, err := exec.Command("/usr/sbin/dmsetup", "create", fmt.Sprintf("many%03d", i), "--table",
			table).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	_ = exec.Command("/usr/bin/udevadm", "settle").Run()
	runner := host.NewLocal()
	node := device.New(runner)
	volumes := lvmexec.New(runner)
	devices, err := node.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report, err := volumes.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := runner.Started().Total(); n != 2 {
		t.Errorf("%d programs were started, want lsblk and fullreport", n)
	}
	probed := map[device.Number][]device.Reason{}
	for _, d := range devices {
		if d.Name == "/dev/mapper/many100" || d.Name == "/dev/mapper/many101" {
			probed[d.Number] = node.Probe(t.Context(), d)
		}
	}
	list, omitted := Build(Input{Devices: devices, Report: report, Probed: probed, Now: time.Now()})
	data, err := json.Marshal(list)
	if err != nil || len(data) > 256<<10 || omitted != 0 {
		t.Errorf("%d bytes, %d omitted, %v", len(data), omitted, err)
	}
	seen := 0
	for _, d := range list {
		if strings.HasPrefix(d.Name, "/dev/mapper/many") {
			seen++
		}
	}
	if bad, good := find(t, list, "/dev/mapper/many100"),
		find(t, list, "/dev/mapper/many101"); seen != count || bad.State != v1alpha1.DeviceUnknown ||
		good.State != v1alpha1.DeviceAvailable {
		t.Errorf("%d of %d devices; the broken one is %s (%v), its neighbor %s (%v)", seen, count, bad.State,
			bad.Reasons, good.State, good.Reasons)
	}
	t.Logf("%d devices take %d bytes", len(list), len(data))
}
