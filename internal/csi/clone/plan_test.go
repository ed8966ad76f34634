package clone

import (
	"fmt"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
)

// moment is the time of the plans.
var moment = time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)

const fenceName = "2026-01-02T03:04:05Z/7"

// source is the thick volume "pvc-1" on node a.
func source() *topolvmv1.LogicalVolume {
	size := resource.MustParse("1Gi")
	return &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "uid-1", Annotations: map[string]string{
			wellknown.ClaimAnnotation: "shop/data"}},
		Spec:   topolvmv1.LogicalVolumeSpec{NodeName: "a", Size: size, DeviceClass: "thick"},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: "id-1", CurrentSize: ptr.To(size.DeepCopy())},
	}
}

// copyTo is the clone "pvc-NUMBER" on node b.
func copyTo(number int) *topolvmv1.LogicalVolume {
	name := fmt.Sprintf("pvc-c%d", number)
	return &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("uid-c%d", number)),
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, number, 0, time.UTC)),
			Annotations: map[string]string{wellknown.ClaimAnnotation: fmt.Sprintf("shop/clone%d", number),
				wellknown.CloneVolumeAnnotation: "id-1"}},
		Spec: topolvmv1.LogicalVolumeSpec{NodeName: "b", Size: resource.MustParse("1Gi"), Source: "pvc-1",
			AccessType: "rw"},
	}
}

// waiting is a source with two clones, which nothing uses.
func waiting() *state {
	return &state{name: "pvc-1", source: source(), targets: []*target{{lv: copyTo(1)}, {lv: copyTo(2)}}}
}

func (s *state) close(confirmed bool) {
	a := s.source.Annotations
	a[wellknown.FenceAnnotation] = "clone-uid-c1"
	a[wellknown.FenceTimeAnnotation] = fenceName
	a[wellknown.FenceForAnnotation] = "pvc-c1"
	if confirmed {
		a[wellknown.FencedAnnotation] = "clone-uid-c1"
	}
}

// copying is a source that is copied to the first of its clones.
func copying() *state {
	s := waiting()
	s.close(true)
	s.targets[0].lv.Annotations[wellknown.FenceTimeAnnotation] = fenceName
	return s
}

func fenced(confirmed bool) *state {
	s := waiting()
	s.close(confirmed)
	return s
}

// summary is a step as a text: the action and the answers.
func summary(st step) string {
	var parts []string
	if st.unfence {
		parts = append(parts, "unfence")
	}
	if st.fence != nil {
		parts = append(parts, "fence "+st.fence.Name)
	}
	if st.begin != nil {
		parts = append(parts, "begin "+st.begin.Name)
	}
	if st.progress != nil {
		parts = append(parts, "progress "+st.progress.Name)
	}
	for _, a := range st.answers {
		parts = append(parts, fmt.Sprintf("%s %s", a.lv.Name, a.code))
	}
	return strings.Join(parts, ", ")
}

