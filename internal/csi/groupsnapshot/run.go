package groupsnapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// This file is the operator's side of internal/volume/groupprotocol. The first LogicalVolume of each node, by name, is
// the leader of the node: it has the request and the state. The request of the first leader is the one that counts. It
// is changed first, and only if it is still the one that was read, so two operators cannot decide differently; the
// other leaders have copies.

const (
	// suspendLimit is the maximum time for which a volume is suspended.
	suspendLimit = 5 * time.Second
	// suspendMargin is how much longer the operator waits for the answers of nodes that suspend volumes.
	suspendMargin = 15 * time.Second
	// touchLimit is how long a node may take to begin.
	touchLimit = 20 * time.Second
	// MaxAttempts is the maximum number of attempts in one call.
	MaxAttempts = 3
	// attemptPause is the time before the second attempt, which grows with the attempts.
	attemptPause = time.Second
)

// ensureMembers creates the LogicalVolumes of a group that do not exist. If an earlier call has begun to remove the
// group, it completes this first.
func (s *Server) ensureMembers(ctx context.Context, g *group,
	request *csi.CreateVolumeGroupSnapshotRequest) error {
	desired, err := s.desiredMembers(ctx, g, request)
	if err != nil {
		return err
	}
	if g.isAbandoned(len(desired)) {
		waiting, cancel := objects.WithResponseMargin(ctx)
		defer cancel()
		if err := s.withdrawAll(waiting, g.members); err != nil {
			return err
		}
		g.members = nil
	}
	for _, lv := range desired {
		if slices.ContainsFunc(g.members, func(other *topolvmv1.LogicalVolume) bool { return other.Name == lv.Name }) {
			continue
		}
		if err := s.volumes.Client.Create(ctx, lv); err != nil {
			return status.Errorf(codes.Unavailable, "%s: create LogicalVolume %s: %v", g, lv.Name, err)
		}
		g.members = append(g.members, lv)
	}
	slices.SortFunc(g.members, func(a, b *topolvmv1.LogicalVolume) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// isAbandoned reports whether an earlier call has begun to remove the group, so that size members cannot be completed.
func (g *group) isAbandoned(size int) bool {
	return slices.ContainsFunc(g.members, func(lv *topolvmv1.LogicalVolume) bool {
		begun := view.HasGroupRequest(lv)
		return !lv.DeletionTimestamp.IsZero() || begun && len(g.members) < size
	})
}

// leader is the LogicalVolume of a node with its request.
type leader struct {
	lv *topolvmv1.LogicalVolume
	// members are the names of the LogicalVolumes on the node.
	members []string
	// request is the request in the annotation, and text the annotation, or "".
	request groupprotocol.Request
	text    string
}

// leadersOf returns the leaders of a group, the first one first.
func leadersOf(members []*topolvmv1.LogicalVolume) ([]*leader, error) {
	var leaders []*leader
	of := map[string]*leader{}
	for _, lv := range members {
		l := of[lv.Spec.NodeName]
		if l == nil {
			l = &leader{lv: lv, text: lv.Annotations[wellknown.GroupRequestAnnotation]}
			request, err := view.GroupRequestOf(lv)
			if err != nil {
				return nil, status.Error(codes.Internal, err.Error())
			}
			if request != nil {
				l.request = request.Request
			}
			of[lv.Spec.NodeName] = l
			leaders = append(leaders, l)
		}
		l.members = append(l.members, lv.Name)
	}
	return leaders, nil
}

// run is a group snapshot in progress.
type run struct {
	*Server
	*group
	leaders []*leader
	joined  *objects.Waiter
	states  []groupprotocol.State
	// suspended is the longest time for which a node has suspended its volumes. freezing and waited are the longest
	// parts of it, of any node.
	suspended, freezing, waited time.Duration
}

// complete takes the snapshots of a group whose LogicalVolumes exist.
func (s *Server) complete(ctx context.Context, g *group) error {
	if !g.isComplete() {
		leaders, err := leadersOf(g.members)
		if err != nil {
			return err
		}
		if g.isKept() && leaders[0].request.Phase != groupprotocol.Keep {
			return status.Errorf(codes.Internal, "%s has usable snapshots, but LogicalVolume %s does not say so: "+
				"delete the VolumeGroupSnapshot, and create another one", g, leaders[0].lv.Name)
		}
		var names []string
		for _, l := range leaders {
			names = append(names, l.lv.Name)
		}
		r := &run{Server: s, group: g, leaders: leaders, joined: s.volumes.Join(names...)}
		defer r.joined.Leave()
		if err := r.take(ctx); err != nil {
			return err
		}
		if g.members, err = s.Members(ctx, g.id); err != nil {
			return err
		}
		if !g.isComplete() {
			return status.Errorf(codes.Internal, "%s: a LogicalVolume was deleted or changed by another client", g)
		}
	}
	return s.settle(ctx, g)
}

// take follows the protocol until the group is complete. After a failure, it removes the group.
func (r *run) take(ctx context.Context) error {
	waiting, cancel := objects.WithResponseMargin(ctx)
	defer cancel()
	request := r.leaders[0].request
	if request.Attempt == 0 {
		request = groupprotocol.Request{Attempt: 1, Phase: groupprotocol.Prepare, Limit: suspendLimit}
	}
	for first := request.Attempt; ; {
		if err := r.send(ctx, request); err != nil {
			return err
		}
		next, outcome, err := r.await(waiting, request)
		switch {
		case err != nil:
			return err
		case outcome == groupprotocol.Complete:
			r.logTaken(ctx)
			return nil
		case outcome == groupprotocol.Advanced:
			request = next
			continue
		}
		reason := r.reason()
		log.FromContext(ctx).Info("an attempt of a group snapshot failed", "group", r.id, "attempt", request.Attempt,
			"phase", request.Phase, "cause", reason)
		if request.Phase == groupprotocol.Prepare || next.Attempt-first >= MaxAttempts {
			return r.fail(ctx, waiting, next, reason)
		}
		request = next
		end := liveness.Busy(ctx)
		select {
		case <-waiting.Done():
		case <-time.After(time.Duration(next.Attempt-first) * attemptPause):
		}
		end()
	}
}

// waits waits for a change of an object, and returns false if ctx ends before.
func (r *run) waits(ctx context.Context) bool {
	defer liveness.Busy(ctx)()
	select {
	case <-r.joined.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// await waits until the nodes have reached the phase of a request, or one of them has failed.
func (r *run) await(waiting context.Context, request groupprotocol.Request) (groupprotocol.Request,
	groupprotocol.Outcome, error) {
	limit := objects.LongestWait
	switch request.Phase {
	case groupprotocol.Prepare:
		limit = touchLimit
	case groupprotocol.Lock, groupprotocol.Suspend, groupprotocol.Release:
		limit = request.Limit + suspendMargin
	}
	ctx, cancel := context.WithTimeout(waiting, limit)
	defer cancel()
	for {
		if err := r.observe(waiting); err != nil {
			return request, groupprotocol.Pending, err
		}
		next, outcome := groupprotocol.Next(request, r.states)
		if outcome != groupprotocol.Pending {
			return next, outcome, nil
		}
		if r.waits(ctx) {
			continue
		}
		silent := r.silent(request)
		switch {
		case waiting.Err() != nil: // the next call continues
			return request, groupprotocol.Pending, status.Errorf(codes.DeadlineExceeded,
				"%s is not complete yet: nodes have not reached phase %s", r.group, request.Phase)
		case request.Phase == groupprotocol.Prepare && len(silent) > 0,
			request.Phase == groupprotocol.Lock, request.Phase == groupprotocol.Suspend,
			request.Phase == groupprotocol.Release:
			return groupprotocol.Retry(request), groupprotocol.Failure, nil
		}
		ctx, cancel = context.WithCancel(waiting) // all nodes have begun
		defer cancel()
	}
}

// observe reads the states of the nodes. They may be out of date.
func (r *run) observe(ctx context.Context) error {
	r.states = nil
	for _, l := range r.leaders {
		now := &topolvmv1.LogicalVolume{}
		err := r.volumes.Active.Get(ctx, client.ObjectKeyFromObject(l.lv), now)
		if apierrors.IsNotFound(err) {
			err = r.volumes.Live.Get(ctx, client.ObjectKeyFromObject(l.lv), now)
		}
		switch {
		case apierrors.IsNotFound(err), err == nil && (now.UID != l.lv.UID || !now.DeletionTimestamp.IsZero()):
			return status.Errorf(codes.Aborted, "%s: LogicalVolume %s was deleted", r.group, l.lv.Name)
		case err != nil:
			return status.Errorf(codes.Unavailable, "%s: read LogicalVolume %s: %v", r.group, l.lv.Name, err)
		}
		state, err := view.GroupStateOf(now)
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
		r.states = append(r.states, state)
		r.suspended = max(r.suspended, state.Suspended)
		r.freezing = max(r.freezing, state.Freezing)
		r.waited = max(r.waited, state.Waited)
		l.lv = now
	}
	return nil
}

// silent returns the leaders of the nodes that have reported nothing about an attempt, and whose agents have not begun.
func (r *run) silent(request groupprotocol.Request) []*leader {
	var silent []*leader
	for i, l := range r.leaders {
		if r.states[i].Attempt != request.Attempt && len(l.lv.Finalizers) == 0 {
			silent = append(silent, l)
		}
	}
	return silent
}

// reason says why the last attempt failed.
func (r *run) reason() string {
	var reasons []string
	request := r.leaders[0].request
	for i, l := range r.leaders {
		state := r.states[i]
		switch {
		case state.Attempt == request.Attempt && state.Phase == groupprotocol.Failed:
			reasons = append(reasons, fmt.Sprintf("node %s: %s", l.lv.Spec.NodeName, state.Reason))
		case state.Attempt != request.Attempt:
			reasons = append(reasons, fmt.Sprintf("node %s has not answered: check that its vg-manager Pod is running "+
				"and has the version of the operator, because older versions do not take group snapshots",
				l.lv.Spec.NodeName))
		}
	}
	if len(reasons) == 0 {
		return fmt.Sprintf("not all nodes reached phase %s in time", request.Phase)
	}
	return strings.Join(reasons, "; ")
}

// send writes a request to the leaders, the first one first. Suspend and Release are written to all leaders at once,
// because volumes are suspended meanwhile: they decide nothing. If another operator has requested the next attempt of
// the first leader, no node can become Taken in the next attempt because of them, and in this attempt all nodes were
// Locked, or Held, when they were written.
func (r *run) send(ctx context.Context, request groupprotocol.Request) error {
	others := r.leaders
	if request.Phase != groupprotocol.Suspend && request.Phase != groupprotocol.Release {
		if err := r.write(ctx, r.leaders[0], request); err != nil {
			return err
		}
		others = r.leaders[1:]
	}
	errs := make([]error, len(others))
	var wait sync.WaitGroup
	for i, l := range others {
		wait.Go(func() { errs[i] = r.write(ctx, l, request) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes a request to a leader, if its request is the one that was read.
func (r *run) write(ctx context.Context, l *leader, request groupprotocol.Request) error {
	if l.request == request {
		return nil
	}
	text, err := json.Marshal(view.GroupRequest{Request: request, Members: l.members})
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	const path = "/metadata/annotations/lvm.topolvm.io~1group-request"
	unchanged := operation{"test", path, l.text}
	if l.text == "" {
		unchanged = operation{"test", "/metadata/resourceVersion", l.lv.ResourceVersion}
	}
	patch, err := json.Marshal([]operation{{"test", "/metadata/uid", string(l.lv.UID)}, unchanged,
		{"add", path, string(text)}})
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	now := &topolvmv1.LogicalVolume{}
	now.Name = l.lv.Name
	if err := r.volumes.Client.Patch(ctx, now, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return status.Errorf(codes.Aborted, "%s: request phase %s of node %s: %v", r.group, request.Phase,
			l.lv.Spec.NodeName, err)
	}
	l.request, l.text = request, string(text)
	return nil
}

// operation is an operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value"`
}

// fail removes a group that has failed, and returns why it failed. First the request of the next attempt makes sure
// that nobody keeps its snapshots. If a node has not removed its snapshots, the code is that of a call that must be
// repeated.
func (r *run) fail(ctx, waiting context.Context, next groupprotocol.Request, reason string) error {
	if err := r.send(ctx, next); err != nil {
		return err
	}
	if err := r.withdrawAll(waiting, r.members); err != nil {
		return status.Errorf(codes.Unavailable, "%s failed: %s; its pending snapshots are not removed yet: %v", r.group,
			reason, err)
	}
	return status.Errorf(codes.FailedPrecondition, "%s failed, and nothing of it is kept: %s", r.group, reason)
}

func (r *run) logTaken(ctx context.Context) {
	log.FromContext(ctx).Info("took a group snapshot", "group", r.id, "attempt", r.leaders[0].request.Attempt,
		"volumes", len(r.members), "nodes", len(r.leaders), "suspended", r.suspended.String(), "freezing",
		r.freezing.String(), "waited", r.waited.String())
}

// settle removes the annotations of a complete group that only its creation needed, those of the first leader last.
func (s *Server) settle(ctx context.Context, g *group) error {
	for _, lv := range slices.Backward(g.members) {
		if view.GroupPending(lv) == "" {
			continue
		}
		before := lv.DeepCopy()
		for _, key := range []string{wellknown.GroupPendingAnnotation, wellknown.PendingDeletionAnnotation,
			wellknown.GroupRequestAnnotation, wellknown.GroupStateAnnotation} {
			delete(lv.Annotations, key)
		}
		if err := s.volumes.Client.Patch(ctx, lv, client.MergeFrom(before)); err != nil {
			return status.Errorf(codes.Unavailable, "%s: complete LogicalVolume %s: %v", g, lv.Name, err)
		}
	}
	return nil
}

// withdrawAll deletes LogicalVolumes, and waits until the nodes have removed their snapshots.
func (s *Server) withdrawAll(ctx context.Context, members []*topolvmv1.LogicalVolume) error {
	for _, lv := range members {
		err := s.volumes.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID})
		if err == nil && view.GroupPending(lv) != "" {
			// An agent without group snapshots removes it, too.
			before := lv.DeepCopy()
			delete(lv.Annotations, wellknown.PendingDeletionAnnotation)
			err = s.volumes.Client.Patch(ctx, lv, client.MergeFrom(before))
		}
		if client.IgnoreNotFound(err) != nil {
			return status.Errorf(codes.Unavailable, "delete LogicalVolume %s: %v", lv.Name, err)
		}
	}
	for _, lv := range members {
		if err := s.volumes.AwaitGone(ctx, lv); err != nil {
			return err
		}
	}
	return nil
}
