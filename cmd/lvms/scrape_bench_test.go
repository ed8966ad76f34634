package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/metrics/scrape"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	nodemetrics "github.com/lvm-storage/lvm-operator/vgmanager/outside/metrics"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/audit"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// The node of the benchmark has two device classes, 30 devices, and some volumes.
const benchDevices = 30

// statusCache is a cache with the status of the node and no LogicalVolumes.
type statusCache struct {
	client.Client
	status *v1alpha1.LVMVolumeGroupNodeStatus
}

func (c statusCache) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	c.status.DeepCopyInto(object.(*v1alpha1.LVMVolumeGroupNodeStatus))
	return nil
}

func (statusCache) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// volumes are the volumes of a node.
type volumes []engine.VolumeState

func (v volumes) Volumes(context.Context) ([]engine.VolumeState, map[string]error, error) {
	return v, map[string]error{"thin": nil}, nil
}
func (volumes) Subscribe(func())                                                {}
func (volumes) TagLV(context.Context, string, string, []string, []string) error { return nil }

func benchRegistry(b *testing.B, count int) *prometheus.Registry {
	b.Helper()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	for i := range benchDevices {
		status.Status.Devices = append(status.Status.Devices,
			v1alpha1.DeviceStatus{Name: fmt.Sprintf("/dev/sd%d", i), ID: fmt.Sprintf("wwn-0x5000c500a1b2c%03d", i),
				State: v1alpha1.DeviceInUse})
	}
	for _, class := range []string{"thin", "thick"} {
		status.Status.NodeStatus = append(status.Status.NodeStatus,
			v1alpha1.VGStatus{Name: class, Status: v1alpha1.VGStatusReady, Free: ptr.To(resource.MustParse("1Gi"))})
	}
	var list volumes
	kernel := countedIO{}
	for i := range count {
		list = append(list, engine.VolumeState{Class: "thin", Name: fmt.Sprintf("0123abcd-0000-4000-8000-%012d", i),
			Size: 1 << 30, DataPercent: ptr.To(12.5), VolumeGroup: "thin",
			Devices: []view.PhysicalVolume{{UUID: "a", Name: "/dev/sda"}, {UUID: "b", Name: "/dev/sdb"}},
			Tags:    []string{wellknown.VolumeClaimTagPrefix + fmt.Sprintf("namespace-%d/data-database-%d", i%20, i)}})
		kernel["thin-"+strings.ReplaceAll(list[i].Name, "-", "--")] = devicemapper.IO{Reads: 1 << 30, Writes: 1 << 30,
			ReadBytes: 1 << 40, WrittenBytes: 1 << 40, ReadTime: time.Hour, WriteTime: time.Hour}
	}
	cache := statusCache{status: status}
	audit := audit.New(audit.Options{Client: cache, Live: cache, Node: "node1",
		States: list, Recorder: noEvents{}, MaxVolumes: defaultVolumeMetrics, IO: kernel})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- audit.Start(ctx) }()
	time.Sleep(200 * time.Millisecond)
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(audit, nodemetrics.New(cache, "node1", "ns"), nodemetrics.Commands{&host.Counter{}},
		scrape.Process{Component: "vg-manager",
			Certificates: map[string]func() (*tls.Certificate, error){"metrics": servingcert.NewFolderOrSelfSigned("", nil).Current}})
	return registry
}

// countedIO has the I/O of volumes.
type countedIO devicemapper.Statistics

func (c countedIO) Statistics(context.Context) (devicemapper.Statistics, error) {
	return devicemapper.Statistics(c), nil
}

type noEvents struct{ event.Recorder }

// scrapeOnce gathers and encodes metrics like a scrape, and returns the size of the response in bytes.
func scrapeOnce(b *testing.B, registry *prometheus.Registry) int {
	families, err := registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	var answer bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&answer, f); err != nil {
			b.Fatal(err)
		}
	}
	return answer.Len()
}

// BenchmarkScrape measures a scrape of an agent: its duration, its size, and the CPU usage of one scrape every 15
// seconds. The baseline is the metrics that every Go program has.
func BenchmarkScrape(b *testing.B) {
	baseline := prometheus.NewRegistry()
	baseline.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, run := range []struct {
		name     string
		registry *prometheus.Registry
	}{{"baseline", baseline}, {"volumes=0", benchRegistry(b, 0)}, {"volumes=200", benchRegistry(b, 200)},
		{"volumes=500", benchRegistry(b, 500)},
		{"volumes=5000", benchRegistry(b, 5000)}} {
		b.Run(run.name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = scrapeOnce(b, run.registry)
			}
			b.ReportMetric(float64(size)/1024, "KiB")
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/15, "%CPU@15s")
		})
	}
}
