package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// auditor returns an Auditor for the engine of a world, with a clock.
func (w *world) auditor() (*Auditor, *events.FakeRecorder, *time.Time) {
	w.Helper()
	w.must(w.api.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}))
	recorder := events.NewFakeRecorder(100)
	now := time.Now()
	a := New(Options{Client: w.api, Live: w.api, Node: "node1", Cluster: "c1", Namespace: "ns", States: w.engine(),
		Recorder: recorder})
	a.Now = func() time.Time { return now }
	return a, recorder, &now
}

func said(r *events.FakeRecorder) []string {
	var list []string
	for {
		select {
		case e := <-r.Events:
			list = append(list, e)
		default:
			slices.Sort(list)
			return list
		}
	}
}

// wantEvents checks that there is one event with each text, in this order.
func wantEvents(t *testing.T, events []string, texts ...string) {
	t.Helper()
	if len(events) != len(texts) {
		t.Fatalf("got %q", events)
	}
	for i, text := range texts {
		if !strings.Contains(events[i], text) {
			t.Errorf("got %q, want %q", events[i], text)
		}
	}
}

func TestOrphansAreToldAndNotTouched(t *testing.T) {
	w := newWorld(t)
	a, recorder, now := w.auditor()
	for _, name := range []string{"a", "b", "unclaimed"} {
		w.ask(name, thin(8))
		w.must(w.run(name))
	}
	marked := w.get("unclaimed")
	marked.Annotations[wellknown.UnclaimedAnnotation] = "true"
	w.must(w.api.Update(t.Context(), marked))
	other := thin(8)
	other.NodeName = "node2"
	w.ask("elsewhere", other)
	w.must(w.lvm.Apply(t.Context(),
		lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: "byhand", VirtualSize: lvm.Bytes(4 * mib),
			Tags: []string{"lvms.pvc=ns/old"}}))
	w.must(w.lvm.Apply(t.Context(), lvm.LVRemove{VG: "thin", Names: []string{"uid-b-2"}}))

	w.must(a.Audit(t.Context()))
	changes := 0
	a.Subscribe(func() { changes++ })
	if len(a.Orphans("thin"))+len(said(recorder)) != 0 {
		t.Error("what is a moment old may be in the making")
	}
	*now = now.Add(settleTime)
	for range 2 {
		w.must(a.Audit(t.Context()))
	}
	if changes != 1 {
		t.Errorf("subscribers were called %d times, want once for the change and not for the audit without one", changes)
	}
	var got []string
	for _, o := range a.Orphans("thin") {
		got = append(got, fmt.Sprint(o.Kind, " ", o.Name, " ", o.Size, " ", o.Claim))
	}
	if want := []string{"LogicalVolume thin/byhand 4Mi ns/old", "Object b 8Mi ns/b",
		"Unclaimed unclaimed 8Mi ns/unclaimed"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	events := said(recorder)
	if len(events) != 1 || !strings.Contains(events[0], "OrphanLogicalVolume") {
		t.Errorf("another node may have the volume, got %q", events)
	}
	*now = now.Add(missingTime - settleTime)
	for range 2 {
		w.must(a.Audit(t.Context()))
	}
	events = append(said(recorder), events...)
	wantEvents(t, events, "LogicalVolumeMissing", "action: DeleteOrphans, volumes: [byhand]}")
	wantEvents(t, events, "Restore the data", "created for ns/old")
	if n := testutil.CollectAndCount(a); n != 10 {
		t.Errorf("%d series, want five for each class, and none for volumes where nobody asked for them", n)
	}
	want := `
# HELP lvms_orphan_logical_volumes Number of logical volumes without a LogicalVolume object (kind=LogicalVolume), of LogicalVolume objects without a logical volume (kind=Object), of volumes without a PersistentVolume, a snapshot or a claim (kind=Unclaimed), and of logical volumes whose object names another node, which lacks them (kind=OtherNode).
# TYPE lvms_orphan_logical_volumes gauge
lvms_orphan_logical_volumes{device_class="thick",kind="LogicalVolume",node="node1"} 0
lvms_orphan_logical_volumes{device_class="thick",kind="Object",node="node1"} 0
lvms_orphan_logical_volumes{device_class="thick",kind="OtherNode",node="node1"} 0
lvms_orphan_logical_volumes{device_class="thick",kind="Unclaimed",node="node1"} 0
lvms_orphan_logical_volumes{device_class="thin",kind="LogicalVolume",node="node1"} 1
lvms_orphan_logical_volumes{device_class="thin",kind="Object",node="node1"} 1
lvms_orphan_logical_volumes{device_class="thin",kind="OtherNode",node="node1"} 0
lvms_orphan_logical_volumes{device_class="thin",kind="Unclaimed",node="node1"} 1
`
	if err := testutil.CollectAndCompare(a, strings.NewReader(want), "lvms_orphan_logical_volumes"); err != nil {
		t.Error(err)
	}
	w.see("nothing is removed", "thin/byhand 4", "thin/uid-a-1 8", "thin/uid-unclaimed-3 8")
	w.must(w.lvm.Apply(t.Context(), lvm.LVRemove{VG: "thin", Names: []string{"byhand"}}))
	w.must(a.Audit(t.Context()))
	if len(a.Orphans("thin")) != 2 || changes != 2 {
		t.Errorf("got %+v, subscribers were called %d times", a.Orphans("thin"), changes)
	}
}

