package verdict

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/reference"
)

// TestActionOfAMissingDevice has the ends of the messages of vgmanager/group/volumegroup/plan/health/health.go.
func TestActionOfAMissingDevice(t *testing.T) {
	const forget = "create an LVMRecovery {nodeName: n, deviceClassName: vg1, action: RemoveLostDevices}, which lists"
	for message, want := range map[string]string{
		"": "run `kubectl lvms forget`",
		"attach the disk again; if the disk is lost, so is data of volumes: " + forget: "run `kubectl lvms forget`",
		"create an LVMRecovery {nodeName: n, deviceClassName: vg1, action: RestoreLabels}, which changes nothing; if " +
			"the data was overwritten, too, " + forget: "Do not restart the node. Run `kubectl lvms restore-labels`",
		"create an LVMRecovery {nodeName: n, deviceClassName: vg1, action: RestoreMetadata}, which changes nothing; " +
			"if its data is not needed, " + forget: "Run `kubectl lvms restore-metadata`",
		"LVM does not list it: run on the node: lvmdevices --adddev /dev/sdb": "lvmdevices --adddev",
		"no volume is affected: add to the deviceRequests of the device class: {node: n, device: u, action: " +
			"Remove}": "run `kubectl lvms remove`",
	} {
		got := actionOf("DeviceMissing", message)
		if !strings.Contains(got, want) || want != "run `kubectl lvms forget`" && strings.Contains(got, "forget") {
			t.Errorf("%s: got %q", message, got)
		}
	}
}

func TestEachDocumentedActionIsInTheTable(t *testing.T) {
	source, err := reference.Parse("../..", "api")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, d := range source.Declarations() {
		if !strings.Contains(d.Doc, "What to do:") || strings.HasPrefix(d.Name, "Condition") {
			continue
		}
		checked++
		if _, ok := meanings[d.Value]; !ok {
			t.Errorf("meanings does not have %s", d.Name)
		}
	}
	if checked < 30 {
		t.Errorf("only %d reasons were found", checked)
	}
}
