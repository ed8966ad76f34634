package clone

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/activecache"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/test/kill"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// blocks is how many blocks a volume has.
const blocks = 3

// data is the content of a volume: the number of writes to each block.
type data [blocks]int

// world has an API server with the thick volume "pvc-1", and plays what else acts on it: a Pod, the node agents, the
// CSI controller and an administrator.
type world struct {
	*testing.T
	api client.WithWatch
	// guarded is the client of the controller, without its points.
	guarded client.WithWatch
	points  *kill.Points
	fail    string
	uids    int

	// tag is the fence of the logical volume, and volume its content. closed has the content with which the volume was
	// closed, by FenceTimeAnnotation.
	tag     string
	volume  data
	closed  map[string]data
	mounted bool
	// copies are the logical volumes of clones, by UID.
	copies map[types.UID]*copied
}

// copied is what the node agent of a clone has done.
type copied struct {
	data           data
	read, compared int
	// open is the stream that is open: "", "data" or "sums".
	open string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, closed: map[string]data{}, copies: map[types.UID]*copied{}, points: &kill.Points{}}
	for _, name := range []string{"a", "b", "c"} {
		objects = append(objects, node(name, corev1.ConditionTrue, time.Time{}))
	}
	w.api = memory.Builder().WithObjects(append(objects, source())...).Build()
	w.guarded = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if w.fail != "" && strings.HasSuffix(fmt.Sprintf("%T/%s", o, key.Name), w.fail) {
				return errRead
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			if w.fail != "" && strings.HasSuffix(fmt.Sprintf("%T", l), w.fail) {
				return errRead
			}
			return c.List(ctx, l, options...)
		},
	})
	return w
}

// node returns a Node whose condition Ready has a status since a time.
func node(name string, ready corev1.ConditionStatus, since time.Time) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(since)}}}}
}

var errRead = errors.New("timeout")

// active is the cache: it has only LogicalVolumes that are not settled.
func (w *world) active() client.Reader {
	return interceptor.NewClient(w.guarded, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, l, options...)
			if list, ok := l.(*topolvmv1.LogicalVolumeList); ok {
				list.Items = slices.DeleteFunc(list.Items,
					func(lv topolvmv1.LogicalVolume) bool { return activecache.IsSettled(&lv) })
			}
			return err
		},
	})
}

// operate reconciles the source in a new process.
func (w *world) operate() error {
	guarded := w.points.Client(w.guarded)
	c := New(guarded, guarded, w.active(), "operator")
	_, err := c.Reconcile(w.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "pvc-1"}})
	return err
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) get(name string) *topolvmv1.LogicalVolume {
	w.Helper()
	lv := &topolvmv1.LogicalVolume{}
	err := w.api.Get(w.Context(), client.ObjectKey{Name: name}, lv)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return lv
}

// create creates a clone with its claim, as the CSI controller and the user do.
func (w *world) create(number int) {
	w.Helper()
	lv := copyTo(number)
	w.uids++
	lv.UID = types.UID(fmt.Sprintf("uid-%d-%d", number, w.uids))
	w.must(w.api.Create(w.Context(), lv))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
		Name: fmt.Sprintf("clone%d", number), UID: types.UID(fmt.Sprintf("c%d", number))}}
	if err := w.api.Create(w.Context(), claim); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
}

// driver is the CSI controller, which is called for the clone with a number: it creates the LogicalVolume, and deletes
// one that was refused.
func (w *world) driver(number int) {
	w.Helper()
	switch lv := w.get(copyTo(number).Name); {
	case lv == nil:
		w.create(number)
	case service.IsRefusal(lv.Status.Code):
		w.must(w.api.Delete(w.Context(), lv))
	}
}