// TestAnObjectThatComesOrGoesIsAudited: after etcd was restored from a backup, nothing changes on the node.
func TestAnObjectThatComesOrGoesIsAudited(t *testing.T) {
	a, _, _ := newWorld(t).auditor()
	audited := func() bool {
		select {
		case <-a.notices:
			return true
		default:
			return false
		}
	}
	audited() // the request of the start, if any
	handler := a.ObjectHandler()
	here := &topolvmv1.LogicalVolume{Spec: topolvmv1.LogicalVolumeSpec{NodeName: "node1"}}
	there := &topolvmv1.LogicalVolume{Spec: topolvmv1.LogicalVolumeSpec{NodeName: "node2"}}
	annotated := func(lv *topolvmv1.LogicalVolume, key string) *topolvmv1.LogicalVolume {
		lv = lv.DeepCopy()
		lv.Annotations = map[string]string{key: ": refused"}
		return lv
	}
	for name, test := range map[string]struct {
		send func()
		want bool
	}{
		"created":                      {func() { handler.OnAdd(here, false) }, true},
		"deleted":                      {func() { handler.OnDelete(here) }, true},
		"deleted while it was unknown": {func() { handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: here}) }, true},
		"changed": {func() {
			handler.OnUpdate(here, annotated(here, wellknown.ConditionAnnotation))
		}, false},
		"with other limits": {func() {
			handler.OnUpdate(annotated(here, wellknown.IOLimitsInForceAnnotation), here)
		}, true},
		"with limits that were refused": {func() {
			handler.OnUpdate(here, annotated(here, wellknown.IOLimitsErrorAnnotation))
		}, true},
		"with other limits on another node": {func() {
			handler.OnUpdate(there, annotated(there, wellknown.IOLimitsInForceAnnotation))
		}, false},
		"changed to another kind": {func() { handler.OnUpdate("something", "else") }, false},
		"created on another node": {func() { handler.OnAdd(there, false) }, false},
		"deleted on another node": {func() { handler.OnDelete(there) }, false},
		"of another kind":         {func() { handler.OnDelete("something") }, false},
	} {
		test.send()
		if got := audited(); got != test.want {
			t.Errorf("%s: an audit was requested: %v, want %v", name, got, test.want)
		}
	}
}

// TestVolumesOfTheEarlierDriverAreNoOrphans: TopoLVM before 0.15 sets no tags. A snapshot has a LogicalVolume only;
// if the earlier API was deleted, a volume has a PersistentVolume only.
func TestVolumesOfTheEarlierDriverAreNoOrphans(t *testing.T) {
	w := newWorld(t)
	a, _, now := w.auditor()
	id := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", n) }
	for n := range 3 {
		w.must(w.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: id(n),
			VirtualSize: lvm.Bytes(4 * mib)}))
	}
	w.must(w.api.Create(t.Context(), &earlierv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "snapshot-a"},
		Status: earlierv1.LogicalVolumeStatus{VolumeID: id(0)}}))
	w.must(w.api.Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-b"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.EarlierDriverName, VolumeHandle: id(1)}}}}))
	w.must(a.Audit(t.Context()))
	*now = now.Add(settleTime)
	w.must(a.Audit(t.Context()))
	if got := a.Orphans("thin"); len(got) != 1 || got[0].Name != "thin/"+id(2) {
		t.Errorf("got %+v", got)
	}
}

