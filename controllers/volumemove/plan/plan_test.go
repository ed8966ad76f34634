package plan

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const fenceToken = "2026-01-02T03:04:05Z/7"

// copied returns a state whose copy of the given round is complete, and which no Pod uses.
func copied(round int) *State {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now), Annotations: map[string]string{}}
	}
	size := resource.MustParse("1Gi")
	s := &State{Move: &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"},
		Spec: v1alpha1.VolumeMoveSpec{Claim: v1alpha1.VolumeMoveClaim{Namespace: "n", Name: "data"}},
		Status: v1alpha1.VolumeMoveStatus{Phase: v1alpha1.MoveCopying, SourceNode: "a", TargetNode: "b",
			PersistentVolume: "pv"}}}
	s.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	s.PV = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{UID: "c"}, NodeAffinity: relocate.Affinity("a"),
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: "lv"}}}}
	s.Volume = &topolvmv1.LogicalVolume{ObjectMeta: meta("pv"), Spec: topolvmv1.LogicalVolumeSpec{NodeName: "a", Size: size}}
	s.Volume.Status.VolumeID = "lv"
	s.Target = &topolvmv1.LogicalVolume{ObjectMeta: meta("move-u"), Spec: topolvmv1.LogicalVolumeSpec{NodeName: "b",
		Size: size, Source: SnapshotName(s.Move, round)}}
	s.Target.Annotations[wellknown.MoveVolumeAnnotation] = "lv"
	s.take(round, "")
	s.done(1, 4096)
	return s
}

// take adds a snapshot that the node has created.
func (s *State) take(round int, token string) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: SnapshotName(s.Move, round),
		CreationTimestamp: metav1.NewTime(now), Annotations: map[string]string{wellknown.FenceTimeAnnotation: token}},
		Spec: topolvmv1.LogicalVolumeSpec{NodeName: "a"}}
	lv.Status.VolumeID = lv.Name
	s.Snapshots = append(s.Snapshots, lv)
	return lv
}

// done sets the record of a finished round.
func (s *State) done(seconds float64, sent uint64) {
	text, _ := json.Marshal(view.CopyRecord{Source: s.Target.Spec.Source, Finished: true, Seconds: seconds,
		SentBytes: sent, SizeBytes: 1 << 30, Base: "base"})
	s.Target.Annotations[wellknown.CopiedAnnotation] = string(text)
}

func (s *State) close(confirmed bool) {
	s.Volume.Annotations[wellknown.FenceAnnotation] = "u"
	s.Volume.Annotations[wellknown.FenceTimeAnnotation] = fenceToken
	if confirmed {
		s.Volume.Annotations[wellknown.FencedAnnotation] = "u"
	}
}

// lostNode returns a node that is not ready for so long that it is lost.
func lostNode(name string) fence.Node {
	return fence.Node{Name: name, NotReady: true, Lost: true, Since: now.Add(-fence.LostAfter)}
}

