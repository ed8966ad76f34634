package logicalvolume

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/audit"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// volumeOf creates a logical volume for an earlier object of this name.
func (w *world) volumeOf(object, name string, tags ...string) {
	w.Helper()
	w.must(w.lvm.Apply(w.Context(), lvm.LVCreateThin{VG: "thin", Pool: "pool", Name: name, VirtualSize: 12 << 20,
		Tags: append(tags, "lvms.uid="+name, "lvms.pv="+object, "lvms.pvc=ns/"+object, "lvms.cluster=c0")}))
}

// persistent creates a PersistentVolume.
func (w *world) persistent(name, handle string) {
	w.Helper()
	w.must(w.api.Create(w.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "topolvm.io", VolumeHandle: handle}}}}))
}

// auditor returns an Auditor for the engine of the world.
func (w *world) auditor(now func() time.Time) *audit.Auditor {
	w.Helper()
	w.must(w.api.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}))
	states, ok := w.agent().Volumes.(*engine.Engine)
	if !ok {
		w.Fatal("another engine")
	}
	return audit.New(audit.Options{Client: w.api, Live: w.api, Node: "node1", Cluster: "c1", Namespace: "ns",
		States: states, Recorder: events.NewFakeRecorder(100), Now: now})
}

// TestTagsNameTheRestoredObject: Velero restored the status, too, and the cluster has another identity.
func TestTagsNameTheRestoredObject(t *testing.T) {
	w := newWorld(t)
	a := w.auditor(time.Now)
	w.volumeOf("pvc-1", "orphan", "lvms.formatted=xfs")
	w.ask("pvc-1", thin(12))
	lv := w.get("pvc-1")
	lv.Status.VolumeID, lv.Annotations = "orphan", nil
	w.must(w.api.Status().Update(t.Context(), lv))
	for range 2 {
		w.must(a.Audit(t.Context()))
	}
	want := []string{"lvms.cluster=c1", "lvms.formatted=xfs", "lvms.pv=pvc-1", "lvms.pvc=ns/pvc-1",
		"lvms.uid=" + string(lv.UID)}
	if got := w.tags("thin", "orphan"); !slices.Equal(got, want) || w.fake.Calls()["LVChangeTags"] != 1 {
		t.Errorf("got the tags %q, %d commands", got, w.fake.Calls()["LVChangeTags"])
	}
}

// TestTagsOfAVolumeThatTwoObjectsNameStay: somebody edited a status.
func TestTagsOfAVolumeThatTwoObjectsNameStay(t *testing.T) {
	w := newWorld(t)
	a := w.auditor(time.Now)
	w.volumeOf("pvc-1", "orphan")
	before := w.tags("thin", "orphan")
	for _, name := range []string{"pvc-1", "pvc-2"} {
		w.ask(name, thin(12))
		lv := w.get(name)
		lv.Status.VolumeID = "orphan"
		w.must(w.api.Status().Update(t.Context(), lv))
	}
	w.must(a.Audit(t.Context()))
	if got := w.tags("thin", "orphan"); !slices.Equal(got, before) {
		t.Errorf("got the tags %q, want %q", got, before)
	}
}

// noPersistentVolumes is an API server that does not return PersistentVolumes.
type noPersistentVolumes struct{ client.Reader }

func (r noPersistentVolumes) Get(ctx context.Context, key client.ObjectKey, o client.Object,
	options ...client.GetOption) error {
	if _, ok := o.(*corev1.PersistentVolume); ok {
		return errors.New("no answer")
	}
	return r.Reader.Get(ctx, key, o, options...)
}

