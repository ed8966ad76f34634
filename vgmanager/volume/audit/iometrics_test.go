package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// counted are the statistics of the devices of a node, or an error.
type counted struct {
	all   devicemapper.Statistics
	err   error
	reads int
}

func (c *counted) Statistics(ctx context.Context) (devicemapper.Statistics, error) {
	c.reads++
	if _, limited := ctx.Deadline(); !limited {
		return nil, errors.New("no time limit")
	}
	return c.all, c.err
}

// expectedSeries returns series in the format of Prometheus, with the help of their families.
func expectedSeries(lines ...string) string {
	var text strings.Builder
	for _, f := range Families {
		for i, line := range lines {
			if name, _, _ := strings.Cut(line, "{"); name != f.Name {
				continue
			}
			if i == 0 || !strings.HasPrefix(lines[i-1], f.Name+"{") {
				kind := "gauge"
				if strings.HasSuffix(f.Name, "_total") {
					kind = "counter"
				}
				fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n", f.Name, f.Help, f.Name, kind)
			}
			text.WriteString(line + "\n")
		}
	}
	return text.String()
}

var ioNames = []string{ioObservedFamily.Name, readsFamily.Name, writesFamily.Name, readBytesFamily.Name,
	writtenBytesFamily.Name, readSecondsFamily.Name, writeSecondsFamily.Name}

func TestActiveVolumesHaveTheirIO(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	kernel := &counted{all: devicemapper.Statistics{
		"vg--1-a": {Reads: 3, ReadBytes: 4096, ReadTime: 1500 * time.Millisecond, Writes: 5, WrittenBytes: 1 << 40,
			WriteTime: 2 * time.Second},
		"vg--1-foreign": {Reads: 9},
	}}
	a.MaxVolumes, a.IO = 10, kernel
	w.must(a.measure(t.Context(), []engine.VolumeState{
		{Class: "thin", VolumeGroup: "vg-1", Name: "a", Tags: []string{wellknown.VolumeClaimTagPrefix + "shop/orders"}},
		{Class: "thin", VolumeGroup: "vg-1", Name: "inactive"},
		{Class: "thin", VolumeGroup: "vg-2", Name: "a"}, // the name in another volume group
	}, nil))
	of := func(name, value string) string {
		return name + `{device_class="thin",namespace="shop",node="node1",persistentvolumeclaim="orders",volume="a"} ` +
			value
	}
	want := expectedSeries(`lvms_volume_io_observed{node="node1"} 1`, of("lvms_volume_reads_total", "3"),
		of("lvms_volume_writes_total", "5"), of("lvms_volume_read_bytes_total", "4096"),
		of("lvms_volume_written_bytes_total", "1.099511627776e+12"), of("lvms_volume_read_seconds_total", "1.5"),
		of("lvms_volume_write_seconds_total", "2"))
	for range 2 {
		if err := testutil.CollectAndCompare(a, strings.NewReader(want), ioNames...); err != nil {
			t.Error(err)
		}
	}
	if kernel.reads != 2 {
		t.Errorf("%d reads for two scrapes", kernel.reads)
	}
	if problems, err := testutil.CollectAndLint(a, ioNames...); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestIOThatCannotBeReadHasNoSeries checks that the other metrics stay, and that the failure is visible.
func TestIOThatCannotBeReadHasNoSeries(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	kernel := &counted{all: devicemapper.Statistics{"vg1-a": {Reads: 1}}}
	a.MaxVolumes, a.IO = 10, kernel
	w.must(a.measure(t.Context(), []engine.VolumeState{{Class: "thin", VolumeGroup: "vg1", Name: "a", Size: 9}}, nil))
	for _, failure := range []error{nil, errors.New("EPERM"), errors.New("EPERM"), nil} {
		kernel.err = failure
		observed, series := "1", 7
		if failure != nil {
			observed, series = "0", 1
		}
		if err := testutil.CollectAndCompare(a, strings.NewReader(expectedSeries(
			`lvms_volume_io_observed{node="node1"} `+observed)), ioObservedFamily.Name); err != nil {
			t.Error(err)
		}
		if n := testutil.CollectAndCount(a, ioNames...); n != series {
			t.Errorf("%v: %d series, want %d", failure, n, series)
		}
		if n := testutil.CollectAndCount(a, sizeFamily.Name); n != 1 {
			t.Errorf("%v: %d series of the size, want 1", failure, n)
		}
		if (a.ioFailure == "") != (failure == nil) {
			t.Errorf("%v: the logged failure is %q", failure, a.ioFailure)
		}
	}
}

// TestNoIOIsReadIfNoVolumeIsShown checks volumes that are outdated, and volumes without metrics.
func TestNoIOIsReadIfNoVolumeIsShown(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	kernel := &counted{all: devicemapper.Statistics{"vg1-a": {}}}
	a.IO = kernel
	volumes := []engine.VolumeState{{Class: "thin", VolumeGroup: "vg1", Name: "a"}}
	w.must(a.measure(t.Context(), volumes, nil))
	if n := testutil.CollectAndCount(a, ioNames...); n != 0 || kernel.reads != 0 {
		t.Errorf("without metrics of volumes: %d series, %d reads", n, kernel.reads)
	}
	a.MaxVolumes = 1
	w.must(a.measure(t.Context(), volumes, nil))
	for range maxFailedReads {
		a.noteRead(errors.New("exit status 5"))
	}
	if n := testutil.CollectAndCount(a, ioNames...); n != 0 || kernel.reads != 0 {
		t.Errorf("outdated: %d series, %d reads", n, kernel.reads)
	}
}

var deviceNames = []string{deviceFamily.Name, omittedFamily.Name}

func TestVolumesHaveASeriesForEachDevice(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	a.MaxVolumes = 10
	many := engine.VolumeState{Class: "thin", Name: "many"}
	for i := range maxDevices + 3 {
		many.Devices = append(many.Devices,
			view.PhysicalVolume{UUID: fmt.Sprint("m", i), Name: fmt.Sprint("/dev/m", i)})
	}
	volumes := []engine.VolumeState{
		{Class: "thin", Name: "two", Devices: []view.PhysicalVolume{{UUID: "1", Name: "/dev/sdb"}, {UUID: "2"}}},
		// All are missing. The status has the same last name for two, and no name for one.
		{Class: "thin", Name: "missing", Devices: []view.PhysicalVolume{{UUID: "2"}, {UUID: "3"}, {UUID: "4"}}},
		{Class: "thin", Name: "unknown place"},
	}
	w.must(w.api.Create(t.Context(), nodeStatus(
		v1alpha1.PhysicalVolumeStatus{UUID: "1", Name: "/dev/sda", DeviceID: "wwn-1"},
		v1alpha1.PhysicalVolumeStatus{UUID: "2", Name: "/dev/sdc", DeviceID: "wwn-2"},
		v1alpha1.PhysicalVolumeStatus{UUID: "3", Name: "/dev/sdc"})))
	on := func(volume, device, id, uuid string) string {
		return fmt.Sprintf("lvms_volume_device_info{device=%q,device_class=\"thin\",device_id=%q,namespace=\"\","+
			"node=\"node1\",persistentvolumeclaim=\"\",physical_volume=%q,volume=%q} 1", device, id, uuid, volume)
	}
	want := expectedSeries(on("missing", "", "", "4"), on("missing", "/dev/sdc", "", "3"),
		on("missing", "/dev/sdc", "wwn-2", "2"), on("two", "/dev/sdb", "wwn-1", "1"),
		on("two", "/dev/sdc", "wwn-2", "2"))
	for range 2 {
		w.must(a.measure(t.Context(), volumes, nil))
		if err := testutil.CollectAndCompare(a, strings.NewReader(want), deviceNames...); err != nil {
			t.Error(err)
		}
	}
	w.must(a.measure(t.Context(), []engine.VolumeState{many}, nil))
	if n := testutil.CollectAndCount(a, deviceFamily.Name); n != maxDevices {
		t.Errorf("%d series, want %d", n, maxDevices)
	}
	omitted := expectedSeries(`lvms_volume_device_info_omitted{device_class="thin",namespace="",node="node1",` +
		`persistentvolumeclaim="",volume="many"} 3`)
	if err := testutil.CollectAndCompare(a, strings.NewReader(omitted), omittedFamily.Name); err != nil {
		t.Error(err)
	}
}

// nodeStatus returns the status of the node of the tests, with physical volumes.
func nodeStatus(pvs ...v1alpha1.PhysicalVolumeStatus) *v1alpha1.LVMVolumeGroupNodeStatus {
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	status.Name, status.Namespace = "node1", "ns"
	status.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "empty"}, {Name: "thin", PhysicalVolumes: pvs}}
	return status
}