// TestTheSwitchNeedsEveryCondition: the state of the first case is switched, and each other one lacks something.
func TestTheSwitchNeedsEveryCondition(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*State)
		want   Action
	}{
		"complete":                   {func(*State) {}, SwitchVolume},
		"a Pod uses it":              {func(s *State) { s.Pods = []string{"n/p"} }, Unfence},
		"not confirmed":              {func(s *State) { delete(s.Volume.Annotations, wellknown.FencedAnnotation) }, Wait},
		"confirmed for another move": {func(s *State) { s.Volume.Annotations[wellknown.FencedAnnotation] = "x" }, Wait},
		"not fenced":                 {func(s *State) { s.Volume.Annotations = map[string]string{} }, CloseVolume},
		"target not ready":           {func(s *State) { s.To = lostNode("b") }, Wait},
		"target not ready, not fenced": {func(s *State) {
			s.To = lostNode("b")
			s.Volume.Annotations = map[string]string{}
		}, Wait},
		"source not ready, not fenced": {func(s *State) {
			s.From = fence.Node{Name: "a", NotReady: true, Since: now}
			s.Volume.Annotations = map[string]string{}
		}, Wait},
		"target not ready, a Pod uses it": {func(s *State) {
			s.To = lostNode("b")
			s.Pods = []string{"n/p"}
		}, Unfence},
		"fenced for another move": {func(s *State) { s.Volume.Annotations[wellknown.FenceAnnotation] = "x" }, Wait},
		"fenced for a clone":      {func(s *State) { s.Volume.Annotations[wellknown.FenceAnnotation] = "clone-x" }, Wait},
		"fenced for a clone, not confirmed": {func(s *State) {
			s.Volume.Annotations = map[string]string{wellknown.FenceAnnotation: "clone-x"}
		}, Wait},
		"snapshot before the fence":    {func(s *State) { s.Snapshots[0].Annotations = nil }, CreateSnapshot},
		"snapshot of an earlier fence": {func(s *State) { s.Volume.Annotations[wellknown.FenceTimeAnnotation] = "x" }, CreateSnapshot},
		"no time": {func(s *State) {
			s.Snapshots[0].Annotations = nil
			delete(s.Volume.Annotations, wellknown.FenceTimeAnnotation)
		}, CreateSnapshot},
		"round of another snapshot": {func(s *State) {
			s.Target.Spec.Source = SnapshotName(s.Move, 3)
			s.take(3, fenceToken)
		}, Wait},
		"not copied":     {func(s *State) { delete(s.Target.Annotations, wellknown.CopiedAnnotation) }, Wait},
		"bad record":     {func(s *State) { s.Target.Annotations[wellknown.CopiedAnnotation] = "{" }, Wait},
		"target deleted": {func(s *State) { s.Target.DeletionTimestamp = &metav1.Time{Time: now} }, Unfence},
		"volume deleted": {func(s *State) { s.Volume.DeletionTimestamp = &metav1.Time{Time: now} }, Unfence},
		"pv deleted":     {func(s *State) { s.PV.DeletionTimestamp = &metav1.Time{Time: now} }, Unfence},
		"no pv":          {func(s *State) { s.PV = nil }, Unfence},
		"no claim":       {func(s *State) { s.Claim = nil }, Unfence},
		"another claim":  {func(s *State) { s.Claim.UID = "other" }, Unfence},
		"pv elsewhere":   {func(s *State) { s.PV.Spec.NodeAffinity = relocate.Affinity("c") }, Unfence},
		"another handle": {func(s *State) { s.PV.Spec.CSI.VolumeHandle = "other" }, Unfence},
		"another target": {func(s *State) { s.Target.Annotations[wellknown.MoveVolumeAnnotation] = "other" }, Unfence},
		"larger":         {func(s *State) { s.Volume.Spec.Size = resource.MustParse("2Gi") }, ResizeTarget},
		"larger than the copy": {func(s *State) {
			s.Volume.Spec.Size = resource.MustParse("2Gi")
			s.Target.Spec.Size = resource.MustParse("2Gi")
		}, Unfence},
		"older agent":    {func(s *State) { s.Target.Status.VolumeID = "x" }, Unfence},
		"refused target": {func(s *State) { s.Target.Status.Code = codes.InvalidArgument }, Unfence},
		"no room":        {func(s *State) { s.Target.Status.Code = codes.ResourceExhausted }, Unfence},
		"undone":         {func(s *State) { s.Move.DeletionTimestamp = &metav1.Time{Time: now} }, Unfence},
		"failed":         {func(s *State) { s.Move.Status.Phase = v1alpha1.MoveFailed }, Unfence},
	} {
		t.Run(name, func(t *testing.T) {
			s := copied(2)
			s.close(true)
			s.Snapshots[0].Annotations[wellknown.FenceTimeAnnotation] = fenceToken
			test.change(s)
			if got := Next(s, now, time.Time{}); got.Action != test.want {
				t.Errorf("got the action %d with %q, want %d", got.Action, got.Message, test.want)
			}
		})
	}
}