// sourceAgent is the Reconciler of package fencing. It ends after the given number of changes.
func (w *world) sourceAgent(changes int) {
	w.Helper()
	lv := w.get("pvc-1")
	fence := lv.Annotations[wellknown.FenceAnnotation]
	write := func(fenced, problem string) {
		for key, value := range map[string]string{wellknown.FencedAnnotation: fenced,
			wellknown.FenceErrorAnnotation: problem} {
			delete(lv.Annotations, key)
			if value != "" {
				lv.Annotations[key] = value
			}
		}
		w.must(w.api.Update(w.Context(), lv))
	}
	switch {
	case fence == "":
		write("", "")
		if changes > 1 {
			w.tag = ""
		}
	case lv.Annotations[wellknown.FencedAnnotation] == fence:
		if w.tag != fence {
			write("", "removed by another program")
		}
	case w.mounted:
		write("", "it is mounted")
	default:
		w.tag = fence
		w.closed[lv.Annotations[wellknown.FenceTimeAnnotation]] = w.volume
		if changes > 1 {
			write(fence, "")
		}
	}
}

// mayRead is the check of package copies.
func (w *world) mayRead(lv *topolvmv1.LogicalVolume) bool {
	source := w.get("pvc-1")
	fence := fence.OfClone(lv.UID)
	name := lv.Annotations[wellknown.FenceTimeAnnotation]
	return source.Annotations[wellknown.FenceAnnotation] == fence && w.tag == fence && name != "" &&
		source.Annotations[wellknown.FencedAnnotation] == fence &&
		source.Annotations[wellknown.FenceTimeAnnotation] == name && source.DeletionTimestamp.IsZero()
}

// targetAgent copies or compares one block of a clone. A stream that was opened stays open whatever happens to the
// fence.
func (w *world) targetAgent(number int) {
	w.Helper()
	lv := w.get(copyTo(number).Name)
	if lv == nil || lv.Status.VolumeID != "" || service.IsRefusal(lv.Status.Code) ||
		lv.Annotations[wellknown.FenceTimeAnnotation] == "" {
		return
	}
	c := w.copies[lv.UID]
	if c == nil {
		c = &copied{}
		w.copies[lv.UID] = c
	}
	want := "data"
	if c.read == blocks {
		want = "sums"
	}
	if c.open != want {
		if !w.mayRead(lv) {
			return
		}
		c.open = want
	}
	switch {
	case c.read < blocks:
		c.data[c.read] = w.volume[c.read]
		c.read++
	case c.data[c.compared] != w.volume[c.compared]:
		*c = copied{} // It differs, and is copied again.
	default:
		c.compared++
	}
	if c.compared < blocks {
		return
	}
	lv.Status = topolvmv1.LogicalVolumeStatus{VolumeID: string(lv.UID),
		CurrentSize: ptr.To(resource.MustParse("1Gi"))}
	w.must(w.api.Status().Update(w.Context(), lv))
	if was, ok := w.closed[lv.Annotations[wellknown.FenceTimeAnnotation]]; !ok || c.data != was {
		w.Errorf("clone %s has %v, and the volume %v when it was closed (%v)", lv.Name, c.data, was, ok)
	}
}

// pod starts a Pod that uses the volume, or ends it.
func (w *world) pod(runs bool) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: usesClaim("data")}
	if !runs {
		w.mounted = false
		w.must(client.IgnoreNotFound(w.api.Delete(w.Context(), pod)))
		return
	}
	if err := w.api.Create(w.Context(), pod); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
	w.mounted = w.mounted || w.tag == ""
}