// TestVolumesOfOtherNodesAreNoOrphans: their volume group was moved to this node with its disks and adopted.
// Removing them as orphans would destroy the data of a PersistentVolume.
func TestVolumesOfOtherNodesAreNoOrphans(t *testing.T) {
	w := newWorld(t)
	a, recorder, now := w.auditor()
	moved := thin(8)
	moved.NodeName = "node2"
	for _, name := range []string{"tagged", "untagged"} {
		w.ask(name, moved)
		lv := w.get(name)
		lv.Status.VolumeID = map[string]string{"tagged": "id-tagged",
			"untagged": "00000000-0000-4000-8000-000000000001"}[name]
		w.must(w.api.Status().Update(t.Context(), lv))
		options := lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: lv.Status.VolumeID, VirtualSize: lvm.Bytes(4 * mib)}
		if name == "tagged" {
			options.Tags = []string{wellknown.VolumeNameTagPrefix + name}
		}
		w.must(w.lvm.Apply(t.Context(), options))
	}
	byHand := lvm.LVCreateThin{
		VG: "thin", Pool: "pool", Name: "byhand", VirtualSize: lvm.Bytes(4 * mib),
		Tags: []string{wellknown.VolumeNameTagPrefix + "tagged"},
	}
	w.must(w.lvm.Apply(t.Context(), byHand))
	settle := func() []v1alpha1.OrphanStatus {
		t.Helper()
		w.must(a.Audit(t.Context()))
		*now = now.Add(settleTime)
		for range 2 {
			w.must(a.Audit(t.Context()))
		}
		return a.Orphans("thin")
	}
	live := a.Live
	a.Live = unreadable{live}
	if got := settle(); len(got) != 0 || len(said(recorder)) != 0 {
		t.Errorf("what could not be looked up is called an orphan: %+v", got)
	}
	a.Live = live
	if got := settle(); len(got) != 1 || got[0].Name != "thin/byhand" {
		t.Errorf("got %+v", got)
	}
	if got := said(recorder); len(got) != 1 || !strings.Contains(got[0], "byhand") {
		t.Errorf("got the events %q", got)
	}
	// After their objects are deleted, they are orphans.
	for _, name := range []string{"tagged", "untagged"} {
		w.must(w.api.Delete(t.Context(), w.get(name)))
	}
	*now = now.Add(othersAge)
	if got := settle(); len(got) != 3 {
		t.Errorf("got %+v", got)
	}
}

// movedWorld is node1 with the logical volume of LogicalVolume "moved", which names node2.
type movedWorld struct {
	*world
	a        *Auditor
	recorder *events.FakeRecorder
	now      *time.Time
}

func newMovedWorld(t *testing.T, tags ...string) *movedWorld {
	t.Helper()
	w := newWorld(t)
	a, recorder, now := w.auditor()
	elsewhere := thin(8)
	elsewhere.NodeName = "node2"
	w.ask("moved", elsewhere)
	lv := w.get("moved")
	lv.Status.VolumeID = "id-moved"
	w.must(w.api.Status().Update(t.Context(), lv))
	w.must(w.lvm.Apply(t.Context(), lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: "id-moved",
		VirtualSize: lvm.Bytes(4 * mib), Tags: append(tags, wellknown.VolumeNameTagPrefix+"moved", "lvms.pvc=ns/moved")}))
	return &movedWorld{world: w, a: a, recorder: recorder, now: now}
}

// change changes the object.
func (w *movedWorld) change(change func(*topolvmv1.LogicalVolume)) {
	w.Helper()
	lv := w.get("moved")
	if lv.Annotations == nil {
		lv.Annotations = map[string]string{}
	}
	change(lv)
	w.must(w.api.Update(w.Context(), lv))
}

// nodeLacksIt is what the auditor of node2 writes if it lacks the volume.
func nodeLacksIt(lv *topolvmv1.LogicalVolume) {
	lv.Annotations[wellknown.ConditionAnnotation] = "node node2 has no logical volume id-moved"
}

// audits lets the time pass in which an orphan is reported, and returns the orphans.
func (w *movedWorld) audits() []string {
	w.Helper()
	for range 6 {
		w.must(w.a.Audit(w.Context()))
		*w.now = w.now.Add(settleTime)
	}
	var got []string
	for _, o := range w.a.Orphans("thin") {
		got = append(got, fmt.Sprintf("%s %s %s on %s", o.Kind, o.Name, o.Object, o.ObjectNode))
	}
	return got
}