// TestWhatFollowsARound: without a fence.
func TestWhatFollowsARound(t *testing.T) {
	refused := func(s *State) {
		next := s.take(3, "")
		next.Status.VolumeID = ""
		next.Status.Code = codes.ResourceExhausted
	}
	for name, test := range map[string]struct {
		change func(*State)
		want   Action
		phase  v1alpha1.VolumeMovePhase
	}{
		"few changes":      {func(*State) {}, CloseVolume, v1alpha1.MoveSwitching},
		"many changes":     {func(s *State) { s.done(31, 1) }, CreateSnapshot, v1alpha1.MoveCopying},
		"slow, no changes": {func(s *State) { s.done(31, 0) }, CloseVolume, v1alpha1.MoveSwitching},
		"still closed":     {func(s *State) { s.Volume.Annotations[wellknown.FencedAnnotation] = "x" }, Wait, v1alpha1.MoveCopying},
		"being expanded": {func(s *State) {
			size := resource.MustParse("512Mi")
			s.Volume.Status.CurrentSize = &size
		}, Wait, v1alpha1.MoveCopying},
		"earlier snapshot": {func(s *State) {
			s.Snapshots = nil
			s.take(1, "")
			s.take(2, "")
		}, Remove, v1alpha1.MoveCopying},
		"next snapshot":           {func(s *State) { s.take(3, "") }, CopyRound, v1alpha1.MoveCopying},
		"next snapshot, pending":  {func(s *State) { s.take(3, "").Status.VolumeID = "" }, Wait, v1alpha1.MoveCopying},
		"next snapshot, refused":  {refused, Wait, v1alpha1.MoveCopying},
		"the snapshot is missing": {func(s *State) { s.Snapshots = nil }, Remove, v1alpha1.MoveFailed},
		"a Pod, fresh copy":       {func(s *State) { s.Pods = []string{"n/p"} }, Wait, v1alpha1.MoveWaitingForPods},
		"a Pod, old copy": {func(s *State) {
			s.Pods = []string{"n/p"}
			s.Snapshots[0].CreationTimestamp = metav1.NewTime(now.Add(-RefreshMax))
		}, CreateSnapshot, v1alpha1.MoveWaitingForPods},
		"a Pod, many changes": {func(s *State) {
			s.Pods = []string{"n/p"}
			s.done(31, 1)
		}, CreateSnapshot, v1alpha1.MoveCopying},
		"a Pod, slow clock": {func(s *State) {
			s.Pods = []string{"n/p"}
			s.done(31, 1)
			s.Snapshots[0].CreationTimestamp = metav1.NewTime(now.Add(time.Hour))
		}, CreateSnapshot, v1alpha1.MoveCopying},
	} {
		t.Run(name, func(t *testing.T) {
			s := copied(2)
			test.change(s)
			if got := Next(s, now, time.Time{}); got.Action != test.want || got.Phase != test.phase {
				t.Errorf("got the action %d in phase %s with %q, want %d in %s", got.Action, got.Phase, got.Message, test.want,
					test.phase)
			}
		})
	}
	later := copied(2)
	refused(later)
	got := Next(later, now.Add(refusedDelay), time.Time{})
	if got.Action != Remove || got.Object != later.Snapshots[1] {
		t.Errorf("a refused snapshot is not created again: %+v", got)
	}
	if got := Next(copied(2), now, now.Add(time.Second)); got.Action != Wait {
		t.Errorf("the volume is fenced before its time: %+v", got)
	}
	many := copied(eagerRounds)
	many.Pods = []string{"n/p"}
	many.done(31, 1)
	if got := Next(many, now, time.Time{}); got.Action != Wait || got.Phase != v1alpha1.MoveWaitingForPods {
		t.Errorf("rounds that do not become shorter follow each other for ever: %+v", got)
	}
}

// switched returns a state after the switch, before the node agents have acted.
func switched() *State {
	s := copied(2)
	s.Volume.Spec.NodeName = "b"
	s.Volume.Annotations[wellknown.AdoptAnnotation] = "t"
	s.Volume.Annotations[wellknown.MovedVolumeAnnotation] = "{}"
	return s
}

func (s *State) giveUp(volumeID string) {
	s.Old = &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "moved-u",
		CreationTimestamp: metav1.NewTime(now)}, Spec: topolvmv1.LogicalVolumeSpec{NodeName: "a"}}
	s.Old.Status.VolumeID = volumeID
}

