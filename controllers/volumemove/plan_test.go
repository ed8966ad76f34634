package volumemove

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
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const fenceToken = "2026-01-02T03:04:05Z/7"

// copied returns a state whose copy of the given round is complete, and which no Pod uses.
func copied(round int) *state {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now), Annotations: map[string]string{}}
	}
	size := resource.MustParse("1Gi")
	s := &state{move: &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"},
		Spec: v1alpha1.VolumeMoveSpec{Claim: v1alpha1.VolumeMoveClaim{Namespace: "n", Name: "data"}},
		Status: v1alpha1.VolumeMoveStatus{Phase: v1alpha1.MoveCopying, SourceNode: "a", TargetNode: "b",
			PersistentVolume: "pv"}}}
	s.claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	s.pv = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{UID: "c"}, NodeAffinity: relocate.Affinity("a"),
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverName, VolumeHandle: "lv"}}}}
	s.volume = &topolvmv1.LogicalVolume{ObjectMeta: meta("pv"), Spec: topolvmv1.LogicalVolumeSpec{NodeName: "a", Size: size}}
	s.volume.Status.VolumeID = "lv"
	s.target = &topolvmv1.LogicalVolume{ObjectMeta: meta("move-u"), Spec: topolvmv1.LogicalVolumeSpec{NodeName: "b",
		Size: size, Source: snapshotName(s.move, round)}}
	s.target.Annotations[v1alpha1.MoveVolumeAnnotation] = "lv"
	s.take(round, "")
	s.done(1, 4096)
	return s
}

// take adds a snapshot that the node has created.
func (s *state) take(round int, token string) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: snapshotName(s.move, round),
		CreationTimestamp: metav1.NewTime(now), Annotations: map[string]string{v1alpha1.FenceTimeAnnotation: token}},
		Spec: topolvmv1.LogicalVolumeSpec{NodeName: "a"}}
	lv.Status.VolumeID = lv.Name
	s.snapshots = append(s.snapshots, lv)
	return lv
}

// done sets the record of a finished round.
func (s *state) done(seconds float64, sent uint64) {
	text, _ := json.Marshal(v1alpha1.CopyRecord{Source: s.target.Spec.Source, Finished: true, Seconds: seconds,
		SentBytes: sent, SizeBytes: 1 << 30, Base: "base"})
	s.target.Annotations[v1alpha1.CopiedAnnotation] = string(text)
}

func (s *state) close(confirmed bool) {
	s.volume.Annotations[v1alpha1.FenceAnnotation] = "u"
	s.volume.Annotations[v1alpha1.FenceTimeAnnotation] = fenceToken
	if confirmed {
		s.volume.Annotations[v1alpha1.FencedAnnotation] = "u"
	}
}

// lostNode returns a node that is not ready for so long that it is lost.
func lostNode(name string) fence.Node {
	return fence.Node{Name: name, NotReady: true, Lost: true, Since: now.Add(-fence.LostAfter)}
}