func usesClaim(names ...string) corev1.PodSpec {
	spec := corev1.PodSpec{}
	for _, name := range names {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	return spec
}

// write writes a block, if a Pod has the volume.
func (w *world) write(block int) {
	if w.mounted {
		w.volume[block]++
	}
}

// removeFence is an administrator who removes the fence by hand.
func (w *world) removeFence() {
	w.Helper()
	lv := w.get("pvc-1")
	delete(lv.Annotations, wellknown.FenceAnnotation)
	delete(lv.Annotations, wellknown.FenceTimeAnnotation)
	delete(lv.Annotations, wellknown.FenceForAnnotation)
	w.must(w.api.Update(w.Context(), lv))
}

// settle lets everything act until both clones are complete, and checks that the volume can be used again.
func (w *world) settle(clones ...int) {
	w.Helper()
	w.pod(false)
	for range 60 {
		w.must(w.operate())
		w.sourceAgent(2)
		for _, number := range clones {
			w.driver(number)
			w.targetAgent(number)
		}
		if w.areComplete(clones) && w.tag == "" {
			break
		}
	}
	w.isOpen()
	if !w.areComplete(clones) {
		w.Errorf("clones %d are not complete", clones)
	}
}

func (w *world) areComplete(clones []int) bool {
	return !slices.ContainsFunc(clones, func(number int) bool {
		lv := w.get(copyTo(number).Name)
		return lv == nil || lv.Status.VolumeID == ""
	})
}

// isOpen checks that nothing of a fence is left, and that a Pod gets the volume.
func (w *world) isOpen() {
	w.Helper()
	lv := w.get("pvc-1")
	for _, key := range []string{wellknown.FenceAnnotation, wellknown.FencedAnnotation, wellknown.FenceTimeAnnotation,
		wellknown.FenceForAnnotation, wellknown.FenceErrorAnnotation} {
		if _, has := lv.Annotations[key]; has {
			w.Errorf("the source has %s: %q", key, lv.Annotations[key])
		}
	}
	if w.pod(true); !w.mounted {
		w.Errorf("a Pod cannot use the volume: the tag is %q", w.tag)
	}
}

// TestACloneHasTheDataOfOneMoment in random orders of events: Pods come, write and end, agents and the operator are
// killed between two changes, and an administrator removes the fence.
func TestACloneHasTheDataOfOneMoment(t *testing.T) {
	complete := 0
	for seed := range uint64(30) {
		w := newWorld(t)
		w.create(1)
		w.create(2)
		random := rand.New(rand.NewPCG(seed, 1))
		for range 120 {
			number := 1 + random.IntN(2)
			switch random.IntN(20) {
			case 0, 1:
				w.must(w.operate())
			case 2, 3, 4:
				w.sourceAgent(1 + random.IntN(2))
			case 5, 6, 7, 8, 9:
				for range 1 + random.IntN(2*blocks) {
					w.targetAgent(number)
				}
			case 10, 11, 12:
				w.pod(random.IntN(2) == 0)
			case 13, 14, 15, 16:
				w.write(random.IntN(blocks))
			case 17:
				w.driver(number)
			default:
				w.removeFence()
			}
		}
		for _, c := range w.copies {
			if c.compared == blocks {
				complete++
			}
		}
		w.settle(1, 2)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if complete < 2 {
		t.Errorf("only %d clones were complete before the end", complete)
	}
}

// TestTheOperatorIsKilledAtEveryWrite of two clones, the second of which waits for the first.
func TestTheOperatorIsKilledAtEveryWrite(t *testing.T) {
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		w := newWorld(t)
		w.points = p
		w.create(1)
		w.create(2)
		for range 40 {
			if err := w.operate(); err != nil && !p.Dead() {
				t.Error(err)
			}
			if p.Dead() {
				break
			}
			w.sourceAgent(2)
			w.targetAgent(1)
			w.targetAgent(2)
		}
		p.Restart()
		w.settle(1, 2)
	})
}

