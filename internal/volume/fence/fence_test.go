package fence

import (
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// volume is the LogicalVolume "pv" on node a.
func volume() *topolvmv1.LogicalVolume {
	return &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", ResourceVersion: "7"},
		Spec: topolvmv1.LogicalVolumeSpec{NodeName: "a"}}
}

// TestAFenceHasAName that covers the copies that were created under it, and no others.
func TestAFenceHasAName(t *testing.T) {
	v, covered := volume(), volume()
	if IsConfirmed(v, "u") || IsConfirmed(v, "") || Covers(v, "u", covered) || !Requested(v).IsZero() {
		t.Error("a volume without a fence is closed")
	}
	Request(v, "u", "", now)
	if Holder(v) != "u" || Name(v) != "2026-01-02T03:04:05Z/7" || !Requested(v).Equal(now) {
		t.Errorf("got %v", v.Annotations)
	}
	covered.Annotations = map[string]string{wellknown.FenceTimeAnnotation: Name(v)}
	if IsConfirmed(v, "u") || Covers(v, "u", covered) {
		t.Error("it is not confirmed yet")
	}
	v.Annotations[wellknown.FencedAnnotation] = "u"
	if !IsConfirmed(v, "u") || !Covers(v, "u", covered) {
		t.Errorf("it is confirmed: got %v", v.Annotations)
	}
	if IsConfirmed(v, "x") || Covers(v, "x", covered) || Covers(v, "u", volume()) {
		t.Errorf("it is confirmed for another one: got %v", v.Annotations)
	}
	Withdraw(v)
	Withdraw(v)
	if len(v.Annotations) != 2 || v.Annotations[wellknown.UnfenceAnnotation] != "u" || IsConfirmed(v, "u") || Covers(v, "u", covered) {
		t.Errorf("the request is withdrawn, and the node agent removes the rest: %v", v.Annotations)
	}
	v.ResourceVersion = "8"
	Request(v, "u", "clone", now)
	if v.Annotations[wellknown.UnfenceAnnotation] != "" {
		t.Error("a fence that is requested is withdrawn")
	}
	if Covers(v, "u", covered) || v.Annotations[wellknown.FenceForAnnotation] != "clone" {
		t.Error("another fence covers the copy of an earlier one")
	}
	Remove(v)
	if len(v.Annotations) > 0 {
		t.Errorf("left: %v", v.Annotations)
	}
	delete(covered.Annotations, wellknown.FenceTimeAnnotation)
	v.Annotations = map[string]string{wellknown.FenceAnnotation: "u", wellknown.FencedAnnotation: "u"}
	if Covers(v, "u", covered) {
		t.Error("a fence without a name covers a copy without one")
	}
}