// TestTheSwitchNeedsEveryCondition: the state of the first case is switched, and each other one lacks something.
func TestTheSwitchNeedsEveryCondition(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*state)
		want   action
	}{
		"complete":                   {func(*state) {}, switchVolume},
		"a Pod uses it":              {func(s *state) { s.pods = []string{"n/p"} }, unfence},
		"not confirmed":              {func(s *state) { delete(s.volume.Annotations, v1alpha1.FencedAnnotation) }, wait},
		"confirmed for another move": {func(s *state) { s.volume.Annotations[v1alpha1.FencedAnnotation] = "x" }, wait},
		"not fenced":                 {func(s *state) { s.volume.Annotations = map[string]string{} }, closeVolume},
		"target not ready":           {func(s *state) { s.to = lostNode("b") }, wait},
		"target not ready, not fenced": {func(s *state) {
			s.to = lostNode("b")
			s.volume.Annotations = map[string]string{}
		}, wait},
		"source not ready, not fenced": {func(s *state) {
			s.from = fence.Node{Name: "a", NotReady: true, Since: now}
			s.volume.Annotations = map[string]string{}
		}, wait},
		"target not ready, a Pod uses it": {func(s *state) {
			s.to = lostNode("b")
			s.pods = []string{"n/p"}
		}, unfence},
		"fenced for another move": {func(s *state) { s.volume.Annotations[v1alpha1.FenceAnnotation] = "x" }, wait},
		"fenced for a clone":      {func(s *state) { s.volume.Annotations[v1alpha1.FenceAnnotation] = "clone-x" }, wait},
		"fenced for a clone, not confirmed": {func(s *state) {
			s.volume.Annotations = map[string]string{v1alpha1.FenceAnnotation: "clone-x"}
		}, wait},
		"snapshot before the fence":    {func(s *state) { s.snapshots[0].Annotations = nil }, createSnapshot},
		"snapshot of an earlier fence": {func(s *state) { s.volume.Annotations[v1alpha1.FenceTimeAnnotation] = "x" }, createSnapshot},
		"no time": {func(s *state) {
			s.snapshots[0].Annotations = nil
			delete(s.volume.Annotations, v1alpha1.FenceTimeAnnotation)
		}, createSnapshot},
		"round of another snapshot": {func(s *state) {
			s.target.Spec.Source = snapshotName(s.move, 3)
			s.take(3, fenceToken)
		}, wait},
		"not copied":     {func(s *state) { delete(s.target.Annotations, v1alpha1.CopiedAnnotation) }, wait},
		"bad record":     {func(s *state) { s.target.Annotations[v1alpha1.CopiedAnnotation] = "{" }, wait},
		"target deleted": {func(s *state) { s.target.DeletionTimestamp = &metav1.Time{Time: now} }, unfence},
		"volume deleted": {func(s *state) { s.volume.DeletionTimestamp = &metav1.Time{Time: now} }, unfence},
		"pv deleted":     {func(s *state) { s.pv.DeletionTimestamp = &metav1.Time{Time: now} }, unfence},
		"no pv":          {func(s *state) { s.pv = nil }, unfence},
		"no claim":       {func(s *state) { s.claim = nil }, unfence},
		"another claim":  {func(s *state) { s.claim.UID = "other" }, unfence},
		"pv elsewhere":   {func(s *state) { s.pv.Spec.NodeAffinity = relocate.Affinity("c") }, unfence},
		"another handle": {func(s *state) { s.pv.Spec.CSI.VolumeHandle = "other" }, unfence},
		"another target": {func(s *state) { s.target.Annotations[v1alpha1.MoveVolumeAnnotation] = "other" }, unfence},
		"larger":         {func(s *state) { s.volume.Spec.Size = resource.MustParse("2Gi") }, resizeTarget},
		"larger than the copy": {func(s *state) {
			s.volume.Spec.Size = resource.MustParse("2Gi")
			s.target.Spec.Size = resource.MustParse("2Gi")
		}, unfence},
		"older agent":    {func(s *state) { s.target.Status.VolumeID = "x" }, unfence},
		"refused target": {func(s *state) { s.target.Status.Code = codes.InvalidArgument }, unfence},
		"no room":        {func(s *state) { s.target.Status.Code = codes.ResourceExhausted }, unfence},
		"undone":         {func(s *state) { s.move.DeletionTimestamp = &metav1.Time{Time: now} }, unfence},
		"failed":         {func(s *state) { s.move.Status.Phase = v1alpha1.MoveFailed }, unfence},
	} {
		t.Run(name, func(t *testing.T) {
			s := copied(2)
			s.close(true)
			s.snapshots[0].Annotations[v1alpha1.FenceTimeAnnotation] = fenceToken
			test.change(s)
			if got := plan(s, now, time.Time{}); got.action != test.want {
				t.Errorf("got the action %d with %q, want %d", got.action, got.message, test.want)
			}
		})
	}
}