const onNode1 = "OtherNode thin/id-moved moved on node2"

// After etcd was restored from a backup that is older than a VolumeMove, the object names the node on which the
// volume was before.
func TestAVolumeWhoseObjectNamesANodeWithoutItIsReported(t *testing.T) {
	w := newMovedWorld(t)
	if got := w.audits(); len(got) != 0 || len(said(w.recorder)) != 0 {
		t.Fatalf("the other node has not said that it lacks the volume: got %q", got)
	}
	w.change(nodeLacksIt)
	*w.now = w.now.Add(othersAge)
	for range 2 { // The second time, nothing new is said.
		if got := w.audits(); !slices.Equal(got, []string{onNode1}) {
			t.Fatalf("got %q", got)
		}
	}
	const want = "Warning VolumeOnOtherNode node node2 does not have the logical volume of this object: the data is on " +
		"node node1, logical volume thin/id-moved: do not delete the claim; create an LVMRecovery {nodeName: node1, " +
		"deviceClassName: thin, action: ImportVolumes, volumes: [id-moved]}, which moves the objects to that node and " +
		"changes no data"
	if got := said(w.recorder); !slices.Equal(got, []string{want}) {
		t.Errorf("got the events %q", got)
	}

	// A read that fails shows neither that it is an orphan without an object nor that it is none.
	live := w.a.Live
	w.a.Live = unreadable{live}
	*w.now = w.now.Add(othersAge)
	if got := w.audits(); !slices.Equal(got, []string{onNode1}) || len(said(w.recorder)) != 0 {
		t.Errorf("after a failed read: got %q", got)
	}
	w.a.Live = live
	w.see("nothing is removed", "thin/id-moved 4")

	// The import moves the object to this node.
	w.change(func(lv *topolvmv1.LogicalVolume) { lv.Spec.NodeName = "node1" })
	if got := w.audits(); len(got) != 0 {
		t.Errorf("after the import: got %q", got)
	}
}

// TestACopyOfAMoveIsNotReported has the states of a VolumeMove in which two nodes have a logical volume of the name.
func TestACopyOfAMoveIsNotReported(t *testing.T) {
	annotated := func(key, value string) func(*topolvmv1.LogicalVolume) {
		return func(lv *topolvmv1.LogicalVolume) {
			nodeLacksIt(lv)
			lv.Annotations[key] = value
		}
	}
	for name, test := range map[string]struct {
		tags   []string
		change func(*topolvmv1.LogicalVolume)
		want   []string
	}{
		"no move":                                {change: nodeLacksIt, want: []string{onNode1}},
		"the earlier copy, which the move keeps": {tags: []string{wellknown.FencedTagPrefix + "uid"}, change: nodeLacksIt},
		"a copy that does not have all data":     {tags: []string{wellknown.CopyingTag}, change: nodeLacksIt},
		"a target between two rounds":            {tags: []string{wellknown.BaseTagPrefix + "move-1"}, change: nodeLacksIt},
		"a target during a round":                {tags: []string{wellknown.CopyOfTagPrefix + "move-1"}, change: nodeLacksIt},
		"it is switched to the other node":       {change: annotated(wellknown.AdoptAnnotation, "uid")},
		"its PersistentVolume is recreated":      {change: annotated(wellknown.MovedVolumeAnnotation, "{}")},
		"it is fenced for a move":                {change: annotated(wellknown.FenceAnnotation, "uid")},
		"the other node has it":                  {change: func(*topolvmv1.LogicalVolume) {}},
		"something else is wrong with it":        {change: annotated(wellknown.ConditionAnnotation, "a disk is missing")},
		"the report is about a node before":      {change: annotated(wellknown.ConditionAnnotation, "node node1 has no logical volume id-moved")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMovedWorld(t, test.tags...)
			w.change(test.change)
			if got := w.audits(); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			w.see("nothing is removed", "thin/id-moved 4")
		})
	}
}

