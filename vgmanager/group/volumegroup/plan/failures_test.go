package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// TestARequestThatFailsDoesNotKeepADeviceFromItsVolumeGroup has two requests and a new device: each is tried.
func TestARequestThatFailsDoesNotKeepADeviceFromItsVolumeGroup(t *testing.T) {
	d := testDesired(v1alpha1.LVMVolumeGroupSpec{DeviceRequests: []v1alpha1.DeviceRequest{
		{Node: "n1", Device: "/dev/sdb", Action: v1alpha1.DeviceActionCordon},
		{Node: "n1", Device: "/dev/sdc", Action: v1alpha1.DeviceActionCordon}}})
	s := state.NodeState{Report: report(group("b", "c")), Devices: []device.Device{disk("b"), disk("c")}}
	s.Disks.Identities = device.Identities(s.Devices)
	var done []string
	for range 5 {
		p := New(d, s)
		done = append(done, string(p.Action.Kind)+" "+p.Action.Subject())
		if p.Action.Kind == state.PublishClass {
			s.Class = classOf(p.Action)
		}
		err := errors.New("failed: " + p.Action.Subject())
		if p.Action.Kind == state.PublishClass {
			err = nil
		}
		s.Records.Failures = state.WithFailure(s.Records.Failures, p.Action, err)
	}
	want := "CordonDevice pv-b, CordonDevice pv-c, PublishClass , CordonDevice pv-b, CordonDevice pv-c"
	if got := strings.Join(done, ", "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	p := New(d, s)
	if p.State != v1alpha1.VGStatusDegraded || len(p.Problems) != 1 || p.Problems[0].Message != "failed: pv-c; it is "+
		"tried again after other changes" {
		t.Errorf("the status does not have what failed and is not tried now: %s %+v", p.State, p.Problems)
	}
}
