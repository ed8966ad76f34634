package logicalvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

const (
	// groupWorkers is the number of group snapshots that are prepared at the same time. Their suspensions follow each
	// other.
	groupWorkers = 4
	// releasePoll is how often the cache is read for the release while volumes are suspended.
	releasePoll = 2 * time.Millisecond
	// recoverMin and recoverMax limit the delay between two attempts to resume what an earlier agent left suspended.
	recoverMin = time.Second
	recoverMax = time.Minute
)

// GroupTaker takes the snapshots of groups. *groupsnapshot.Node implements it.
type GroupTaker interface {
	groupsnapshot.Taker
	// Recover resumes what an earlier process left suspended.
	Recover(ctx context.Context) error
}

// GroupEngine creates pending snapshots and makes them usable. engine.Engine implements it.
type GroupEngine interface {
	PrepareSnapshot(ctx context.Context, in engine.NewSnapshot) error
	KeepSnapshot(ctx context.Context, class, name string) error
	// HoldUnformatted keeps the formatting of a volume from beginning until release is called. It returns Aborted if it
	// has begun.
	HoldUnformatted(ctx context.Context, class, name string) (release func(), err error)
	VolumeGroup(class string) (string, error)
}

// GroupReconciler acts on the requests of the CSI controller for group snapshots, on the one LogicalVolume of each
// group on this node that has the request. It writes the state to the same object, and the status to all LogicalVolumes
// of the group when their snapshots are usable.
type GroupReconciler struct {
	volumes *Reconciler
	engine  GroupEngine
	taker   GroupTaker
}

// NewGroups returns a GroupReconciler for the LogicalVolumes of r.
func NewGroups(r *Reconciler, engine GroupEngine, taker GroupTaker) *GroupReconciler {
	return &GroupReconciler{volumes: r, engine: engine, taker: taker}
}

// SetupWithManager adds the reconciler to a manager. It also resumes what an earlier agent left suspended.
func (g *GroupReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("groupsnapshot").
		For(&topolvmv1.LogicalVolume{}, builder.WithPredicates(predicate.NewPredicateFuncs(g.leads))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: groupWorkers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				retryMin, retryMax),
		}).
		Complete(adapt.Reconciler(g))
	return errors.Join(err, mgr.Add(manager.RunnableFunc(g.resume)))
}