// The target of a move has the name of the volume, and an object on its node.
func TestTheTargetOfAMoveIsNotReported(t *testing.T) {
	w := newMovedWorld(t)
	w.change(nodeLacksIt)
	target := thin(8)
	w.ask("move-1", target)
	lv := w.get("move-1")
	lv.Annotations[wellknown.MoveVolumeAnnotation] = "id-moved"
	w.must(w.api.Update(t.Context(), lv))
	if got := w.audits(); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

// The event of the object says where the data is, instead of that it must be restored.
func TestTheEventOfAMissingVolumeNamesTheNodeThatHasIt(t *testing.T) {
	w := newWorld(t)
	a, recorder, now := w.auditor()
	for _, name := range []string{"a", "b"} {
		w.ask(name, thin(8))
		w.must(w.run(name))
		w.must(w.lvm.Apply(t.Context(), lvm.LVRemove{VG: "thin", Names: []string{w.get(name).Status.VolumeID}}))
	}
	w.must(w.api.Create(t.Context(), &v1alpha1.LVMVolumeGroupNodeStatus{
		ObjectMeta: metav1.ObjectMeta{Name: "node2", Namespace: "ns"},
		Status: v1alpha1.LVMVolumeGroupNodeStatusStatus{NodeStatus: []v1alpha1.VGStatus{{Name: "vg2",
			Orphans: []v1alpha1.OrphanStatus{
				{Kind: v1alpha1.OrphanOtherNode, Name: "vg2/id-a", Object: "a", ObjectNode: "node1"},
				{Kind: v1alpha1.OrphanOtherNode, Name: "vg2/id-b", Object: "b", ObjectNode: "node3"}}}}}}))
	audits := func() []string {
		for range 12 {
			w.must(a.Audit(t.Context()))
			*now = now.Add(settleTime)
		}
		return said(recorder)
	}
	live := a.Live
	a.Live = unreadable{live}
	if got := audits(); len(got) != 0 {
		t.Errorf("the nodes could not be read: got %q", got)
	}
	a.Live = live
	got := audits()
	wantEvents(t, got, "it was removed manually, or its disks were replaced. Restore",
		"the data is on node node2, logical volume vg2/id-a: do not delete the claim")
	if strings.Contains(got[0], "node2") || strings.Contains(got[1], "estore") {
		t.Errorf("got %q", got)
	}
	if got := audits(); len(got) != 0 {
		t.Errorf("said again: %q", got)
	}
}

// unreadable is an API server that does not respond.
type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no answer")
}

func (unreadable) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no answer")
}

func TestWhatCannotBeSeenIsNoOrphan(t *testing.T) {
	w := newWorld(t)
	a, recorder, now := w.auditor()
	w.ask("a", thin(8))
	w.must(w.run("a"))
	w.must(a.Audit(t.Context()))
	w.fake.Fail("Report", errors.New("exit status 5"))
	if err := a.Audit(t.Context()); err == nil {
		t.Error("no error")
	}
	w.fake.Fail("Report", nil)
	w.fake.Detach("/dev/b")
	*now = now.Add(time.Hour)
	for range 2 {
		w.must(a.Audit(t.Context()))
		*now = now.Add(time.Hour)
	}
	if len(a.Orphans("thin")) != 0 || len(said(recorder)) != 0 {
		t.Errorf("got %+v", a.Orphans("thin"))
	}
	if got := w.get("a").Annotations[wellknown.ConditionAnnotation]; got == "" {
		t.Error("nothing is said about a volume whose disk is away")
	}
	w.fake.Attach("/dev/b")
	w.must(a.Audit(t.Context()))
	if _, still := w.get("a").Annotations[wellknown.ConditionAnnotation]; still {
		t.Error("the condition stays although all is well")
	}
}

// TestMetricsOfVolumesEndWhenTheyCannotBeRead checks that one failed read removes no series. After several failed
// reads, the metrics and the status no longer have outdated values.
func TestMetricsOfVolumesEndWhenTheyCannotBeRead(t *testing.T) {
	w := newWorld(t)
	a, _, now := w.auditor()
	a.MaxVolumes = 10
	w.ask("a", thin(8))
	w.must(w.run("a"))
	w.ask("b", thin(8))
	for range 2 {
		w.must(a.Audit(t.Context()))
		*now = now.Add(time.Hour)
	}
	orphans := len(a.Orphans("thin"))
	w.fake.Fail("Report", errors.New("exit status 5"))
	for i, want := range []int{1, 1, 0, 0} {
		if err := a.Audit(t.Context()); err == nil {
			t.Fatal("no error")
		}
		if n := testutil.CollectAndCount(a, "lvms_volume_size_bytes"); n != want {
			t.Errorf("%d series after %d audits that failed, want %d", n, i+1, want)
		}
	}
	if n := len(a.Orphans("thin")); n != orphans {
		t.Errorf("%d orphans, and %d were known", n, orphans)
	}
	w.fake.Fail("Report", nil)
	w.must(a.Audit(t.Context()))
	if n := testutil.CollectAndCount(a, "lvms_volume_size_bytes"); n != 1 {
		t.Errorf("%d series when they can be read again", n)
	}
}