// TestProgress: the largest number counts, and it is recorded at most once a minute.
func TestProgress(t *testing.T) {
	known := Progress{Bytes: 100, Time: now}
	for name, test := range map[string]struct {
		from  Progress
		begun time.Time
		bytes int64
		after time.Duration
		want  Progress
	}{
		"the first":                   {Progress{}, time.Time{}, 5, 0, Progress{5, now}},
		"the same":                    {known, time.Time{}, 100, time.Hour, known},
		"more":                        {known, time.Time{}, 101, time.Minute, Progress{101, now.Add(time.Minute)}},
		"more, within a minute":       {known, time.Time{}, 101, 59 * time.Second, known},
		"less: it was saved earlier":  {known, time.Time{}, 99, time.Hour, known},
		"less, of a newer copy":       {known, now.Add(time.Second), 0, 2 * time.Second, Progress{0, now.Add(2 * time.Second)}},
		"less, of a copy since then":  {known, now, 0, time.Hour, known},
		"the clock was set back":      {known, time.Time{}, 100, -time.Hour, Progress{100, now.Add(-time.Hour)}},
		"set back, and less than was": {known, time.Time{}, 50, -time.Hour, Progress{50, now.Add(-time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.from.Renew(test.begun, test.bytes, now.Add(test.after)); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	lv := volume()
	if got := ProgressOf(lv); got != (Progress{}) {
		t.Errorf("got %+v", got)
	}
	SetProgress(lv, known)
	if got := ProgressOf(lv); got.Bytes != 100 || !got.Time.Equal(now) {
		t.Errorf("got %+v from %v", got, lv.Annotations)
	}
	for _, text := range []string{"", "x", "/5", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z/x"} {
		lv.Annotations[wellknown.CopyProgressAnnotation] = text
		if got := ProgressOf(lv); got != (Progress{}) {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

// TestWhenALeaseEnds.
func TestWhenALeaseEnds(t *testing.T) {
	a, b := Node{Name: "a"}, Node{Name: "b"}
	down := Node{Name: "b", NotReady: true, Since: now}
	for name, test := range map[string]struct {
		lease Lease
		after time.Duration
		want  string
	}{
		"no copy yet": {Lease{Source: a, Target: b}, 100 * time.Hour, ""},
		"progress":    {Lease{Source: a, Target: b, Progress: Progress{5, now}}, ProgressLimit - time.Second, ""},
		"no progress": {Lease{Source: a, Target: b, Progress: Progress{5, now}}, ProgressLimit, "node b has copied nothing from node a since 2026-01-02T03:04:05Z"},
		"target down": {Lease{Source: a, Target: down}, 0, ""},
		"target down, no progress": {Lease{Source: a, Target: down, Progress: Progress{5, now}}, ProgressLimit,
			"node b is not ready since 2026-01-02T03:04:05Z, and node b has copied nothing from node a since 2026-01-02T03:04:05Z"},
		"target lost":    {Lease{Source: a, Target: Node{Name: "b", NotReady: true, Lost: true, Since: now}}, 0, "node b is not ready since 2026-01-02T03:04:05Z"},
		"source missing": {Lease{Source: Nodes{}.Get("a"), Target: b}, 0, "node a does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.lease.Ended(now.Add(test.after)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func node(name string, ready corev1.ConditionStatus, since time.Duration) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now)},
		{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-since))}}}}
}

func TestWhichNodesAreLost(t *testing.T) {
	nodes := NodesOf([]corev1.Node{node("ready", corev1.ConditionTrue, time.Hour), node("down", corev1.ConditionFalse,
		LostAfter-time.Second), node("lost", corev1.ConditionUnknown, LostAfter),
		{ObjectMeta: metav1.ObjectMeta{Name: "new"}}}, now)
	for name, want := range map[string][2]bool{"": {}, "ready": {}, "new": {}, "down": {true, false}, "lost": {true, true},
		"none": {true, true}} {
		if got := nodes.Get(name); got.NotReady != want[0] || got.Lost != want[1] {
			t.Errorf("node %q: got %+v", name, got)
		}
	}
}

// TestTheProgressOfAClone is what its node agent reports. Without a report, which is so while node agents are updated,
// the lease begins once more, and then ends.
func TestTheProgressOfAClone(t *testing.T) {
	for name, test := range map[string]struct {
		known  Progress
		record string
		after  time.Duration
		want   Progress
	}{
		"copied":   {Progress{0, now}, `{"source":"s","copiedBytes":5}`, time.Minute, Progress{5, now.Add(time.Minute)}},
		"compared": {Progress{5, now}, `{"source":"s","copiedBytes":5,"comparedBytes":3}`, time.Hour, Progress{8, now.Add(time.Hour)}},
		"the same": {Progress{8, now}, `{"source":"s","copiedBytes":5,"comparedBytes":3}`, time.Hour, Progress{8, now}},
		"again":    {Progress{8, now}, `{"source":"s","copiedBytes":5}`, time.Hour, Progress{8, now}},
		"too much": {Progress{8, now}, `{"source":"s","copiedBytes":18446744073709551615,"comparedBytes":18446744073709551615}`,
			time.Hour, Progress{1<<63 - 2, now.Add(time.Hour)}},
		"nothing is known":               {Progress{}, "", time.Hour, Progress{0, now.Add(time.Hour)}},
		"no report":                      {Progress{0, now}, "", time.Hour, Progress{0, now}},
		"no report, of an earlier agent": {Progress{8, now}, "", time.Hour, Progress{0, now.Add(time.Hour)}},
		"not readable":                   {Progress{8, now}, "{", time.Hour, Progress{0, now.Add(time.Hour)}},
		"not readable for long":          {Progress{0, now}, "{", time.Hour, Progress{0, now}},
	} {
		t.Run(name, func(t *testing.T) {
			lv := volume()
			lv.Annotations = map[string]string{wellknown.CopiedAnnotation: test.record}
			if test.known != (Progress{}) {
				SetProgress(lv, test.known)
			}
			if got := ProgressOfClone(lv, now.Add(test.after)); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestTheQueue has the rules for moves and clones: a place is taken by a copy that can end, and the oldest one is next.
func TestTheQueue(t *testing.T) {
	move := func(name string, age time.Duration, phase v1alpha1.VolumeMovePhase, source, target string,
		position int32) v1alpha1.VolumeMove {
		return v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(now.Add(-age))}, Status: v1alpha1.VolumeMoveStatus{Phase: phase,
			SourceNode: source, TargetNode: target, QueuePosition: position}}
	}
	copies := func(name, source, target string) v1alpha1.VolumeMove {
		return move(name, 0, v1alpha1.MoveCopying, source, target, 0)
	}
	change := func(m v1alpha1.VolumeMove, f func(*v1alpha1.VolumeMove)) v1alpha1.VolumeMove {
		f(&m)
		return m
	}
	stalled := func(m *v1alpha1.VolumeMove) {
		m.Status.ProgressTime = &metav1.Time{Time: now.Add(-ProgressLimit)}
	}
	source := func(name, node string, holder *topolvmv1.LogicalVolume) topolvmv1.LogicalVolume {
		v := volume()
		v.Name = name
		v.Spec.NodeName = node
		if holder != nil {
			Request(v, OfClone(holder.UID), holder.Name, now)
		}
		return *v
	}
	clone := func(name, of, target string, begun bool) *topolvmv1.LogicalVolume {
		lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name),
			Annotations: map[string]string{wellknown.CloneVolumeAnnotation: "id"}},
			Spec: topolvmv1.LogicalVolumeSpec{Source: of, NodeName: target}}
		if begun {
			lv.Annotations[wellknown.FenceTimeAnnotation] = "x"
		}
		return lv
	}
	c1, c2 := clone("c1", "s1", "b", true), clone("c2", "s2", "y", true)
	ends := func(f func(lv *topolvmv1.LogicalVolume)) *topolvmv1.LogicalVolume {
		lv := clone("c1", "s1", "b", true)
		f(lv)
		return lv
	}
	toB := source("s1", "x", nil)
	mine := Copy{UID: "mine", Source: "a", Target: "b", Created: now.Add(-time.Minute), Name: "mine"}
	two := func(m v1alpha1.VolumeMove) []v1alpha1.VolumeMove {
		other := m
		other.Name, other.UID = "other", "uid-other"
		return []v1alpha1.VolumeMove{m, other}
	}
	for name, test := range map[string]struct {
		moves   []v1alpha1.VolumeMove
		volumes []topolvmv1.LogicalVolume
		want    int32
	}{
		"alone":                    {nil, nil, 0},
		"one copies":               {[]v1alpha1.VolumeMove{copies("a", "a", "x")}, nil, 0},
		"two from the source":      {[]v1alpha1.VolumeMove{copies("a", "a", "x"), copies("b", "a", "y")}, nil, 1},
		"two to the target":        {[]v1alpha1.VolumeMove{copies("a", "x", "b"), copies("b", "y", "b")}, nil, 1},
		"itself":                   {two(change(copies("a", "a", "b"), func(m *v1alpha1.VolumeMove) { m.UID = "mine" })), nil, 0},
		"two that wait for Pods":   {two(move("a", 0, v1alpha1.MoveWaitingForPods, "a", "b", 0)), nil, 0},
		"two that are switched":    {two(move("a", 0, v1alpha1.MoveKeepingSource, "a", "b", 0)), nil, 0},
		"two of other nodes":       {two(copies("a", "x", "y")), nil, 0},
		"two in the way, reversed": {two(copies("a", "b", "a")), nil, 0},
		"two that are undone": {two(change(copies("a", "a", "b"), func(m *v1alpha1.VolumeMove) {
			m.DeletionTimestamp = &metav1.Time{Time: now}
		})), nil, 0},
		"two whose target is lost": {two(copies("a", "a", "lost")), nil, 0},
		"two whose source is lost": {two(copies("a", "lost", "b")), nil, 0},
		"two whose target is gone": {two(copies("a", "a", "none")), nil, 0},
		"two whose target is down": {two(copies("a", "a", "down")), nil, 1},
		"two without progress":     {two(change(copies("a", "a", "x"), stalled)), nil, 0},
		"one without progress":     {[]v1alpha1.VolumeMove{copies("a", "a", "x"), change(copies("b", "a", "x"), stalled)}, nil, 0},
		"an older one waits":       {[]v1alpha1.VolumeMove{copies("a", "a", "x"), move("b", time.Hour, v1alpha1.MovePending, "a", "", 1)}, nil, 2},
		"an older one waits, lost": {[]v1alpha1.VolumeMove{copies("a", "a", "x"), move("b", time.Hour, v1alpha1.MovePending, "a", "lost", 1)}, nil, 0},
		"a newer one waits":        {[]v1alpha1.VolumeMove{copies("a", "a", "x"), move("b", time.Second, v1alpha1.MovePending, "a", "b", 1)}, nil, 0},
		"an older one lacks room":  {[]v1alpha1.VolumeMove{copies("a", "a", "x"), move("b", time.Hour, v1alpha1.MovePending, "a", "b", 0)}, nil, 0},
		"older, waits for the target": {[]v1alpha1.VolumeMove{copies("a", "x", "b"), change(move("b", time.Hour, v1alpha1.MovePending, "y", "", 1),
			func(m *v1alpha1.VolumeMove) { m.Spec.NodeName = "b" })}, nil, 2},

		"a move and a clone to the target": {[]v1alpha1.VolumeMove{copies("a", "x", "b")}, []topolvmv1.LogicalVolume{*c1, toB}, 1},
		"a clone of an unknown source":     {[]v1alpha1.VolumeMove{copies("a", "x", "b")}, []topolvmv1.LogicalVolume{*c1}, 1},
		"a move and a clone from the source": {[]v1alpha1.VolumeMove{copies("a", "a", "x")},
			[]topolvmv1.LogicalVolume{*c2, source("s2", "a", c2)}, 1},
		"two clones": {nil, []topolvmv1.LogicalVolume{*c1, *clone("c3", "s3", "b", true), toB}, 1},
		"a clone for which a volume is being closed": {[]v1alpha1.VolumeMove{copies("a", "x", "b")},
			[]topolvmv1.LogicalVolume{*clone("c1", "s1", "b", false), source("s1", "x", c1)}, 1},
		"a clone that waits": {[]v1alpha1.VolumeMove{copies("a", "x", "b")},
			[]topolvmv1.LogicalVolume{*clone("c1", "s1", "b", false), toB}, 0},
		"a complete clone": {[]v1alpha1.VolumeMove{copies("a", "x", "b")}, []topolvmv1.LogicalVolume{
			*ends(func(lv *topolvmv1.LogicalVolume) { lv.Status.VolumeID = "id" }), toB}, 0},
		"a refused clone": {[]v1alpha1.VolumeMove{copies("a", "x", "b")}, []topolvmv1.LogicalVolume{
			*ends(func(lv *topolvmv1.LogicalVolume) { lv.Status.Code = codes.NotFound }), toB}, 0},
		"a deleted clone": {[]v1alpha1.VolumeMove{copies("a", "x", "b")}, []topolvmv1.LogicalVolume{
			*ends(func(lv *topolvmv1.LogicalVolume) { lv.DeletionTimestamp = &metav1.Time{Time: now} }), toB}, 0},
		"a clone whose source is lost": {[]v1alpha1.VolumeMove{copies("a", "x", "b")},
			[]topolvmv1.LogicalVolume{*c1, source("s1", "lost", c1)}, 0},
		"a clone without progress": {[]v1alpha1.VolumeMove{copies("a", "x", "b")}, []topolvmv1.LogicalVolume{
			*ends(func(lv *topolvmv1.LogicalVolume) {
				SetProgress(lv, Progress{5, now.Add(-ProgressLimit)})
			}), toB}, 0},
		"a volume": {[]v1alpha1.VolumeMove{copies("a", "x", "b")}, []topolvmv1.LogicalVolume{*volume(), *volume()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := NodesOf([]corev1.Node{node("a", corev1.ConditionTrue, 0), node("b", corev1.ConditionTrue, 0),
				node("x", corev1.ConditionTrue, 0), node("y", corev1.ConditionTrue, 0), node("down", corev1.ConditionFalse, 0),
				node("lost", corev1.ConditionUnknown, LostAfter)}, now)
			others := append(Moves(test.moves, nodes, now), Clones(test.volumes, nodes, now)...)
			if got := Turn(mine, others); got != test.want {
				t.Errorf("got position %d, want %d", got, test.want)
			}
		})
	}
	if got := Turn(Copy{UID: "mine"}, []Copy{{UID: "1"}, {UID: "2"}}); got != 0 {
		t.Errorf("nodes that are not known are the same: %d", got)
	}
	if strings.Contains(Node{Name: "a"}.String(), "not") {
		t.Error("a ready node is not ready")
	}
}
