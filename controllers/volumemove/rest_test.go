//go:build !env

package volumemove

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

const (
	crowdNamespace = "crowd"
	crowdPods      = 1000
)

// crowd is a namespace with 1,000 Pods and some claims whose volumes are moved from node a to node b. Reads from the
// cache are not counted.
type crowd struct {
	*testing.T
	api   client.WithWatch
	ctl   *Controller
	clock time.Time
	pods  []corev1.Pod
	moves []*v1alpha1.VolumeMove
	next  map[client.ObjectKey]time.Time

	mu       sync.Mutex
	requests map[string]int
	fail     string
}

var errCrowd = errors.New("no answer")

func newCrowd(t *testing.T, number int) *crowd {
	t.Helper()
	c := &crowd{T: t, api: memory.New(env.Namespace, crowdNamespace), clock: time.Now(),
		next: map[client.ObjectKey]time.Time{}, requests: map[string]int{}}
	c.must(createCluster(c.api))
	for _, name := range []string{"a", "b"} {
		room := resource.MustParse("100Ti")
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			wellknown.CapacityAnnotationPrefix + "thin": strconv.FormatInt(room.Value(), 10)}}}
		c.create(node)
		c.create(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: wellknown.DriverName, NodeID: name,
				TopologyKeys: []string{wellknown.TopologyNodeKey}}}}})
	}
	for i := range number {
		c.volume(i)
		c.pods = append(c.pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: crowdNamespace, Name: c.name(i)},
			Spec: corev1.PodSpec{NodeName: "a", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.name(i)}}}}}})
	}
	for i := len(c.pods); i < crowdPods; i++ {
		c.pods = append(c.pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: crowdNamespace,
			Name: "other-" + strconv.Itoa(i)}, Spec: corev1.PodSpec{NodeName: "a"}})
	}
	c.ctl = New(c.written(), c.read(), c.api, events.NewFakeRecorder(10*crowdPods), env.Namespace)
	c.ctl.now = func() time.Time { return c.clock }
	return c
}

func (c *crowd) name(i int) string { return fmt.Sprintf("v-%03d", i) }

func (c *crowd) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *crowd) create(object client.Object) {
	c.Helper()
	c.must(c.api.Create(c.Context(), object))
}

// volume creates a claim with a volume on node a, and a VolumeMove that has not begun.
func (c *crowd) volume(i int) {
	c.Helper()
	name, size := c.name(i), resource.MustParse("1Gi")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: crowdNamespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}}
	c.create(claim)
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topolvmv1.LogicalVolumeSpec{
		NodeName: "a", DeviceClass: "thin", Size: size}}
	c.create(lv)
	lv.Status = topolvmv1.LogicalVolumeStatus{VolumeID: "id-" + name, CurrentSize: ptr.To(size)}
	c.must(c.api.Status().Update(c.Context(), lv))
	c.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef:     &corev1.ObjectReference{Namespace: crowdNamespace, Name: name, UID: claim.UID},
		NodeAffinity: relocate.Affinity("a"), PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: "id-" + name}}}})
	move := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name,
		Finalizers: []string{wellknown.VolumeMoveFinalizer}}, Spec: v1alpha1.VolumeMoveSpec{NodeName: "b",
		Claim: v1alpha1.VolumeMoveClaim{Namespace: crowdNamespace, Name: name}}}
	c.create(move)
	c.moves = append(c.moves, move)
}