func TestConditions(t *testing.T) {
	object := func(name, class string) topolvmv1.LogicalVolume {
		return topolvmv1.LogicalVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       topolvmv1.LogicalVolumeSpec{NodeName: "node1", DeviceClass: class},
			Status:     topolvmv1.LogicalVolumeStatus{VolumeID: name + "-id"},
		}
	}
	closed, closing := object("closed", "a"), object("closing", "a")
	closed.Annotations = map[string]string{wellknown.FenceErrorAnnotation: "closed by the fence m"}
	closing.Annotations = map[string]string{wellknown.FenceErrorAnnotation: "in use", wellknown.FenceAnnotation: "m"}
	got := conditions(
		[]engine.VolumeState{{Name: "closed-id"}, {Name: "closing-id"}, {Name: "well-id"}, {Name: "ill-id", Problems: []health.Condition{health.Inaccessible(health.DeviceMissing, "the device is missing")}}},
		map[string]error{"": nil, "a": nil, "lost": errors.New("no such group")},
		[]topolvmv1.LogicalVolume{object("well", ""), object("ill", "a"), object("gone", "a"), object("away", "lost"),
			object("unknown", "x"), closed, closing, {}},
	)
	want := map[string]string{"ill": "the device is missing", "closed": "closed by the fence m", "gone": "node node1 has no logical volume gone-id",
		"away": "no such group", "unknown": "device class x is not set up on node node1"}
	if len(got) != len(want) {
		t.Errorf("got %q", got)
	}
	for name, text := range want {
		if health.Text(got[name]) != text {
			t.Errorf("%s: got %v, want %q", name, got[name], text)
		}
	}
}

// TestVolumesOfAnOlderVersionAreTagged checks volumes of an older version, which have no tags and whose objects have
// no annotation.
func TestSuspendedDevicesStandOnTheObject(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	w.ask("a", thin(8))
	w.must(w.run("a"))
	check := func(what, want string) {
		t.Helper()
		for range 2 {
			w.must(a.Audit(t.Context()))
		}
		if got, isSet := w.get("a").Annotations[wellknown.SuspendedDevicesAnnotation]; got != want || isSet != (want != "") {
			t.Errorf("%s: got %q", what, got)
		}
	}
	check("nothing is suspended", "")
	w.must(w.fake.Apply(t.Context(), lvm.PVSetAllocatable{Device: "/dev/b", Allocatable: true,
		AddTag: wellknown.SuspendedTag}))
	check("suspended", "/dev/b")
	w.fake.Fail("Report", errors.New("lvm does not answer"))
	if err := a.Audit(t.Context()); err == nil {
		t.Error("no error")
	}
	w.fake.Fail("Report", nil)
	check("after a read that failed", "/dev/b")
	lost := suspensions(nil, map[string]error{"thin": errors.New("missing")}, []topolvmv1.LogicalVolume{*w.get("a")})
	if lost["a"] != "/dev/b" {
		t.Errorf("the class is not available: got %q", lost)
	}
	w.must(w.fake.Apply(t.Context(), lvm.PVSetAllocatable{Device: "/dev/b", Allocatable: true,
		RemoveTag: wellknown.SuspendedTag}))
	check("resumed", "")
}

func TestVolumesOfAnOlderVersionAreTagged(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	for _, name := range []string{"a", "b"} {
		w.ask(name, thin(8))
		lv := w.get(name)
		lv.Annotations = nil
		w.must(w.api.Update(t.Context(), lv))
		w.must(w.run(name))
		w.fake.Edit("thin", string(lv.UID), func(lv *lvm.LV) { lv.Tags = nil })
	}
	w.must(w.api.Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "data"}},
	}))
	w.must(a.Audit(t.Context()))
	commands := w.fake.Calls()["LVChangeTags"]
	w.must(a.Audit(t.Context()))
	if commands != 2 || w.fake.Calls()["LVChangeTags"] != commands {
		t.Errorf("%d commands, then %d", commands, w.fake.Calls()["LVChangeTags"])
	}
	report, err := w.lvm.Report(t.Context())
	w.must(err)
	got := report.VG("thin").LV("uid-a-1").Tags
	slices.Sort(got)
	if want := []string{"lvms.cluster=c1", "lvms.pv=a", "lvms.pvc=ns/data",
		"lvms.uid=uid-a-1"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if slices.Contains(report.VG("thin").LV("uid-b-2").Tags, wellknown.NewTag) {
		t.Error("a volume that may be in use was called new")
	}
}