// TestWhatFollowsARound: without a fence.
func TestWhatFollowsARound(t *testing.T) {
	refused := func(s *state) {
		next := s.take(3, "")
		next.Status.VolumeID = ""
		next.Status.Code = codes.ResourceExhausted
	}
	for name, test := range map[string]struct {
		change func(*state)
		want   action
		phase  v1alpha1.VolumeMovePhase
	}{
		"few changes":      {func(*state) {}, closeVolume, v1alpha1.MoveSwitching},
		"many changes":     {func(s *state) { s.done(31, 1) }, createSnapshot, v1alpha1.MoveCopying},
		"slow, no changes": {func(s *state) { s.done(31, 0) }, closeVolume, v1alpha1.MoveSwitching},
		"still closed":     {func(s *state) { s.volume.Annotations[v1alpha1.FencedAnnotation] = "x" }, wait, v1alpha1.MoveCopying},
		"being expanded": {func(s *state) {
			size := resource.MustParse("512Mi")
			s.volume.Status.CurrentSize = &size
		}, wait, v1alpha1.MoveCopying},
		"earlier snapshot": {func(s *state) {
			s.snapshots = nil
			s.take(1, "")
			s.take(2, "")
		}, remove, v1alpha1.MoveCopying},
		"next snapshot":           {func(s *state) { s.take(3, "") }, copyRound, v1alpha1.MoveCopying},
		"next snapshot, pending":  {func(s *state) { s.take(3, "").Status.VolumeID = "" }, wait, v1alpha1.MoveCopying},
		"next snapshot, refused":  {refused, wait, v1alpha1.MoveCopying},
		"the snapshot is missing": {func(s *state) { s.snapshots = nil }, remove, v1alpha1.MoveFailed},
		"a Pod, fresh copy":       {func(s *state) { s.pods = []string{"n/p"} }, wait, v1alpha1.MoveWaitingForPods},
		"a Pod, old copy": {func(s *state) {
			s.pods = []string{"n/p"}
			s.snapshots[0].CreationTimestamp = metav1.NewTime(now.Add(-refreshMax))
		}, createSnapshot, v1alpha1.MoveWaitingForPods},
		"a Pod, many changes": {func(s *state) {
			s.pods = []string{"n/p"}
			s.done(31, 1)
		}, createSnapshot, v1alpha1.MoveCopying},
		"a Pod, slow clock": {func(s *state) {
			s.pods = []string{"n/p"}
			s.done(31, 1)
			s.snapshots[0].CreationTimestamp = metav1.NewTime(now.Add(time.Hour))
		}, createSnapshot, v1alpha1.MoveCopying},
	} {
		t.Run(name, func(t *testing.T) {
			s := copied(2)
			test.change(s)
			if got := plan(s, now, time.Time{}); got.action != test.want || got.phase != test.phase {
				t.Errorf("got the action %d in phase %s with %q, want %d in %s", got.action, got.phase, got.message, test.want,
					test.phase)
			}
		})
	}
	later := copied(2)
	refused(later)
	got := plan(later, now.Add(refusedDelay), time.Time{})
	if got.action != remove || got.object != later.snapshots[1] {
		t.Errorf("a refused snapshot is not created again: %+v", got)
	}
	if got := plan(copied(2), now, now.Add(time.Second)); got.action != wait {
		t.Errorf("the volume is fenced before its time: %+v", got)
	}
	many := copied(eagerRounds)
	many.pods = []string{"n/p"}
	many.done(31, 1)
	if got := plan(many, now, time.Time{}); got.action != wait || got.phase != v1alpha1.MoveWaitingForPods {
		t.Errorf("rounds that do not become shorter follow each other for ever: %+v", got)
	}
}

// switched returns a state after the switch, before the node agents have acted.
func switched() *state {
	s := copied(2)
	s.volume.Spec.NodeName = "b"
	s.volume.Annotations[v1alpha1.AdoptAnnotation] = "t"
	s.volume.Annotations[v1alpha1.MovedVolumeAnnotation] = "{}"
	return s
}

