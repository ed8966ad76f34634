package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/ondisk"
)

// deviceLVM has a report of a healthy volume group, and a ReadGroup whose result a test sets.
type deviceLVM struct {
	*LVM
	runner   *runner
	vg       lvm.VG
	pool     string
	uuids    []string
	metadata string
	err      error
}

func newDeviceLVM(t *testing.T) *deviceLVM {
	t.Helper()
	r := reporting(t, "volumes")
	l := &deviceLVM{LVM: New(r), runner: r}
	report, err := l.Recent(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	l.vg, l.pool = poolOf(t, report)
	vg := l.vg
	for _, pv := range vg.PVs {
		l.uuids = append(l.uuids, pv.UUID)
	}
	l.metadata = metadataText(vg.Name, vg.UUID, l.uuids)
	l.SetHealthy(vg.Name, true)
	l.ReadGroupsWith(func(_ context.Context, devices []ondisk.Device) (ondisk.Group, error) {
		if len(devices) != len(vg.PVs) || devices[0].Path != vg.PVs[0].Name || !strings.Contains(devices[0].Number, ":") {
			t.Errorf("read %+v", devices)
		}
		return ondisk.Group{UUIDs: l.uuids, Metadata: []byte(l.metadata)}, l.err
	})
	return l
}

// metadataText is the metadata of a volume group as LVM has it on its devices.
func metadataText(name, uuid string, pvs []string, lines ...string) string {
	text := fmt.Sprintf("%s {\nid = %q\nseqno = 7\nformat = \"lvm2\"\nstatus = [\"RESIZEABLE\", \"READ\", \"WRITE\"]\n"+
		"physical_volumes {\n", name, uuid)
	for i, pv := range pvs {
		text += fmt.Sprintf("pv%d {\nid = %q\n%s\n}\n", i, pv, strings.Join(lines, "\n"))
	}
	return text + "}\n}\n"
}

// reportsOf returns the number of reports that a change reads.
func (l *deviceLVM) reportsOf(change func() error) (int, error) {
	before := l.runner.reports()
	err := change()
	return l.runner.reports() - before, err
}

func (l *deviceLVM) remove(ctx context.Context) func() error {
	return func() error { return l.Apply(ctx, lvm.LVRemove{VG: l.vg.Name, Names: []string{"nosuch"}}) }
}

// TestAChangeThatSeesItsDevicesReadsNoReport checks that the devices are named for LVM as after a report.
func TestAChangeThatSeesItsDevicesReadsNoReport(t *testing.T) {
	l := newDeviceLVM(t)
	volume := l.vg.ThinPool(l.pool).Volumes[0].Name
	for range 2 {
		n, err := l.reportsOf(func() error {
			return l.Apply(t.Context(), lvm.LVChangeTags{VG: l.vg.Name, Name: volume, Add: []string{"a"}})
		})
		last := l.runner.commands[len(l.runner.commands)-1]
		if err != nil || n != 0 || strings.Count(last, "--devices") != len(l.vg.PVs) {
			t.Errorf("%d reports, %v: %s", n, err, last)
		}
	}
	n, err := l.reportsOf(func() error {
		return l.Apply(t.Context(), lvm.LVRemove{VG: l.vg.Name, Names: []string{volume}})
	})
	if err != nil || n != 0 {
		t.Errorf("the removal: %d reports, %v", n, err)
	}
}

// TestAChangeReadsAReportIfInDoubt has reasons not to rely on the last report.
func TestAChangeReadsAReportIfInDoubt(t *testing.T) {
	for name, doubt := range map[string]func(*deviceLVM){
		"a device cannot be read":         func(l *deviceLVM) { l.err = errors.New("input/output error") },
		"a device is another one":         func(l *deviceLVM) { l.uuids[0] = "other" },
		"a device was added by hand":      func(l *deviceLVM) { l.metadata = l.text(append(slices.Clone(l.uuids), "new")) },
		"a device was removed by hand":    func(l *deviceLVM) { l.metadata = l.text(l.uuids[1:]) },
		"the devices are of another node": func(l *deviceLVM) { l.metadata = metadataText(l.vg.Name, "other", l.uuids) },
		"the volume group was renamed":    func(l *deviceLVM) { l.metadata = metadataText("other", l.vg.UUID, l.uuids) },
		"a device is marked as missing": func(l *deviceLVM) {
			l.metadata = metadataText(l.vg.Name, l.vg.UUID, l.uuids, `flags = ["MISSING"]`)
		},
		"the metadata is not metadata":                func(l *deviceLVM) { l.metadata = "\x00\x01" },
		"there is no metadata":                        func(l *deviceLVM) { l.metadata = "" },
		"the volume group is not known to be healthy": func(l *deviceLVM) { l.SetHealthy(l.vg.Name, false) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newDeviceLVM(t)
			doubt(l)
			for range 2 {
				if n, err := l.reportsOf(l.remove(t.Context())); n != 1 || err != nil {
					t.Errorf("%d reports, %v", n, err)
				}
			}
		})
	}
}

func (l *deviceLVM) text(pvs []string) string { return metadataText(l.vg.Name, l.vg.UUID, pvs) }

// TestChangesOfWholeGroupsReadAReport: they depend on other devices of the node too.
func TestChangesOfWholeGroupsReadAReport(t *testing.T) {
	l := newDeviceLVM(t)
	n, err := l.reportsOf(func() error {
		return l.Apply(t.Context(), lvm.VGExtend{Name: l.vg.Name, Devices: []string{"/dev/x"}})
	})
	if err != nil || n != 1 {
		t.Errorf("%d reports, %v", n, err)
	}
}
