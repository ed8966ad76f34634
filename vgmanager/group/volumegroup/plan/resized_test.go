package plan

import (
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// TestDevicesThatChangedTheirSize has a virtual disk that is larger or smaller than its physical volume of 10 GiB.
func TestDevicesThatChangedTheirSize(t *testing.T) {
	for name, tt := range map[string]struct {
		size       int64
		want, note string
		says       []string
	}{
		"as it was":                        {10<<30 + 1<<20, "Progressing PublishClass", "", nil},
		"an extent larger":                 {10<<30 + 5<<20, "Progressing PublishClass", "", nil},
		"larger":                           {20 << 30, "Progressing PublishClass", "has 10Gi more than its physical volume: to use it, set deviceResizePolicy: Automatic in the device class, or run on the node: pvresize /dev/sdc", nil},
		"smaller":                          {8 << 30, "Degraded PublishClass", "", []string{"/dev/sdc", "has 8Gi, and its physical volume 10Gi", "as large as it was"}},
		"smaller, with another device due": {8 << 30, "Degraded PublishClass", "", []string{"as large as it was"}},
	} {
		s := state.NodeState{Report: report(group("b", "c")), Devices: []device.Device{disk("b"), disk("c")}}
		s.Devices[1].Size = tt.size
		if strings.Contains(name, "due") {
			s.Devices, s.Disks.Paths = append(s.Devices, disk("d")), paths("d")
		}
		s.Disks.Identities = device.Identities(s.Devices)
		p := New(testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector}), s)
		checkPlan(t, name, p, tt.want, tt.says)
		if got := p.Notes["pv-c"].Message; got != "" && tt.note == "" || !strings.Contains(got, tt.note) {
			t.Errorf("%s: the note is %q, want %q", name, got, tt.note)
		}
		if len(tt.says) > 0 && p.Problems[0].Reason != v1alpha1.ReasonDeviceShrunk {
			t.Errorf("%s: got %+v", name, p.Problems)
		}
	}
}

// TestDevicesAreResizedIfTheClassSaysSo: LVM resizes each device once, and none while devices are missing or the
// metadata is in doubt.
func TestDevicesAreResizedIfTheClassSaysSo(t *testing.T) {
	for name, tt := range map[string]struct {
		policy v1alpha1.DeviceResizePolicy
		change func(*state.NodeState)
		want   state.Kind
	}{
		"manual":       {v1alpha1.DeviceResizeManual, func(*state.NodeState) {}, state.PublishClass},
		"automatic":    {v1alpha1.DeviceResizeAutomatic, func(*state.NodeState) {}, state.ResizePV},
		"called twice": {v1alpha1.DeviceResizeAutomatic, func(s *state.NodeState) { s.Devices[1].Size = 10 << 30 }, state.PublishClass},
		"smaller":      {v1alpha1.DeviceResizeAutomatic, func(s *state.NodeState) { s.Devices[1].Size = 8 << 30 }, state.PublishClass},
		"in doubt":     {v1alpha1.DeviceResizeAutomatic, func(s *state.NodeState) { s.Metadata.Seen.Err = errArchive }, state.PublishClass},
		"not listed":   {v1alpha1.DeviceResizeAutomatic, func(s *state.NodeState) { s.Devices = s.Devices[:1] }, state.PublishClass},
		"one is missing": {v1alpha1.DeviceResizeAutomatic, func(s *state.NodeState) {
			s.Report.VGs[0].PVs[0].Missing, s.Report.VGs[0].MissingPVs = true, 1
		}, state.PublishClass},
	} {
		s := state.NodeState{Report: report(group("b", "c")), Devices: []device.Device{disk("b"), disk("c")}}
		s.Devices[1].Size = 20 << 30
		tt.change(&s)
		s.Disks.Identities = device.Identities(s.Devices)
		p := New(testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceSelector: selector, DeviceResizePolicy: tt.policy}), s)
		if p.Action.Kind != tt.want || tt.want == state.ResizePV && p.Action.PVs()[0].Name != "/dev/sdc" {
			t.Errorf("%s: got %+v", name, p.Action)
		}
	}
}