// TestACloneThatEnds has its fence removed, and that of nothing else.
func TestACloneThatEnds(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"its claim is deleted": func(w *world) {
			w.must(w.api.Delete(w.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "clone1"}}))
		},
		"it is deleted": func(w *world) { w.must(w.api.Delete(w.Context(), w.get("pvc-c1"))) },
		"it is being deleted": func(w *world) {
			lv := w.get("pvc-c1")
			lv.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
			w.must(w.api.Update(w.Context(), lv))
			w.must(w.api.Delete(w.Context(), lv))
		},
		"it is another one": func(w *world) {
			w.must(w.api.Delete(w.Context(), w.get("pvc-c1")))
			w.create(1)
		},
		"it is refused": func(w *world) {
			lv := w.get("pvc-c1")
			lv.Status.Code = codes.ResourceExhausted
			w.must(w.api.Status().Update(w.Context(), lv))
		},
		"it has a PersistentVolume": func(w *world) {
			w.must(w.api.Create(w.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-c1"}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin()
			if w.tag == "" || w.get("pvc-c1").Annotations[wellknown.FenceTimeAnnotation] == "" {
				t.Fatal("it is not copied")
			}
			end(w)
			w.must(w.operate())
			w.sourceAgent(2)
			if w.get("pvc-1").Annotations[wellknown.FenceAnnotation] != "" || w.tag != "" {
				t.Errorf("the fence is %q, and the tag %q", w.get("pvc-1").Annotations[wellknown.FenceAnnotation], w.tag)
			}
		})
	}
}

// begin creates a clone, and closes the source for it, so that it may be copied.
func (w *world) begin() {
	w.Helper()
	w.create(1)
	for range 3 {
		w.must(w.operate())
		w.sourceAgent(2)
	}
}

// TestALostNode of a clone does not keep the source closed if a Pod waits for it. The copy begins again when the node
// is ready.
func TestALostNode(t *testing.T) {
	w := newWorld(t)
	w.begin()
	w.targetAgent(1)
	w.pod(true)
	set := func(ready corev1.ConditionStatus, since time.Duration) {
		t.Helper()
		w.must(w.api.Status().Update(t.Context(), node("b", ready, time.Now().Add(-since))))
		for range 2 {
			w.must(w.operate())
			w.sourceAgent(2)
		}
	}
	for _, since := range []time.Duration{0, fence.LostAfter - time.Minute} {
		if set(corev1.ConditionUnknown, since); w.tag == "" || w.get("pvc-c1").Status.Code != codes.OK {
			t.Fatalf("after %s: the tag is %q, the status %+v", since, w.tag, w.get("pvc-c1").Status)
		}
	}
	set(corev1.ConditionFalse, fence.LostAfter)
	got := w.get("pvc-c1").Status
	if w.tag != "" || got.Code != codes.FailedPrecondition || !strings.Contains(got.Message, "node b is not ready") ||
		!strings.Contains(got.Message, "shop/web") {
		t.Fatalf("the tag is %q, the status %+v", w.tag, got)
	}
	w.isOpen()
	// The CSI controller deletes the clone, and creates another one, which waits for its node. The source stays open.
	w.driver(1)
	w.driver(1)
	w.pod(false)
	set(corev1.ConditionFalse, fence.LostAfter)
	if got := w.get("pvc-c1").Status; w.tag != "" || !strings.Contains(got.Message, "node b is not ready") {
		t.Errorf("the tag is %q, the status %+v", w.tag, got)
	}
	set(corev1.ConditionTrue, 0)
	w.settle(1)
}

// TestANodeThatDoesNotExist is lost.
func TestANodeThatDoesNotExist(t *testing.T) {
	w := newWorld(t)
	w.begin()
	w.must(w.api.Delete(t.Context(), node("b", corev1.ConditionTrue, time.Time{})))
	w.pod(true)
	w.must(w.operate())
	w.sourceAgent(2)
	if got := w.get("pvc-c1").Status; w.tag != "" || got.Code != codes.FailedPrecondition {
		t.Errorf("the tag is %q, the status %+v", w.tag, got)
	}
}

// TestTheFenceOfAMoveIsNotTouched, and the clone says which VolumeMove it waits for.
func TestTheFenceOfAMoveIsNotTouched(t *testing.T) {
	w := newWorld(t, &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Namespace: "operator", Name: "evacuate",
		UID: "m"}})
	lv := w.get("pvc-1")
	lv.Annotations[wellknown.FenceAnnotation] = "m"
	lv.Annotations[wellknown.FenceTimeAnnotation] = "x"
	w.must(w.api.Update(t.Context(), lv))
	w.create(1)
	for range 2 {
		w.must(w.operate())
		now := w.get("pvc-1")
		if now.Annotations[wellknown.FenceAnnotation] != "m" || now.Annotations[wellknown.FenceTimeAnnotation] != "x" {
			t.Errorf("got %v", now.Annotations)
		}
	}
	if got := w.get("pvc-c1").Status; got.Code != codes.Aborted || !strings.Contains(got.Message, "VolumeMove evacuate") {
		t.Errorf("got %+v", got)
	}
}