// TestNothingIsCreatedBesideTheVolumeOfARestoredObject: Velero restores a LogicalVolume with another UID and without
// its status.
func TestNothingIsCreatedBesideTheVolumeOfARestoredObject(t *testing.T) {
	for name, test := range map[string]struct {
		do func(*world)
		// noLVM and noAPI: LVM or PersistentVolumes cannot be read.
		noLVM, noAPI bool
		// says is in the status. If "", a volume is created.
		says string
	}{
		"it is tagged": {do: func(w *world) { w.volumeOf("pvc-1", "old") },
			says: "has a logical volume of an earlier LogicalVolume pvc-1: old. Nothing is created"},
		"for another object": {do: func(w *world) { w.volumeOf("pvc-2", "old") }},
		"two": {do: func(w *world) {
			w.volumeOf("pvc-1", "old")
			w.volumeOf("pvc-1", "older")
		}, says: "pvc-1: old, older. Nothing is created"},
		"never used": {do: func(w *world) { w.volumeOf("pvc-1", "old", "lvms.new") }},
		"encrypted, and its formatting was interrupted": {do: func(w *world) {
			w.volumeOf("pvc-1", "old", "lvms.new", "lvms.encryption=luks2")
		}},
		"its formatting was interrupted, in an older version": {do: func(w *world) {
			w.volumeOf("pvc-1", "old", "lvms.formatting=ext4")
		}, says: "pvc-1: old. Nothing is created"},
		"never used, of the PersistentVolume": {do: func(w *world) {
			w.volumeOf("pvc-1", "old", "lvms.new")
			w.persistent("pvc-1", "old")
		}, says: "pvc-1: old. Nothing is created"},
		"LVM cannot be read": {do: func(w *world) { w.volumeOf("pvc-1", "old") }, noLVM: true,
			says: "input/output error"},
		"the PersistentVolume cannot be read": {do: func(w *world) { w.volumeOf("pvc-1", "old", "lvms.new") }, noAPI: true,
			says: "read PersistentVolume pvc-1: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("pvc-1", thin(12))
			test.do(w)
			before := w.volumes()
			for range 2 {
				agent := w.agent()
				if test.noAPI {
					agent.Live = noPersistentVolumes{agent.Live}
				}
				if test.noLVM {
					w.fake.Fail("Report", errors.New("input/output error"))
				}
				if err := w.run(agent, "pvc-1"); (err != nil) != (test.says != "") {
					t.Errorf("got %v", err)
				}
			}
			w.fake.Fail("Report", nil)
			lv := w.get("pvc-1")
			if test.says == "" {
				before = append(before, "thin/"+string(lv.UID)+" 12")
				if lv.Status.VolumeID != string(lv.UID) {
					t.Errorf("got the status %+v", lv.Status)
				}
			} else if lv.Status.VolumeID != "" || lv.Status.Code != codes.Unavailable ||
				!strings.Contains(lv.Status.Message, test.says) {
				t.Errorf("got the status %+v", lv.Status)
			}
			w.see("at the end", before...)
		})
	}
}

// TestAnObjectWhoseClaimIsGoneIsRefused: the operator marked it, and deletes it. What an earlier process created for it
// goes with it. A volume with data is never touched.
func TestAnObjectWhoseClaimIsGoneIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*world)
		code codes.Code
		left []string
	}{
		"not created": {do: func(*world) {}, code: codes.FailedPrecondition},
		"created by a process that was killed": {do: func(w *world) {
			w.volumeOf("pvc-1", string(w.get("pvc-1").UID), "lvms.new")
		}, code: codes.FailedPrecondition},
		"restored": {do: func(w *world) { w.volumeOf("pvc-1", "old") }, code: codes.Unavailable,
			left: []string{"thin/old 12"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("pvc-1", thin(12))
			lv := w.get("pvc-1")
			metav1.SetMetaDataAnnotation(&lv.ObjectMeta, "lvm.topolvm.io/unclaimed", "true")
			w.must(w.api.Update(t.Context(), lv))
			test.do(w)
			before := w.volumes()
			for range 2 {
				_ = w.run(w.agent(), "pvc-1")
				w.see("after a refusal", before...)
			}
			if lv = w.get("pvc-1"); lv.Status.VolumeID != "" || lv.Status.Code != test.code {
				t.Errorf("got the status %+v, want the code %v", lv.Status, test.code)
			}
			w.must(w.api.Delete(t.Context(), lv))
			for range 2 {
				_ = w.run(w.agent(), "pvc-1")
			}
			w.see("after the deletion", test.left...)
		})
	}
}

