package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestAFailedActionComesAfterTheOthers(t *testing.T) {
	extend := state.Action{Kind: state.ExtendVG, Devices: []device.Device{disk("c")}}
	cordonB := state.Action{Kind: state.Cordon, PVs: []lvm.PV{{UUID: "b"}}}
	cordonC := state.Action{Kind: state.Cordon, PVs: []lvm.PV{{UUID: "c"}}}
	tag := state.Action{Kind: state.TagVG, Change: lvm.VGChangeTags{VG: "vg1", Add: []string{"lvms"}}}
	failed := func(actions ...state.Action) state.NodeState {
		s := state.NodeState{}
		for _, a := range actions {
			s.Failures = state.WithFailure(s.Failures, a, errors.New("failed "+a.Subject()))
		}
		return s
	}
	for name, tt := range map[string]struct {
		s    state.NodeState
		due  []state.Action
		want state.Action
	}{
		"nothing is due":                      {failed(extend), []state.Action{{}, {}}, state.Action{}},
		"nothing failed":                      {failed(), []state.Action{{}, extend, cordonB}, extend},
		"the first one failed":                {failed(extend), []state.Action{extend, cordonB}, cordonB},
		"the same change of another device":   {failed(cordonB), []state.Action{cordonB, cordonC}, cordonC},
		"all failed: the one before the last": {failed(cordonC, extend), []state.Action{extend, cordonC}, cordonC},
		"it is the only one":                  {failed(extend), []state.Action{{}, extend}, extend},
		"others need it":                      {failed(tag), []state.Action{tag, cordonB}, tag},
		"others need it, and one before":      {failed(extend, tag), []state.Action{extend, tag, cordonB}, tag},
	} {
		if got := state.NextOf(tt.s, tt.due); got.Kind != tt.want.Kind || got.Subject() != tt.want.Subject() {
			t.Errorf("%s: %s %s, want %s %s", name, got.Kind, got.Subject(), tt.want.Kind, tt.want.Subject())
		}
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	var list []state.Failure
	for i := range 3 * state.MaxFailures {
		list = state.WithFailure(list, state.Action{Kind: state.Refresh, Volume: fmt.Sprint(i)}, errRead)
	}
	if len(list) != state.MaxFailures || list[len(list)-1].Subject != fmt.Sprint(3*state.MaxFailures-1) {
		t.Errorf("%d failures are remembered, the last of %s", len(list), list[len(list)-1].Subject)
	}
	again := state.WithFailure(list, state.Action{Kind: state.Refresh, Volume: list[0].Subject}, errRead)
	if len(again) != state.MaxFailures || again[state.MaxFailures-1].Subject != list[0].Subject {
		t.Error("a change that failed again is not the latest failure")
	}
	if list = state.WithFailure(again, state.Action{Kind: state.Refresh, Volume: again[0].Subject},
		nil); len(list) != state.MaxFailures-1 {
		t.Error("a change that succeeded counts as failed")
	}
}

// TestARequestThatFailsDoesNotKeepADeviceFromItsVolumeGroup has two requests and a new device: each is tried.
func TestARequestThatFailsDoesNotKeepADeviceFromItsVolumeGroup(t *testing.T) {
	w := testWanted(v1alpha1.LVMVolumeGroupSpec{DeviceRequests: []v1alpha1.DeviceRequest{
		{Node: "n1", Device: "/dev/sdb", Action: v1alpha1.DeviceActionCordon},
		{Node: "n1", Device: "/dev/sdc", Action: v1alpha1.DeviceActionCordon}}})
	s := state.NodeState{Report: report(group("b", "c")), Devices: []device.Device{disk("b"), disk("c")}}
	s.Identities = device.Identities(s.Devices)
	var done []string
	for range 5 {
		p := New(w, s)
		done = append(done, string(p.Action.Kind)+" "+p.Action.Subject())
		if p.Action.Kind == state.PublishClass {
			class := p.Action.Class
			s.Class = &class
		}
		err := errors.New("failed: " + p.Action.Subject())
		if p.Action.Kind == state.PublishClass {
			err = nil
		}
		s.Failures = state.WithFailure(s.Failures, p.Action, err)
	}
	want := "CordonDevice pv-b, CordonDevice pv-c, PublishClass , CordonDevice pv-b, CordonDevice pv-c"
	if got := strings.Join(done, ", "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	p := New(w, s)
	if p.State != v1alpha1.VGStatusDegraded || len(p.Problems) != 1 || p.Problems[0].Message != "failed: pv-c; it is "+
		"tried again after other changes" {
		t.Errorf("the status does not have what failed and is not tried now: %s %+v", p.State, p.Problems)
	}
}