// TestTheOldVolumeIsRemovedLast: and not before the new node has taken over.
func TestTheOldVolumeIsRemovedLast(t *testing.T) {
	s := switched()
	expect := func(at time.Time, want Action, phase v1alpha1.VolumeMovePhase, object *topolvmv1.LogicalVolume) {
		t.Helper()
		got := Next(s, at, time.Time{})
		if got.Action != want || got.Phase != phase || got.Object != object {
			t.Errorf("got the action %d on %v in phase %s with %q, want %d on %v in %s", got.Action, got.Object, got.Phase,
				got.Message, want, object, phase)
		}
	}
	expect(now, CreateOld, v1alpha1.MoveSwitching, nil)
	s.giveUp("")
	late := now.Add(48 * time.Hour)
	expect(late, Remove, v1alpha1.MoveSwitching, s.Snapshots[0])
	s.Snapshots = nil
	expect(late, Wait, v1alpha1.MoveSwitching, nil)
	delete(s.Volume.Annotations, wellknown.AdoptAnnotation)
	expect(late, Wait, v1alpha1.MoveSwitching, nil)
	delete(s.Volume.Annotations, wellknown.MovedVolumeAnnotation)
	expect(late, Remove, v1alpha1.MoveSwitching, s.Target)
	s.Target.DeletionTimestamp = &metav1.Time{Time: now}
	expect(late, Wait, v1alpha1.MoveKeepingSource, nil)
	s.Target = nil
	expect(late, Wait, v1alpha1.MoveKeepingSource, nil) // The node has not given it up.
	s.Old.Status.VolumeID = "moved-u"
	expect(now.Add(23*time.Hour), Wait, v1alpha1.MoveKeepingSource, nil)
	expect(now.Add(24*time.Hour), Remove, v1alpha1.MoveKeepingSource, s.Old)
	s.Move.Spec.KeepSource = &metav1.Duration{}
	expect(now, Remove, v1alpha1.MoveKeepingSource, s.Old)
	s.Move.Spec.KeepSource = nil
	s.Move.DeletionTimestamp = &metav1.Time{Time: now}
	expect(now, Remove, v1alpha1.MoveKeepingSource, s.Old)
	s.Old.DeletionTimestamp = &metav1.Time{Time: now}
	expect(now, End, v1alpha1.MoveKeepingSource, nil)
	s.Move.DeletionTimestamp = nil
	expect(now, Wait, v1alpha1.MoveKeepingSource, nil)
	s.Old = nil
	expect(now, End, v1alpha1.MoveCompleted, nil)
}

// TestALostClaimIsBoundAgain: kube-controller-manager marks the claim as Lost while the PersistentVolume is recreated.
// The operator changes the claim once for each PersistentVolume, and not before kube-controller-manager knows it.
func TestALostClaimIsBoundAgain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*State)
		want   Action
	}{
		"lost":                  {func(*State) {}, Rebind},
		"bound":                 {func(s *State) { s.Claim.Status.Phase = corev1.ClaimBound }, Remove},
		"no claim":              {func(s *State) { s.Claim = nil }, Remove},
		"claim deleted":         {func(s *State) { s.Claim.DeletionTimestamp = &metav1.Time{Time: now} }, Remove},
		"another claim":         {func(s *State) { s.Claim.UID = "other" }, Remove},
		"another volume":        {func(s *State) { s.Claim.Spec.VolumeName = "other" }, Remove},
		"no PV":                 {func(s *State) { s.PV = nil }, Remove},
		"PV not known":          {func(s *State) { s.PV.Status.Phase = corev1.VolumePending }, Remove},
		"PV being deleted":      {func(s *State) { s.PV.DeletionTimestamp = &metav1.Time{Time: now} }, Remove},
		"PV on the source node": {func(s *State) { s.PV.Spec.NodeAffinity = relocate.Affinity("a") }, Remove},
		"changed": {func(s *State) {
			s.Claim.Annotations = map[string]string{wellknown.RecreatedVolumeAnnotation: "p2"}
		}, Wait},
		"changed for an earlier move": {func(s *State) {
			s.Claim.Annotations = map[string]string{wellknown.RecreatedVolumeAnnotation: "p1"}
		}, Rebind},
		"lost after the end of the switch": {func(s *State) {
			s.Claim.Annotations = map[string]string{wellknown.RecreatedVolumeAnnotation: "p2"}
			s.Target = nil
		}, Wait},
	} {
		t.Run(name, func(t *testing.T) {
			s := switched()
			s.Snapshots = nil
			s.Volume.Annotations = nil
			s.giveUp("moved-u")
			s.Claim.Status.Phase = corev1.ClaimLost
			s.PV.UID = "p2"
			s.PV.Status.Phase = corev1.VolumeBound
			s.PV.Spec.NodeAffinity = relocate.Affinity("b")
			test.change(s)
			got := Next(s, now, time.Time{})
			if got.Action != test.want || got.Action == Remove && got.Object != s.Target {
				t.Errorf("got the action %d on %v with %q, want %d", got.Action, got.Object, got.Message, test.want)
			}
		})
	}
}