// TestARestoredObjectWaitsForItsDeviceClass: without a PersistentVolume, the object is refused, so that the claim can
// get a volume on another node.
func TestARestoredObjectWaitsForItsDeviceClass(t *testing.T) {
	for name, test := range map[string]struct {
		restored bool
		want     codes.Code
		says     string
	}{
		"new": {want: codes.ResourceExhausted, says: `device class "other" is not set up on this node`},
		"restored": {restored: true, want: codes.Unavailable,
			says: "device class other is not set up on node node1 yet, which has the logical volume of PersistentVolume pvc-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := thin(12)
			spec.DeviceClass = "other"
			w.ask("pvc-1", spec)
			if test.restored {
				w.persistent("pvc-1", "old")
			}
			if err := w.run(w.agent(), "pvc-1"); (err != nil) != test.restored {
				t.Errorf("got %v", err)
			}
			if s := w.get("pvc-1").Status; s.Code != test.want || s.Message != test.says || s.VolumeID != "" {
				t.Errorf("got the status %+v", s)
			}
		})
	}
}

// TestARestoredObjectIsNotRefusedForEver: it was restored before its device class.
func TestARestoredObjectIsNotRefusedForEver(t *testing.T) {
	w := newWorld(t)
	w.volumeOf("pvc-1", "old")
	w.ask("pvc-1", thin(12))
	lv := w.get("pvc-1")
	lv.Status.Code, lv.Status.Message = codes.NotFound, "device class is not set up on this node"
	w.must(w.api.Status().Update(t.Context(), lv))
	w.must(w.run(w.agent(), "pvc-1"))
	if lv := w.get("pvc-1"); lv.Status.VolumeID != "" || lv.Status.Code != codes.NotFound {
		t.Errorf("without a PersistentVolume, its client deletes it: %+v", lv.Status)
	}
	w.persistent("pvc-1", "old")
	for range 2 {
		if err := w.run(w.agent(), "pvc-1"); err == nil {
			t.Error("it is not tried again")
		}
	}
	if lv := w.get("pvc-1"); lv.Status.VolumeID != "" || lv.Status.Code != codes.Unavailable {
		t.Errorf("got the status %+v", lv.Status)
	}
	w.see("at the end", "thin/old 12")
}

// snapshotSpec is the spec of the LogicalVolume of a VolumeSnapshot.
func snapshotSpec() topolvmv1.LogicalVolumeSpec {
	spec := thin(12)
	spec.Source, spec.AccessType = "pvc-1", "ro"
	return spec
}

// operatorAccepts does what the operator does if no other object has the volume that the agent proposed.
func (w *world) operatorAccepts(object string) {
	w.Helper()
	lv := w.get(object)
	if lv.Status.VolumeID != "" || lv.Status.Code != codes.Unavailable ||
		!strings.Contains(lv.Status.Message, "It is used when the operator has checked that no other object has it") {
		w.Errorf("got the status %+v", lv.Status)
	}
	lv.Annotations[wellknown.ImportAnnotation] = lv.Annotations[wellknown.ExistingVolumeAnnotation]
	w.must(w.api.Update(w.Context(), lv))
}