func (s *state) giveUp(volumeID string) {
	s.old = &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "moved-u",
		CreationTimestamp: metav1.NewTime(now)}, Spec: topolvmv1.LogicalVolumeSpec{NodeName: "a"}}
	s.old.Status.VolumeID = volumeID
}

// TestTheOldVolumeIsRemovedLast: and not before the new node has taken over.
func TestTheOldVolumeIsRemovedLast(t *testing.T) {
	s := switched()
	expect := func(at time.Time, want action, phase v1alpha1.VolumeMovePhase, object *topolvmv1.LogicalVolume) {
		t.Helper()
		got := plan(s, at, time.Time{})
		if got.action != want || got.phase != phase || got.object != object {
			t.Errorf("got the action %d on %v in phase %s with %q, want %d on %v in %s", got.action, got.object, got.phase,
				got.message, want, object, phase)
		}
	}
	expect(now, createOld, v1alpha1.MoveSwitching, nil)
	s.giveUp("")
	late := now.Add(48 * time.Hour)
	expect(late, remove, v1alpha1.MoveSwitching, s.snapshots[0])
	s.snapshots = nil
	expect(late, wait, v1alpha1.MoveSwitching, nil)
	delete(s.volume.Annotations, v1alpha1.AdoptAnnotation)
	expect(late, wait, v1alpha1.MoveSwitching, nil)
	delete(s.volume.Annotations, v1alpha1.MovedVolumeAnnotation)
	expect(late, remove, v1alpha1.MoveSwitching, s.target)
	s.target.DeletionTimestamp = &metav1.Time{Time: now}
	expect(late, wait, v1alpha1.MoveKeepingSource, nil)
	s.target = nil
	expect(late, wait, v1alpha1.MoveKeepingSource, nil) // The node has not given it up.
	s.old.Status.VolumeID = "moved-u"
	expect(now.Add(23*time.Hour), wait, v1alpha1.MoveKeepingSource, nil)
	expect(now.Add(24*time.Hour), remove, v1alpha1.MoveKeepingSource, s.old)
	s.move.Spec.KeepSource = &metav1.Duration{}
	expect(now, remove, v1alpha1.MoveKeepingSource, s.old)
	s.move.Spec.KeepSource = nil
	s.move.DeletionTimestamp = &metav1.Time{Time: now}
	expect(now, remove, v1alpha1.MoveKeepingSource, s.old)
	s.old.DeletionTimestamp = &metav1.Time{Time: now}
	expect(now, end, v1alpha1.MoveKeepingSource, nil)
	s.move.DeletionTimestamp = nil
	expect(now, wait, v1alpha1.MoveKeepingSource, nil)
	s.old = nil
	expect(now, end, v1alpha1.MoveCompleted, nil)
}

