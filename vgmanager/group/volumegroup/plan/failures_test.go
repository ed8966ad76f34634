package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestAFailedActionComesAfterTheOthers(t *testing.T) {
	extend := Action{Kind: ExtendVG, Devices: []device.Device{disk("c")}}
	cordonB := Action{Kind: Cordon, PVs: []lvm.PV{{UUID: "b"}}}
	cordonC := Action{Kind: Cordon, PVs: []lvm.PV{{UUID: "c"}}}
	tag := Action{Kind: TagVG, AddTags: []string{"lvms"}}
	failed := func(actions ...Action) NodeState {
		s := NodeState{}
		for _, a := range actions {
			s.Failures = WithFailure(s.Failures, a, errors.New("failed "+a.Subject()))
		}
		return s
	}
	for name, tt := range map[string]struct {
		s    NodeState
		due  []Action
		want Action
	}{
		"nothing is due":                      {failed(extend), []Action{{}, {}}, Action{}},
		"nothing failed":                      {failed(), []Action{{}, extend, cordonB}, extend},
		"the first one failed":                {failed(extend), []Action{extend, cordonB}, cordonB},
		"the same change of another device":   {failed(cordonB), []Action{cordonB, cordonC}, cordonC},
		"all failed: the one before the last": {failed(cordonC, extend), []Action{extend, cordonC}, cordonC},
		"it is the only one":                  {failed(extend), []Action{{}, extend}, extend},
		"others need it":                      {failed(tag), []Action{tag, cordonB}, tag},
		"others need it, and one before":      {failed(extend, tag), []Action{extend, tag, cordonB}, tag},
	} {
		if got := nextOf(tt.s, tt.due); got.Kind != tt.want.Kind || got.Subject() != tt.want.Subject() {
			t.Errorf("%s: %s %s, want %s %s", name, got.Kind, got.Subject(), tt.want.Kind, tt.want.Subject())
		}
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	var list []Failure
	for i := range 3 * maxFailures {
		list = WithFailure(list, Action{Kind: Refresh, Volume: fmt.Sprint(i)}, errRead)
	}
	if len(list) != maxFailures || list[len(list)-1].Subject != fmt.Sprint(3*maxFailures-1) {
		t.Errorf("%d failures are remembered, the last of %s", len(list), list[len(list)-1].Subject)
	}
	again := WithFailure(list, Action{Kind: Refresh, Volume: list[0].Subject}, errRead)
	if len(again) != maxFailures || again[maxFailures-1].Subject != list[0].Subject {
		t.Error("a change that failed again is not the latest failure")
	}
	if list = WithFailure(again, Action{Kind: Refresh, Volume: again[0].Subject}, nil); len(list) != maxFailures-1 {
		t.Error("a change that succeeded counts as failed")
	}
}

// TestARequestThatFailsDoesNotKeepADeviceFromItsVolumeGroup has two requests and a new device: each is tried.
func TestARequestThatFailsDoesNotKeepADeviceFromItsVolumeGroup(t *testing.T) {
	w := testWanted(v1alpha1.LVMVolumeGroupSpec{DeviceRequests: []v1alpha1.DeviceRequest{
		{Node: "n1", Device: "/dev/sdb", Action: v1alpha1.DeviceActionCordon},
		{Node: "n1", Device: "/dev/sdc", Action: v1alpha1.DeviceActionCordon}}})
	s := NodeState{Report: report(group("b", "c")), Devices: []device.Device{disk("b"), disk("c")}}
	s.Identities = device.Identities(s.Devices)
	var done []string
	for range 5 {
		p := New(w, s)
		done = append(done, string(p.Action.Kind)+" "+p.Action.Subject())
		if p.Action.Kind == PublishClass {
			class := p.Action.Class
			s.Class = &class
		}
		err := errors.New("failed: " + p.Action.Subject())
		if p.Action.Kind == PublishClass {
			err = nil
		}
		s.Failures = WithFailure(s.Failures, p.Action, err)
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