// TestARestoredSnapshotGetsItsLogicalVolume: Velero restores the LogicalVolume of a VolumeSnapshot with another UID and
// without its status. Nothing is created, also if the source no longer exists.
func TestARestoredSnapshotGetsItsLogicalVolume(t *testing.T) {
	const snapshot = "snapshot-1"
	for name, test := range map[string]struct {
		do   func(*world)
		spec func(*topolvmv1.LogicalVolumeSpec)
		// noLVM: LVM cannot be read.
		noLVM bool
		// says is in the status. If "", the object gets the volume old.
		says string
	}{
		"one": {do: func(w *world) { w.volumeOf(snapshot, "old") }},
		"one, and that of another snapshot": {do: func(w *world) {
			w.volumeOf(snapshot, "old")
			w.volumeOf("snapshot-2", "other")
		}},
		"two": {do: func(w *world) {
			w.volumeOf(snapshot, "old")
			w.volumeOf(snapshot, "older")
		}, says: "snapshot-1: old, older. Nothing is created"},
		"it belongs to another object": {do: func(w *world) {
			w.volumeOf(snapshot, "old")
			w.ask("snapshot-2", snapshotSpec())
			lv := w.get("snapshot-2")
			lv.Status.VolumeID = "old"
			w.must(w.api.Status().Update(w.Context(), lv))
		}, says: "logical volume old belongs to LogicalVolume snapshot-2: delete this object (snapshot-1)"},
		"a writable copy": {do: func(w *world) { w.volumeOf(snapshot, "old") },
			spec: func(s *topolvmv1.LogicalVolumeSpec) { s.AccessType = "rw" }, says: "Nothing is created beside it"},
		"a volume": {do: func(w *world) { w.volumeOf(snapshot, "old") },
			spec: func(s *topolvmv1.LogicalVolumeSpec) { s.Source, s.AccessType = "", "" },
			says: "Nothing is created beside it"},
		"LVM cannot be read": {do: func(w *world) { w.volumeOf(snapshot, "old") }, noLVM: true,
			says: "input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := snapshotSpec()
			if test.spec != nil {
				test.spec(&spec)
			}
			w.ask(snapshot, spec)
			test.do(w)
			before := w.volumes()
			for range 2 {
				if test.noLVM {
					w.fake.Fail("Report", errors.New("input/output error"))
				}
				if err := w.run(w.agent(), snapshot); err == nil {
					t.Error("it is not tried again")
				}
			}
			w.fake.Fail("Report", nil)
			proposed := w.get(snapshot).Annotations[wellknown.ExistingVolumeAnnotation]
			if test.says == "" && proposed != "old" || test.says != "" && proposed != "" {
				t.Errorf("proposed the volume %q", proposed)
			}
			if proposed != "" {
				w.operatorAccepts(snapshot)
				for range 2 {
					w.must(w.run(w.agent(), snapshot))
				}
			}
			w.see("at the end", before...)
			lv := w.get(snapshot)
			if test.says != "" {
				if lv.Status.VolumeID != "" || lv.Status.Code != codes.Unavailable ||
					!strings.Contains(lv.Status.Message, test.says) {
					t.Errorf("got the status %+v", lv.Status)
				}
				return
			}
			if lv.Status.VolumeID != "old" || lv.Status.Code != codes.OK || lv.Status.CurrentSize.Value() != 12<<20 {
				t.Errorf("got the status %+v", lv.Status)
			}
			want := []string{"lvms.cluster=c1", "lvms.pv=snapshot-1", "lvms.pvc=ns/snapshot-1",
				"lvms.uid=" + string(lv.UID)}
			if got := w.tags("thin", "old"); !slices.Equal(got, want) || w.fake.Calls()["LVChangeTags"] != 1 {
				t.Errorf("got the tags %q, %d commands", got, w.fake.Calls()["LVChangeTags"])
			}
		})
	}
}

