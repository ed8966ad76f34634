//go:build lab

package sanity

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/luks"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// TestBenchIO measures I/O to volumes with fio, in one run on one node, compared with the raw devices. Volumes and thin
// pools are created as the agent creates them, so the defaults are measured. `make bench NAME=io` prints its tables. In each
// round, all kinds of volumes are measured one after the other; the results are medians of the ratios of the rounds.
// The test fails only if something does not work. Its parts are subtests.
func TestBenchIO(t *testing.T) {
	log.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	b := newIOBench(t)
	for _, part := range []struct {
		name    string
		measure func()
	}{{"volumes", b.volumes}, {"chunks", b.chunks}, {"discards", b.discards}} {
		t.Run(part.name, func(t *testing.T) {
			b.T = t
			part.measure()
		})
	}
}

const (
	ioRounds    = 5
	chunkRounds = 3
	// ioVolume is the size of a volume in bytes. A disk has space for two.
	ioVolume     = 192 << 20
	stripedDisks = 4
	// firstWrites is the number of 4 KiB writes to random places of a volume that was never written.
	firstWrites = 4096
	// fioSeconds is the time of one measurement, except for first writes, which write everything once.
	fioSeconds = 1
)

// workload is a kind of I/O. It is direct, so that the page cache of the node has no effect, unless options say
// otherwise.
type workload struct {
	name, rw, size string
	options        []string
}

// workloads are the columns of the tables. The last one is what etcd does: each write is flushed before the next.
var workloads = []workload{
	{"sequential write", "write", "1M", nil}, {"sequential read", "read", "1M", nil},
	{"random write", "randwrite", "4k", nil}, {"random read", "randread", "4k", nil},
	{"flushed write", "write", "2k", []string{"--direct=0", "--ioengine=sync", "--fdatasync=1"}},
}

func (w workload) writes() bool { return strings.HasSuffix(w.rw, "write") }

// chunkSizes are the compared chunk sizes. The default is one of them.
var chunkSizes = []string{"64Ki", "128Ki", "512Ki", "1Mi"}

type ioBench struct {
	*testing.T
	lvm    *lvmexec.LVM
	engine *engine.Engine
	fioDir string
	disks  []string
	n      int
}