// copied gives all moves a complete copy, so that they wait for their Pods. The next round is due in 15 minutes.
func (c *crowd) copied() {
	c.Helper()
	const round = 9
	for _, m := range c.moves {
		m.Status = v1alpha1.VolumeMoveStatus{Phase: v1alpha1.MoveWaitingForPods, SourceNode: "a", TargetNode: "b",
			PersistentVolume: m.Name, DeviceClass: "thin"}
		c.must(c.api.Status().Update(c.Context(), m))
		own := func(name, node string) *topolvmv1.LogicalVolume {
			return &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name,
				Labels: map[string]string{wellknown.MoveLabel: string(m.UID)}, Annotations: map[string]string{}},
				Spec: topolvmv1.LogicalVolumeSpec{NodeName: node, DeviceClass: "thin", Size: resource.MustParse("1Gi")}}
		}
		snapshot := own(plan.SnapshotName(m, round), "a")
		c.create(snapshot)
		snapshot.Status = topolvmv1.LogicalVolumeStatus{VolumeID: "s", CurrentSize: ptr.To(resource.MustParse("1Gi"))}
		c.must(c.api.Status().Update(c.Context(), snapshot))
		target := own(plan.TargetName(m), "b")
		target.Spec.Source = snapshot.Name
		target.Annotations[wellknown.MoveVolumeAnnotation] = "id-" + m.Name
		record, err := json.Marshal(view.CopyRecord{Source: snapshot.Name, Finished: true, SizeBytes: 1 << 30})
		c.must(err)
		target.Annotations[wellknown.CopiedAnnotation] = string(record)
		c.create(target)
	}
}

func (c *crowd) count(verb string, object any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := verb + " " + strings.TrimPrefix(fmt.Sprintf("%T", object), "*")
	c.requests[call]++
	if c.fail == call {
		return errCrowd
	}
	return nil
}

// read is the API server for reads.
func (c *crowd) read() client.Reader {
	return interceptor.NewClient(c.api, interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if err := c.count("get", object); err != nil {
				return err
			}
			return inner.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := c.count("list", list); err != nil {
				return err
			}
			if pods, is := list.(*corev1.PodList); is {
				return c.page(pods, options)
			}
			return inner.List(ctx, list, options...)
		},
	})
}

// page is a page of the Pods.
func (c *crowd) page(list *corev1.PodList, options []client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(options)
	from, _ := strconv.Atoi(o.Continue)
	to := min(from+int(o.Limit), len(c.pods))
	list.Items = c.pods[from:to]
	if to < len(c.pods) {
		list.Continue = strconv.Itoa(to)
	}
	return nil
}

// written is the client of the operator, whose writes are counted.
func (c *crowd) written() client.Client {
	return operatorClient{interceptor.NewClient(c.api, interceptor.Funcs{
		Create: func(ctx context.Context, inner client.WithWatch, object client.Object,
			options ...client.CreateOption) error {
			return errors.Join(c.count("create", object), inner.Create(ctx, object, options...))
		},
		Patch: func(ctx context.Context, inner client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			return errors.Join(c.count("patch", object), inner.Patch(ctx, object, patch, options...))
		},
		SubResourcePatch: func(ctx context.Context, inner client.Client, sub string, object client.Object,
			patch client.Patch, options ...client.SubResourcePatchOption) error {
			return errors.Join(c.count("patch", object), inner.SubResource(sub).Patch(ctx, object, patch, options...))
		},
	})}
}

func (c *crowd) reconcile(i int) (reconcile.Result, error) {
	return c.ctl.Reconcile(c.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.moves[i])})
}

// run reconciles each move when it has asked for it, as a work queue does, until some time has passed.
func (c *crowd) run(d time.Duration) {
	c.Helper()
	for end := c.clock.Add(d); c.clock.Before(end); {
		for i, m := range c.moves {
			key := client.ObjectKeyFromObject(m)
			if c.next[key].After(c.clock) {
				continue
			}
			result, err := c.reconcile(i)
			c.must(err)
			c.next[key] = c.clock.Add(result.RequeueAfter)
		}
		next := end
		for _, at := range c.next {
			if at.Before(next) {
				next = at
			}
		}
		c.clock = next
	}
}

func (c *crowd) wantRequests(want map[string]int) {
	c.Helper()
	if !maps.Equal(c.requests, want) {
		c.Errorf("got the requests %v, want %v", c.requests, want)
	}
	c.requests = map[string]int{}
}

