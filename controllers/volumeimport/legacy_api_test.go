package volumeimport

import (
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// servedWorld has a bound volume of the earlier driver without a request to migrate it.
type servedWorld struct {
	*world
	pv     *corev1.PersistentVolume
	runner *legacyVolumes
	events *events.FakeRecorder
}

func newServedWorld(t *testing.T, name string) *servedWorld {
	t.Helper()
	w := &servedWorld{world: newWorld(t, name)}
	// The other tests of this package leave volumes of the earlier driver.
	w.removeEarlier()
	w.pv = w.earlierVolume()
	w.pv.Annotations = nil
	w.must(w.api.Update(t.Context(), w.pv))
	w.setPhase(corev1.VolumeBound)
	w.restart()
	return w
}

// removeEarlier removes all volumes, and the CSIDriver of the earlier driver.
func (w *world) removeEarlier() {
	w.Helper()
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeList{}, &earlierv1.LogicalVolumeList{},
		&topolvmv1.LogicalVolumeList{}, &snapshotv1.VolumeSnapshotContentList{}, &storagev1.VolumeAttachmentList{}} {
		w.removeAll(list)
	}
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: wellknown.EarlierDriverName}}
	w.must(client.IgnoreNotFound(w.api.Delete(w.Context(), driver)))
}

func (w *servedWorld) guard(p *kill.Points) {
	w.world.guard(p)
	w.restart()
}

func (w *servedWorld) restart() {
	w.world.restart()
	w.events = events.NewFakeRecorder(100)
	w.ctl.recorder = w.events
	w.runner = newLegacyVolumes(w.ctl, w.spy)
}

func (w *servedWorld) setPhase(phase corev1.PersistentVolumePhase) {
	w.Helper()
	pv := w.persistentVolume(w.pv.Name)
	pv.Status.Phase = phase
	w.must(w.api.Status().Update(w.Context(), pv))
}

// failEachRead fails each read for volumes and snapshots. What a pass does for claims and Nodes is independent of them.
func (w *servedWorld) failEachRead(least int) {
	w.Helper()
	w.spy.FailEachRead(w.T, least, func() error {
		_, err := w.runner.pass(w.Context())
		return err
	}, &storagev1.StorageClassList{}, &corev1.NodeList{})
}

// pass runs twice, with the node agent in between. It returns the events.
func (w *servedWorld) pass() string {
	w.Helper()
	for range 2 {
		_, err := w.runner.pass(w.Context())
		w.must(err)
		w.agent()
	}
	return w.sent()
}

// sent returns the events since the last call.
func (w *servedWorld) sent() string {
	var sent []string
	for len(w.events.Events) > 0 {
		sent = append(sent, <-w.events.Events)
	}
	return strings.Join(sent, "; ")
}

func (w *servedWorld) csiDriver() *storagev1.CSIDriver {
	w.Helper()
	driver := &storagev1.CSIDriver{}
	err := w.api.Get(w.Context(), client.ObjectKey{Name: wellknown.EarlierDriverName}, driver)
	w.must(client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return driver
}

func (w *servedWorld) isServed() bool {
	w.Helper()
	lv := &topolvmv1.LogicalVolume{}
	err := w.api.Get(w.Context(), client.ObjectKeyFromObject(w.pv), lv)
	w.must(client.IgnoreNotFound(err))
	return err == nil && lv.Annotations[wellknown.EarlierDriverAnnotation] == wellknown.EarlierDriverName
}

// wantServed checks that the volume has a LogicalVolume for its logical volume, and that nothing else has changed.
func (w *servedWorld) wantServed() {
	w.Helper()
	lv, pv := w.logicalVolume(w.pv.Name), w.persistentVolume(w.pv.Name)
	expect.Equal(w, "isServed()", w.isServed(), true)
	expect.Equal(w, "Status.VolumeID", lv.Status.VolumeID, w.pv.Spec.CSI.VolumeHandle)
	expect.Equal(w, "Spec.NodeName", lv.Spec.NodeName, w.node())
	expect.Equal(w, "Spec.DeviceClass", lv.Spec.DeviceClass, "ssd")
	expect.Equal(w, "Annotations[wellknown.ClaimAnnotation]", lv.Annotations[wellknown.ClaimAnnotation], w.name+"/data")
	if pv.UID != w.pv.UID || !pv.DeletionTimestamp.IsZero() {
		w.Errorf("got the PersistentVolume %+v", pv)
	}
	if driver := w.csiDriver(); driver == nil || *driver.Spec.AttachRequired {
		w.Errorf("got the CSIDriver %+v", driver)
	}
	w.wantDataIsSafe("served")
}

func TestAVolumeOfTheEarlierDriverIsServed(t *testing.T) { isServed(t, &kill.Points{}) }

// isServed ends the operator at a point, and starts it again.
func isServed(t *testing.T, p *kill.Points) {
	t.Helper()
	w := newServedWorld(t, unique("served"))
	w.guard(p)
	for range 2 {
		_, _ = w.runner.pass(t.Context())
		w.agent()
	}
	w.wantDataIsSafe("when the operator has ended")
	p.Restart()
	w.restart()
	w.pass()
	w.wantServed()
	w.spy.Writes()
	w.pass()
	if writes := w.spy.Writes(); len(writes) > 0 {
		t.Errorf("once more: %v", writes)
	}
}

// TestAVolumeIsNotServed: no object is created, and the event says why.
func TestAVolumeIsNotServed(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*servedWorld)
		says string // part of the event; empty for none
	}{
		"topolvm": {func(w *servedWorld) { w.drivers(wellknown.DriverName, wellknown.EarlierDriverName) }, ""},
		"nodriver": {func(w *servedWorld) { w.drivers() },
			"EarlierVolumeNotServed the volume is not served: the kubelet of node not-nodriver-new does not have"},
		"noobject": {func(w *servedWorld) { w.removeAll(&earlierv1.LogicalVolumeList{}); w.ownDriver() },
			"LogicalVolume not-noobject-pv of the API group topolvm.cybozu.com does not exist"},
		"available": {func(w *servedWorld) { w.setPhase(corev1.VolumeAvailable) }, ""},
		"released":  {func(w *servedWorld) { w.setPhase(corev1.VolumeReleased) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newServedWorld(t, "not-"+name)
			test.edit(w)
			w.spy.Writes()
			if got := w.pass(); (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
				t.Errorf("got the events %q, want %q", got, test.says)
			}
			if writes := w.spy.Writes(); len(writes) > 0 || w.isServed() {
				t.Errorf("got %v", writes)
			}
			if got := w.pass(); got != "" {
				t.Errorf("the event is repeated: %s", got)
			}
		})
	}
}

