package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/groupsnapshot"
	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// groupWorld is a cluster whose agents take part in group snapshots.
type groupWorld struct {
	*cluster
	// ids are the volumes: one on node2, the others on node1.
	ids []string
	// older are the nodes whose agents have no group snapshots.
	older map[string]bool
	// failing returns why a node fails in a phase of an attempt, or "".
	failing func(node string, r groupprotocol.Request) string
	// held are the leaders whose volume groups are locked or whose volumes are suspended, by name.
	held map[string]bool
	// attempts is the last attempt that a node has seen.
	attempts int
	// mu orders the agents: requests of two nodes can be written at the same time.
	mu sync.Mutex
	// process is the group controller service that runs.
	process *groupsnapshot.Server
	// of is the controller service of process.
	of *ControllerServer
}

func newGroupWorld(t *testing.T) *groupWorld {
	t.Helper()
	w := &groupWorld{cluster: newCluster(t, offering("node1", map[string]string{"ssd": "10737418240"}),
		offering("node2", map[string]string{"ssd": "10737418240"})), older: map[string]bool{}, held: map[string]bool{},
		failing: func(string, groupprotocol.Request) string { return "" }}
	for i, node := range []string{"node1", "node2", "node1"} {
		response, err := w.server.CreateVolume(t.Context(), wanted(fmt.Sprint("pvc-", i), 40*mebi, node))
		w.must(err)
		w.ids = append(w.ids, response.GetVolume().GetVolumeId())
	}
	w.agent = func(lv *topolvmv1.LogicalVolume) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.member(lv)
	}
	return w
}

func (w *groupWorld) groups() *groupsnapshot.Server {
	if w.process == nil || w.of != w.server {
		w.process, w.of = NewGroupServer(w.server), w.server
	}
	return w.process
}

func (w *groupWorld) create(ids ...string) (*csi.VolumeGroupSnapshot, error) {
	response, err := w.groups().CreateVolumeGroupSnapshot(w.Context(), &csi.CreateVolumeGroupSnapshotRequest{
		Name: "groupsnapshot-1", SourceVolumeIds: ids, Parameters: map[string]string{
			"csi.storage.k8s.io/volumegroupsnapshot/name":      "g",
			"csi.storage.k8s.io/volumegroupsnapshot/namespace": "ns"}})
	return response.GetGroupSnapshot(), err
}

// member acts like the agent of a node on a changed LogicalVolume.
func (w *groupWorld) member(lv *topolvmv1.LogicalVolume) {
	if w.older[lv.Spec.NodeName] {
		return
	}
	if !lv.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(lv, wellknown.LogicalVolumeFinalizer)
		w.update(lv)
		return
	}
	request, err := view.GroupRequestOf(lv)
	w.must(err)
	if request == nil {
		return
	}
	state, err := view.GroupStateOf(lv)
	w.must(err)
	if w.held[lv.Name] {
		next, done := groupprotocol.Suspend, groupprotocol.Held
		if state.Phase == groupprotocol.Held {
			next, done = groupprotocol.Release, groupprotocol.Taken
		}
		if ended, goOn := groupprotocol.Follow(request.Request, state.Attempt, next); ended && goOn {
			w.report(lv, request, done)
		} else if ended { // it fails in its attempt, and then sees the request of the next one
			request.Attempt = state.Attempt
			w.report(lv, request, groupprotocol.Failed)
			w.member(w.get(lv.Name))
		}
		return
	}
	switch groupprotocol.Act(request.Request, state, false) {
	case groupprotocol.DoPrepare:
		for _, name := range request.Members {
			member := w.get(name)
			controllerutil.AddFinalizer(member, wellknown.LogicalVolumeFinalizer)
			w.update(member)
		}
		w.report(w.get(lv.Name), request, groupprotocol.Prepared)
	case groupprotocol.DoTake:
		w.report(lv, request, groupprotocol.Locked)
	case groupprotocol.DoKeep:
		w.allTaken(request.Attempt)
		for _, name := range request.Members {
			member := w.get(name)
			member.Status.VolumeID, member.Status.CurrentSize = string(member.UID), resource.NewQuantity(40*mebi,
				resource.BinarySI)
			w.answer(member)
			w.seen.Store(member.Status.VolumeID, name)
		}
		w.report(w.get(lv.Name), request, groupprotocol.Usable)
	case groupprotocol.DoFail:
		w.report(lv, request, groupprotocol.Failed)
	}
}