// TestMovesThatWaitAreFewRequests: moves wait for the Pods of a namespace with 1,000 Pods. Each is read every five
// minutes, and they share the list of Pods, which has two pages, whatever their number is.
func TestMovesThatWaitAreFewRequests(t *testing.T) {
	const number, duration = 40, 10 * time.Minute
	c := newCrowd(t, number)
	c.copied()
	c.run(time.Second)
	c.requests = map[string]int{}
	c.run(duration)
	polls := int(duration / plan.Often)
	c.wantRequests(map[string]int{"get v1alpha1.VolumeMove": number * 2, "get v1.PersistentVolumeClaim": number * 2,
		"get v1.PersistentVolume": number * 2, "get v1.LogicalVolume": number * 2, "list v1.LogicalVolumeList": number * 2,
		"list v1.PodList": polls * 2})
}

// TestThePauseDoesNotDependOnOtherMoves: the end of a Pod has its move closed with the same requests, whatever else
// waits.
func TestThePauseDoesNotDependOnOtherMoves(t *testing.T) {
	for _, number := range []int{1, 40} {
		c := newCrowd(t, number)
		c.copied()
		c.run(time.Minute)
		c.requests = map[string]int{}
		c.pods = c.pods[1:]
		c.ctl.podEnded(client.ObjectKeyFromObject(c.moves[0]), crowdNamespace)
		_, err := c.reconcile(0)
		c.must(err)
		lv := &topolvmv1.LogicalVolume{}
		c.must(c.api.Get(t.Context(), client.ObjectKey{Name: c.name(0)}, lv))
		if fence.Holder(lv) != string(c.moves[0].UID) {
			t.Errorf("the volume is not closed: %v", lv.Annotations)
		}
		// Two reads of the move: before it is closed and after it. The lists of Pods have two pages: one may be shared, one
		// is right before the fence, and one under it.
		c.wantRequests(map[string]int{"get v1alpha1.VolumeMove": 2, "get v1.PersistentVolumeClaim": 2,
			"get v1.PersistentVolume": 2, "get v1.LogicalVolume": 2, "list v1.LogicalVolumeList": 2, "list v1.PodList": 6,
			"patch v1.LogicalVolume": 1, "patch v1alpha1.VolumeMove": 1})
	}
}

// TestAMoveThatWaitsNoticesChanges at its next poll, and events at once.
func TestAMoveThatWaitsNoticesChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *crowd)
		read   bool
	}{
		"nothing": {func(*crowd) {}, false},
		"an event": {func(c *crowd) {
			requests := c.ctl.movesOf(c.Context(), &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: c.name(0)}})
			if len(requests) != 1 {
				c.Errorf("got %v", requests)
			}
		}, true},
		"the VolumeMove": {func(c *crowd) {
			c.must(c.api.Get(c.Context(), client.ObjectKeyFromObject(c.moves[0]), c.moves[0]))
			c.moves[0].Spec.MaxPause = &metav1.Duration{Duration: time.Minute}
			c.must(c.api.Update(c.Context(), c.moves[0]))
		}, true},
		"its Pod":          {func(c *crowd) { c.pods = c.pods[1:] }, true},
		"one more Pod":     {func(c *crowd) { c.pods[5].Spec.Volumes = c.pods[0].Spec.Volumes }, true},
		"another Pod":      {func(c *crowd) { c.pods = c.pods[:len(c.pods)-1] }, false},
		"a new process":    {func(c *crowd) { clear(c.ctl.resting) }, true},
		"a long time":      {func(c *crowd) { c.clock = c.clock.Add(restLimit) }, true},
		"the round is due": {func(c *crowd) { c.clock = c.clock.Add(plan.RefreshMax) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, 1)
			c.copied()
			c.run(time.Second)
			c.requests = map[string]int{}
			test.change(c)
			c.clock = c.clock.Add(shareFor)
			_, err := c.reconcile(0)
			c.must(err)
			if got := c.requests["get v1.LogicalVolume"] > 0; got != test.read {
				t.Errorf("read: %v, want %v: %v", got, test.read, c.requests)
			}
		})
	}
}

