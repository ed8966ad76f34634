package volumegroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// overwrittenLabels makes a thick class of two disks with a volume, and overwrites the labels of disks.
func overwrittenLabels(t *testing.T, paths ...string) *bench {
	t.Helper()
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Default: true})
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: "a", Size: 1 << 20}))
	b.mapped("vg1", "a")
	b.agent.Wake()
	b.settle()
	for _, path := range paths {
		b.lvm.Overwrite(path)
	}
	b.agent.Wake()
	b.settle()
	return b
}

// mapped records that the kernel maps a volume to the first two disks.
func (b *bench) mapped(vg, name string) {
	b.Helper()
	report, err := b.lvm.Report(b.Context())
	b.ok(err)
	lv := report.VG(vg).LV(name)
	if b.devices.below == nil {
		b.devices.below = map[device.Number][]device.Number{}
	}
	b.devices.below[device.NewNumber(lv.Major, lv.Minor)] = []device.Number{b.devices.list[0].Number,
		b.devices.list[1].Number}
}

// TestTheLayerOfAnOriginIsNotADetachedDevice has a volume that is the origin of others: the kernel maps it to its layer
// ("-real"), which is on the disk.
func TestTheLayerOfAnOriginIsNotADetachedDevice(t *testing.T) {
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{})
	b.settle()
	b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: "a", Size: 4 << 20}))
	report, err := b.lvm.Report(t.Context())
	b.ok(err)
	vg := report.VG("vg1")
	lv := vg.LV("a")
	top, layer := device.NewNumber(lv.Major, lv.Minor), device.Number("253:99")
	b.devices.below = map[device.Number][]device.Number{top: {layer},
		layer: {b.devices.list[0].Number, b.devices.list[1].Number}}
	if stale := stale(b.agent.Devices, vg); len(lv.PVs) == 0 || len(stale) != 0 {
		t.Errorf("%v still use a detached device", stale)
	}
	b.devices.below[layer] = nil
	if stale := stale(b.agent.Devices, vg); len(stale) != 1 {
		t.Errorf("the layer is on no disk, and the volumes %v are stale", stale)
	}
}

func (b *bench) requestLabels() {
	b.Helper()
	b.requestRecovery("labels", nodeName, "vg1", time.Hour)
	r := b.recovery("labels")
	r.Spec.Action = v1alpha1.RecoveryRestoreLabels
	b.ok(b.client.Update(b.Context(), r))
	b.agent.Wake()
	b.settle()
}

func (b *bench) approveLabels() {
	b.Helper()
	r := b.wantPhase("labels", v1alpha1.RecoveryAwaitingApproval, "to approve this")
	r.Spec.ApprovedPlan = r.Status.Plan.ID
	b.ok(b.client.Update(b.Context(), r))
	b.agent.Wake()
}

func TestLabelsAreRestored(t *testing.T) {
	for name, test := range map[string]struct {
		overwritten []string
		source      string
	}{
		"of one disk":   {[]string{"/dev/sdc"}, "the other devices"},
		"of every disk": {[]string{"/dev/sdb", "/dev/sdc"}, "/etc/lvm/backup/vg1, change 2 of the volume group"},
	} {
		t.Run(name, func(t *testing.T) {
			b := overwrittenLabels(t, test.overwritten...)
			if text := fmt.Sprint(b.entry().Conditions); !strings.Contains(text, "action: RestoreLabels") {
				t.Errorf("the status does not name the action: %s", text)
			}
			b.requestLabels()
			r := b.wantPhase("labels", v1alpha1.RecoveryAwaitingApproval, "volumes that the metadata does not have: 0")
			p := r.Status.Plan
			if len(p.Devices) != len(test.overwritten) || !strings.HasPrefix(p.MetadataSource, test.source) ||
				p.LostVolumeCount != 0 {
				t.Fatalf("got the plan %+v", p)
			}
			r.Spec.ApprovedPlan = "wrong"
			b.ok(b.client.Update(t.Context(), r))
			b.agent.Wake()
			b.settle()
			if n := b.lvm.Calls()["LabelRestore"]; n != 0 {
				t.Fatalf("restored %d labels without an approval", n)
			}
			b.approveLabels()
			b.restart()
			b.settle()
			b.wantPhase("labels", v1alpha1.RecoverySucceeded, fmt.Sprintf("the labels of %d devices were restored",
				len(test.overwritten)))
			b.settle()
			if entry := b.entry(); entry.Status != v1alpha1.VGStatusReady {
				t.Errorf("got %+v", entry)
			}
			if n := b.lvm.Calls()["LabelRestore"]; n != len(test.overwritten) {
				t.Errorf("restored %d labels, want %d", n, len(test.overwritten))
			}
			if got := strings.Join(b.volumes(), " "); got != "a" {
				t.Errorf("got the volumes %s", got)
			}
		})
	}
}

