package layers

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/ondisk"
)

// TestTheContentIsAPhysicalVolume reads it with the package that verifies checksums as LVM does.
func TestTheContentIsAPhysicalVolume(t *testing.T) {
	group := Group{Name: "guest", UUID: "vgvgvg-0000-0000-0000-0000-0000-000001",
		PV: "pvpvpv-0000-0000-0000-0000-0000-000001", Tags: []string{"lvms", "lvms.node=a"}, Volume: "root"}
	content := PhysicalVolume(group.PV, group.Metadata())
	device := bytes.NewReader(Partitioned(content)[PartitionOffset:])
	label, err := ondisk.ReadLabel(device)
	if err != nil || label.UUID != group.PV || len(label.Areas) != 1 {
		t.Fatalf("label %+v, %v", label, err)
	}
	location, ok, err := ondisk.ReadLocation(device, label.Areas[0])
	if err != nil || !ok {
		t.Fatalf("location %+v, %v, %v", location, ok, err)
	}
	text, err := ondisk.ReadText(device, location)
	if err != nil || string(text) != group.Metadata() {
		t.Fatalf("text %q, %v", text, err)
	}
	for _, part := range []string{`guest {`, `tags = ["lvms", "lvms.node=a"]`, `root {`, group.UUID, group.PV} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %q in %s", part, text)
		}
	}
}
