package logicalvolume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
)

// groupNode is the node of a group with the sources a and b, whose snapshots are the objects s1 (the leader) and s2.
type groupNode struct {
	*world
	// taken are the requests to take snapshots. during is called while the volumes are suspended, before the release.
	taken  []groupsnapshot.Request
	during func(n *groupNode)
	// locked is called while the volume groups are locked.
	locked func(n *groupNode)
	// hold keeps the volumes of the engines from being formatted, or is nil.
	hold func(name, uuid string, tags []string) (release func(), err error)
	// recovers are the results of attempts to resume what was left suspended.
	recovers []error
}

// Take calls release like a node that has taken the snapshots.
func (n *groupNode) Take(ctx context.Context, r groupsnapshot.Request,
	others groupsnapshot.Others) (groupsnapshot.Times, error) {
	n.taken = append(n.taken, r)
	if n.locked != nil {
		n.locked(n)
	}
	if err := others.Locked(ctx); err != nil {
		return groupsnapshot.Times{}, err
	}
	if n.during != nil {
		n.during(n)
	}
	return groupsnapshot.Times{Suspended: time.Millisecond}, others.Held(ctx)
}

func (n *groupNode) Recover(context.Context) error {
	if len(n.recovers) == 0 {
		return nil
	}
	err := n.recovers[0]
	n.recovers = n.recovers[1:]
	return err
}

func newGroupNode(t *testing.T) *groupNode {
	t.Helper()
	n := &groupNode{world: newWorld(t)}
	for _, name := range []string{"a", "b"} {
		n.ask(name, thin(8))
		n.must(n.run(n.agent(), name))
	}
	for i, source := range []string{"a", "b"} {
		name := fmt.Sprint("s", i+1)
		n.must(n.api.Create(t.Context(), &topolvmv1.LogicalVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: k8stypes.UID("uid-" + name), Annotations: map[string]string{
				wellknown.GroupPendingAnnotation: "g", wellknown.PendingDeletionAnnotation: "group snapshot"}},
			Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: "node1", DeviceClass: "thin", Size: size(8),
				Source: source, AccessType: "ro"},
		}))
	}
	return n
}

// groups returns a new process.
func (n *groupNode) groups() *GroupReconciler {
	r := n.agent()
	engine, ok := r.Volumes.(*engine.Engine)
	if !ok {
		n.Fatal("the engine is another type")
	}
	engine.HoldUnformattedWith(n.hold)
	return NewGroups(r, engine, n)
}

// request writes a request to the leader.
func (n *groupNode) request(attempt int, phase groupprotocol.Phase) {
	n.Helper()
	text, err := json.Marshal(view.GroupRequest{Request: groupprotocol.Request{Attempt: attempt, Phase: phase,
		Limit: time.Second}, Members: []string{"s1", "s2"}})
	n.must(err)
	n.annotate(wellknown.GroupRequestAnnotation, string(text))
}

func (n *groupNode) annotate(key, text string) {
	n.Helper()
	leader := n.get("s1")
	leader.Annotations[key] = text
	n.must(n.api.Update(n.Context(), leader))
}

func (n *groupNode) act() error {
	_, err := n.groups().Reconcile(n.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "s1"}})
	return err
}

// actTo reconciles twice and checks the state that is reported.
func (n *groupNode) actTo(attempt int, phase groupprotocol.Phase, reason string) {
	n.Helper()
	for range 2 {
		n.must(n.act())
	}
	got, err := view.GroupStateOf(n.get("s1"))
	n.must(err)
	if got.Attempt != attempt || got.Phase != phase || !strings.Contains(got.Reason, reason) ||
		(got.Reason != "") != (phase == groupprotocol.Failed) {
		n.Errorf("got %+v, want attempt %d, %s, %q", got, attempt, phase, reason)
	}
}

// pending returns the names of the pending snapshots on the node.
func (n *groupNode) pending() []string {
	n.Helper()
	report, err := n.lvm.Report(n.Context())
	n.must(err)
	var names []string
	for _, lv := range report.VG("thin").LVs {
		if slices.Contains(lv.Tags, groupsnapshot.PendingTag) {
			names = append(names, lv.Name)
		}
	}
	return names
}