func newIOBench(t *testing.T) *ioBench {
	t.Helper()
	b := &ioBench{T: t, fioDir: os.Getenv("LVMS_FIO"), disks: strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")}
	if want := 5 + stripedDisks + len(chunkSizes); b.fioDir == "" || len(b.disks) < want {
		t.Fatalf("LVMS_FIO must name the folder with fio, and LVMS_TEST_DISKS %d blank disks of a lab node", want)
	}
	b.lvm = lvmexec.New(host.NewLocal())
	engine, err := engine.New(b.lvm, devicemapper.New(), "")
	must(t, err)
	b.engine = engine
	return b
}

// take returns the next disks, filled: the disks of the lab are sparse files.
func (b *ioBench) take(n int) []string {
	b.Helper()
	disks := b.disks[:n]
	b.disks = b.disks[n:]
	for _, disk := range disks {
		b.sh("/usr/bin/dd", "if=/dev/zero", "of="+disk, "bs=1M", "oflag=direct", "status=none", "iflag=fullblock",
			"count="+fmt.Sprint(b.sizeOf(disk)>>20))
	}
	return disks
}

func (b *ioBench) sizeOf(disk string) int64 {
	b.Helper()
	f, err := os.Open(disk)
	must(b.T, err)
	size, err := f.Seek(0, io.SeekEnd)
	must(b.T, err)
	must(b.T, f.Close())
	return size
}

func (b *ioBench) sh(program string, args ...string) {
	b.Helper()
	if out, err := exec.CommandContext(b.Context(), program, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
}

// class creates a volume group on disks, with a thin pool if config is not nil, and publishes it as a device class.
func (b *ioBench) class(name string, disks []string, config *v1alpha1.ThinPoolConfig) string {
	b.Helper()
	must(b.T, b.lvm.Apply(b.Context(), lvm.VGCreate{Name: name, Devices: disks}))
	class := deviceclass.Class{Name: name, VolumeGroup: name, Type: types.TypeThick}
	if config != nil {
		report, err := b.lvm.Report(b.Context())
		must(b.T, err)
		must(b.T, b.lvm.Apply(b.Context(), thinpool.Options(config, report.VG(name))))
		class.Type = types.TypeThin
		class.ThinPoolConfig = &deviceclass.ThinPool{Name: config.Name, OverprovisionRatio: 10}
	}
	must(b.T, b.engine.Publish(class))
	return name
}

func poolConfig() *v1alpha1.ThinPoolConfig {
	return &v1alpha1.ThinPoolConfig{Name: poolName, SizePercent: 90, OverprovisionRatio: 10}
}

// create creates a volume and returns its device.
func (b *ioBench) create(class string) (device string) {
	b.Helper()
	b.n++
	name := fmt.Sprint("io-", b.n)
	_, err := b.engine.CreateLV(b.Context(),
		engine.NewVolume{Name: name, Class: class, Size: ioVolume})
	must(b.T, err)
	return "/dev/" + class + "/" + name
}

func (b *ioBench) remove(device string) {
	b.Helper()
	part := strings.Split(device, "/")
	must(b.T, b.engine.RemoveLV(b.Context(), part[2], part[3]))
}

// filled creates a volume and writes all of it.
func (b *ioBench) filled(class string) (device string) {
	b.Helper()
	device = b.create(class)
	b.fio([]string{device}, once(workloads[0]))
	return device
}

// job is one measurement of fio.
type job struct {
	workload
	options []string
}

// timed measures a workload for fioSeconds.
func timed(w workload) job {
	return job{w, slices.Concat(w.options, []string{"--time_based", fmt.Sprint("--runtime=", fioSeconds)})}
}

// once writes all of a volume, or firstWrites of a few KiB.
func once(w workload) job {
	if w.size == "1M" {
		return job{w, w.options}
	}
	return job{w, slices.Concat(w.options, []string{fmt.Sprint("--number_ios=", firstWrites)})}
}

// header prints the first lines of a table with a column for each workload.
func header() {
	fmt.Print("\n| |")
	for _, w := range workloads {
		fmt.Printf(" %s |", w.name)
	}
	fmt.Println("\n|---" + strings.Repeat("|---", len(workloads)) + "|")
}

// all measures each workload on devices at the same time.
func (b *ioBench) all(devices ...string) []float64 {
	b.Helper()
	var jobs []job
	for _, w := range workloads {
		jobs = append(jobs, timed(w))
	}
	return b.fio(devices, jobs...)
}

// fio runs the jobs one after the other, each on all devices at the same time, and returns their bytes per second.
func (b *ioBench) fio(devices []string, jobs ...job) []float64 {
	b.Helper()
	args := []string{"--output-format=json", "--direct=1", "--ioengine=libaio", "--iodepth=16",
		fmt.Sprint("--size=", ioVolume)}
	for i, j := range jobs {
		for k, device := range devices {
			args = append(args, fmt.Sprint("--name=", i), "--filename="+device, "--rw="+j.rw, "--bs="+j.size)
			if k == 0 {
				args = append(args, "--stonewall")
			}
			args = append(args, j.options...)
		}
	}
	command := exec.CommandContext(b.Context(), b.fioDir+"/usr/bin/fio", args...)
	libraries := b.fioDir + "/usr/lib/x86_64-linux-gnu"
	command.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries+":"+b.fioDir+"/lib/x86_64-linux-gnu:"+
		libraries+"/ceph")
	out, err := command.Output()
	if err != nil {
		b.Fatalf("fio %s: %v: %s", strings.Join(args, " "), err, out)
	}
	var result struct {
		Jobs []struct {
			Name        string `json:"jobname"`
			Error       int    `json:"error"`
			Read, Write struct {
				Bytes float64 `json:"bw_bytes"`
			}
		} `json:"jobs"`
	}
	must(b.T, json.Unmarshal(out, &result))
	speeds := make([]float64, len(jobs))
	for _, job := range result.Jobs {
		i, err := strconv.Atoi(job.Name)
		must(b.T, err)
		if job.Error != 0 {
			b.Fatalf("fio %s: error %d: %s", strings.Join(args, " "), job.Error, out)
		}
		speeds[i] += job.Read.Bytes + job.Write.Bytes
	}
	if slices.Contains(speeds, 0) {
		b.Fatalf("fio %s transferred nothing: %s", strings.Join(args, " "), out)
	}
	return speeds
}

// measured is something whose I/O is measured. do returns the bytes per second of each workload, 0 for none.
type measured struct {
	name string
	do   func() []float64
}

// ratios measures all in turns. For each of the list and each workload it returns the median of the ratios to the first
// of the list; for the first, the median in bytes per second.
func (b *ioBench) ratios(list []measured) [][]float64 {
	b.Helper()
	rounds := make([][][]float64, len(list)) // by workload
	for i := range rounds {
		rounds[i] = make([][]float64, len(workloads))
	}
	for range ioRounds {
		var base []float64
		for i, m := range list {
			speeds := m.do()
			if i == 0 {
				base = speeds
			}
			for j, speed := range speeds {
				if i > 0 {
					speed /= base[j]
				}
				rounds[i][j] = append(rounds[i][j], speed)
			}
		}
	}
	medians := make([][]float64, len(list))
	for i := range rounds {
		for _, samples := range rounds[i] {
			medians[i] = append(medians[i], medianOf(samples))
		}
		b.Logf("%s: %.2f", list[i].name, medians[i])
	}
	return medians
}

func medianOf(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// volumes compares the kinds of volumes with the raw device, and volumes over several disks with one disk.
func (b *ioBench) volumes() {
	raw := b.take(1)
	thick := b.class("thick", b.take(1), nil)
	thin := b.class("thin", b.take(1), poolConfig())
	several := b.take(stripedDisks)
	plain, used, encrypted := b.filled(thick), b.filled(thin), b.encrypted()
	on := func(devices ...string) func() []float64 {
		return func() []float64 { return b.all(devices...) }
	}
	// These disks are measured before they become those of the striped pool.
	together := b.ratios([]measured{{"one raw disk", on(raw...)}, {"four raw disks at once", on(several...)}})
	config := poolConfig()
	stripes := int32(stripedDisks)
	config.Stripes = &stripes
	striped := b.filled(b.class("striped", several, config))
	list := []measured{{"raw device", on(raw...)}, {"thick", on(plain)},
		{"thin, first write", func() []float64 { return b.firstWrite(thin) }}, {"thin, overwrite", on(used)},
		{"thin, striped over four disks", on(striped)}, {"thick, encrypted", on(encrypted)}}
	result := b.ratios(list)
	b.printTable(list, result)
	header()
	fmt.Print("| four raw disks at once ÷ one raw disk |")
	for j := range workloads {
		fmt.Printf(" %.2f |", together[1][j])
	}
	fmt.Print("\n| thin, striped over four disks ÷ thin on one disk |")
	for j := range workloads {
		fmt.Printf(" %.2f |", result[4][j]/result[3][j])
	}
	fmt.Println()
	b.sh("/usr/sbin/dmsetup", "remove", "--retry", "io-bench")
}

// firstWrite returns the bytes per second of the workloads that write, each to a new volume.
func (b *ioBench) firstWrite(class string) []float64 {
	b.Helper()
	speeds := make([]float64, len(workloads))
	for i, w := range workloads {
		if w.writes() {
			device := b.create(class)
			speeds[i] = b.fio([]string{device}, once(w))[0]
			b.remove(device)
		}
	}
	return speeds
}

// encrypted returns the mapped device of a filled volume that is encrypted as the node service encrypts it.
func (b *ioBench) encrypted() string {
	b.Helper()
	containers := luks.New(nodelvm.New(), devicemapper.New())
	b.sh("/usr/sbin/modprobe", "dm-crypt")
	device := b.create(b.class("encrypted", b.take(1), nil))
	key := []byte(strings.Repeat("k", luks.MinimumKey))
	must(b.T, containers.Format(b.Context(), device, key))
	must(b.T, containers.Open(b.Context(), device, "io-bench", key, true))
	const mapped = "/dev/mapper/io-bench"
	b.sh("/usr/bin/dd", "if=/dev/zero", "of="+mapped, "bs=1M", "oflag=direct", "status=none",
		fmt.Sprint("count=", (ioVolume-luks.HeaderSize)>>20))
	return mapped
}

func (b *ioBench) printTable(list []measured, result [][]float64) {
	header()
	for i, m := range list {
		cells := []string{m.name}
		for _, value := range result[i] {
			switch {
			case i == 0:
				cells = append(cells, fmt.Sprintf("1 (%.1f MiB/s)", value/(1<<20)))
			case value == 0:
				cells = append(cells, "–")
			default:
				cells = append(cells, fmt.Sprintf("%.2f", value))
			}
		}
		fmt.Println("| " + strings.Join(cells, " | ") + " |")
	}
}