// TestARestoredSnapshotIsTakenAfterAKill: the agent is killed after it has changed the tags, before it writes the
// status.
func TestARestoredSnapshotIsTakenAfterAKill(t *testing.T) {
	w := newWorld(t)
	w.volumeOf("snapshot-1", "old")
	w.ask("snapshot-1", snapshotSpec())
	lv := w.get("snapshot-1")
	w.must(w.lvm.Apply(t.Context(), lvm.LVChangeTags{VG: "thin", Name: "old",
		Add:    []string{"lvms.uid=" + string(lv.UID), "lvms.cluster=c1"},
		Remove: []string{"lvms.uid=old", "lvms.cluster=c0"}}))
	if err := w.run(w.agent(), "snapshot-1"); err == nil {
		t.Error("it is not tried again")
	}
	w.operatorAccepts("snapshot-1")
	w.must(w.run(w.agent(), "snapshot-1"))
	if lv := w.get("snapshot-1"); lv.Status.VolumeID != "old" {
		t.Errorf("got the status %+v", lv.Status)
	}
	w.see("at the end", "thin/old 12")
}

// TestARestoredSnapshotWaitsForItsDeviceClass: the objects are restored before the volume group is used, so the source
// has no logical volume yet, either. A refusal would be final.
func TestARestoredSnapshotWaitsForItsDeviceClass(t *testing.T) {
	w := newWorld(t)
	w.volumeOf("snapshot-1", "old")
	w.ask("pvc-1", thin(12))
	spec := snapshotSpec()
	spec.DeviceClass = "other"
	w.ask("snapshot-1", spec)
	for range 2 {
		if err := w.run(w.agent(), "snapshot-1"); err == nil {
			t.Error("it is not tried again")
		}
	}
	lv := w.get("snapshot-1")
	if lv.Status.Code != codes.Unavailable || lv.Status.VolumeID != "" || lv.Status.Message != "device class other "+
		"is not set up on node node1 yet, which may have the snapshot of LogicalVolume snapshot-1" {
		t.Errorf("got the status %+v", lv.Status)
	}

	// Now it is set up.
	lv.Spec.DeviceClass = "thin"
	w.must(w.api.Update(t.Context(), lv))
	if err := w.run(w.agent(), "snapshot-1"); err == nil {
		t.Error("it is not tried again")
	}
	w.operatorAccepts("snapshot-1")
	w.must(w.run(w.agent(), "snapshot-1"))
	if lv := w.get("snapshot-1"); lv.Status.VolumeID != "old" || lv.Status.Code != codes.OK {
		t.Errorf("got the status %+v", lv.Status)
	}
	w.see("at the end", "thin/old 12")
}

// TestAVolumeWithLimitsNeedsANodeThatSupportsThem checks that a volume is not created on a node that cannot apply the
// limits of its class, so that another node can be selected.
func TestAVolumeWithLimitsNeedsANodeThatSupportsThem(t *testing.T) {
	unsupported := errors.New("node node1 cannot limit the I/O of Pods: it has cgroup v1")
	for name, test := range map[string]struct {
		limits  string
		support error
		code    codes.Code
		says    string
	}{
		"supported":     {"readIOPS=500", nil, codes.OK, ""},
		"not supported": {"readIOPS=500", unsupported, codes.ResourceExhausted, "limits readIOPS=500 of a Volume"},
		"no limits":     {"none", unsupported, codes.OK, ""},
		"not valid":     {"readIOPS=many", nil, codes.InvalidArgument, `"many"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ask("pvc-1", thin(12))
			lv := w.get("pvc-1")
			metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.IOLimitsAnnotation, test.limits)
			w.must(w.api.Update(t.Context(), lv))
			for range 2 {
				agent := w.agent()
				agent.SupportsLimits = func() error { return test.support }
				_ = w.run(agent, "pvc-1")
				lv = w.get("pvc-1")
				if lv.Status.Code != test.code || !strings.Contains(lv.Status.Message, test.says) {
					t.Errorf("got the status %+v", lv.Status)
				}
			}
			want := []string{"thin/" + string(lv.UID) + " 12"}
			if test.code != codes.OK {
				want = nil
			}
			w.see("at the end", want...)
		})
	}
}