func TestAGroupIsTakenPhaseByPhase(t *testing.T) {
	n := newGroupNode(t)
	for _, name := range []string{"s1", "s2"} {
		n.must(n.run(n.agent(), name))
	}
	if got := n.pending(); len(got) > 0 || len(n.volumes()) != 2 {
		t.Fatalf("without a request, the node has %q", n.volumes())
	}
	n.must(n.act())
	if got := n.get("s1").Annotations[wellknown.GroupStateAnnotation]; got != "" {
		t.Errorf("without a request: got %s", got)
	}

	n.request(1, groupprotocol.Prepare)
	n.actTo(1, groupprotocol.Prepared, "")
	if got := n.pending(); !slices.Equal(got, []string{"uid-s1", "uid-s2"}) {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"s1", "s2"} {
		n.must(n.run(n.agent(), name))
		if lv := n.get(name); lv.Status.VolumeID != "" || len(lv.Finalizers) != 1 {
			t.Errorf("got %+v", lv)
		}
	}

	n.locked = func(n *groupNode) { n.request(1, groupprotocol.Suspend) }
	n.during = func(n *groupNode) { n.request(1, groupprotocol.Release) }
	n.request(1, groupprotocol.Lock)
	n.actTo(1, groupprotocol.Taken, "")
	want := []groupsnapshot.Pair{{VG: "thin", Source: string(n.get("a").UID), Snapshot: "uid-s1"},
		{VG: "thin", Source: string(n.get("b").UID), Snapshot: "uid-s2"}}
	if len(n.taken) != 1 || !slices.Equal(n.taken[0].Pairs, want) || n.taken[0].Limit != time.Second {
		t.Errorf("got %+v", n.taken)
	}

	n.request(1, groupprotocol.Keep)
	n.actTo(1, groupprotocol.Usable, "")
	if got := n.pending(); len(got) > 0 {
		t.Errorf("%q are pending", got)
	}
	for _, name := range []string{"s1", "s2"} {
		lv := n.get(name)
		if lv.Status.VolumeID != "uid-"+name || lv.Status.CurrentSize.Value() != 8*mib {
			t.Errorf("got %+v", lv.Status)
		}
		n.must(n.api.Delete(t.Context(), lv))
		n.must(n.run(n.agent(), name))
	}
	n.see("deleted", "thin/"+string(n.get("a").UID)+" 8", "thin/"+string(n.get("b").UID)+" 8")
}

func TestAPartOfAGroupThatFails(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(n *groupNode)
		reason  string
	}{
		"a member is deleted": {func(n *groupNode) {
			lv := n.get("s2")
			lv.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
			n.must(n.api.Update(n.Context(), lv))
			n.must(n.api.Delete(n.Context(), lv))
		}, "is being deleted"},
		"a member does not exist": {func(n *groupNode) { n.must(n.api.Delete(n.Context(), n.get("s2"))) }, "not found"},
		"a member of another group": {func(n *groupNode) {
			lv := n.get("s2")
			lv.Annotations[wellknown.GroupPendingAnnotation] = "other"
			n.must(n.api.Update(n.Context(), lv))
		}, "is not a snapshot of group g"},
		"a member on another node": {func(n *groupNode) {
			lv := n.get("s2")
			lv.Spec.NodeName = "node2"
			n.must(n.api.Update(n.Context(), lv))
		}, "on node node1"},
		"no source": {func(n *groupNode) {
			n.must(n.api.Delete(n.Context(), n.get("b")))
			n.must(n.run(n.agent(), "b"))
		}, "b no longer exists"},
		"LVM refuses": {func(n *groupNode) { n.fake.Fail("LVCreateSnapshot", lvm.ErrMissingPV) },
			"create pending snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newGroupNode(t)
			test.prepare(n)
			n.request(1, groupprotocol.Prepare)
			n.actTo(1, groupprotocol.Failed, test.reason)
			for _, name := range []string{"s1", "s2"} {
				lv := &topolvmv1.LogicalVolume{}
				err := n.api.Get(t.Context(), client.ObjectKey{Name: name}, lv)
				if client.IgnoreNotFound(err) != nil || lv.Status.VolumeID != "" {
					t.Errorf("got %+v", lv.Status)
				}
			}
		})
	}
}