// kept returns a state in which only the old logical volume is left to be removed.
func kept() *State {
	s := switched()
	s.Volume.Annotations = map[string]string{}
	s.Snapshots, s.Target = nil, nil
	s.giveUp("moved-u")
	s.VolumeNode = fence.Node{Name: "b"}
	return s
}

// TestTheOldVolumeOfADeletedNode is removed if the node has given it up: then the deletion is recorded for its return.
// Otherwise, the object is all that knows of it.
func TestTheOldVolumeOfADeletedNode(t *testing.T) {
	s := kept()
	s.SourceNodeGone = true
	if got := Next(s, now, time.Time{}); got.Action != Remove || got.Object != s.Old {
		t.Errorf("got %+v", got)
	}
	s.giveUp("")
	for range 2 {
		got := Next(s, now.Add(100*time.Hour), time.Time{})
		if got.Action != Wait || got.Phase != v1alpha1.MoveKeepingSource || !strings.Contains(got.Message,
			"node a no longer exists, and had not given up the old logical volume. LogicalVolume moved-u is kept") {
			t.Errorf("got %+v", got)
		}
		s.Move.DeletionTimestamp = &metav1.Time{Time: now}
	}
	s.Move.Annotations = map[string]string{wellknown.AllowSourceRemovalAnnotation: "true"}
	if got := Next(s, now, time.Time{}); got.Action != Remove || got.Object != s.Old {
		t.Errorf("got %+v", got)
	}
}

// TestPodsOnTheOldNodeAreNamed after the switch, and the move does not end before none is left.
func TestPodsOnTheOldNodeAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		from   func() *State
		change func(*State)
		want   Action
		phase  v1alpha1.VolumeMovePhase
	}{
		"just switched":     {switched, func(*State) {}, CreateOld, v1alpha1.MoveSwitching},
		"being adopted":     {switched, func(s *State) { s.giveUp(""); s.Snapshots = nil }, Wait, v1alpha1.MoveSwitching},
		"old volume kept":   {kept, func(*State) {}, Wait, v1alpha1.MoveKeepingSource},
		"old volume is due": {kept, func(s *State) { s.Move.Spec.KeepSource = &metav1.Duration{} }, Remove, v1alpha1.MoveKeepingSource},
		"all is done":       {kept, func(s *State) { s.Old = nil }, Wait, v1alpha1.MoveKeepingSource},
		"all is done, and the move is deleted": {kept, func(s *State) {
			s.Old = nil
			s.Move.DeletionTimestamp = &metav1.Time{Time: now}
		}, End, v1alpha1.MoveCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.from()
			test.change(s)
			withPod(s)
			got := Next(s, now, time.Time{})
			if got.Action != test.want || got.Phase != test.phase || got.After > Blocked ||
				!strings.Contains(got.Message, "These Pods are bound to another node than b and cannot start; delete them, so that they are created again: n/p") {
				t.Errorf("got the action %d in phase %s after %s with %q, want %d in %s", got.Action, got.Phase, got.After,
					got.Message, test.want, test.phase)
			}
		})
	}
	done := kept()
	done.Old = nil
	if got := Next(done, now, time.Time{}); got.Action != End || got.Phase != v1alpha1.MoveCompleted {
		t.Errorf("got %+v", got)
	}
}