// TestAListOfPodsThatFails is an error, and not a namespace without Pods.
func TestAListOfPodsThatFails(t *testing.T) {
	for _, isNew := range []bool{false, true} {
		c := newCrowd(t, 1)
		c.copied()
		c.run(time.Second)
		c.clock = c.clock.Add(shareFor)
		if isNew {
			c.ctl.podEnded(client.ObjectKeyFromObject(c.moves[0]), crowdNamespace)
		}
		c.pods = nil
		c.fail = "list v1.PodList"
		if _, err := c.reconcile(0); !errors.Is(err, errCrowd) || !strings.Contains(err.Error(), crowdNamespace) {
			t.Errorf("got %v", err)
		}
		lv := &topolvmv1.LogicalVolume{}
		c.must(c.api.Get(t.Context(), client.ObjectKey{Name: c.name(0)}, lv))
		if fence.Holder(lv) != "" {
			t.Error("the volume is closed")
		}
	}
}

// TestAnEventDuringTheReadIsNotLost: the move has been read before the change, so it is read again.
func TestAnEventDuringTheReadIsNotLost(t *testing.T) {
	c := newCrowd(t, 1)
	c.copied()
	key := client.ObjectKeyFromObject(c.moves[0])
	c.ctl.rise(key)
	c.ctl.wake(key)
	s, err := c.ctl.reader().read(t.Context(), c.moves[0])
	c.must(err)
	c.ctl.stay(s, plan.Next(s, c.clock, time.Time{}))
	if _, rests, err := c.ctl.rests(t.Context(), key); rests || err != nil {
		t.Errorf("the event is lost (%v)", err)
	}
}

// TestMovesThatBeginAtTheSameTime: only as many copy as may, and the others have a place in the queue, for which they are
// not read.
func TestMovesThatBeginAtTheSameTime(t *testing.T) {
	const number = 12
	c := newCrowd(t, number)
	for range 2 {
		var all sync.WaitGroup
		for i := range number {
			all.Go(func() {
				if _, err := c.reconcile(i); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	copying, positions := 0, map[int32]bool{}
	for _, m := range c.moves {
		c.must(c.api.Get(t.Context(), client.ObjectKeyFromObject(m), m))
		switch m.Status.Phase {
		case v1alpha1.MoveCopying:
			copying++
		case v1alpha1.MovePending:
			positions[m.Status.QueuePosition] = true
		}
	}
	if copying != fence.MaxCopies || positions[0] {
		t.Errorf("%d moves copy, and the others have the places %v", copying, positions)
	}
	for i := range number { // Now all know their place.
		_, err := c.reconcile(i)
		c.must(err)
	}
	c.requests = map[string]int{}
	for i, m := range c.moves {
		if m.Status.Phase != v1alpha1.MovePending {
			continue
		}
		_, err := c.reconcile(i)
		c.must(err)
	}
	c.wantRequests(map[string]int{})
}

// TestAMoveWhosePodIsWatchedIsPolledRarely.
func TestAMoveWhosePodIsWatchedIsPolledRarely(t *testing.T) {
	c := newCrowd(t, 1)
	c.copied()
	ctx, cancel := context.WithCancel(t.Context())
	c.ctl.pods = newPodWatches(interceptor.NewClient(c.api, interceptor.Funcs{Watch: func(ctx context.Context,
		inner client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
		w, err := inner.Watch(ctx, list, options...)
		if err == nil {
			context.AfterFunc(ctx, w.Stop) // as a watch of an API server ends
		}
		return w, err
	}}), c.ctl.podEnded)
	c.ctl.pods.permit(ctx)
	for range 2 {
		result, err := c.reconcile(0)
		c.must(err)
		if result.RequeueAfter != followedPoll {
			t.Errorf("polled after %s", result.RequeueAfter)
		}
	}
	cancel()
	c.ctl.pods.running.Wait()
}
