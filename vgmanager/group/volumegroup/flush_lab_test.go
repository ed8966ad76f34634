//go:build lab

package volumegroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
)

// TestLabChangesAreFlushed checks that each change is on the medium when it is reported. The volumes are thick,
// because the kernel also flushes for a thin one.
func TestLabChangesAreFlushed(t *testing.T) {
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")[:2]
	runner := nodelvm.New()
	l := lvmexec.New(runner)
	l.FlushWith(device.New(runner).Flush)
	ctx := t.Context()
	for _, step := range []struct {
		name   string
		change func() error
	}{
		{"create a volume group", func() error {
			return l.Apply(ctx, lvm.VGCreate{Name: "flushed", Devices: disks})
		}},
		{"create a volume", func() error {
			return l.Apply(ctx, lvm.LVCreateThick{VG: "flushed", Name: "a", Size: 4 << 20})
		}},
		{"extend it", func() error {
			return l.Apply(ctx, lvm.LVExtend{VG: "flushed", Name: "a", Size: 8 << 20})
		}},
		{"remove it", func() error { return l.Apply(ctx, lvm.LVRemove{VG: "flushed", Names: []string{"a"}}) }},
		{"remove the volume group", func() error { return l.Apply(ctx, lvm.VGRemove{VG: "flushed"}) }},
		{"remove a label", func() error { return l.Apply(ctx, lvm.PVRemove{Device: disks[0]}) }},
		{"remove the other label", func() error { return l.Apply(ctx, lvm.PVRemove{Device: disks[1]}) }},
	} {
		if _, err := l.Report(ctx); err != nil {
			t.Fatal(err)
		}
		before := flushesOf(t, disks)
		if step.name == "remove it" {
			if err := l.Apply(ctx, lvm.LVDeactivate{VG: "flushed", Names: []string{"a"}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := step.change(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if after := flushesOf(t, disks); after <= before {
			t.Errorf("%s: the disks were not told to flush their caches", step.name)
		}
	}
}

// flushesOf returns how many flush requests disks have completed (Linux, Documentation/block/stat.rst).
func flushesOf(t *testing.T, disks []string) int {
	t.Helper()
	const field = 15
	sum := 0
	for _, disk := range disks {
		text, err := os.ReadFile("/sys/block/" + filepath.Base(disk) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(text))
		if len(fields) <= field {
			t.Fatalf("%s has %d statistics: %s", disk, len(fields), text)
		}
		count, err := strconv.Atoi(fields[field])
		if err != nil {
			t.Fatal(err)
		}
		sum += count
	}
	return sum
}