// allTaken checks that the snapshots of all nodes were taken together.
func (w *groupWorld) allTaken(attempt int) {
	for _, lv := range w.leaders() {
		state, err := view.GroupStateOf(lv)
		w.must(err)
		if state.Attempt != attempt || state.Phase != groupprotocol.Taken && state.Phase != groupprotocol.Usable {
			w.Errorf("snapshots are kept, but node %s is %+v", lv.Spec.NodeName, state)
		}
	}
}

func (w *groupWorld) leaders() []*topolvmv1.LogicalVolume {
	members, err := w.groups().Members(w.Context(), groupsnapshot.ID("groupsnapshot-1"))
	w.must(err)
	return slices.DeleteFunc(members, func(lv *topolvmv1.LogicalVolume) bool {
		return lv.Annotations[wellknown.GroupRequestAnnotation] == ""
	})
}

func (w *groupWorld) report(lv *topolvmv1.LogicalVolume, r *view.GroupRequest, phase groupprotocol.Phase) {
	w.attempts = r.Attempt
	state := groupprotocol.State{Attempt: r.Attempt, Phase: phase, Suspended: time.Millisecond}
	if state.Reason = w.failing(lv.Spec.NodeName, r.Request); state.Reason != "" {
		state.Phase = groupprotocol.Failed
	}
	w.held[lv.Name] = state.Phase == groupprotocol.Locked || state.Phase == groupprotocol.Held
	text, err := json.Marshal(state)
	w.must(err)
	lv.Annotations[wellknown.GroupStateAnnotation] = string(text)
	w.update(lv)
	w.server.volumes.Handler().OnUpdate(lv, lv)
}

func (w *groupWorld) update(lv *topolvmv1.LogicalVolume) {
	w.must(client.IgnoreNotFound(w.api.Update(context.Background(), lv)))
}

// expire is the time limit of the suspensions.
func (w *groupWorld) expire() {
	for name, held := range w.held {
		if lv := w.get(name); held && lv != nil {
			request, err := view.GroupRequestOf(lv)
			w.must(err)
			state, err := view.GroupStateOf(lv)
			w.must(err)
			request.Attempt = state.Attempt
			w.report(lv, request, groupprotocol.Failed)
		}
	}
	clear(w.held)
}

// kept returns the members of the group that are usable, and those that are not.
func (w *groupWorld) kept() (usable, pending int) {
	members, err := w.groups().Members(w.Context(), groupsnapshot.ID("groupsnapshot-1"))
	w.must(err)
	for _, lv := range members {
		if lv.Status.VolumeID != "" {
			usable++
		}
		if view.GroupPending(lv) != "" {
			pending++
		}
	}
	return usable, pending
}

func (w *groupWorld) isComplete(got *csi.VolumeGroupSnapshot, ids []string) {
	w.Helper()
	if len(got.GetSnapshots()) != len(ids) || !got.GetReadyToUse() || got.GetCreationTime() == nil {
		w.Fatalf("got %v", got)
	}
	for _, s := range got.GetSnapshots() {
		expect.Equal(w, "Contains(ids, s.GetSourceVolumeId())", slices.Contains(ids, s.GetSourceVolumeId()), true)
		expect.Equal(w, "GetGroupSnapshotId()", s.GetGroupSnapshotId(), got.GetGroupSnapshotId())
		expect.NotZero(w, "GetSnapshotId()", s.GetSnapshotId())
		expect.Equal(w, "GetReadyToUse()", s.GetReadyToUse(), true)
		expect.Equal(w, "GetSizeBytes()", s.GetSizeBytes(), 40*mebi)
	}
	if usable, pending := w.kept(); usable != len(ids) || pending != 0 {
		w.Errorf("%d are usable, %d are pending", usable, pending)
	}
}

