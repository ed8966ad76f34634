//go:build lab

package audit

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"k8s.io/client-go/tools/events"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

const measuredGroup = "measured"

// measured is a volume group on two disks, and the metrics of its volumes.
type measured struct {
	*testing.T
	lvm     *lvmexec.LVM
	auditor *Auditor
	disks   []string
}

func newMeasured(t *testing.T) *measured {
	t.Helper()
	m := &measured{T: t, lvm: lvmexec.New(host.NewLocal()), disks: strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")}
	if len(m.disks) < 2 {
		t.Fatal("LVMS_TEST_DISKS must name two blank disks of a lab node")
	}
	m.disks = m.disks[:2]
	w := newWorldOn(t, m.lvm)
	w.must(m.lvm.Apply(t.Context(), lvm.VGCreate{Name: measuredGroup, Devices: m.disks}))
	t.Cleanup(func() {
		m.run("/usr/sbin/vgremove", "-qqf", measuredGroup)
		m.run("/usr/sbin/pvremove", append([]string{"-qq"}, m.disks...)...)
	})
	engine, err := engine.New(m.lvm, nil, "")
	w.must(err)
	w.must(engine.Publish(deviceclass.Class{Name: "thick", VolumeGroup: measuredGroup, Type: types.TypeThick}))
	w.must(engine.Publish(deviceclass.Class{Name: "thin", VolumeGroup: measuredGroup, Type: types.TypeThin,
		ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 10}}))
	m.auditor = New(Options{Client: w.api, Live: w.api, Node: "node1", Namespace: "ns", States: engine,
		Recorder: events.NewFakeRecorder(100), MaxVolumes: 10, IO: devicemapper.New()})
	report, err := m.lvm.Report(t.Context())
	w.must(err)
	var pvs []v1alpha1.PhysicalVolumeStatus
	for _, pv := range report.VG(measuredGroup).PVs {
		pvs = append(pvs, v1alpha1.PhysicalVolumeStatus{UUID: pv.UUID, Name: pv.Name, DeviceID: "id of " + pv.Name})
	}
	w.must(w.api.Create(t.Context(), nodeStatus(pvs...)))
	return m
}

func (m *measured) run(program string, args ...string) {
	m.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		m.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

func (m *measured) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// series returns the values of a metric of a volume by the label device, which is "" for a metric without it.
func (m *measured) series(metric, volume string) map[string]float64 {
	m.Helper()
	_, err := m.lvm.Report(m.Context())
	m.must(err)
	m.must(m.auditor.Audit(m.Context()))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.auditor)
	families, err := registry.Gather()
	m.must(err)
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, s := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range s.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["volume"] != volume {
				continue
			}
			if labels["device"] != "" && labels["device_id"] != "id of "+labels["device"] {
				m.Errorf("device %s has the identity %q", labels["device"], labels["device_id"])
			}
			found[labels["device"]] = s.GetGauge().GetValue() + s.GetCounter().GetValue()
		}
	}
	return found
}

func (m *measured) wantOn(volume string, disks ...string) {
	m.Helper()
	found := m.series(deviceFamily.Name, volume)
	var names []string
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, slices.Sorted(slices.Values(disks))) {
		m.Errorf("volume %s is on %q, want %q", volume, names, disks)
	}
}

// TestLabMetricsFollowIOAndMoves writes through volumes, and extends, moves and deactivates them.
func TestLabMetricsFollowIOAndMoves(t *testing.T) {
	m := newMeasured(t)
	ctx := t.Context()
	m.must(m.lvm.Apply(ctx, lvm.LVCreateThick{VG: measuredGroup, Name: "thick", Size: 32 << 20, Devices: m.disks[:1]}))
	m.wantOn("thick", m.disks[0])
	m.writes("thick")
	m.must(m.lvm.Apply(ctx, lvm.LVExtend{VG: measuredGroup, Name: "thick", Size: 64 << 20, Devices: m.disks[1:]}))
	m.wantOn("thick", m.disks...)

	m.must(m.lvm.Apply(ctx, lvm.PVMoveStart{VG: measuredGroup, Source: m.disks[0], Target: m.disks[1]}))
	m.waitForMoves()
	m.wantOn("thick", m.disks[1])
	m.writes("thick")

	m.must(m.lvm.Apply(ctx, lvm.LVCreateThinPool{VG: measuredGroup, Name: "pool", PercentFree: 60,
		MetadataSize: 4 << 20, Stripes: 2, StripeSize: 64 << 10}))
	m.must(m.lvm.Apply(ctx, lvm.LVCreateThin{VG: measuredGroup, Pool: "pool", PoolZeroes: true, Name: "thin",
		VirtualSize: 32 << 20}))
	m.wantOn("thin", m.disks...)
	m.wantOn("thick", m.disks[1])
	m.writes("thin")

	m.run("/usr/sbin/lvchange", "-an", measuredGroup+"/thin")
	if found := m.series(writtenBytesFamily.Name, "thin"); len(found) != 0 {
		t.Errorf("the inactive volume has %v", found)
	}
	m.wantOn("thin", m.disks...)
}

// writes writes 8 MiB with 128 requests past the page cache, and checks that the metrics have exactly that.
func (m *measured) writes(volume string) {
	m.Helper()
	m.run("/usr/bin/udevadm", "settle") // udev reads a new volume
	of := func(metric string) float64 {
		m.Helper()
		found := m.series(metric, volume)
		if len(found) != 1 {
			m.Fatalf("%s of volume %s has the series %v", metric, volume, found)
		}
		return found[""]
	}
	bytes, requests := of(writtenBytesFamily.Name), of(writesFamily.Name)
	m.run("/usr/bin/dd", "if=/dev/zero", "of=/dev/"+measuredGroup+"/"+volume, "bs=64k", "count=128", "oflag=direct")
	if got := of(writtenBytesFamily.Name) - bytes; got != 8<<20 {
		m.Errorf("volume %s: %v bytes more, want 8 MiB", volume, got)
	}
	if got := of(writesFamily.Name) - requests; got != 128 {
		m.Errorf("volume %s: %v writes more, want 128", volume, got)
	}
	before := of(readBytesFamily.Name)
	m.run("/usr/bin/dd", "if=/dev/"+measuredGroup+"/"+volume, "of=/dev/null", "bs=64k", "count=16", "iflag=direct")
	if got := of(readBytesFamily.Name) - before; got < 1<<20 {
		m.Errorf("volume %s: %v bytes read, want 1 MiB", volume, got)
	}
}

// waitForMoves waits until LVM has ended its moves.
func (m *measured) waitForMoves() {
	m.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		report, err := m.lvm.Report(m.Context())
		m.must(err)
		if len(report.VG(measuredGroup).Moves()) == 0 {
			return
		}
		if time.Now().After(deadline) {
			m.Fatal("the move has not ended")
		}
	}
}