// TestALostClaimIsBoundAgain: kube-controller-manager marks the claim as Lost while the PersistentVolume is recreated.
// The operator changes the claim once for each PersistentVolume, and not before kube-controller-manager knows it.
func TestALostClaimIsBoundAgain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*state)
		want   action
	}{
		"lost":                  {func(*state) {}, rebind},
		"bound":                 {func(s *state) { s.claim.Status.Phase = corev1.ClaimBound }, remove},
		"no claim":              {func(s *state) { s.claim = nil }, remove},
		"claim deleted":         {func(s *state) { s.claim.DeletionTimestamp = &metav1.Time{Time: now} }, remove},
		"another claim":         {func(s *state) { s.claim.UID = "other" }, remove},
		"another volume":        {func(s *state) { s.claim.Spec.VolumeName = "other" }, remove},
		"no PV":                 {func(s *state) { s.pv = nil }, remove},
		"PV not known":          {func(s *state) { s.pv.Status.Phase = corev1.VolumePending }, remove},
		"PV being deleted":      {func(s *state) { s.pv.DeletionTimestamp = &metav1.Time{Time: now} }, remove},
		"PV on the source node": {func(s *state) { s.pv.Spec.NodeAffinity = relocate.Affinity("a") }, remove},
		"changed": {func(s *state) {
			s.claim.Annotations = map[string]string{v1alpha1.RecreatedVolumeAnnotation: "p2"}
		}, wait},
		"changed for an earlier move": {func(s *state) {
			s.claim.Annotations = map[string]string{v1alpha1.RecreatedVolumeAnnotation: "p1"}
		}, rebind},
		"lost after the end of the switch": {func(s *state) {
			s.claim.Annotations = map[string]string{v1alpha1.RecreatedVolumeAnnotation: "p2"}
			s.target = nil
		}, wait},
	} {
		t.Run(name, func(t *testing.T) {
			s := switched()
			s.snapshots = nil
			s.volume.Annotations = nil
			s.giveUp("moved-u")
			s.claim.Status.Phase = corev1.ClaimLost
			s.pv.UID = "p2"
			s.pv.Status.Phase = corev1.VolumeBound
			s.pv.Spec.NodeAffinity = relocate.Affinity("b")
			test.change(s)
			got := plan(s, now, time.Time{})
			if got.action != test.want || got.action == remove && got.object != s.target {
				t.Errorf("got the action %d on %v with %q, want %d", got.action, got.object, got.message, test.want)
			}
		})
	}
}

// kept returns a state in which only the old logical volume is left to be removed.
func kept() *state {
	s := switched()
	s.volume.Annotations = map[string]string{}
	s.snapshots, s.target = nil, nil
	s.giveUp("moved-u")
	s.volumeNode = fence.Node{Name: "b"}
	return s
}

// TestTheOldVolumeOfADeletedNode is removed if the node has given it up: then the deletion is recorded for its return.
// Otherwise, the object is all that knows of it.
func TestTheOldVolumeOfADeletedNode(t *testing.T) {
	s := kept()
	s.sourceNodeGone = true
	if got := plan(s, now, time.Time{}); got.action != remove || got.object != s.old {
		t.Errorf("got %+v", got)
	}
	s.giveUp("")
	for range 2 {
		got := plan(s, now.Add(100*time.Hour), time.Time{})
		if got.action != wait || got.phase != v1alpha1.MoveKeepingSource || !strings.Contains(got.message,
			"node a no longer exists, and had not given up the old logical volume. LogicalVolume moved-u is kept") {
			t.Errorf("got %+v", got)
		}
		s.move.DeletionTimestamp = &metav1.Time{Time: now}
	}
	s.move.Annotations = map[string]string{v1alpha1.AllowSourceRemovalAnnotation: "true"}
	if got := plan(s, now, time.Time{}); got.action != remove || got.object != s.old {
		t.Errorf("got %+v", got)
	}
}

// TestPodsOnTheOldNodeAreNamed after the switch, and the move does not end before none is left.
func TestPodsOnTheOldNodeAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		from   func() *state
		change func(*state)
		want   action
		phase  v1alpha1.VolumeMovePhase
	}{
		"just switched":     {switched, func(*state) {}, createOld, v1alpha1.MoveSwitching},
		"being adopted":     {switched, func(s *state) { s.giveUp(""); s.snapshots = nil }, wait, v1alpha1.MoveSwitching},
		"old volume kept":   {kept, func(*state) {}, wait, v1alpha1.MoveKeepingSource},
		"old volume is due": {kept, func(s *state) { s.move.Spec.KeepSource = &metav1.Duration{} }, remove, v1alpha1.MoveKeepingSource},
		"all is done":       {kept, func(s *state) { s.old = nil }, wait, v1alpha1.MoveKeepingSource},
		"all is done, and the move is deleted": {kept, func(s *state) {
			s.old = nil
			s.move.DeletionTimestamp = &metav1.Time{Time: now}
		}, end, v1alpha1.MoveCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.from()
			test.change(s)
			withPod(s)
			got := plan(s, now, time.Time{})
			if got.action != test.want || got.phase != test.phase || got.after > blocked ||
				!strings.Contains(got.message, "These Pods are bound to another node than b and cannot start; delete them, so that they are created again: n/p") {
				t.Errorf("got the action %d in phase %s after %s with %q, want %d in %s", got.action, got.phase, got.after,
					got.message, test.want, test.phase)
			}
		})
	}
	done := kept()
	done.old = nil
	if got := plan(done, now, time.Time{}); got.action != end || got.phase != v1alpha1.MoveCompleted {
		t.Errorf("got %+v", got)
	}
}

