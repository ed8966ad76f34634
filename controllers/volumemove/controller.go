// Package volumemove moves volumes between nodes: it is the operator's side of VolumeMoves. The node agents copy the
// data and close and open volumes; they and the operator coordinate with annotations of LogicalVolumes.
//
// The steps are:
//
//  1. a snapshot of the volume on the source node, and a copy of it on the target node, while Pods use the volume;
//  2. more rounds, each with a snapshot and the changes since the previous one, until a round takes less than maxPause;
//  3. when no Pod uses the volume: the node agent of the source node closes the volume (the fence), and a last round;
//  4. the switch: one patch of the LogicalVolume, which is on the target node from then on;
//  5. the logical volume on the source node gets an owner of its own, which is deleted after keepSource.
//
// A thick volume has no snapshots: instead of steps 1 to 3, it is fenced when no Pod uses it, and then copied itself.
//
// Each time, the operator reads all objects from the API server, decides in a pure function (package plan), and
// performs one action. It does not depend on what it has written to the status, apart from the selected nodes and the
// time of the last progress. So it can be killed at any time, and continues. Moves that wait share the lists of Pods,
// and are read only after a change (podlists.go, rest.go). Until the switch, a move is undone by the deletion of what
// was created for it.
package volumemove

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove/plan"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
)

// Delays of fences that were withdrawn, before the next one.
const (
	firstFenceDelay = 15 * time.Second
	maxFenceDelay   = 10 * time.Minute
)

// workers is the number of moves that are handled at the same time, so that a move that is being switched does not wait
// for all others. Only one begins at a time.
const workers = 4

// maxSteps is the maximum number of actions of a call of Reconcile, so that other moves have their turn.
const maxSteps = 20

// Controller performs VolumeMoves. It is safe for concurrent use with different moves.
type Controller struct {
	client    client.Client
	live      client.Reader
	active    client.Reader
	events    *event.Emitter
	namespace string
	now       func() time.Time
	// pods is nil if Pods are only polled.
	pods  *podWatches
	lists *podLists
	// beginning is locked while a move begins, until its status says so: the limits for copies depend on it.
	beginning sync.Mutex

	mu sync.Mutex
	// resting are the moves that wait. woken are those for which something has changed since they began to be read.
	resting map[client.ObjectKey]rest
	woken   map[client.ObjectKey]bool
	// fences are the fences that were withdrawn, of moves that have not ended. A new process begins without.
	fences map[types.UID]fenceDelay
}

// fenceDelay is how often a fence was withdrawn, and when the next one may be requested.
type fenceDelay struct {
	delay time.Duration
	until time.Time
}

// New returns a Controller for the VolumeMoves of a namespace. The client may read from a cache; live must not. active
// is the cache itself, which has only the LogicalVolumes that are not settled.
func New(c client.Client, live, active client.Reader, recorder event.Recorder, namespace string) *Controller {
	m := &Controller{client: c, live: live, active: active, events: event.NewEmitter(recorder), namespace: namespace,
		now: time.Now, fences: map[types.UID]fenceDelay{}, resting: map[client.ObjectKey]rest{},
		woken: map[client.ObjectKey]bool{}}
	m.lists = &podLists{live: live, now: func() time.Time { return m.now() }, lists: map[string]*podList{}}
	return m
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=volumemoves,namespace=openshift-lvm-storage,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=volumemoves/status,namespace=openshift-lvm-storage,verbs=patch

// reader returns what reads the states of moves.
func (c *Controller) reader() *reader {
	return &reader{client: c.client, live: c.live, namespace: c.namespace, now: c.now, lists: c.lists}
}

// beginner returns what decides whether moves begin.
func (c *Controller) beginner() *beginner {
	return &beginner{client: c.client, live: c.live, active: c.active, namespace: c.namespace, now: c.now}
}

// Reconcile performs the next steps of a move, and reports them in the status.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	after, isResting, err := c.rests(ctx, request.NamespacedName)
	if err != nil || isResting {
		return reconcile.Result{RequeueAfter: after}, err
	}
	c.rise(request.NamespacedName)
	var last plan.Step
	for range maxSteps {
		move := &v1alpha1.VolumeMove{}
		if err := c.live.Get(ctx, request.NamespacedName, move); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if isDone(move) {
			c.forget(move)
			return reconcile.Result{}, nil
		}
		st, err := c.step(ctx, move)
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: plan.Soon}, nil
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		if last = st; st.Action == plan.Wait {
			return reconcile.Result{RequeueAfter: st.After}, nil
		}
	}
	return reconcile.Result{RequeueAfter: max(last.After, time.Millisecond)}, nil
}

