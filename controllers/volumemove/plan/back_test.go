package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
)

// TestWhatIsNotMovedBack: each state differs from the first one by why the switch is blocked. The plan says why, and
// removes nothing.
func TestWhatIsNotMovedBack(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*State)
		want   Action
		says   string
	}{
		"can be moved back":    {func(*State) {}, SwitchBack, ""},
		"not kept yet":         {func(s *State) { s.Old.Annotations = nil }, KeepOld, ""},
		"not requested":        {func(s *State) { s.Move.Annotations = nil }, KeepOld, "no longer requested"},
		"ready":                {func(s *State) { s.To.NotReady = false }, KeepOld, "node b is ready"},
		"not known to be off":  {func(s *State) { s.To.IsOutOfService = false }, KeepOld, "it is not known that node b is off"},
		"deleted":              {func(s *State) { s.To = fence.Nodes{}.Get("b") }, SwitchBack, ""},
		"the source is lost":   {func(s *State) { s.From = lostNode("a") }, KeepOld, "node a is not ready"},
		"a Pod":                {func(s *State) { s.Pods = []string{"n/p"} }, KeepOld, "n/p"},
		"moved again":          {func(s *State) { s.Volume.Spec.NodeName = "c" }, KeepOld, "was moved to node c"},
		"the volume is gone":   {func(s *State) { s.Volume = nil }, SwapNodes, "was deleted"},
		"gone, and b returned": {func(s *State) { s.Volume, s.To.NotReady = nil, false }, KeepOld, "node b is ready"},
		"it is deleted":        {func(s *State) { s.Volume.DeletionTimestamp = &metav1.Time{Time: now} }, KeepOld, "or is being deleted"},
		"no PersistentVolume":  {func(s *State) { s.PV = nil }, KeepOld, "PersistentVolume pv does not exist"},
		"fenced":               {func(s *State) { s.Volume.Annotations[wellknown.FenceAnnotation] = "x" }, KeepOld, "is fenced for"},
		"a snapshot":           {func(s *State) { s.Snapshots = copied(2).Snapshots }, KeepOld, "snapshots"},
		"not given up yet":     {func(s *State) { s.Old.Status.VolumeID = "" }, KeepOld, "is being given up"},
		"the owner is deleted": {func(s *State) { s.Old.DeletionTimestamp = &metav1.Time{Time: now} }, KeepOld, "is removed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := kept()
			s.From, s.To = fence.Node{Name: "a"}, lostNode("b")
			s.To.IsOutOfService = true
			s.Move.Annotations = map[string]string{wellknown.MoveBackAnnotation: "b"}
			s.Old.Annotations = map[string]string{wellknown.MoveBackAnnotation: "b"}
			test.change(s)
			got := Next(s, now.Add(48*time.Hour), time.Time{})
			if got.Action != test.want || !strings.Contains(got.Message, test.says) {
				t.Errorf("got the action %d with %q, want %d with %q", got.Action, got.Message, test.want, test.says)
			}
		})
	}
}