// TestTheOldVolumeIsKeptInDoubt: it may be the last copy, whatever the time is, and if the VolumeMove is deleted.
func TestTheOldVolumeIsKeptInDoubt(t *testing.T) {
	set := func(key string) func(*state) { return func(s *state) { s.volume.Annotations[key] = "x" } }
	for name, test := range map[string]struct {
		change func(*state)
		want   action
		says   string
	}{
		"known to be good":     {func(*state) {}, remove, "node a removes the old logical volume"},
		"the node is lost":     {func(s *state) { s.volumeNode = lostNode("b") }, wait, "node b is not ready since 2026-01-02T02:59:05Z, which has volume pv"},
		"the node is down":     {func(s *state) { s.volumeNode = fence.Node{Name: "b", NotReady: true, Since: now} }, wait, "node b is not ready"},
		"the node is deleted":  {func(s *state) { s.volumeNode = fence.Nodes{}.Get("b") }, wait, "node b does not exist"},
		"no node agent":        {func(s *state) { s.isUnregistered = true }, wait, "the node agent of node b, which has volume pv, is not registered"},
		"not healthy":          {set(v1alpha1.ConditionAnnotation), wait, "volume pv on node b is not healthy: x"},
		"never created":        {func(s *state) { s.volume.Status.VolumeID = "" }, wait, "node b has not taken over volume pv"},
		"moved again, good":    {func(s *state) { s.volume.Spec.NodeName = "c"; s.to = lostNode("b") }, remove, ""},
		"the object is lost":   {func(s *state) { s.volume = nil }, wait, "LogicalVolume pv no longer exists, but claim n/data or its PersistentVolume does"},
		"only the claim":       {func(s *state) { s.volume, s.pv = nil, nil }, wait, "LogicalVolume pv no longer exists"},
		"only the PV":          {func(s *state) { s.volume, s.claim = nil, nil }, wait, "LogicalVolume pv no longer exists"},
		"deleted by its owner": {func(s *state) { s.volume, s.pv, s.claim = nil, nil, nil }, remove, ""},
		"deleted, and its claim created again": {func(s *state) {
			s.volume, s.pv = nil, nil
			s.claim.Spec.VolumeName = "other"
		}, remove, ""},
		"lost, both nodes": {func(s *state) {
			s.volumeNode = lostNode("b")
			s.sourceNodeGone = true
		}, wait, "node b is not ready"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, isDeleted := range []bool{false, true} {
				s := kept()
				test.change(s)
				at := now.Add(24*time.Hour + time.Second)
				if isDeleted {
					s.move.DeletionTimestamp = &metav1.Time{Time: now}
					at = now
				}
				got := plan(s, at, time.Time{})
				if got.action == remove && got.object != s.old {
					t.Errorf("another object is removed: %+v", got.object)
				}
				if got.action != test.want || got.phase != v1alpha1.MoveKeepingSource ||
					!strings.Contains(got.message, test.says) {
					t.Errorf("got the action %d in phase %s with %q, want %d with %q", got.action, got.phase, got.message,
						test.want, test.says)
				}
				s.move.Annotations = map[string]string{v1alpha1.AllowSourceRemovalAnnotation: "false"}
				if got := plan(s, at, time.Time{}); got.action != test.want {
					t.Errorf("the annotation with another value changes the action to %d", got.action)
				}
				s.move.Annotations[v1alpha1.AllowSourceRemovalAnnotation] = "true"
				if got := plan(s, at, time.Time{}); got.action != remove || got.object != s.old {
					t.Errorf("the old logical volume is kept, although its removal is allowed: %+v", got)
				}
			}
		})
	}
	s := kept()
	s.move.Annotations = map[string]string{v1alpha1.AllowSourceRemovalAnnotation: "true"}
	if got := plan(s, now, time.Time{}); got.action != wait {
		t.Errorf("it is removed before its time: %+v", got)
	}
}