// TestTheOldVolumeIsKeptInDoubt: it may be the last copy, whatever the time is, and if the VolumeMove is deleted.
func TestTheOldVolumeIsKeptInDoubt(t *testing.T) {
	set := func(key string) func(*State) { return func(s *State) { s.Volume.Annotations[key] = "x" } }
	for name, test := range map[string]struct {
		change func(*State)
		want   Action
		says   string
	}{
		"known to be good":     {func(*State) {}, Remove, "node a removes the old logical volume"},
		"the node is lost":     {func(s *State) { s.VolumeNode = lostNode("b") }, Wait, "node b is not ready since 2026-01-02T02:59:05Z, which has volume pv"},
		"the node is down":     {func(s *State) { s.VolumeNode = fence.Node{Name: "b", NotReady: true, Since: now} }, Wait, "node b is not ready"},
		"the node is deleted":  {func(s *State) { s.VolumeNode = fence.Nodes{}.Get("b") }, Wait, "node b does not exist"},
		"no node agent":        {func(s *State) { s.IsUnregistered = true }, Wait, "the node agent of node b, which has volume pv, is not registered"},
		"not healthy":          {set(wellknown.ConditionAnnotation), Wait, "volume pv on node b is not healthy: x"},
		"never created":        {func(s *State) { s.Volume.Status.VolumeID = "" }, Wait, "node b has not taken over volume pv"},
		"moved again, good":    {func(s *State) { s.Volume.Spec.NodeName = "c"; s.To = lostNode("b") }, Remove, ""},
		"the object is lost":   {func(s *State) { s.Volume = nil }, Wait, "LogicalVolume pv no longer exists, but claim n/data or its PersistentVolume does"},
		"only the claim":       {func(s *State) { s.Volume, s.PV = nil, nil }, Wait, "LogicalVolume pv no longer exists"},
		"only the PV":          {func(s *State) { s.Volume, s.Claim = nil, nil }, Wait, "LogicalVolume pv no longer exists"},
		"deleted by its owner": {func(s *State) { s.Volume, s.PV, s.Claim = nil, nil, nil }, Remove, ""},
		"deleted, and its claim created again": {func(s *State) {
			s.Volume, s.PV = nil, nil
			s.Claim.Spec.VolumeName = "other"
		}, Remove, ""},
		"lost, both nodes": {func(s *State) {
			s.VolumeNode = lostNode("b")
			s.SourceNodeGone = true
		}, Wait, "node b is not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, isDeleted := range []bool{false, true} {
				s := kept()
				test.change(s)
				at := now.Add(24*time.Hour + time.Second)
				if isDeleted {
					s.Move.DeletionTimestamp = &metav1.Time{Time: now}
					at = now
				}
				got := Next(s, at, time.Time{})
				if got.Action == Remove && got.Object != s.Old {
					t.Errorf("another object is removed: %+v", got.Object)
				}
				if got.Action != test.want || got.Phase != v1alpha1.MoveKeepingSource ||
					!strings.Contains(got.Message, test.says) {
					t.Errorf("got the action %d in phase %s with %q, want %d with %q", got.Action, got.Phase, got.Message,
						test.want, test.says)
				}
				s.Move.Annotations = map[string]string{wellknown.AllowSourceRemovalAnnotation: "false"}
				if got := Next(s, at, time.Time{}); got.Action != test.want {
					t.Errorf("the annotation with another value changes the action to %d", got.Action)
				}
				s.Move.Annotations[wellknown.AllowSourceRemovalAnnotation] = "true"
				if got := Next(s, at, time.Time{}); got.Action != Remove || got.Object != s.Old {
					t.Errorf("the old logical volume is kept, although its removal is allowed: %+v", got)
				}
			}
		})
	}
	s := kept()
	s.Move.Annotations = map[string]string{wellknown.AllowSourceRemovalAnnotation: "true"}
	if got := Next(s, now, time.Time{}); got.Action != Wait {
		t.Errorf("it is removed before its time: %+v", got)
	}
}