// TestAFailedReadChangesNothing: the objects stay as they are, before the fence and under it.
func TestAFailedReadChangesNothing(t *testing.T) {
	for _, kind := range []string{"LogicalVolume/pvc-1", "LogicalVolume/pvc-c1", "LogicalVolumeList",
		"PersistentVolume/pvc-c1", "PersistentVolumeClaim/clone1", "PodList", "VolumeMoveList", "NodeList"} {
		for steps := range 4 {
			t.Run(fmt.Sprintf("%s after %d steps", kind, steps), func(t *testing.T) {
				w := newWorld(t)
				w.create(1)
				for range steps {
					w.must(w.operate())
					w.sourceAgent(2)
				}
				if kind == "VolumeMoveList" {
					lv := w.get("pvc-1")
					lv.Annotations[wellknown.FenceAnnotation] = "m"
					w.must(w.api.Update(t.Context(), lv))
				}
				before := []string{w.get("pvc-1").ResourceVersion, w.get("pvc-c1").ResourceVersion}
				w.fail = kind
				if err := w.operate(); !errors.Is(err, errRead) {
					t.Errorf("got %v", err)
				}
				after := []string{w.get("pvc-1").ResourceVersion, w.get("pvc-c1").ResourceVersion}
				if !slices.Equal(before, after) {
					t.Error("something was written")
				}
			})
		}
	}
}

// TestAPodThatWaitsForTheClone does not count as one that uses the source. One that has a node does.
func TestAPodThatWaitsForTheClone(t *testing.T) {
	for node, fenced := range map[string]bool{"": true, "a": false} {
		w := newWorld(t)
		w.create(1)
		spec := usesClaim("data", "clone1")
		spec.NodeName = node
		w.must(w.api.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "both"},
			Spec: spec}))
		w.must(w.operate())
		if got := w.get("pvc-1").Annotations[wellknown.FenceAnnotation] != ""; got != fenced {
			t.Errorf("on node %q: fenced %v", node, got)
		}
	}
}

// TestAnObjectThatChangesMeanwhileIsReadAgain: the write fails, and nothing else is written.
func TestAnObjectThatChangesMeanwhileIsReadAgain(t *testing.T) {
	w := newWorld(t)
	w.create(1)
	once := true
	w.guarded = interceptor.NewClient(w.guarded, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			options ...client.PatchOption) error {
			if once {
				once = false
				w.removeFence() // It changes nothing but the resource version.
				lv := w.get("pvc-1")
				lv.Annotations["x"] = "y"
				w.must(w.api.Update(ctx, lv))
			}
			return c.Patch(ctx, o, p, options...)
		},
	})
	w.must(w.operate())
	if w.get("pvc-1").Annotations[wellknown.FenceAnnotation] != "" {
		t.Error("it is fenced, although it has changed")
	}
	w.must(w.operate())
	if w.get("pvc-1").Annotations[wellknown.FenceAnnotation] == "" {
		t.Error("it is not fenced")
	}
}

