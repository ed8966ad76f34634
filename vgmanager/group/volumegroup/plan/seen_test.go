package plan

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// TestSeenChanges compares the present change of a volume group with the highest one that was seen.
func TestSeenChanges(t *testing.T) {
	for name, test := range map[string]struct {
		present uint64
		seen    state.Seen
		doubt   string
	}{
		"the same":                {7, state.Seen{Seqno: 7}, ""},
		"a later one":             {8, state.Seen{Seqno: 7}, ""},
		"nothing was seen":        {7, state.Seen{}, ""},
		"LVM does not report it":  {0, state.Seen{Seqno: 7}, ""},
		"an earlier one":          {7, state.Seen{Seqno: 40}, "it is change 7 of the volume group, and change 40 was seen"},
		"the record is not known": {7, state.Seen{Err: errors.New("input/output error")}, "is not known: input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDesired(v1alpha1.LVMVolumeGroupSpec{})
			s := state.NodeState{Report: report(edit(group("b"), func(vg *lvm.VG) { vg.Seqno = test.present })), Metadata: state.Metadata{Seen: test.seen}}
			p := New(d, s)
			if p.Action.Kind != state.PublishClass || (classOf(p.Action).Closed != "") != (test.doubt != "") ||
				!strings.Contains(classOf(p.Action).Closed, test.doubt) {
				t.Fatalf("got %+v", p.Action)
			}
			want := metav1.ConditionTrue
			switch {
			case test.seen.Err != nil:
				want = metav1.ConditionUnknown
			case test.doubt != "":
				want = metav1.ConditionFalse
			}
			for _, c := range newConditions(d, p, nil, metav1.Time{}) {
				if c.Type == v1alpha1.ConditionVolumesHealthy && c.Status != want {
					t.Errorf("VolumesHealthy is %s, want %s", c.Status, want)
				}
			}
			accept, why := doubt.NewAcceptPlan(d, s, metav1.Time{})
			if (accept != nil) != (test.doubt != "") {
				t.Fatalf("got the plan %+v: %s", accept, why)
			}
			if accept == nil {
				return
			}
			d.Open.Approved = state.NewRecovery("r", v1alpha1.RecoveryAcceptMetadata, accept)
			s.Class = classOf(p.Action)
			if a := New(d, s).Action; a.Kind != state.AcceptMetadata {
				t.Errorf("approved: got %+v", a)
			}
			s.Report.VGs[0].Seqno++
			if a := New(d, s).Action; a.Kind == state.AcceptMetadata {
				t.Error("another change than the approved one is accepted")
			}
		})
	}
}