// TestMovesHaveTheirTurn: the rules of the queue are those of package fence.
func TestMovesHaveTheirTurn(t *testing.T) {
	mine := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{UID: "mine"}}
	if err := Turn(mine, "a", "b", []fence.Copy{{UID: "1", Source: "a"}}); err != nil {
		t.Error(err)
	}
	err := Turn(mine, "a", "b", []fence.Copy{{UID: "1", Source: "a"}, {UID: "2", Source: "a"}})
	var later PendingError
	if !errors.As(err, &later) || later.Position != 1 || !strings.Contains(err.Error(), "place 1 in the queue") {
		t.Errorf("got %v", err)
	}
}

// TestTheTargetIsChosen: of the nodes c, d and e for a volume of 1Gi on node a.
func TestTheTargetIsChosen(t *testing.T) {
	const gi = int64(1) << 30
	of := func(node string, room int64, problem, neighbor string) Candidate {
		return Candidate{Candidate: supply.Candidate{Node: node, Room: room, Problem: problem}, Neighbor: neighbor}
	}
	// with returns a candidate whose thin pool has room for so much data.
	with := func(c Candidate, copyFree string) Candidate {
		c.Pool = &v1alpha1.ThinPoolStatus{Name: "pool", Size: resource.MustParse("10Gi"), DataPercent: 91,
			CopyFree: ptr.To(resource.MustParse(copyFree))}
		return c
	}
	for name, test := range map[string]struct {
		candidates []Candidate
		spread     string
		requested  string
		want, says string
		doubt      string
	}{
		"room for the data first": {candidates: []Candidate{with(of("c", 9*gi, "", ""), "100Mi"),
			with(of("d", 2*gi, "", ""), "1Gi")}, want: "d"},
		"a full pool": {candidates: []Candidate{with(of("c", 9*gi, "", ""), "0"), of("d", 2*gi, "", "")}, want: "d"},
		"a full pool, requested": {candidates: []Candidate{with(of("c", 9*gi, "", ""), "0"), of("d", 2*gi, "", "")},
			requested: "c", says: "no node for a volume of 1Gi in device class thin: node c has the thin pool pool, " +
				"which is too full for copies: its data is 91% full, and its metadata 0%"},
		"maybe no room": {candidates: []Candidate{with(of("c", 9*gi, "", ""), "100Mi")}, want: "c",
			doubt: "has room for 100Mi of data in thin pool pool, and the volume has at most 1Gi"},
		"most capacity":  {candidates: []Candidate{of("c", 2*gi, "", ""), of("d", 3*gi, "", "")}, want: "d"},
		"not the source": {candidates: []Candidate{of("c", 2*gi, "", "")}, want: "c"},
		"requested":      {candidates: []Candidate{of("c", 2*gi, "", ""), of("d", 3*gi, "", "")}, requested: "c", want: "c"},
		"problem":        {candidates: []Candidate{of("c", 2*gi, "", ""), of("d", 3*gi, "is cordoned", "")}, want: "c"},
		"apart": {candidates: []Candidate{of("c", 2*gi, "", ""), of("d", 3*gi, "", "v")},
			spread: "node:preferred:n/g", want: "c"},
		"preferred": {candidates: []Candidate{of("c", gi/2, "", ""), of("d", 3*gi, "", "v")},
			spread: "node:preferred:n/g", want: "d"},
		"required": {candidates: []Candidate{of("c", gi/2, "", ""), of("d", 3*gi, "", "volume v")},
			spread: "node:required:n/g", says: "no node for a volume of 1Gi in device class thin: node c has 512Mi free; " +
				"node d has volume v of spread group n/g, which requires different nodes"},
		"none": {says: "there is no other node"},
	} {
		t.Run(name, func(t *testing.T) {
			s := copied(1)
			s.Move.Spec.NodeName = test.requested
			s.Volume.Annotations[wellknown.SpreadAnnotation] = test.spread
			got, doubt, err := Choose(append(test.candidates, of("a", 100*gi, "", "")), s, "thin")
			said := ""
			if err != nil {
				said = err.Error()
			}
			if got != test.want || said != test.says || doubt != test.doubt {
				t.Errorf("got node %q, %q and %q, want %q, %q and %q", got, said, doubt, test.want, test.says, test.doubt)
			}
		})
	}
}