// TestAnAgentThatEndsWhileVolumesAreSuspended: the next one does not know whether they were all suspended together.
func TestAnAgentThatEndsWhileVolumesAreSuspended(t *testing.T) {
	for _, state := range []groupprotocol.Phase{groupprotocol.Locked, groupprotocol.Held} {
		for _, phase := range []groupprotocol.Phase{groupprotocol.Lock, groupprotocol.Suspend, groupprotocol.Release} {
			n := newGroupNode(t)
			n.request(1, groupprotocol.Prepare)
			n.must(n.act())
			n.annotate(wellknown.GroupStateAnnotation, fmt.Sprintf(`{"attempt":1,"phase":%q}`, state))
			n.request(1, phase)
			n.actTo(1, groupprotocol.Failed, "has ended while")
			if len(n.taken) > 0 {
				t.Errorf("%s in %s: got %+v", state, phase, n.taken)
			}
		}
	}
}

// TestARequestThatEndsTheSuspension: another node has failed, or the object is deleted.
func TestARequestThatEndsTheSuspension(t *testing.T) {
	n := newGroupNode(t)
	n.request(1, groupprotocol.Prepare)
	n.must(n.act())
	n.locked = func(n *groupNode) { n.request(1, groupprotocol.Suspend) }
	n.during = func(n *groupNode) { n.request(2, groupprotocol.Prepare) }
	n.request(1, groupprotocol.Lock)
	n.must(n.act())
	got, err := view.GroupStateOf(n.get("s1"))
	if err != nil || got.Attempt != 1 || got.Phase != groupprotocol.Failed {
		t.Errorf("got %+v, %v", got, err)
	}
	n.actTo(2, groupprotocol.Prepared, "")

	n.locked = func(n *groupNode) { n.request(2, groupprotocol.Suspend) }
	n.during = func(n *groupNode) { n.must(n.api.Delete(n.Context(), n.get("s1"))) }
	n.request(2, groupprotocol.Lock)
	n.must(n.act())
	if got, err := view.GroupStateOf(n.get("s1")); err != nil || got.Phase != groupprotocol.Failed {
		t.Errorf("got %+v, %v", got, err)
	}
	n.must(n.act())
	if got := n.pending(); len(got) != 2 {
		t.Errorf("got %q", got)
	}
	n.must(n.run(n.agent(), "s1"))
	if got := n.pending(); !slices.Equal(got, []string{"uid-s2"}) {
		t.Errorf("got %q", got)
	}
}

// TestAFailedKeepIsRepeated: it is final, so it does not fail the group.
func TestAFailedKeepIsRepeated(t *testing.T) {
	n := newGroupNode(t)
	n.request(1, groupprotocol.Prepare)
	n.must(n.act())
	n.annotate(wellknown.GroupStateAnnotation, `{"attempt":1,"phase":"Taken"}`)
	n.request(1, groupprotocol.Keep)
	n.fake.Fail("LVChangeTags", lvm.ErrBusy)
	for range 2 {
		if err := n.act(); err == nil {
			t.Error("no error")
		}
	}
	if got := n.get("s1"); got.Status.VolumeID != "" {
		t.Errorf("got %+v", got.Status)
	}
	n.fake.Fail("LVChangeTags", nil)
	n.actTo(1, groupprotocol.Usable, "")
}

func TestARequestThatCannotBeRead(t *testing.T) {
	for key, text := range map[string]string{wellknown.GroupRequestAnnotation: "{",
		wellknown.GroupStateAnnotation: "{"} {
		n := newGroupNode(t)
		n.request(1, groupprotocol.Prepare)
		n.annotate(key, text)
		for range 2 {
			if err := n.act(); err == nil {
				t.Errorf("%s: no error", key)
			}
		}
		if got := n.pending(); len(got) > 0 {
			t.Errorf("%s: got %q", key, got)
		}
	}
}

// TestSuspendedVolumesAreResumedAtTheStart: a failed attempt is repeated.
func TestSuspendedVolumesAreResumedAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newGroupNode(t)
		n.recovers = []error{errors.New("LVM is busy"), errors.New("LVM is busy")}
		n.must(n.groups().resume(t.Context()))
		if len(n.recovers) > 0 {
			t.Errorf("%d attempts were not made", len(n.recovers))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		n.recovers = []error{errors.New("LVM is busy")}
		n.must(n.groups().resume(ended))
	})
}