// TestClonesOfOtherSourcesAreCounted if they are being copied to the node, and only then.
func TestClonesOfOtherSourcesAreCounted(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(lv *topolvmv1.LogicalVolume)
		fenced bool
	}{
		"copied":    {func(*topolvmv1.LogicalVolume) {}, false},
		"not begun": {func(lv *topolvmv1.LogicalVolume) { delete(lv.Annotations, wellknown.FenceTimeAnnotation) }, true},
		"stalled": {func(lv *topolvmv1.LogicalVolume) {
			fence.SetProgress(lv, fence.Progress{Time: time.Now().Add(-fence.ProgressLimit)})
		}, true},
		"complete":  {func(lv *topolvmv1.LogicalVolume) { lv.Status.VolumeID = "x" }, true},
		"refused":   {func(lv *topolvmv1.LogicalVolume) { lv.Status.Code = codes.NotFound }, true},
		"elsewhere": {func(lv *topolvmv1.LogicalVolume) { lv.Spec.NodeName = "c" }, true},
	} {
		w := newWorld(t)
		w.create(1)
		for _, number := range []int{3, 4} {
			lv := copyTo(number)
			lv.Spec.Source = "pvc-other"
			lv.Annotations[wellknown.FenceTimeAnnotation] = "x"
			tt.change(lv)
			status := lv.Status
			w.must(w.api.Create(t.Context(), lv))
			lv.Status = status
			w.must(w.api.Status().Update(t.Context(), lv))
		}
		w.must(w.operate())
		if got := w.get("pvc-1").Annotations[wellknown.FenceAnnotation] != ""; got != tt.fenced {
			t.Errorf("%s: fenced %v", name, got)
		}
	}
}

// TestACopyWithoutProgressEndsForAPod, also if the operator is restarted: the LogicalVolume of the clone has the time.
func TestACopyWithoutProgressEndsForAPod(t *testing.T) {
	w := newWorld(t)
	w.begin()
	w.pod(true)
	report := func(mib uint64) {
		t.Helper()
		lv := w.get("pvc-c1")
		lv.Annotations[wellknown.CopiedAnnotation] = fmt.Sprintf(`{"source":"pvc-1","copiedBytes":%d}`, mib<<20)
		w.must(w.api.Update(t.Context(), lv))
	}
	// age has the last progress been noticed some time ago.
	age := func(by time.Duration) {
		t.Helper()
		lv := w.get("pvc-c1")
		p := fence.ProgressOf(lv)
		if p.Time.IsZero() {
			t.Fatal("no progress was recorded")
		}
		fence.SetProgress(lv, fence.Progress{Bytes: p.Bytes, Time: p.Time.Add(-by)})
		w.must(w.api.Update(t.Context(), lv))
	}
	for _, mib := range []uint64{10, 20, 30} {
		report(mib)
		age(2 * time.Minute)
		w.must(w.operate())
		if got := fence.ProgressOf(w.get("pvc-c1")); got.Bytes != int64(mib)<<20 || w.tag == "" {
			t.Fatalf("the progress is %+v, want %d MiB", got, mib)
		}
	}
	version := w.get("pvc-c1").ResourceVersion
	w.must(w.operate())
	if w.get("pvc-c1").ResourceVersion != version {
		t.Error("the same progress is written again")
	}
	report(20) // It was read again from the last point that was saved.
	age(fence.ProgressLimit)
	w.must(w.operate())
	w.sourceAgent(2)
	if got := w.get("pvc-c1").Status; w.tag != "" || got.Code != codes.FailedPrecondition ||
		!strings.Contains(got.Message, "node b has copied nothing from node a since") {
		t.Fatalf("the tag is %q, the status %+v", w.tag, got)
	}
	w.isOpen()
	w.driver(1)
	w.settle(1)
}

// TestWhichSourceAnEventIsFor, also of a clone that is complete.
func TestWhichSourceAnEventIsFor(t *testing.T) {
	done := copyTo(1)
	done.Status.VolumeID = "x"
	closed := source()
	closed.Annotations[wellknown.FenceAnnotation] = "clone-x"
	moved := source()
	moved.Annotations[wellknown.FenceAnnotation] = "m"
	for name, tt := range map[string]struct {
		object client.Object
		want   int
	}{"a clone": {copyTo(1), 1}, "a complete clone": {done, 1}, "a source": {closed, 1}, "of a move": {moved, 0},
		"a volume": {source(), 0}, "a Pod": {&corev1.Pod{}, 0}} {
		got := sourcesOf(t.Context(), tt.object)
		if len(got) != tt.want || len(got) == 1 && got[0].Name != "pvc-1" {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