// isDone reports whether nothing is left to do for a move: it has ended, and what was created for it is deleted.
func isDone(move *v1alpha1.VolumeMove) bool {
	has := controllerutil.ContainsFinalizer(move, wellknown.VolumeMoveFinalizer)
	return !has && (move.Ended() || !move.DeletionTimestamp.IsZero())
}

// step reads the state of a move, performs its next action, and writes the status.
func (c *Controller) step(ctx context.Context, move *v1alpha1.VolumeMove) (plan.Step, error) {
	if err := c.addFinalizer(ctx, move); err != nil {
		return plan.Step{}, client.IgnoreNotFound(err)
	}
	before := move.DeepCopy()
	s, st, err := c.next(ctx, move)
	if err != nil {
		return plan.Step{}, err
	}
	if st.Action == plan.Begin {
		c.beginning.Lock()
		defer c.beginning.Unlock()
		if st, err = c.tryBegin(ctx, s); err != nil {
			return plan.Step{}, err
		}
	}
	s.Describe(st, c.now())
	// The status is written before the finalizer is removed, and after other actions: it reports what was done.
	if st.Action == plan.End {
		if err := c.report(ctx, before, s); err != nil {
			return plan.Step{}, err
		}
		return st, c.act(ctx, s, st)
	}
	if err := c.act(ctx, s, st); err != nil {
		return plan.Step{}, err
	}
	if st.Discards {
		c.delayFence(move.UID)
	}
	if err := c.report(ctx, before, s); err != nil {
		return plan.Step{}, err
	}
	c.stay(s, st)
	if st.Action == plan.Wait && st.Phase == v1alpha1.MoveWaitingForPods && len(s.Pods) > 0 {
		st.After = min(st.After, c.pollAfter(client.ObjectKeyFromObject(move), s.Pods[0], s.PodsVersion))
	}
	return st, nil
}

func (c *Controller) addFinalizer(ctx context.Context, move *v1alpha1.VolumeMove) error {
	before := move.DeepCopy()
	if !move.DeletionTimestamp.IsZero() || !controllerutil.AddFinalizer(move, wellknown.VolumeMoveFinalizer) {
		return nil
	}
	return c.client.Patch(ctx, move, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// next reads the state of a move and decides its next step.
func (c *Controller) next(ctx context.Context, move *v1alpha1.VolumeMove) (*plan.State, plan.Step, error) {
	s, err := c.reader().read(ctx, move)
	if err != nil {
		return nil, plan.Step{}, err
	}
	st := plan.Next(s, c.now(), c.fenceAfter(move.UID))
	if st.Action != plan.CloseVolume {
		return s, st, nil
	}
	// The list of Pods can be that of another move.
	if err := c.reader().readPods(ctx, s, true); err != nil {
		return nil, plan.Step{}, err
	}
	return s, plan.Next(s, c.now(), c.fenceAfter(move.UID)), nil
}

// pollAfter has a move reconciled when a Pod has ended, the first of its Pods, and returns when to list the Pods if
// nothing is reported. The move then waits for the next one.
func (c *Controller) pollAfter(move client.ObjectKey, pod, version string) time.Duration {
	namespace, name, _ := strings.Cut(pod, "/")
	if c.pods != nil && c.pods.follow(move, client.ObjectKey{Namespace: namespace, Name: name}, version) {
		return followedPoll
	}
	return plan.Often
}

// tryBegin begins a move, or returns what it waits for.
func (c *Controller) tryBegin(ctx context.Context, s *plan.State) (plan.Step, error) {
	status := &s.Move.Status
	status.QueuePosition = 0
	status.TargetNode, status.DeviceClass, status.PersistentVolume, status.Thick = "", "", "", false
	err := c.beginner().mayBegin(ctx, s)
	var facts plan.Start
	if err == nil {
		facts, err = c.beginner().beginLive(ctx, s)
	}
	var no plan.RefusedError
	var later plan.PendingError
	switch {
	case errors.As(err, &no):
		return plan.Undo(s, v1alpha1.MoveFailed, no.Error()), nil
	case errors.As(err, &later):
		s.Move.Status.QueuePosition = later.Position
		if s.Volume != nil {
			s.Move.Status.SourceNode = s.Volume.Spec.NodeName
		}
		return plan.Step{Phase: v1alpha1.MovePending, Message: later.Message, After: plan.Blocked,
			QueuedFor: later.Target}, nil
	case err != nil:
		return plan.Step{}, err
	}
	status.SourceNode = facts.Source
	status.TargetNode = facts.Target
	status.DeviceClass = facts.Class
	status.Thick = facts.Thick
	status.PersistentVolume = s.PV.Name
	status.TotalBytes = s.Volume.Spec.Size.Value()
	log.FromContext(ctx).Info("begin to move a volume", "lv", s.Volume.Status.VolumeID, "claim",
		s.Move.Spec.Claim.String(), "from", facts.Source, "to", facts.Target)
	message := "the copy to node " + facts.Target + " begins"
	if facts.Doubt != "" {
		message += ". The node " + facts.Doubt + ": it refuses the copy if the data does not fit"
	}
	return plan.Step{Action: plan.Begin, Phase: v1alpha1.MoveCopying, Message: message, After: plan.Soon}, nil
}

// fenceAfter returns when the volume of a move may be fenced again, or a copy that was discarded may begin again.
func (c *Controller) fenceAfter(move types.UID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fences[move].until
}

// delayFence delays the next fence after one that was withdrawn, and the next copy after one that was discarded.
func (c *Controller) delayFence(move types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delay := min(max(firstFenceDelay, 2*c.fences[move].delay), maxFenceDelay)
	c.fences[move] = fenceDelay{delay: delay, until: c.now().Add(delay)}
}

// forget removes what is known of a move that has ended.
func (c *Controller) forget(move *v1alpha1.VolumeMove) {
	c.events.Forget(move)
	c.rise(client.ObjectKeyFromObject(move))
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fences, move.UID)
}

// CacheByObject limits the manager's cache to the operator's namespace.
func CacheByObject(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&v1alpha1.VolumeMove{}: {Namespaces: map[string]cache.Config{namespace: {}}},
	}
}