// TestLabelsThatAreNotRestored: data of something else is not overwritten, and a failed read is never a blank device.
func TestLabelsThatAreNotRestored(t *testing.T) {
	ext4 := device.Signature{Type: "ext4"}
	for name, test := range map[string]struct {
		all  bool
		do   func(*bench)
		text string
	}{
		"a new file system": {do: func(b *bench) { b.devices.list[1].Signatures = []device.Signature{ext4} },
			text: "has the signature ext4 now"},
		"a partition table": {do: func(b *bench) { b.devices.list[1].PartitionTable = "gpt" }, text: "partition table"},
		"another disk in its place": {do: func(b *bench) { b.devices.list[1].Serial = "other" },
			text: "no device that is attached has lost its label"},
		"a failing disk": {do: func(b *bench) {
			b.health.failing = map[device.Number]error{b.devices.list[1].Number: errors.New("input/output error")}
		}, text: "is failing: input/output error"},
		"a backup that cannot be read": {all: true, do: func(b *bench) {
			b.lvm.Fail("ReadBackup", errors.New("input/output error"))
		}, text: "cannot be used: ReadBackup vg1: input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			disks := []string{"/dev/sdc"}
			if test.all {
				disks = []string{"/dev/sdb", "/dev/sdc"}
			}
			b := overwrittenLabels(t, disks...)
			test.do(b)
			b.requestLabels()
			b.wantPhase("labels", v1alpha1.RecoveryNotApplicable, test.text)
			if n := b.lvm.Calls()["LabelRestore"]; n != 0 {
				t.Errorf("restored %d labels", n)
			}
		})
	}
}

// TestLabelsAreCheckedAgain: what the plan depends on can change between the approval and the command.
func TestLabelsAreCheckedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*bench)
		text string
	}{
		"udev does not know the new file system": {func(b *bench) {
			b.devices.content = map[string][]device.Signature{"/dev/sdc": {{Type: "xfs"}}}
		}, "has the signature xfs now"},
		"the device cannot be read": {func(b *bench) {
			b.devices.found["/dev/sdc"] = []device.Reason{{Code: device.Unreadable, Message: "cannot be read at byte 0"}}
		}, "cannot be read at byte 0"},
		"the metadata cannot be copied": {func(b *bench) {
			b.lvm.Fail("MetadataDump", errors.New("input/output error"))
		}, "MetadataDump /dev/sdb: input/output error"},
		"the label cannot be written": {func(b *bench) {
			b.lvm.Fail("LabelRestore", errors.New("input/output error"))
		}, "LabelRestore /dev/sdc: input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			b := overwrittenLabels(t, "/dev/sdc")
			b.requestLabels()
			b.approveLabels()
			test.do(b)
			for range 3 {
				_, _ = b.reconcile()
			}
			b.wantPhase("labels", v1alpha1.RecoveryRunning, test.text)
			report, err := b.lvm.Report(t.Context())
			b.ok(err)
			if report.VG("vg1").MissingPVs != 1 {
				t.Error("the label was restored")
			}
			b.devices.content, b.devices.found = nil, map[string][]device.Reason{}
			b.lvm.Fail("MetadataDump", nil)
			b.lvm.Fail("LabelRestore", nil)
			b.agent.Wake()
			b.settle()
			b.wantPhase("labels", v1alpha1.RecoverySucceeded, "restored")
		})
	}
}

// TestMetadataOfAnotherGroupIsNotWritten: the copy of the metadata is checked before it is written.
func TestMetadataOfAnotherGroupIsNotWritten(t *testing.T) {
	b := overwrittenLabels(t, "/dev/sdc")
	b.requestLabels()
	b.approveLabels()
	b.agent.restores.LVM = wrongDump{b.agent.LVM, b}
	_, _ = b.reconcile()
	b.wantPhase("labels", v1alpha1.RecoveryRunning, "does not fit")
	if n := b.lvm.Calls()["LabelRestore"]; n != 0 {
		t.Errorf("restored %d labels", n)
	}
}

// wrongDump is LVM with metadata of another volume group on a device.
type wrongDump struct {
	LVM
	b *bench
}

func (w wrongDump) Apply(ctx context.Context, change lvm.Change) error {
	dump, is := change.(lvm.MetadataDump)
	if !is {
		return w.LVM.Apply(ctx, change)
	}
	if filepath.Dir(dump.File) != w.b.dir {
		return fmt.Errorf("the file is %s", dump.File)
	}
	return os.WriteFile(dump.File, []byte("vg1 {\nid = \"other\"\nseqno = 1\nphysical_volumes {\npv0 {\nid = \"x\"\n}\n}\n}\n"),
		0o600)
}

// TestALabelThatAKilledCommandLeftIsCompleted: LVM finds the physical volume, but it has no metadata.
func TestALabelThatAKilledCommandLeftIsCompleted(t *testing.T) {
	b := overwrittenLabels(t, "/dev/sdc")
	b.requestLabels()
	b.approveLabels()
	b.lvm.Attach("/dev/sdc")
	b.lvm.Tear("/dev/sdc")
	b.restart()
	b.settle()
	b.wantPhase("labels", v1alpha1.RecoverySucceeded, "restored")
	if calls := b.lvm.Calls(); calls["LabelRestore"] != 1 || calls["LabelCheck"] != 2 {
		t.Errorf("got the calls %v", calls)
	}
}

func TestALabelThatCannotBeCheckedIsNotRestored(t *testing.T) {
	b := overwrittenLabels(t, "/dev/sdc")
	b.requestLabels()
	b.approveLabels()
	b.lvm.Fail("LabelCheck", errors.New("input/output error"))
	for range 5 {
		_, _ = b.reconcile()
	}
	b.wantPhase("labels", v1alpha1.RecoveryRunning, "LabelCheck /dev/sdc: input/output error")
	if n := b.lvm.Calls()["LabelRestore"]; n != 1 {
		t.Errorf("restored %d times", n)
	}
}