func TestAGroupSnapshotIsCreatedOnceAndDeleted(t *testing.T) {
	w := newGroupWorld(t)
	var id string
	var snapshots []string
	for range 2 {
		got, err := w.create(w.ids...)
		w.must(err)
		w.isComplete(got, w.ids)
		id = got.GetGroupSnapshotId()
		snapshots = nil
		for _, s := range got.GetSnapshots() {
			snapshots = append(snapshots, s.GetSnapshotId())
		}
	}
	for _, lv := range w.leaders() {
		t.Errorf("%s has a request: %v", lv.Name, lv.Annotations)
	}
	_, err := w.create(w.ids[:2]...)
	wantCode(t, "other volumes", err, codes.AlreadyExists)
	got, err := w.groups().GetVolumeGroupSnapshot(t.Context(),
		&csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: snapshots})
	w.must(err)
	w.isComplete(got.GetGroupSnapshot(), w.ids)

	remove := func(ids ...string) error {
		_, err := w.groups().DeleteVolumeGroupSnapshot(t.Context(),
			&csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: ids})
		return err
	}
	wantCode(t, "a volume of no group", remove(append(slices.Clone(snapshots), w.ids[0])...), codes.InvalidArgument)
	wantCode(t, "a part of the group", remove(snapshots[0]), codes.InvalidArgument)
	if usable, _ := w.kept(); usable != 3 {
		t.Errorf("%d are left", usable)
	}
	live := w.server.volumes.Live
	w.server.volumes.Live = failingReads{w.api}
	wantCode(t, "a failed read", remove(snapshots...), codes.Unavailable)
	_, err = w.create(w.ids...)
	wantCode(t, "a failed read", err, codes.Unavailable)
	w.server.volumes.Live = live
	for range 2 {
		w.must(remove(snapshots...))
		if usable, pending := w.kept(); usable+pending > 0 {
			t.Errorf("%d usable and %d pending snapshots are left", usable, pending)
		}
	}
	for _, lv := range []string{"pvc-0", "pvc-1", "pvc-2"} {
		if w.get(lv) == nil {
			t.Errorf("%s was deleted", lv)
		}
	}
	_, err = w.groups().GetVolumeGroupSnapshot(t.Context(),
		&csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: id, SnapshotIds: snapshots})
	wantCode(t, "get what was deleted", err, codes.NotFound)
}

// TestAnEncryptedMemberIsMarked: a snapshot of a group is encrypted as its source, and the others are not.
func TestAnEncryptedMemberIsMarked(t *testing.T) {
	w := newGroupWorld(t)
	source := w.get("pvc-1")
	view.SetEncryption(source, wellknown.EncryptionLUKS2)
	w.update(source)
	for range 2 {
		got, err := w.create(w.ids...)
		w.must(err)
		w.isComplete(got, w.ids)
	}
	for _, name := range []string{"pvc-0", "pvc-1", "pvc-2"} {
		member := w.get(groupsnapshot.MemberName(groupsnapshot.ID("groupsnapshot-1"), name))
		want := w.get(name).Annotations[wellknown.EncryptionAnnotation]
		if got := member.Annotations[wellknown.EncryptionAnnotation]; got != want {
			t.Errorf("the snapshot of %s has the encryption %q, want %q", name, got, want)
		}
	}
}

func TestGroupSnapshotsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *groupWorld)
		ids    func(w *groupWorld) []string
		code   codes.Code
		text   string
	}{
		"no volumes": {nil, func(*groupWorld) []string { return nil }, codes.InvalidArgument, "0 volumes"},
		"twice": {nil, func(w *groupWorld) []string { return []string{w.ids[0], w.ids[0]} }, codes.InvalidArgument,
			"twice"},
		"too many": {nil, func(*groupWorld) []string { return strings.Split(strings.Repeat("x", 65), "") },
			codes.InvalidArgument, "65 volumes"},
		"another driver": {nil, func(w *groupWorld) []string { return append(w.ids, "vol-of-other") }, codes.NotFound,
			"volumes of one driver"},
		"thick": {func(w *groupWorld) {
			w.must(w.api.Create(w.Context(), &v1alpha1.LVMCluster{
				ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"},
				Spec: v1alpha1.LVMClusterSpec{Storage: v1alpha1.Storage{DeviceClasses: []v1alpha1.DeviceClass{
					{Name: "ssd"}}}}}))
		}, func(w *groupWorld) []string { return w.ids }, codes.InvalidArgument, "only have thin volumes"},
		"a lost node": {func(w *groupWorld) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node2"}}
			w.must(w.api.Delete(w.Context(), node))
		}, func(w *groupWorld) []string { return w.ids }, codes.Unavailable, "node2, which is not ready"},
		"an older agent": {func(w *groupWorld) { w.older["node2"] = true },
			func(w *groupWorld) []string { return w.ids },
			codes.FailedPrecondition, "node node2 has not answered"},
		"no space": {func(w *groupWorld) {
			w.failing = func(node string, r groupprotocol.Request) string {
				if node == "node1" {
					return "the pool is full"
				}
				return ""
			}
		}, func(w *groupWorld) []string { return w.ids }, codes.FailedPrecondition, "node node1: the pool is full"},
		"never together": {func(w *groupWorld) {
			w.failing = func(node string, r groupprotocol.Request) string {
				if node == "node2" && r.Phase == groupprotocol.Release {
					return "too late"
				}
				return ""
			}
		}, func(w *groupWorld) []string { return w.ids }, codes.FailedPrecondition, "node node2: too late"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newGroupWorld(t)
				if test.change != nil {
					test.change(w)
				}
				for range 2 {
					_, err := w.create(test.ids(w)...)
					wantCode(t, name, err, test.code)
					if !strings.Contains(status.Convert(err).Message(), test.text) {
						t.Errorf("got %v", err)
					}
					if usable, pending := w.kept(); usable+pending > 0 {
						t.Errorf("%d usable and %d pending snapshots are kept", usable, pending)
					}
				}
			})
		})
	}
}

// TestAnAttemptThatFailsIsRepeated: the next attempt succeeds, in the same call.
func TestAnAttemptThatFailsIsRepeated(t *testing.T) {
	for _, phase := range []groupprotocol.Phase{groupprotocol.Lock, groupprotocol.Suspend, groupprotocol.Release} {
		synctest.Test(t, func(t *testing.T) {
			w := newGroupWorld(t)
			w.failing = func(node string, r groupprotocol.Request) string {
				if node == "node2" && r.Phase == phase && r.Attempt < groupsnapshot.MaxAttempts {
					return "too late"
				}
				return ""
			}
			got, err := w.create(w.ids...)
			w.must(err)
			w.isComplete(got, w.ids)
		})
	}
}

// TestANodeThatIsSilentWhileVolumesAreSuspended: nothing is kept.
func TestANodeThatIsSilentWhileVolumesAreSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGroupWorld(t)
		w.failing = func(node string, r groupprotocol.Request) string {
			w.older["node2"] = node == "node2" && r.Phase == groupprotocol.Suspend || w.older["node2"]
			return ""
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := w.groups().CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{
			Name: "groupsnapshot-1", SourceVolumeIds: w.ids})
		wantCode(t, "a silent node", err, codes.DeadlineExceeded)
		if usable, _ := w.kept(); usable > 0 {
			t.Errorf("%d snapshots are usable", usable)
		}
		// The agent is back, and its volumes were resumed at the limit.
		w.older["node2"] = false
		w.failing = func(string, groupprotocol.Request) string { return "" }
		w.expire()
		for _, lv := range w.leaders() {
			w.member(lv)
		}
		got, err := w.create(w.ids...)
		w.must(err)
		w.isComplete(got, w.ids)
	})
}