// ownDriver creates the CSIDriver as the operator does.
func (w *servedWorld) ownDriver() {
	w.Helper()
	w.must(w.runner.ensureDriver(w.Context(), &legacyState{}))
}

// TestOurOwnRegistrationIsNotThatOfTopoLVM: the node ID tells them apart.
func TestOurOwnRegistrationIsNotThatOfTopoLVM(t *testing.T) {
	w := newServedWorld(t, "ours")
	csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: w.node()}}
	w.must(w.api.Delete(t.Context(), csiNode))
	csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: wellknown.DriverName, NodeID: w.node()},
		{Name: wellknown.EarlierDriverName, NodeID: w.node() + wellknown.EarlierNodeIDSuffix}}
	csiNode.ResourceVersion = ""
	w.create(csiNode)
	w.pass()
	w.wantServed()
}

// TestAServedVolumeIsMigratedWhenItIsUnstaged: the agents no longer serve it then, and the CSIDriver is deleted.
func TestAServedVolumeIsMigratedWhenItIsUnstaged(t *testing.T) {
	w := newServedWorld(t, "unstaged")
	claim := w.claim("data")
	w.pass()
	lv := w.logicalVolume(w.pv.Name)
	lv.Annotations[wellknown.EarlierStagedAnnotation] = "/var/lib/kubelet/x/globalmount"
	w.must(w.api.Update(t.Context(), lv))
	pv := w.persistentVolume(w.pv.Name)
	pv.Annotations = map[string]string{wellknown.MigrateAnnotation: "true"}
	w.must(w.api.Update(t.Context(), pv))
	for range 3 {
		w.step()
	}
	if got := w.persistentVolume(pv.Name); got.UID != pv.UID || !strings.Contains(w.message(),
		"waiting: node unstaged-new has not unmounted volume id-unstaged-pv yet") {
		t.Errorf("got %q", w.message())
	}
	lv = w.logicalVolume(w.pv.Name)
	delete(lv.Annotations, wellknown.EarlierStagedAnnotation)
	w.must(w.api.Update(t.Context(), lv))
	for range 5 {
		w.step()
	}
	pv.Annotations = nil
	w.wantMigrated(pv, claim)
	if w.isServed() {
		t.Error("the node agent still serves the earlier driver")
	}
	w.pass()
	if w.csiDriver() != nil {
		t.Error("the CSIDriver is left")
	}
}

// TestAVolumeWithoutPersistentVolumeIsNoLongerServed: its LogicalVolume stays, and so does TopoLVM's CSIDriver.
func TestAVolumeWithoutPersistentVolumeIsNoLongerServed(t *testing.T) {
	w := newServedWorld(t, "without")
	w.create(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: wellknown.EarlierDriverName},
		Spec: storagev1.CSIDriverSpec{AttachRequired: new(bool)}})
	w.pass()
	w.wantServed()
	w.removeAll(&corev1.PersistentVolumeList{})
	w.pass()
	if lv := w.logicalVolume(w.pv.Name); w.isServed() || !lv.DeletionTimestamp.IsZero() || w.csiDriver() == nil {
		t.Errorf("got %+v, %v", lv, w.csiDriver())
	}
}

// TestAFailedReadServesNothing: nothing is written, whatever cannot be read.
func TestAFailedReadServesNothing(t *testing.T) {
	w := newServedWorld(t, "unread")
	w.failEachRead(5)
}

// removeAll removes all objects of a kind, also those with finalizers.
func (w *world) removeAll(list client.ObjectList) {
	w.Helper()
	ctx := w.Context()
	w.must(w.api.List(ctx, list))
	for _, object := range objectsOf(w.T, list) {
		if len(object.GetFinalizers()) > 0 {
			object.SetFinalizers(nil)
			w.must(client.IgnoreNotFound(w.api.Update(ctx, object)))
		}
		w.must(client.IgnoreNotFound(w.api.Delete(ctx, object)))
	}
}

func objectsOf(t *testing.T, list client.ObjectList) (objects []client.Object) {
	t.Helper()
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		object, is := item.(client.Object)
		if !is {
			t.Fatalf("got %T", item)
		}
		objects = append(objects, object)
	}
	return objects
}