// podEnded has a move read its Pods again, because one of them has ended.
func (c *Controller) podEnded(move client.ObjectKey, namespace string) {
	c.lists.invalidate(namespace)
	c.wake(move)
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	watching, err := client.NewWithWatch(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(),
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("create a client to watch Pods: %w", err)
	}
	c.pods = newPodWatches(watching, c.podEnded)
	if err := mgr.Add(c.pods); err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		Named("volumemove").
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Watches(&v1alpha1.VolumeMove{}, &handler.EnqueueRequestForObject{}).
		Watches(&topolvmv1.LogicalVolume{}, handler.EnqueueRequestsFromMapFunc(c.movesOf)).
		Watches(&corev1.PersistentVolume{}, handler.EnqueueRequestsFromMapFunc(c.movesOf)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(c.movesOf)).
		Watches(&v1alpha1.LVMVolumeGroupNodeStatus{}, handler.EnqueueRequestsFromMapFunc(c.movesFrom)).
		WatchesRawSource(source.Channel(c.pods.ended, &handler.EnqueueRequestForObject{})).
		Complete(adapt.Reconciler(c))
}

// movesOf returns the moves of a claim, PersistentVolume or LogicalVolume. The cache has them as long as they are not
// settled. The last event of a LogicalVolume, when it is settled, no longer has the annotations that tell of the move.
func (c *Controller) movesOf(ctx context.Context, object client.Object) []reconcile.Request {
	moves := &v1alpha1.VolumeMoveList{}
	if err := c.client.List(ctx, moves, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // The moves are read again after their delay.
	}
	var requests []reconcile.Request
	for i := range moves.Items {
		if move := &moves.Items[i]; !isDone(move) && concerns(move, object) {
			c.wake(client.ObjectKeyFromObject(move))
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(move)})
		}
	}
	return requests
}

// concerns reports whether an object is that of the claim of a move, or was created for the move.
func concerns(move *v1alpha1.VolumeMove, object client.Object) bool {
	if _, isClaim := object.(*corev1.PersistentVolumeClaim); isClaim {
		return client.ObjectKeyFromObject(object) == client.ObjectKey(move.Spec.Claim)
	}
	if uid := object.GetAnnotations()[wellknown.MoveAnnotation]; uid != "" {
		return uid == string(move.UID)
	}
	return object.GetName() == move.Status.PersistentVolume
}