// resume resumes what an earlier agent left suspended. Until this has succeeded, no group snapshot is taken.
func (g *GroupReconciler) resume(ctx context.Context) error {
	for delay := recoverMin; ; delay = min(2*delay, recoverMax) {
		err := g.taker.Recover(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		log.FromContext(ctx).Error(err, "cannot resume the volumes of an earlier group snapshot yet")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
	}
}

// leads reports whether an object has the request of a group snapshot to this node.
func (g *GroupReconciler) leads(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	return ok && lv.Spec.NodeName == g.volumes.Node && lv.DeletionTimestamp.IsZero() && view.GroupPending(lv) != "" &&
		view.HasGroupRequest(lv)
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes/status,verbs=patch

// Reconcile does what the CSI controller requests. While volumes are suspended, it returns only when they are resumed.
func (g *GroupReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	// The state must be the last one that was written.
	leader := &topolvmv1.LogicalVolume{}
	if err := g.volumes.Live.Get(ctx, req.NamespacedName, leader); err != nil || !g.leads(leader) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	request, err := view.GroupRequestOf(leader)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	state, err := view.GroupStateOf(leader)
	if err != nil {
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	if groupprotocol.Act(request.Request, state, false) == groupprotocol.Nothing {
		return ctrl.Result{}, nil
	}
	link := groupLink{g, leader}
	members, pairs, err := g.members(ctx, leader, request)
	if err != nil {
		if request.Phase == groupprotocol.Keep {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, client.IgnoreNotFound(link.Report(ctx, groupprotocol.State{Attempt: request.Attempt,
			Phase: groupprotocol.Failed, Reason: message(err)}))
	}
	session := groupsnapshot.Session{Name: view.GroupPending(leader), Pairs: pairs,
		Taker: groupMembers{g, members}, Volumes: groupMembers{g, members}, Link: link}
	return ctrl.Result{}, client.IgnoreNotFound(session.Act(ctx, request.Request, state))
}

// members reads the LogicalVolumes of a group on this node from the API server, by the names of their snapshots.
func (g *GroupReconciler) members(ctx context.Context, leader *topolvmv1.LogicalVolume,
	request *view.GroupRequest) (map[string]*topolvmv1.LogicalVolume, []groupsnapshot.Pair, error) {
	members := map[string]*topolvmv1.LogicalVolume{}
	var pairs []groupsnapshot.Pair
	for _, member := range request.Members {
		lv := &topolvmv1.LogicalVolume{}
		if err := g.volumes.Live.Get(ctx, client.ObjectKey{Name: member}, lv); err != nil {
			return nil, nil, fmt.Errorf("read LogicalVolume %s of the group: %w", member, err)
		}
		if err := g.belongs(lv, leader); err != nil {
			return nil, nil, err
		}
		vg, err := g.engine.VolumeGroup(lv.Spec.DeviceClass)
		if err != nil {
			return nil, nil, err
		}
		source, err := g.volumes.source(ctx, lv)
		if err != nil {
			return nil, nil, err
		}
		members[identity.Name(lv)] = lv
		pairs = append(pairs, groupsnapshot.Pair{VG: vg, Source: identity.Name(source), Snapshot: identity.Name(lv)})
	}
	return members, pairs, nil
}

// belongs returns an error if a LogicalVolume does not belong to the group of leader on this node.
func (g *GroupReconciler) belongs(lv, leader *topolvmv1.LogicalVolume) error {
	id := view.GroupPending(leader)
	switch {
	case !lv.DeletionTimestamp.IsZero():
		return fmt.Errorf("LogicalVolume %s of the group is being deleted", lv.Name)
	case view.GroupPending(lv) != id, lv.Spec.NodeName != g.volumes.Node, lv.Spec.Source == "":
		return fmt.Errorf("LogicalVolume %s is not a snapshot of group %s on node %s", lv.Name, id, g.volumes.Node)
	}
	return nil
}

// groupMembers are the LogicalVolumes of a group, by the names of their snapshots.
type groupMembers struct {
	*GroupReconciler
	of map[string]*topolvmv1.LogicalVolume
}

// Prepare creates the pending snapshot of a LogicalVolume, unless it is deleted meanwhile.
func (m groupMembers) Prepare(ctx context.Context, p groupsnapshot.Pair) error {
	r := m.volumes
	// The removal of a LogicalVolume must not come between the check and the creation.
	r.remover.grouping.Lock()
	defer r.remover.grouping.Unlock()
	lv := &topolvmv1.LogicalVolume{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(m.of[p.Snapshot]), lv); err != nil {
		return err
	}
	if lv.UID != m.of[p.Snapshot].UID || !lv.DeletionTimestamp.IsZero() {
		return fmt.Errorf("LogicalVolume %s is being deleted", lv.Name)
	}
	if _, err := r.mark(ctx, lv); err != nil {
		return err
	}
	tags := append(r.ownTags(lv), identity.EncryptionTags(lv)...)
	content, err := r.tagsOfSource(ctx, lv.Spec.DeviceClass, p.Source)
	if err != nil {
		return err
	}
	tags = withEncryptionOf(content, tags)
	readOnly, err := engine.IsReadOnly(lv.Spec.AccessType)
	if err != nil {
		return err
	}
	return m.engine.PrepareSnapshot(ctx, engine.NewSnapshot{Name: p.Snapshot,
		Class: lv.Spec.DeviceClass, Source: p.Source, ReadOnly: readOnly, Tags: tags})
}

// Take takes the snapshots of the group while no source is formatted: a snapshot of a partial file system would be
// taken for data.
func (m groupMembers) Take(ctx context.Context, r groupsnapshot.Request,
	others groupsnapshot.Others) (groupsnapshot.Times, error) {
	held := map[string]func(){}
	defer func() {
		for _, release := range held {
			release()
		}
	}()
	for _, p := range r.Pairs {
		if held[p.Source] != nil {
			continue
		}
		release, err := m.engine.HoldUnformatted(ctx, m.of[p.Snapshot].Spec.DeviceClass, p.Source)
		if err != nil {
			return groupsnapshot.Times{}, err
		}
		held[p.Source] = release
	}
	return m.taker.Take(ctx, r, others)
}

// Keep makes a snapshot usable and reports it in the status of its LogicalVolume.
func (m groupMembers) Keep(ctx context.Context, p groupsnapshot.Pair) error {
	lv := m.of[p.Snapshot]
	if lv.Status.VolumeID != "" {
		return nil
	}
	if err := m.engine.KeepSnapshot(ctx, lv.Spec.DeviceClass, p.Snapshot); err != nil {
		return err
	}
	made, err := m.volumes.Volumes.FindLV(ctx, lv.Spec.DeviceClass, p.Snapshot)
	if err != nil {
		return err
	}
	return m.volumes.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.VolumeID = p.Snapshot
		s.CurrentSize = resource.NewQuantity(int64(made.Size), resource.BinarySI)
		s.Code = codes.OK
		s.Message = ""
	})
}

// groupLink connects the node with the CSI controller by the annotations of a LogicalVolume.
type groupLink struct {
	*GroupReconciler
	leader *topolvmv1.LogicalVolume
}

// Watch calls seen with the request in the cache until it returns true.
func (l groupLink) Watch(ctx context.Context, seen func(groupprotocol.Request) bool) error {
	defer liveness.Busy(ctx)()
	ticker := time.NewTicker(releasePoll)
	defer ticker.Stop()
	for {
		now := &topolvmv1.LogicalVolume{}
		if err := l.volumes.Client.Get(ctx, client.ObjectKeyFromObject(l.leader), now); err != nil {
			return fmt.Errorf("read LogicalVolume %s: %w", l.leader.Name, err)
		}
		if now.UID != l.leader.UID || !now.DeletionTimestamp.IsZero() {
			return fmt.Errorf("LogicalVolume %s was deleted", l.leader.Name)
		}
		request, err := view.GroupRequestOf(now)
		if err != nil {
			return err
		}
		if request != nil && seen(request.Request) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Report writes the state to the annotation of the LogicalVolume. The UID in the patch ensures that it is not written
// to a later object with the same name.
func (l groupLink) Report(ctx context.Context, s groupprotocol.State) error {
	s.Reason = s.Reason[:min(len(s.Reason), maxMessage)]
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": l.leader.UID,
		"annotations": map[string]string{wellknown.GroupStateAnnotation: string(text)}}})
	if err != nil {
		return err
	}
	now := &topolvmv1.LogicalVolume{}
	now.Name = l.leader.Name
	if err := l.volumes.Client.Patch(ctx, now, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("write the state of the group to LogicalVolume %s: %w", l.leader.Name, err)
	}
	if s.Phase == groupprotocol.Failed || s.Phase == groupprotocol.Taken {
		log.FromContext(ctx).Info("reported the state of a group snapshot", "phase", s.Phase, "attempt", s.Attempt,
			"cause", s.Reason, "suspended", s.Suspended, "freezing", s.Freezing, "waited", s.Waited)
	}
	return nil
}