// TestWhatIsNextForASource has a row for each fact on which a decision depends.
func TestWhatIsNextForASource(t *testing.T) {
	now := metav1.Now()
	set := func(key, value string) func(*state) {
		return func(s *state) { s.source.Annotations[key] = value }
	}
	first := func(change func(lv *topolvmv1.LogicalVolume)) func(*state) {
		return func(s *state) { change(s.targets[0].lv) }
	}
	status := func(code codes.Code) func(*state) {
		return first(func(lv *topolvmv1.LogicalVolume) { lv.Status.Code, lv.Status.Message = code, "agent" })
	}
	pod := func(s *state) { s.pods = []string{"shop/web"} }
	notReady := fence.Node{Name: "b", NotReady: true, Since: moment.Add(-time.Minute)}
	lostNode := func(name string) fence.Node {
		return fence.Node{Name: name, NotReady: true, Lost: true, Since: moment.Add(-fence.LostAfter)}
	}
	lost := func(s *state) { s.targets[0].node = lostNode("b") }
	// progress has the agent report a number of MiB, and the operator have noticed another one before.
	progress := func(mib int, ago time.Duration, known int) func(*state) {
		return func(s *state) {
			lv := s.targets[0].lv
			lv.Status.Code = codes.Aborted
			lv.Annotations[wellknown.CopiedAnnotation] = fmt.Sprintf(`{"source":"pvc-1","copiedBytes":%d}`, mib<<20)
			fence.SetProgress(lv, fence.Progress{Bytes: int64(known) << 20, Time: moment.Add(-ago)})
		}
	}
	busy := func(source, target string) func(*state) {
		return func(s *state) {
			for _, uid := range []string{"x", "y"} {
				s.others = append(s.others, fence.Copy{UID: uid, Source: source, Target: target})
			}
		}
	}
	for name, tt := range map[string]struct {
		from   func() *state
		change func(*state)
		want   string
		says   []string
	}{
		"nothing uses it": {waiting, nil, "fence pvc-c1, pvc-c2 Aborted", []string{"its other clones first"}},
		"a Pod uses it": {waiting, pod, "pvc-c1 Aborted, pvc-c2 Aborted", []string{
			"a thick volume has no snapshots", "volume pvc-1 of claim shop/data", "only while no Pod uses it", "end: shop/web"}},
		"it is moved": {waiting, func(s *state) {
			s.source.Annotations[wellknown.FenceAnnotation] = "m"
			s.move = "evacuate"
		}, "pvc-c1 Aborted, pvc-c2 Aborted", []string{"is being moved by VolumeMove evacuate"}},
		"it is moved by an unknown VolumeMove": {waiting, set(wellknown.FenceAnnotation, "m"),
			"pvc-c1 Aborted, pvc-c2 Aborted", []string{"VolumeMove with the UID m"}},
		"it is switched":  {waiting, set(wellknown.AdoptAnnotation, "x"), "pvc-c1 Aborted, pvc-c2 Aborted", nil},
		"its PV is moved": {waiting, set(wellknown.MovedVolumeAnnotation, "x"), "pvc-c1 Aborted, pvc-c2 Aborted", nil},
		"it is retired":   {waiting, set(wellknown.RetireAnnotation, "x"), "pvc-c1 Aborted, pvc-c2 Aborted", nil},
		"it is being opened": {waiting, set(wellknown.FencedAnnotation, "clone-uid-c1"),
			"pvc-c1 Aborted, pvc-c2 Aborted", []string{"node a opens volume pvc-1"}},
		"it is extended": {waiting, func(s *state) { s.source.Spec.Size = resource.MustParse("2Gi") },
			"pvc-c1 Aborted, pvc-c2 Aborted", []string{"node a extends", "2Gi"}},
		"its size is not known": {waiting, func(s *state) { s.source.Status.CurrentSize = nil },
			"pvc-c1 Aborted, pvc-c2 Aborted", nil},
		"it was extended": {waiting, func(s *state) {
			s.source.Spec.Size = resource.MustParse("2Gi")
			s.source.Status.CurrentSize = ptr.To(resource.MustParse("2Gi"))
		}, "pvc-c1 OutOfRange, pvc-c2 OutOfRange", []string{"has 2Gi now, and the clone 1Gi"}},
		"it is deleted": {waiting, func(s *state) { s.source.DeletionTimestamp = &now },
			"pvc-c1 NotFound, pvc-c2 NotFound", []string{"is being deleted"}},
		"it is gone": {waiting, func(s *state) { s.source = nil }, "pvc-c1 NotFound, pvc-c2 NotFound",
			[]string{"no longer exists"}},
		"it is another volume": {waiting, func(s *state) { s.source.Status.VolumeID = "id-2" },
			"pvc-c1 NotFound, pvc-c2 NotFound", []string{"no longer has the volume id-1"}},
		"the first claim was deleted": {waiting, func(s *state) { s.targets[0].lacksClaim = true },
			"fence pvc-c2, pvc-c1 NotFound", []string{"claim shop/clone1 does not exist"}},
		"the first was refused":        {waiting, status(codes.ResourceExhausted), "fence pvc-c2", nil},
		"the agent of the first fails": {waiting, status(codes.Unavailable), "fence pvc-c2", nil},
		"the first is deleted": {waiting, first(func(lv *topolvmv1.LogicalVolume) { lv.DeletionTimestamp = &now }),
			"fence pvc-c2", nil},
		"its node has room for a copy": {waiting, func(s *state) {
			busy("x", "a")(s)
			s.others = append(s.others, fence.Copy{UID: "z", Source: "y", Target: "b"})
		}, "fence pvc-c1, pvc-c2 Aborted", nil},
		"its node copies others": {waiting, func(s *state) {
			busy("x", "b")(s)
			s.targets[1].lv.Spec.NodeName = "a"
		}, "fence pvc-c2, pvc-c1 Aborted", []string{"place 1 in the queue: at most 2 volumes are copied from node a, and " +
			"to node b, at the same time. volume pvc-1 of claim shop/data is closed and copied after that"}},
		"the node of the source copies others": {waiting, busy("a", "x"), "pvc-c1 Aborted, pvc-c2 Aborted",
			[]string{"place 1 in the queue"}},
		"its node is not ready": {waiting, func(s *state) { s.targets[0].node = notReady },
			"fence pvc-c2, pvc-c1 Aborted", []string{"node b is not ready since 2026-01-02T03:59:00Z: volume pvc-1 of claim " +
				"shop/data is closed and copied when the node is ready"}},
		"the node of the source is not ready": {waiting, func(s *state) { s.node = lostNode("a") },
			"pvc-c1 Aborted, pvc-c2 Aborted", []string{"node a is not ready"}},
		"no clone": {waiting, func(s *state) { s.targets = nil }, "", nil},

		"not confirmed": {func() *state { return fenced(false) }, set(wellknown.FenceErrorAnnotation, "mounted at /x"),
			"pvc-c2 Aborted, pvc-c1 Aborted", []string{"only while nothing uses it: node a closes it: mounted at /x",
				"is being cloned to claim shop/clone1 (LogicalVolume pvc-c1): this clone waits"}},
		"not confirmed, a Pod comes": {func() *state { return fenced(false) }, pod,
			"unfence, pvc-c2 Aborted, pvc-c1 Aborted", []string{"end: shop/web"}},
		"confirmed": {func() *state { return fenced(true) }, nil, "begin pvc-c1, pvc-c2 Aborted", nil},
		"confirmed, a Pod comes": {func() *state { return fenced(true) }, pod, "unfence, pvc-c2 Aborted, pvc-c1 Aborted",
			nil},
		"confirmed for another one": {func() *state { return fenced(true) }, set(wellknown.FencedAnnotation, "clone-x"),
			"pvc-c2 Aborted, pvc-c1 Aborted", nil},
		"confirmed, its node is not ready": {func() *state { return fenced(true) },
			func(s *state) { s.targets[0].node = notReady }, "unfence, pvc-c2 Aborted, pvc-c1 Aborted",
			[]string{"node b is not ready"}},
		"confirmed, the node of the source is not ready": {func() *state { return fenced(true) },
			func(s *state) { s.node = lostNode("a") }, "unfence, pvc-c2 Aborted, pvc-c1 Aborted",
			[]string{"node a is not ready"}},
		"a fence that was lost": {func() *state { return fenced(true) },
			set(wellknown.FencedAnnotation, wellknown.LostFencePrefix+fenceName), "unfence, pvc-c2 Aborted, pvc-c1 Aborted", nil},
		"a fence without a name": {func() *state { return fenced(true) }, set(wellknown.FenceTimeAnnotation, ""),
			"unfence, pvc-c2 Aborted", nil},
		"copied":              {copying, nil, "progress pvc-c1, pvc-c2 Aborted", nil},
		"copied, a Pod waits": {copying, pod, "progress pvc-c1, pvc-c2 Aborted", nil},
		"copied, the agent cannot reach the source": {copying, status(codes.Unavailable), "progress pvc-c1, pvc-c2 Aborted", nil},
		"copied, its node is not ready": {copying, func(s *state) { pod(s); s.targets[0].node = notReady },
			"progress pvc-c1, pvc-c2 Aborted", nil},
		"copied, its node is lost": {copying, lost, "progress pvc-c1, pvc-c2 Aborted", nil},
		"copied, its node is lost, a Pod waits": {copying, func(s *state) { pod(s); lost(s) },
			"unfence, pvc-c1 FailedPrecondition", []string{"node b is not ready since 2026-01-02T03:55:00Z, so the copy of " +
				"volume pvc-1 of claim shop/data to node b is discarded for the Pods that wait for the volume (shop/web)"}},
		"copied, its node does not exist, a Pod waits": {copying, func(s *state) {
			pod(s)
			s.targets[0].node = fence.Nodes{}.Get("b")
		}, "unfence, pvc-c1 FailedPrecondition", []string{"node b does not exist"}},
		"copied, the node of the source is lost": {copying, func(s *state) { s.node = lostNode("a") },
			"progress pvc-c1, pvc-c2 Aborted", nil},
		"copied, the node of the source is lost, a Pod waits": {copying, func(s *state) { pod(s); s.node = lostNode("a") },
			"unfence, pvc-c1 FailedPrecondition", []string{"node a is not ready since"}},
		"copied, progress, a Pod waits": {copying, func(s *state) { pod(s); progress(8, 4*time.Minute, 7)(s) },
			"progress pvc-c1, pvc-c2 Aborted", nil},
		"copied, late progress, a Pod waits": {copying, func(s *state) { pod(s); progress(8, time.Hour, 7)(s) },
			"progress pvc-c1, pvc-c2 Aborted", nil},
		"copied, new progress, a Pod waits": {copying, func(s *state) { pod(s); progress(8, time.Second, 7)(s) },
			"pvc-c2 Aborted", nil},
		"copied, no progress yet, a Pod waits": {copying, func(s *state) {
			pod(s)
			progress(7, fence.ProgressLimit-time.Second, 7)(s)
		}, "pvc-c2 Aborted", nil},
		"copied, no progress": {copying, progress(7, time.Hour, 7), "pvc-c2 Aborted", nil},
		"copied, no progress, a Pod waits": {copying, func(s *state) { pod(s); progress(7, fence.ProgressLimit, 7)(s) },
			"unfence, pvc-c1 FailedPrecondition", []string{"has copied nothing from node"}},
		"copied, it begins again and again, a Pod waits": {copying, func(s *state) {
			pod(s)
			progress(3, fence.ProgressLimit, 7)(s)
		}, "unfence, pvc-c1 FailedPrecondition", nil},
		"copied, it fails, a Pod waits": {copying, func(s *state) {
			pod(s)
			progress(7, fence.ProgressLimit, 7)(s)
			status(codes.Unavailable)(s)
		}, "unfence, pvc-c1 FailedPrecondition", nil},
		"complete or gone": {copying, func(s *state) { s.targets = s.targets[1:] }, "unfence", nil},
		"the last is gone": {copying, func(s *state) { s.targets = nil }, "unfence", nil},
		"another UID": {copying, first(func(lv *topolvmv1.LogicalVolume) {
			lv.UID = "other"
			delete(lv.Annotations, wellknown.FenceTimeAnnotation)
		}), "unfence", nil},
		"refused": {copying, status(codes.ResourceExhausted), "unfence", nil},
		"the clone is deleted": {copying, first(func(lv *topolvmv1.LogicalVolume) { lv.DeletionTimestamp = &now }),
			"unfence", nil},
		"the claim is deleted": {copying, func(s *state) { s.targets[0].lacksClaim = true },
			"unfence, pvc-c1 NotFound", nil},
		"the source is deleted": {copying, func(s *state) { s.source.DeletionTimestamp = &now },
			"unfence, pvc-c1 NotFound, pvc-c2 NotFound", nil},
		"fenced again": {copying, set(wellknown.FenceTimeAnnotation, "x"), "unfence, pvc-c1 FailedPrecondition",
			[]string{"could be used since the copy to node b began"}},
		"the fence was removed": {copying, func(s *state) {
			delete(s.source.Annotations, wellknown.FenceAnnotation)
		}, "pvc-c1 FailedPrecondition, pvc-c2 Aborted", []string{"opens volume pvc-1"}},
		"the tag was removed": {copying, set(wellknown.FencedAnnotation, ""), "unfence, pvc-c1 FailedPrecondition", nil},
		"a move has taken it": {copying, set(wellknown.FenceAnnotation, "m"),
			"pvc-c1 FailedPrecondition, pvc-c2 Aborted", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := tt.from()
			if tt.change != nil {
				tt.change(s)
			}
			st := plan(s, moment)
			if got := summary(st); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			var messages []string
			for _, a := range st.answers {
				messages = append(messages, a.message)
			}
			for _, want := range tt.says {
				if !strings.Contains(strings.Join(messages, "\n"), want) {
					t.Errorf("the messages are %q, want %q", messages, want)
				}
			}
			if (st.after == 0) != (len(s.targets) == 0 && !st.unfence) {
				t.Errorf("read again after %s", st.after)
			}
		})
	}
}

// TestTheMessageNamesNotTooManyPods, because it becomes an event.
func TestTheMessageNamesNotTooManyPods(t *testing.T) {
	s := waiting()
	for i := range maxPods + 3 {
		s.pods = append(s.pods, fmt.Sprintf("shop/web-%02d", i))
	}
	got := plan(s, moment).answers[0].message
	if !strings.HasSuffix(got, "shop/web-09 and 3 more") {
		t.Errorf("got %q", got)
	}
	s.pods = []string{strings.Repeat("x", 2*maxMessage)}
	if got := plan(s, moment).answers[0].message; len(got) != maxMessage {
		t.Errorf("got %d bytes", len(got))
	}
}
