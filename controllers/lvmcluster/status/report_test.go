package status

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
)

func TestStateInOneWord(t *testing.T) {
	failed := Report{Failures: []string{"x"}}
	waiting := Report{Waits: []string{"x"}}
	for _, test := range []struct {
		report Report
		groups string
		want   lvmv1alpha1.LVMState
	}{
		{Report{}, lvmv1alpha1.ReasonVGsReady, lvmv1alpha1.LVMStatusReady},
		{Report{}, lvmv1alpha1.ReasonVGsUnmanaged, lvmv1alpha1.LVMStatusReady},
		{waiting, lvmv1alpha1.ReasonVGsReady, lvmv1alpha1.LVMStatusProgressing},
		{Report{}, lvmv1alpha1.ReasonVGReadinessInProgress, lvmv1alpha1.LVMStatusProgressing},
		{waiting, lvmv1alpha1.ReasonVGsDegraded, lvmv1alpha1.LVMStatusDegraded},
		{waiting, lvmv1alpha1.ReasonVGsFailed, lvmv1alpha1.LVMStatusFailed},
		{failed, lvmv1alpha1.ReasonVGsReady, lvmv1alpha1.LVMStatusFailed},
		{failed, "", lvmv1alpha1.LVMStatusFailed},
	} {
		test.report.volumeGroups = test.groups
		if got := test.report.summarize(); got != test.want {
			t.Errorf("%+v: %s, want %s", test.report, got, test.want)
		}
	}
}

// patience is an error that waits, as operand.WaitError.
type patience struct{ error }

func (patience) Waits() []string { return []string{"w1", "w2"} }

func TestJoinedErrorsAreSortedIntoFailuresAndWaits(t *testing.T) {
	var r Report
	r.Add("m", nil)
	r.Add("m", errors.Join(errors.New("broken"), nil, fmt.Errorf("operand: %w", patience{errors.New("later")}),
		errors.Join(&apply.RemainingError{Objects: []string{"DaemonSet x"}},
			fmt.Errorf("list: %w", errors.New("away")))))
	if diff := cmp.Diff([]string{"m: broken", "m: list: away"}, r.Failures); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"w1", "w2", "still being deleted: DaemonSet x"}, r.Waits); diff != "" {
		t.Error(diff)
	}
}

// manual is an error that waits for the administrator, as operand.WaitError.
type manual struct{ patience }

func (manual) ManualCleanup() string { return "delete it" }

func TestTheReportSaysWhatOnlyTheAdministratorCanDo(t *testing.T) {
	later := patience{errors.New("later")}
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"another wait":         {later, nil},
		"manual":               {manual{later}, []string{"delete it"}},
		"twice":                {errors.Join(manual{later}, manual{later}), []string{"delete it", "delete it"}},
		"manual and a failure": {errors.Join(manual{later}, errors.New("away")), []string{"delete it"}},
	} {
		t.Run(name, func(t *testing.T) {
			var r Report
			r.Add("volumes", c.err)
			r.Add("permissions", later)
			if !slices.Equal(r.ManualCleanup, c.want) {
				t.Errorf("%q, want %q", r.ManualCleanup, c.want)
			}
		})
	}
}

func TestReadyForWhoWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		state          lvmv1alpha1.LVMState
		failures       []string
		waits          []string
		groups         string // the message of VolumeGroupsReady; "" if the nodes were not observed
		ready, deleted bool
		want           string
	}{
		"ready": {state: lvmv1alpha1.LVMStatusReady, ready: true, groups: "fine",
			want: "True/Ready: all operands are running"},
		"degraded": {state: lvmv1alpha1.LVMStatusDegraded,
			groups: "device class vg1 on node a: a disk is gone",
			want:   "False/Degraded: device class vg1 on node a: a disk is gone"},
		"failed and not seen": {state: lvmv1alpha1.LVMStatusFailed,
			failures: []string{"observation: no answer"},
			want:     "False/Failed: observation: no answer"},
		"in progress": {state: lvmv1alpha1.LVMStatusProgressing,
			waits: []string{"DaemonSet vg-manager"}, ready: true, groups: "fine",
			want: "False/Progressing: DaemonSet vg-manager"},
		"both": {state: lvmv1alpha1.LVMStatusProgressing,
			waits: []string{"DaemonSet vg-manager"}, groups: "vg1",
			want: "False/Progressing: DaemonSet vg-manager; vg1"},
		"nothing known": {want: "False/Unknown: "},
		"being deleted": {state: lvmv1alpha1.LVMStatusProgressing, deleted: true,
			waits: []string{"1 PersistentVolume: pv"},
			want:  "False/DeletionPending: the LVMCluster is being deleted: 1 PersistentVolume: pv"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fixture.Cluster(fixture.Thin("vg1"))
			if tt.deleted {
				cluster.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			r := New(cluster)
			r.State = tt.state
			r.Failures = tt.failures
			r.Waits = tt.waits
			switch {
			case tt.ready:
				r.conditions.True(lvmv1alpha1.ConditionVolumeGroupsReady, "VGsReady", tt.groups)
			case tt.groups != "":
				r.conditions.False(lvmv1alpha1.ConditionVolumeGroupsReady, "VGsDegraded", tt.groups)
			}
			r.SetReady()
			got := meta.FindStatusCondition(r.Status(metav1.Now()).Conditions, lvmv1alpha1.ConditionReady)
			if text := fmt.Sprintf("%s/%s: %s", got.Status, got.Reason,
				got.Message); !strings.HasPrefix(text, tt.want) {
				t.Errorf("got %q, want %q", text, tt.want)
			}
		})
	}
}