// TestDevicesWithoutTheStatusOfTheNodeHaveNoSeries checks that only these series end.
func TestDevicesWithoutTheStatusOfTheNodeHaveNoSeries(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	a.MaxVolumes = 10
	volumes := []engine.VolumeState{{Class: "thin", Name: "a", Devices: []view.PhysicalVolume{{UUID: "1",
		Name: "/dev/sdb"}}}}
	failure := errors.New("the cache is not synced")
	working := a.Client
	under, ok := working.(client.WithWatch)
	if !ok {
		t.Fatal("another client")
	}
	failing := interceptor.NewClient(under, interceptor.Funcs{Get: func(context.Context, client.WithWatch,
		client.ObjectKey, client.Object, ...client.GetOption) error {
		return failure
	}})
	for _, fails := range []bool{false, true, true, false} {
		a.Client = working
		want := 1
		if fails {
			a.Client = failing
			want = 0
		}
		err := a.measure(t.Context(), volumes, nil)
		if errors.Is(err, failure) != fails || err != nil && !strings.Contains(err.Error(), "node node1") {
			t.Errorf("got %v", err)
		}
		if n := testutil.CollectAndCount(a, deviceNames...); n != want {
			t.Errorf("%d series of devices, want %d", n, want)
		}
		if n := testutil.CollectAndCount(a, sizeFamily.Name); n != 1 {
			t.Errorf("%d series of the size, want 1", n)
		}
	}
}