// brokenFileSystems returns problems of file systems, or an error.
type brokenFileSystems struct {
	problems map[string]health.Condition
	err      error
	asked    map[string]service.Volume
}

func (b *brokenFileSystems) Problems(_ context.Context, volumes map[string]service.Volume) (
	map[string]health.Condition, error) {
	b.asked = volumes
	return b.problems, b.err
}

// numbered sets a distinct device number for each volume.
type numbered struct{ States }

func (n numbered) Volumes(ctx context.Context) ([]engine.VolumeState, map[string]error, error) {
	volumes, classes, err := n.States.Volumes(ctx)
	for i := range volumes {
		volumes[i].Device = fmt.Sprintf("254:%d", i)
	}
	return volumes, classes, err
}

// TestABrokenFileSystemStandsOnItsObject checks that the problem stays until the file system is healthy. A failed
// read does not change it.
func TestABrokenFileSystemStandsOnItsObject(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	for _, name := range []string{"a", "b"} {
		w.ask(name, thin(8))
		w.must(w.run(name))
	}
	a.States = numbered{a.States}
	volumes, _, err := a.States.Volumes(t.Context())
	w.must(err)
	devices := map[string]string{}
	for _, v := range volumes {
		devices[v.Name] = v.Device
	}
	volume := w.get("a").Status.VolumeID
	const wrong = "the xfs file system of volume thin/a on node node1 is not accessible (input/output error)"
	files := &brokenFileSystems{problems: map[string]health.Condition{
		devices[volume]: health.Inaccessible(health.FileSystemUnavailable, wrong)}}
	a.FileSystems = files
	check := func(what, want string, series int) {
		t.Helper()
		if got := w.get("a").Annotations[wellknown.ConditionAnnotation]; got != want {
			t.Errorf("%s: got %q", what, got)
		}
		if got := view.Health(w.get("a")); health.Text(got) != want || want != "" && got[0].Reason != health.FileSystemUnavailable {
			t.Errorf("%s: got %v", what, got)
		}
		if got := w.get("b").Annotations[wellknown.ConditionAnnotation]; got != "" {
			t.Errorf("%s: the other volume: %q", what, got)
		}
		if n := testutil.CollectAndCount(a, "lvms_volume_filesystem_abnormal"); n != series {
			t.Errorf("%s: %d series, want %d", what, n, series)
		}
	}
	w.must(a.Audit(t.Context()))
	check("broken", wrong, 1)
	if v := files.asked[devices[volume]]; v.Class != "thin" || v.Name != volume || v.Claim != "ns/a" || devices[volume] == "" {
		t.Errorf("asked for %v", files.asked)
	}
	files.problems, files.err = nil, errors.New("no mounts")
	if err := a.Audit(t.Context()); err == nil {
		t.Error("nothing is said of what could not be read")
	}
	check("not read", wrong, 1)
	files.err = nil
	w.must(a.Audit(t.Context()))
	check("well again", "", 0)
}

// The reason stays until the Pod has ended, and if it cannot be read.
func TestWhatKeepsAPodFromEndingIsInTheCondition(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	w.ask("a", thin(8))
	w.must(w.run("a"))
	a.States = numbered{a.States}
	const reason = "its Pod cannot end"
	detained, failure := map[string]string{"254:0": reason, "254:9": "another"}, error(nil)
	a.Detained = func(context.Context) (map[string]string, error) { return detained, failure }
	check := func(what, want string, fails bool) {
		t.Helper()
		if err := a.Audit(t.Context()); (err != nil) != fails {
			t.Errorf("%s: %v", what, err)
		}
		if got := w.get("a").Annotations[wellknown.ConditionAnnotation]; got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	check("detained", reason, false)
	detained, failure = nil, errors.New("no sysfs")
	check("not read", reason, true)
	failure = nil
	check("released", "", false)
}
