package volumegroup

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// deletedBench has the volumes a, b and kept. a and b are orphans, and the LogicalVolume of a was deleted at the time
// deleted, while the node did not exist.
func deletedBench(t *testing.T, retention v1alpha1.RetentionPeriod, deleted time.Time) *bench {
	t.Helper()
	b := newBench(t, v1alpha1.LVMVolumeGroupSpec{Default: true, DeletedVolumeRetention: retention})
	b.settle()
	for _, name := range []string{"a", "b", "kept"} {
		b.ok(b.lvm.Apply(t.Context(), lvm.LVCreateThick{VG: "vg1", Name: name, Size: 1 << 20, Tags: []string{
			wellknown.VolumeUIDTagPrefix + "uid-" + name, wellknown.ClusterTagPrefix + "c1"}}))
	}
	b.logicalVolume("kept")
	b.step()
	b.record(removednode.DeletedVolume{Volume: "a", UID: "uid-a", LogicalVolume: "pvc-a", Node: nodeName,
		DeviceClass: "vg1", Time: deleted})
	b.follow()
	return b
}

// follow has the agent see the orphans a and b.
func (b *bench) follow() {
	b.agent.orphans.Orphans = func(string) []v1alpha1.OrphanStatus {
		return []v1alpha1.OrphanStatus{{Kind: v1alpha1.OrphanLogicalVolume, Name: "vg1/a"},
			{Kind: v1alpha1.OrphanLogicalVolume, Name: "vg1/b"}}
	}
}

func (b *bench) record(d removednode.DeletedVolume) {
	b.Helper()
	data, err := json.Marshal(d)
	b.ok(err)
	b.ok(b.client.Create(b.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: removednode.DeletedVolumes, Namespace: namespace},
		Data:       map[string]string{removednode.DeletedVolumeKey(d.Volume): string(data)}}))
}

func (b *bench) step() {
	b.Helper()
	b.agent.Wake()
	b.settle()
}

// TestADeletedVolumeIsRemovedAfterItsRetention: the status says when, and then only this volume is removed.
func TestADeletedVolumeIsRemovedAfterItsRetention(t *testing.T) {
	deleted := time.Now().Add(-59 * time.Minute).Truncate(time.Second)
	b := deletedBench(t, "1h", deleted)
	b.step()
	b.wantVolumes("a", "b", "kept")
	orphans := b.entry().Orphans
	if len(orphans) != 2 || orphans[0].RemovalTime == nil ||
		!orphans[0].RemovalTime.Time.Equal(deleted.Add(time.Hour)) || orphans[1].RemovalTime != nil {
		t.Errorf("got the orphans %+v", orphans)
	}
	// The node cannot be observed for a moment: the status still says when.
	b.lvm.Fail("Report", errors.New("input/output error"))
	b.agent.Wake()
	_, _ = b.reconcile()
	if orphans := b.entry().Orphans; orphans[0].RemovalTime == nil {
		t.Errorf("got the orphans %+v", orphans)
	}
	b.lvm.Fail("Report", nil)
	b.drain()
	now := time.Now().Add(2 * time.Minute)
	b.agent.now = func() time.Time { return now }
	b.step()
	b.wantVolumes("b", "kept")
	if n := b.lvm.Calls()["LVRemoveByUUID"]; n != 1 {
		t.Errorf("removed with %d commands", n)
	}
	said := strings.Join(b.drain(), "\n")
	if !strings.Contains(said, "DeletedVolumeRemoved logical volumes removed from volume group vg1 on node "+nodeName+
		": a: their LogicalVolumes were deleted") {
		t.Errorf("got the events %s", said)
	}
	b.step()
	b.wantVolumes("b", "kept")
}