// TestMovesHaveTheirTurn: the rules of the queue are those of package fence.
func TestMovesHaveTheirTurn(t *testing.T) {
	mine := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{UID: "mine"}}
	if err := turn(mine, "a", "b", []fence.Copy{{UID: "1", Source: "a"}}); err != nil {
		t.Error(err)
	}
	err := turn(mine, "a", "b", []fence.Copy{{UID: "1", Source: "a"}, {UID: "2", Source: "a"}})
	var later pendingError
	if !errors.As(err, &later) || later.position != 1 || !strings.Contains(err.Error(), "place 1 in the queue") {
		t.Errorf("got %v", err)
	}
}

// TestTheTargetIsChosen: of the nodes c, d and e for a volume of 1Gi on node a.
func TestTheTargetIsChosen(t *testing.T) {
	const gi = int64(1) << 30
	of := func(node string, room int64, problem, neighbor string) candidate {
		return candidate{Candidate: supply.Candidate{Node: node, Room: room, Problem: problem}, neighbor: neighbor}
	}
	// with returns a candidate whose thin pool has room for so much data.
	with := func(c candidate, copyFree string) candidate {
		c.pool = &v1alpha1.ThinPoolStatus{Name: "pool", Size: resource.MustParse("10Gi"), DataPercent: 91,
			CopyFree: ptr.To(resource.MustParse(copyFree))}
		return c
	}
	for name, test := range map[string]struct {
		candidates []candidate
		spread     string
		requested  string
		want, says string
		doubt      string
	}{
		"room for the data first": {candidates: []candidate{with(of("c", 9*gi, "", ""), "100Mi"),
			with(of("d", 2*gi, "", ""), "1Gi")}, want: "d"},
		"a full pool": {candidates: []candidate{with(of("c", 9*gi, "", ""), "0"), of("d", 2*gi, "", "")}, want: "d"},
		"a full pool, requested": {candidates: []candidate{with(of("c", 9*gi, "", ""), "0"), of("d", 2*gi, "", "")},
			requested: "c", says: "no node for a volume of 1Gi in device class thin: node c has the thin pool pool, " +
				"which is too full for copies: its data is 91% full, and its metadata 0%"},
		"maybe no room": {candidates: []candidate{with(of("c", 9*gi, "", ""), "100Mi")}, want: "c",
			doubt: "has room for 100Mi of data in thin pool pool, and the volume has at most 1Gi"},
		"most capacity":  {candidates: []candidate{of("c", 2*gi, "", ""), of("d", 3*gi, "", "")}, want: "d"},
		"not the source": {candidates: []candidate{of("c", 2*gi, "", "")}, want: "c"},
		"requested":      {candidates: []candidate{of("c", 2*gi, "", ""), of("d", 3*gi, "", "")}, requested: "c", want: "c"},
		"problem":        {candidates: []candidate{of("c", 2*gi, "", ""), of("d", 3*gi, "is cordoned", "")}, want: "c"},
		"apart": {candidates: []candidate{of("c", 2*gi, "", ""), of("d", 3*gi, "", "v")},
			spread: "node:preferred:n/g", want: "c"},
		"preferred": {candidates: []candidate{of("c", gi/2, "", ""), of("d", 3*gi, "", "v")},
			spread: "node:preferred:n/g", want: "d"},
		"required": {candidates: []candidate{of("c", gi/2, "", ""), of("d", 3*gi, "", "volume v")},
			spread: "node:required:n/g", says: "no node for a volume of 1Gi in device class thin: node c has 512Mi free; " +
				"node d has volume v of spread group n/g, which requires different nodes"},
		"none": {says: "there is no other node"},
	} {
		t.Run(name, func(t *testing.T) {
			s := copied(1)
			s.move.Spec.NodeName = test.requested
			s.volume.Annotations[v1alpha1.SpreadAnnotation] = test.spread
			got, doubt, err := choose(append(test.candidates, of("a", 100*gi, "", "")), s, "thin")
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
func (s *state) fill(copyFree string) {
	s.sourcePool = &v1alpha1.ThinPoolStatus{Name: "pool", Size: resource.MustParse("100Gi"), DataPercent: 91,
		MetadataPercent: 3, CopyFree: ptr.To(resource.MustParse(copyFree))}
}

// TestASourceThatFillsUpDiscardsTheCopy: the snapshots of a move keep what Pods overwrite. In the first case, the
// volume is being copied, a Pod uses it, and its thin pool is at the limit.
func TestASourceThatFillsUpDiscardsTheCopy(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*state)
		want     action
		object   string
		phase    v1alpha1.VolumeMovePhase
		discards bool
	}{
		"the copy first":    {func(*state) {}, remove, "move-u", v1alpha1.MovePending, true},
		"then the snapshot": {func(s *state) { s.target.DeletionTimestamp = &metav1.Time{Time: now} }, remove, "move-u-1", v1alpha1.MovePending, true},
		"fenced":            {func(s *state) { s.close(true) }, unfence, "", v1alpha1.MovePending, true},
		"room":              {func(s *state) { s.fill("1") }, wait, "", v1alpha1.MoveWaitingForPods, false},
		"not known":         {func(s *state) { s.sourcePool = nil }, wait, "", v1alpha1.MoveWaitingForPods, false},
		"an old node agent": {func(s *state) { s.sourcePool.CopyFree = nil }, wait, "", v1alpha1.MoveWaitingForPods, false},
		"no Pod":            {func(s *state) { s.pods = nil }, closeVolume, "", v1alpha1.MoveSwitching, false},
		"being undone":      {func(s *state) { s.move.DeletionTimestamp = &metav1.Time{Time: now} }, remove, "move-u", v1alpha1.MoveWaitingForPods, false},
		"after the switch":  {func(s *state) { s.volume.Spec.NodeName = "b" }, createOld, "", v1alpha1.MoveSwitching, false},
		"discarded before, and not removed yet": {func(s *state) {
			s.move.Status.Phase = v1alpha1.MovePending
			s.target = nil
			s.snapshots[0].DeletionTimestamp = &metav1.Time{Time: now}
		}, wait, "", v1alpha1.MovePending, false},
		"discarded before, and removed": {func(s *state) {
			s.move.Status.Phase = v1alpha1.MovePending
			s.target, s.snapshots = nil, nil
		}, begin, "", v1alpha1.MovePending, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := copied(1)
			s.move.Status.Phase = v1alpha1.MoveWaitingForPods
			s.pods = []string{"n/p"}
			s.fill("0")
			test.change(s)
			for range 2 {
				st := plan(s, now, time.Time{})
				object := ""
				if st.object != nil {
					object = st.object.Name
				}
				if st.action != test.want || object != test.object || st.phase != test.phase ||
					st.discards != test.discards {
					t.Errorf("got action %d of %q, phase %s, discards %t: %s", st.action, object, st.phase, st.discards, st.message)
				}
				if test.discards && !strings.Contains(st.message, "the thin pool pool of node a fills: its data is 91% full") {
					t.Errorf("the message is %q", st.message)
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
			s.pods = []string{"n/p"}
		}
		if got := s.fills(test.hasBegun); (got != "") != test.waits {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