// TestAnEncryptedMemberIsTagged: its snapshot has the blocks of the encryption, also if the annotation of the object
// was lost. A volume whose encryption cannot be read gets no snapshot.
func TestAnEncryptedMemberIsTagged(t *testing.T) {
	n := newGroupNode(t)
	n.must(n.lvm.Apply(t.Context(), lvm.LVChangeTags{VG: "thin", Name: string(n.get("a").UID),
		Add: []string{"lvms.encryption=luks2"}}))
	n.fake.Fail("Report", lvm.ErrBusy)
	n.request(1, groupprotocol.Prepare)
	n.actTo(1, groupprotocol.Failed, "")
	n.fake.Fail("Report", nil)
	if got := n.pending(); len(got) > 0 {
		t.Errorf("after a failed read: got %q", got)
	}
	n.request(2, groupprotocol.Prepare)
	n.actTo(2, groupprotocol.Prepared, "")
	for name, want := range map[string]bool{"uid-s1": true, "uid-s2": false} {
		if got := slices.Contains(n.tags("thin", name), "lvms.encryption=luks2"); got != want {
			t.Errorf("%s: is tagged as encrypted: %t, want %t", name, got, want)
		}
	}
}

// TestNoSourceIsFormattedWhileAGroupIsTaken: each source is held until the snapshots have their data. The group fails
// if a source is being formatted, or if that is not known.
func TestNoSourceIsFormattedWhileAGroupIsTaken(t *testing.T) {
	for name, failure := range map[string]error{
		"":                     nil,
		"is not complete":      status.Error(codes.Aborted, "its file system is not complete"),
		"cannot read the file": status.Error(codes.Unavailable, "cannot read the file"),
	} {
		n := newGroupNode(t)
		n.request(1, groupprotocol.Prepare)
		n.must(n.act())
		b := string(n.get("b").UID)
		held := map[string]int{}
		n.hold = func(name, _ string, _ []string) (func(), error) {
			if name == b && failure != nil {
				return nil, failure
			}
			held[name]++
			return func() { held[name]-- }, nil
		}
		n.locked = func(n *groupNode) { n.request(1, groupprotocol.Suspend) }
		n.during = func(n *groupNode) {
			if held[string(n.get("a").UID)] != 1 || held[b] != 1 {
				t.Errorf("while volumes are suspended, %v are held", held)
			}
			n.request(1, groupprotocol.Release)
		}
		n.request(1, groupprotocol.Lock)
		want := groupprotocol.Taken
		if failure != nil {
			want = groupprotocol.Failed
		}
		n.actTo(1, want, name)
		for volume, count := range held {
			if count != 0 {
				t.Errorf("%q: %s is still held", name, volume)
			}
		}
		if (len(n.taken) > 0) != (failure == nil) {
			t.Errorf("%q: taken %v", name, n.taken)
		}
	}
}

// TestARestoreOfAGroupIsNotFormatted: the file system of a source becomes complete between the preparation and the
// moment of the data.
func TestARestoreOfAGroupIsNotFormatted(t *testing.T) {
	n := newGroupNode(t)
	n.request(1, groupprotocol.Prepare)
	n.must(n.act())
	a := string(n.get("a").UID)
	n.must(n.lvm.Apply(t.Context(), lvm.LVChangeTags{VG: "thin", Name: a, Add: []string{"lvms.formatted=ext4"},
		Remove: []string{wellknown.NewTag}}))
	n.annotate(wellknown.GroupStateAnnotation, `{"attempt":1,"phase":"Taken"}`)
	n.request(1, groupprotocol.Keep)
	n.actTo(1, groupprotocol.Usable, "")
	for name, isNew := range map[string]bool{"uid-s1": false, "uid-s2": true} {
		tags := n.tags("thin", name)
		if slices.Contains(tags, wellknown.NewTag) != isNew || slices.Contains(tags, "lvms.formatted=ext4") == isNew {
			t.Errorf("%s has the tags %q", name, tags)
		}
	}
}
