package state

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

var errTest = errors.New("input/output error")

func TestAFailedActionComesAfterTheOthers(t *testing.T) {
	extend := Action{Kind: ExtendVG, Target: Devices{{Name: "/dev/sdc"}}}
	cordonB := Action{Kind: Cordon, Target: PVs{{UUID: "b"}}}
	cordonC := Action{Kind: Cordon, Target: PVs{{UUID: "c"}}}
	tag := Action{Kind: TagVG, Change: lvm.VGChangeTags{VG: "vg1", Add: []string{"lvms"}}}
	failed := func(actions ...Action) NodeState {
		s := NodeState{}
		for _, a := range actions {
			s.Records.Failures = WithFailure(s.Records.Failures, a, errors.New("failed "+a.Subject()))
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
		if got := NextOf(tt.s, tt.due); got.Kind != tt.want.Kind || got.Subject() != tt.want.Subject() {
			t.Errorf("%s: %s %s, want %s %s", name, got.Kind, got.Subject(), tt.want.Kind, tt.want.Subject())
		}
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	var list []Failure
	for i := range 3 * maxFailures {
		list = WithFailure(list, Action{Kind: Refresh, Target: Volume{Name: fmt.Sprint(i)}}, errTest)
	}
	if len(list) != maxFailures || list[len(list)-1].Subject != fmt.Sprint(3*maxFailures-1) {
		t.Errorf("%d failures are remembered, the last of %s", len(list), list[len(list)-1].Subject)
	}
	again := WithFailure(list, Action{Kind: Refresh, Target: Volume{Name: list[0].Subject}}, errTest)
	if len(again) != maxFailures || again[maxFailures-1].Subject != list[0].Subject {
		t.Error("a change that failed again is not the latest failure")
	}
	if list = WithFailure(again, Action{Kind: Refresh, Target: Volume{Name: again[0].Subject}},
		nil); len(list) != maxFailures-1 {
		t.Error("a change that succeeded counts as failed")
	}
}
