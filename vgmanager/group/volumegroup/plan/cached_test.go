package plan

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// withCache adds a volume "a" with a cache of a type: its data is on /dev/sdb, its cache on /dev/sdc.
func withCache(vg lvm.VG, kind string) lvm.VG {
	vg.LVs = append(vg.LVs, lvm.LV{Name: "a", UUID: "a", Attr: "Cwi-a-C---", SegType: kind, Size: gib})
	vg.Hidden = append(vg.Hidden,
		lvm.LV{Name: "fast_cvol", UUID: "f", Attr: "Cwi-aoC---", SegType: "linear", Parent: "a", PVs: []string{"pv-c"}},
		lvm.LV{Name: "a_orig", UUID: "o", Attr: "owi-aoC---", SegType: "linear", Parent: "a", PVs: []string{"pv-b"}})
	for i := range vg.PVs[:2] {
		vg.PVs[i].Used = gib
		vg.PVs[i].Free -= gib
	}
	return vg
}

// TestDrainWithACache: LVM moves everything but a writecache.
func TestDrainWithACache(t *testing.T) {
	for name, tt := range map[string]struct {
		kind, device, want, says string
	}{
		"cache":                       {"cache", "c", "Progressing MoveExtents /dev/sdc", ""},
		"data with a cache":           {"cache", "b", "Progressing MoveExtents /dev/sdb", ""},
		"writecache":                  {"writecache", "c", "Degraded", "lvconvert --splitcache vg1/a"},
		"data with a writecache":      {"writecache", "b", "Progressing MoveExtents /dev/sdb", ""},
		"a device with neither":       {"writecache", "d", "Ready", ""},
		"a device with neither, note": {"writecache", "", "Ready", ""},
	} {
		vg := withCache(group("b", "c", "d"), tt.kind)
		for i := range vg.PVs {
			if vg.PVs[i].UUID == "pv-"+tt.device {
				vg.PVs[i].Allocatable, vg.PVs[i].Tags = false, []string{cordonTag}
			}
		}
		spec := v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector}
		if tt.device != "" {
			spec.DeviceRequests = []v1alpha1.DeviceRequest{{Node: "n1", Device: "pv-" + tt.device,
				Action: v1alpha1.DeviceActionDrain}}
		}
		d := testDesired(spec)
		class := publication.ClassOf(d, nil, vg.UUID)
		s := state.NodeState{Report: report(vg), Devices: []device.Device{disk("b"), disk("c"), disk("d")}, Class: &class}
		s.Disks.Identities = device.Identities(s.Devices)
		p := New(d, s)
		var says []string
		if tt.says != "" {
			says = []string{tt.says}
		}
		checkPlan(t, name, p, tt.want, says)
		if tt.says != "" && !strings.Contains(p.Notes["pv-"+tt.device].Message, tt.says) {
			t.Errorf("%s: got %+v", name, p.Notes)
		}
		if tt.device == "" && !strings.Contains(p.Note, "have a cache that was attached on the node: a") {
			t.Errorf("%s: the note is %q", name, p.Note)
		}
	}
}