// TestDeletedVolumesThatStay: each of these, but the first, is a reason not to remove the volume, although its time is
// over.
func TestDeletedVolumesThatStay(t *testing.T) {
	retag := func(remove, add string) func(*bench) {
		return func(b *bench) {
			b.ok(b.lvm.Apply(b.Context(), lvm.LVChangeTags{VG: "vg1", Name: "a", Add: []string{add},
				Remove: []string{remove}}))
		}
	}
	for name, test := range map[string]struct {
		retention v1alpha1.RetentionPeriod
		do        func(*bench)
		removed   bool
	}{
		"none":              {retention: "1h", removed: true},
		"no retention":      {},
		"invalid retention": {retention: "soon"},
		"imported since":    {retention: "1h", do: retag(wellknown.VolumeUIDTagPrefix+"uid-a", wellknown.VolumeUIDTagPrefix+"uid-import")},
		"another cluster":   {retention: "1h", do: retag(wellknown.ClusterTagPrefix+"c1", wellknown.ClusterTagPrefix+"c2")},
		"no tags":           {retention: "1h", do: retag(wellknown.VolumeUIDTagPrefix+"uid-a", "x")},
		"in use":            {retention: "1h", do: func(b *bench) { b.lvm.Open("vg1", "a", true) }},
		"a LogicalVolume":   {retention: "1h", do: func(b *bench) { b.logicalVolume("a") }},
		"a LogicalVolume of another node": {retention: "1h", do: func(b *bench) {
			b.ok(b.client.Create(b.Context(), &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere",
				Annotations: map[string]string{wellknown.ImportAnnotation: "a"}},
				Spec: topolvmv1.LogicalVolumeSpec{Name: "elsewhere", NodeName: "other", DeviceClass: "vg1"}}))
		}},
		"a PersistentVolume": {retention: "1h", do: func(b *bench) {
			b.ok(b.client.Create(b.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a"},
				Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: "a"}}}}))
		}},
		"no orphan":  {retention: "1h", do: func(b *bench) { b.agent.orphans.Orphans = nil }},
		"no records": {retention: "1h", do: func(b *bench) { b.agent.objects.Live = failingReader{b.client} }},
		"no volumes": {retention: "1h", do: func(b *bench) { b.agent.objects.Live = failingLists{b.client} }},
		"earlier metadata": {retention: "1h", do: func(b *bench) {
			// The volume c was created after the metadata that is restored.
			b.ok(b.lvm.Apply(b.Context(), lvm.LVCreateThick{VG: "vg1", Name: "c", Size: 1 << 20}))
			b.logicalVolume("c")
			b.rollBackTo(3)
		}},
		"another recovery": {retention: "1h", do: func(b *bench) { b.requestRestore("restore") }},
		"a recovery":       {retention: "1h", do: func(b *bench) { b.requestDeletion("orphans", time.Hour, "b") }},
		"a disk is away": {retention: "1h", do: func(b *bench) {
			b.lvm.Detach("/dev/sdc")
		}},
		"broken record": {retention: "1h", do: func(b *bench) {
			records := &corev1.ConfigMap{}
			key := client.ObjectKey{Namespace: namespace, Name: removednode.DeletedVolumes}
			b.ok(b.client.Get(b.Context(), key, records))
			records.Data[removednode.DeletedVolumeKey("a")] = `{"volume":"a"}`
			b.ok(b.client.Update(b.Context(), records))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := deletedBench(t, test.retention, time.Now().Add(-2*time.Hour))
			if test.do != nil {
				test.do(b)
			}
			for range 3 {
				b.agent.Wake()
				_, _ = b.reconcile()
			}
			n := b.lvm.Calls()["LVRemoveByUUID"]
			if test.removed {
				b.wantVolumes("b", "kept")
				return
			}
			b.wantVolumes("a", "b", "kept")
			if n != 0 {
				t.Errorf("removed with %d commands", n)
			}
		})
	}
}

// failingLists returns an error for lists of PersistentVolumes.
type failingLists struct{ client.Reader }

func (f failingLists) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, is := list.(*corev1.PersistentVolumeList); is {
		return errors.New("no answer")
	}
	return f.Reader.List(ctx, list, options...)
}

// TestADeletedVolumeThatGetsAnOwnerIsNotRemoved: the object appears between the plan and the removal.
func TestADeletedVolumeThatGetsAnOwnerIsNotRemoved(t *testing.T) {
	b := deletedBench(t, "1h", time.Now().Add(-2*time.Hour))
	late := &lateOwner{Reader: b.client, appears: func() {
		b.ok(b.client.Create(b.Context(), &topolvmv1.LogicalVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "late", UID: types.UID("late")},
			Spec:       topolvmv1.LogicalVolumeSpec{Name: "late", NodeName: "other", DeviceClass: "vg1"},
			Status:     topolvmv1.LogicalVolumeStatus{VolumeID: "a"}}))
	}}
	b.agent.objects.Live = late
	var said []string
	for range 3 {
		b.agent.Wake()
		if _, err := b.reconcile(); err != nil {
			said = append(said, err.Error())
		}
	}
	b.wantVolumes("a", "b", "kept")
	if len(said) != 1 || !strings.Contains(said[0], "vg1/a on node "+nodeName+" is not removed") {
		t.Errorf("got the errors %q", said)
	}
}

// lateOwner makes an object appear after the second list of LogicalVolumes, which is the one of the observation that
// the action is based on.
type lateOwner struct {
	client.Reader
	lists   int
	appears func()
}

func (l *lateOwner) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Reader.List(ctx, list, options...)
	if _, is := list.(*topolvmv1.LogicalVolumeList); is {
		if l.lists++; l.lists == 2 {
			l.appears()
		}
	}
	return err
}