// fill sets the usage of the thin pool of the source: so much data can be copied to it.
func (s *State) fill(copyFree string) {
	s.SourcePool = &v1alpha1.ThinPoolStatus{Name: "pool", Size: resource.MustParse("100Gi"), DataPercent: 91,
		MetadataPercent: 3, CopyFree: ptr.To(resource.MustParse(copyFree))}
}

// TestASourceThatFillsUpDiscardsTheCopy: the snapshots of a move keep what Pods overwrite. In the first case, the
// volume is being copied, a Pod uses it, and its thin pool is at the limit.
func TestASourceThatFillsUpDiscardsTheCopy(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*State)
		want     Action
		object   string
		phase    v1alpha1.VolumeMovePhase
		discards bool
	}{
		"the copy first":    {func(*State) {}, Remove, "move-u", v1alpha1.MovePending, true},
		"then the snapshot": {func(s *State) { s.Target.DeletionTimestamp = &metav1.Time{Time: now} }, Remove, "move-u-1", v1alpha1.MovePending, true},
		"fenced":            {func(s *State) { s.close(true) }, Unfence, "", v1alpha1.MovePending, true},
		"room":              {func(s *State) { s.fill("1") }, Wait, "", v1alpha1.MoveWaitingForPods, false},
		"not known":         {func(s *State) { s.SourcePool = nil }, Wait, "", v1alpha1.MoveWaitingForPods, false},
		"an old node agent": {func(s *State) { s.SourcePool.CopyFree = nil }, Wait, "", v1alpha1.MoveWaitingForPods, false},
		"no Pod":            {func(s *State) { s.Pods = nil }, CloseVolume, "", v1alpha1.MoveSwitching, false},
		"being undone":      {func(s *State) { s.Move.DeletionTimestamp = &metav1.Time{Time: now} }, Remove, "move-u", v1alpha1.MoveWaitingForPods, false},
		"after the switch":  {func(s *State) { s.Volume.Spec.NodeName = "b" }, CreateOld, "", v1alpha1.MoveSwitching, false},
		"discarded before, and not removed yet": {func(s *State) {
			s.Move.Status.Phase = v1alpha1.MovePending
			s.Target = nil
			s.Snapshots[0].DeletionTimestamp = &metav1.Time{Time: now}
		}, Wait, "", v1alpha1.MovePending, false},
		"discarded before, and removed": {func(s *State) {
			s.Move.Status.Phase = v1alpha1.MovePending
			s.Target, s.Snapshots = nil, nil
		}, Begin, "", v1alpha1.MovePending, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := copied(1)
			s.Move.Status.Phase = v1alpha1.MoveWaitingForPods
			s.Pods = []string{"n/p"}
			s.fill("0")
			test.change(s)
			for range 2 {
				st := Next(s, now, time.Time{})
				object := ""
				if st.Object != nil {
					object = st.Object.Name
				}
				if st.Action != test.want || object != test.object || st.Phase != test.phase ||
					st.Discards != test.discards {
					t.Errorf("got action %d of %q, phase %s, discards %t: %s", st.Action, object, st.Phase, st.Discards, st.Message)
				}
				if test.discards && !strings.Contains(st.Message, "the thin pool pool of node a fills: its data is 91% full") {
					t.Errorf("the message is %q", st.Message)
				}
			}
		})
	}
}

// TestWhenADiscardedCopyBegins: with more room than one that was not discarded, or without Pods.
func TestWhenADiscardedCopyBegins(t *testing.T) {
	for name, test := range map[string]struct {
		copyFree string
		pods     bool
		hasBegun bool
		waits    bool
	}{
		"the first, little room":       {"1", true, false, false},
		"the first, no room":           {"0", true, false, true},
		"the first, no room, no Pod":   {"0", false, false, false},
		"discarded, little room":       {"5119Mi", true, true, true},
		"discarded, enough room":       {"5Gi", true, true, false},
		"discarded, little room, idle": {"1", false, true, false},
	} {
		s := copied(1)
		s.fill(test.copyFree)
		if test.pods {
			s.Pods = []string{"n/p"}
		}
		if got := s.Fills(test.hasBegun); (got != "") != test.waits {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