// TestACallThatFailsAgainIsDelayed: external-snapshotter repeats it at once.
func TestACallThatFailsAgainIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGroupWorld(t)
		var delays []time.Duration
		attempt := func(code codes.Code, ids ...string) {
			begun := time.Now()
			_, err := w.create(ids...)
			wantCode(t, "attempt", err, code)
			delays = append(delays, time.Since(begun))
		}
		for range 7 {
			attempt(codes.NotFound, "nosuch")
		}
		attempt(codes.OK, w.ids...)
		attempt(codes.AlreadyExists, w.ids[0])
		live := w.server.volumes.Live
		w.server.volumes.Live = failingReads{w.api}
		attempt(codes.Unavailable, w.ids...)
		w.server.volumes.Live = live
		want := []time.Duration{0, 1, 2, 4, 8, 16, 30, 0, 0, 0}
		for i := range want {
			if delays[i] != want[i]*time.Second {
				t.Errorf("call %d was delayed by %s, want %d s", i, delays[i], want[i])
			}
		}
	})
}

// TestACallThatEndsWhileVolumesAreSuspended: the nodes have taken their snapshots, and the next call keeps them.
func TestACallThatEndsWhileVolumesAreSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGroupWorld(t)
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		w.failing = func(node string, r groupprotocol.Request) string {
			w.older["node2"] = node == "node2" && r.Phase == groupprotocol.Suspend || w.older["node2"]
			return ""
		}
		_, err := w.groups().CreateVolumeGroupSnapshot(ctx, &csi.CreateVolumeGroupSnapshotRequest{
			Name: "groupsnapshot-1", SourceVolumeIds: w.ids})
		wantCode(t, "a call that ends", err, codes.DeadlineExceeded)
		for _, lv := range w.leaders() {
			if request, err := view.GroupRequestOf(lv); err != nil || request.Attempt != 1 {
				t.Errorf("got %+v, %v", request, err)
			}
		}
		w.failing = func(string, groupprotocol.Request) string { return "" }
		w.older["node2"] = false
		for _, lv := range w.leaders() {
			w.member(lv)
		}
		got, err := w.create(w.ids...)
		w.must(err)
		w.isComplete(got, w.ids)
		if n := w.attempts; n != 1 {
			t.Errorf("%d attempts were made", n)
		}
	})
}

// TestAGroupThatLostASnapshotIsNotCompleted: the snapshot would be of another moment.
func TestAGroupThatLostASnapshotIsNotCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGroupWorld(t)
		got, err := w.create(w.ids...)
		w.must(err)
		_, err = w.server.DeleteSnapshot(t.Context(),
			&csi.DeleteSnapshotRequest{SnapshotId: got.GetSnapshots()[0].GetSnapshotId()})
		w.must(err)
		for range 2 {
			_, err = w.create(w.ids...)
			wantCode(t, "a lost snapshot", err, codes.Internal)
		}
	})
}

func TestGroupControllerKilledAtEveryWrite(t *testing.T) {
	kill.AtEachPoint(t, []kill.Effect{kill.Before, kill.After}, func(t *testing.T, p *kill.Points) {
		synctest.Test(t, func(t *testing.T) {
			w := newGroupWorld(t)
			w.guarded(p)
			_, _ = w.create(w.ids...)
			if usable, _ := w.kept(); usable > 0 {
				first := w.leaders()
				if len(first) > 0 {
					request, err := view.GroupRequestOf(first[0])
					w.must(err)
					if request.Phase != groupprotocol.Keep {
						t.Errorf("%d snapshots are usable in phase %s", usable, request.Phase)
					}
				}
			}
			p.Restart()
			w.guarded(p)
			w.expire()
			got, err := w.create(w.ids...)
			w.must(err)
			w.isComplete(got, w.ids)
		})
	})
}
