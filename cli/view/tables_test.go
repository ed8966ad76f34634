package view

import (
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/output"
)

func TestLabelsOfDevicesAreListed(t *testing.T) {
	reader := clitest.FakeReader(nil, clitest.LabeledNode("storage"))
	got := plugin.Run(t, reader, "devices", "--state", "InUse", "-o", "wide")
	if rows := clitest.Lines(got.Out); len(rows) != 2 || !strings.Contains(rows[0], "LABELS") ||
		!strings.Contains(rows[1], " rack=,tier=fast ") {
		t.Errorf("got %q", got.Out)
	}
	clitest.Prints(t, plugin.Run(t, reader, "devices", "--state", "InUse", "-o", "json"), 0, `"tier": "fast"`)
}

func TestTheCodesOfADevice(t *testing.T) {
	reasons := []v1alpha1.DeviceReason{{Code: "Mounted"}, {Code: "Mounted"}, {Code: "HasSignature"}}
	for want, d := range map[string]output.Device{
		"Mounted,HasSignature": {DeviceStatus: v1alpha1.DeviceStatus{State: v1alpha1.DeviceInUse, Reasons: reasons}},
		"": {DeviceClasses: []string{"vg1"},
			DeviceStatus: v1alpha1.DeviceStatus{State: v1alpha1.DeviceInUse, Reasons: reasons}},
	} {
		if got := codesOf(&d); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestVolumesOfAMove: the list tells what a move created from the volume of the claim.
func TestVolumesOfAMove(t *testing.T) {
	old, of := clitest.Volume("move-1-old", "worker-1", "thin", "shop/data"), clitest.Volume("pvc-1", "worker-1", "thin", "shop/data")
	old.Annotations[wellknown.MoveAnnotation] = "1"
	table := volumeTable(newVolumes([]topolvmv1.LogicalVolume{*old, *of}, volumeFilter{claim: "data"}))
	for i, want := range []string{"shop/data (move)", "shop/data"} {
		if got := table.Rows[i].Cells[0]; got != want {
			t.Errorf("row %d: got %q, want %q", i, got, want)
		}
	}
}
