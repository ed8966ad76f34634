//go:build lab

package volumegroup

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
)

// sparse creates a device of any size that stores written data on a small disk.
func sparse(t *testing.T, name, disk string, size lvm.Bytes) string {
	t.Helper()
	sectors := uint64(size) / 512
	for _, args := range [][]string{
		{"create", name + "-zero", "--table", fmt.Sprintf("0 %d zero", sectors)},
		{"create", name, "--table", fmt.Sprintf("0 %d snapshot /dev/mapper/%s-zero %s P 8", sectors, name, disk)},
	} {
		if out, err := nodelvm.Command("/usr/sbin/dmsetup", args...).CombinedOutput(); err != nil {
			t.Fatalf("dmsetup %v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		out, err := nodelvm.Command("/usr/sbin/dmsetup", "remove", "--retry", name, name+"-zero").CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		// The next device must not get the data of this snapshot.
		if out, err := exec.Command("/usr/bin/dd", "if=/dev/zero", "of="+disk, "bs=1M", "count=1",
			"oflag=direct").CombinedOutput(); err != nil {
			t.Errorf("dd: %v: %s", err, out)
		}
	})
	return "/dev/mapper/" + name
}

// TestLabALargePoolGetsLargerChunks: with chunks of 128 KiB LVM rejects a pool of more than about 31.7 TiB. The
// default chunk size scales with the pool, and the size that the agent treats as the limit works.
func TestLabALargePoolGetsLargerChunks(t *testing.T) {
	const tib = 1 << 40
	chunk := func(size string) *resource.Quantity { q := resource.MustParse(size); return &q }
	l := lvmexec.New(nodelvm.New())
	disk := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")[0]
	cases := []struct {
		size    lvm.Bytes
		chunk   *resource.Quantity
		want    lvm.Bytes
		refused string
	}{
		{size: 40 * tib, chunk: chunk("128Ki"), refused: "cannot address more"},
		{size: 40 * tib, want: 512 << 10},
		{size: 17 * tib, want: 128 << 10},
		{size: 18 * tib, want: 256 << 10},
		{size: 1000 * tib, want: 8 << 20},
		{size: thinpool.MaxPoolSize(128<<10) / 9 * 10, chunk: chunk("128Ki"), want: 128 << 10},
	}
	if testing.Short() {
		cases = cases[:2] // all sizes run without -short
	}
	for i, tt := range cases {
		t.Run(fmt.Sprintf("%d TiB %s", tt.size/tib, tt.chunk), func(t *testing.T) {
			ctx := t.Context()
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			device := sparse(t, fmt.Sprintf("large%d", i), disk, tt.size/(1<<20)*(1<<20))
			must(l.Apply(ctx, lvm.VGCreate{Name: "large", Devices: []string{device}}))
			config := &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, ChunkSize: tt.chunk,
				MetadataSizeCalculationPolicy: v1alpha1.SizeCalculationStatic, MetadataSize: chunk("128Mi")}
			report, err := l.Report(ctx)
			must(err)
			vg := report.VG("large")
			err = l.Apply(ctx, thinpool.Options(config, vg))
			if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("got %v, want it to be refused: %q", err, tt.refused)
			}
			if err == nil {
				report, err = l.Report(ctx)
				must(err)
				if pool := report.VG("large").ThinPool("pool"); pool.ChunkSize != tt.want ||
					pool.Size < vg.Size/100*89 {
					t.Errorf("got chunks of %d KiB in a pool of %d", pool.ChunkSize>>10, pool.Size)
				}
				must(l.Apply(ctx, lvm.LVRemove{VG: "large", Names: []string{"pool"}}))
			}
			must(l.Apply(ctx, lvm.VGRemove{VG: "large"}))
			must(l.Apply(ctx, lvm.PVRemove{Device: device}))
		})
	}
}
