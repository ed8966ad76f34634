package volumeimport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport/legacypv"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// deletedWorld has an object of the earlier driver whose logical volume must be deleted.
type deletedWorld struct {
	*servedWorld
	// removed are the logical volumes that the node agent has removed.
	removed []string
	// check is called before the node agent removes the logical volume of a LogicalVolume.
	check func(*topolvmv1.LogicalVolume)
}

// newReleasedWorld has a volume whose claim was deleted. If it was not served before, the LogicalVolume of this driver
// does not exist.
func newReleasedWorld(t *testing.T, name string, wasServed bool) *deletedWorld {
	t.Helper()
	w := &deletedWorld{servedWorld: newServedWorld(t, name)}
	if wasServed {
		w.pass()
		w.wantServed()
		w.nodeActs()
	} else {
		w.ownDriver()
	}
	pv := w.persistentVolume(w.pv.Name)
	pv.Annotations = map[string]string{legacypv.ProvisionedBy: wellknown.EarlierDriverName}
	w.must(w.api.Update(t.Context(), pv))
	w.deleteClaim()
	w.setPhase(corev1.VolumeReleased)
	w.check = func(lv *topolvmv1.LogicalVolume) {
		now := w.persistentVolume(w.pv.Name)
		expect.Equal(w, "Name", lv.Name, now.Name)
		expect.Equal(w, "UID", now.UID, w.pv.UID)
		expect.Equal(w, "Status.VolumeID", lv.Status.VolumeID, now.Spec.CSI.VolumeHandle)
		expect.Equal(w, "Spec.PersistentVolumeReclaimPolicy", now.Spec.PersistentVolumeReclaimPolicy,
			corev1.PersistentVolumeReclaimDelete)
		expect.Equal(w, "Annotations[wellknown.EarlierRemovalAnnotation]", now.Annotations[wellknown.EarlierRemovalAnnotation],
			now.Spec.CSI.VolumeHandle)
	}
	w.spy.Writes()
	return w
}

func (w *servedWorld) deleteClaim() {
	w.Helper()
	claim := w.claim("data")
	claim.Finalizers = nil
	w.must(w.api.Update(w.Context(), claim))
	w.must(w.api.Delete(w.Context(), claim))
}

// nodeActs does what the node agent and the protection controllers of Kubernetes do.
func (w *deletedWorld) nodeActs() {
	w.Helper()
	w.agent()
	lvs := &topolvmv1.LogicalVolumeList{}
	w.must(w.api.List(w.Context(), lvs))
	for i := range lvs.Items {
		lv := &lvs.Items[i]
		if lv.DeletionTimestamp.IsZero() {
			lv.Finalizers = []string{wellknown.LogicalVolumeFinalizer}
		} else {
			w.check(lv)
			w.removed = append(w.removed, lv.Status.VolumeID)
			lv.Finalizers = nil
		}
		w.must(w.api.Update(w.Context(), lv))
	}
	pvs := &corev1.PersistentVolumeList{}
	w.must(w.api.List(w.Context(), pvs))
	for i := range pvs.Items {
		pv := &pvs.Items[i]
		if pv.DeletionTimestamp.IsZero() || !slices.Contains(pv.Finalizers, relocate.ProtectionFinalizer) {
			continue
		}
		pv.Finalizers = slices.DeleteFunc(pv.Finalizers,
			func(f string) bool { return f == relocate.ProtectionFinalizer })
		w.must(w.api.Update(w.Context(), pv))
	}
}

// passes runs n times, with the node in between. It returns the events.
func (w *deletedWorld) passes(n int) string {
	w.Helper()
	for range n {
		_, err := w.runner.pass(w.Context())
		w.must(err)
		w.nodeActs()
	}
	return w.sent()
}

func (w *deletedWorld) exists(object client.Object) bool {
	w.Helper()
	err := w.api.Get(w.Context(), client.ObjectKeyFromObject(object), object)
	w.must(client.IgnoreNotFound(err))
	return err == nil
}

// wantDeleted checks that an object, the LogicalVolumes with a name, and the logical volume are gone.
func (w *deletedWorld) wantDeleted(object client.Object, name, handle string) {
	w.Helper()
	named := metav1.ObjectMeta{Name: name}
	if w.exists(object) || w.exists(&topolvmv1.LogicalVolume{ObjectMeta: named}) ||
		w.exists(&earlierv1.LogicalVolume{ObjectMeta: named}) || !slices.Equal(w.removed, []string{handle}) {
		w.Errorf("removed %q; left: %+v", w.removed, object)
	}
}

// wantKept checks that nothing of a volume is deleted.
func (w *deletedWorld) wantKept() {
	w.Helper()
	pv := w.persistentVolume(w.pv.Name)
	if pv.UID != w.pv.UID || !pv.DeletionTimestamp.IsZero() ||
		!slices.Contains(pv.Finalizers, legacypv.ProvisionerFinalizer) {
		w.Errorf("got the PersistentVolume %+v", pv.ObjectMeta)
	}
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: w.pv.Name}}
	if w.exists(lv) && !lv.DeletionTimestamp.IsZero() || len(w.removed) > 0 {
		w.Errorf("removed %q, got the LogicalVolume %+v", w.removed, lv.ObjectMeta)
	}
}

func TestAReleasedVolumeIsDeleted(t *testing.T) {
	t.Run("served", func(t *testing.T) { servedIsDeleted(t, &kill.Points{}) })
	t.Run("unserved", func(t *testing.T) { unservedIsDeleted(t, &kill.Points{}) })
}

func servedIsDeleted(t *testing.T, p *kill.Points) { t.Helper(); isDeleted(t, "served", true, p) }

func unservedIsDeleted(t *testing.T, p *kill.Points) { t.Helper(); isDeleted(t, "unserved", false, p) }

// isDeleted ends the operator at a point, and starts it again.
func isDeleted(t *testing.T, name string, wasServed bool, p *kill.Points) {
	t.Helper()
	w := newReleasedWorld(t, unique("released-"+name), wasServed)
	w.guard(p)
	for range 4 {
		_, _ = w.runner.pass(t.Context())
		w.nodeActs()
	}
	p.Restart()
	w.restart()
	if sent := w.passes(5); sent != "" {
		t.Errorf("got the events %s", sent)
	}
	w.wantDeleted(w.pv, w.pv.Name, w.pv.Spec.CSI.VolumeHandle)
	w.spy.Writes()
	w.passes(1)
	if writes := w.spy.Writes(); len(writes) > 0 {
		t.Errorf("once more: %v", writes)
	}
}

// TestAPersistentVolumeThatIsBeingDeletedLosesItsVolumeFirst: it was deleted before its claim.
func TestAPersistentVolumeThatIsBeingDeletedLosesItsVolumeFirst(t *testing.T) {
	w := newReleasedWorld(t, "released-early", true)
	w.must(w.api.Delete(t.Context(), w.persistentVolume(w.pv.Name)))
	w.passes(4)
	w.wantDeleted(w.pv, w.pv.Name, w.pv.Spec.CSI.VolumeHandle)
}

// topolvmControllerPod creates the Pod of TopoLVM's controller.
func (w *deletedWorld) topolvmControllerPod() {
	w.Helper()
	pod := w.pod()
	w.must(w.api.Delete(w.Context(), pod, client.GracePeriodSeconds(0)))
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "topolvm-controller-0", Namespace: w.name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i",
			Command: []string{"/topolvm-controller", "--cert-dir=/certs"}}}}}
	w.create(pod)
	w.Cleanup(func() {
		err := w.api.Delete(context.WithoutCancel(w.Context()), pod, client.GracePeriodSeconds(0))
		w.must(client.IgnoreNotFound(err))
	})
}

func (w *deletedWorld) annotateLV(key, value string) {
	w.Helper()
	lv := w.logicalVolume(w.pv.Name)
	metav1.SetMetaDataAnnotation(&lv.ObjectMeta, key, value)
	w.must(w.api.Update(w.Context(), lv))
}

// changeVolume edits the PersistentVolume.
func (w *deletedWorld) changeVolume(edit func(*corev1.PersistentVolume)) {
	w.Helper()
	pv := w.persistentVolume(w.pv.Name)
	edit(pv)
	w.must(w.api.Update(w.Context(), pv))
}

// TestAReleasedVolumeIsKept: nothing is deleted, and an event says what an administrator can do.
func TestAReleasedVolumeIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		unserved bool
		edit     func(*deletedWorld)
		says     string // part of the event; empty for none
	}{
		"retain": {edit: func(w *deletedWorld) {
			w.changeVolume(func(pv *corev1.PersistentVolume) {
				pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			})
		}},
		"static": {edit: func(w *deletedWorld) {
			w.changeVolume(func(pv *corev1.PersistentVolume) { pv.Annotations = nil })
		}},
		"available": {edit: func(w *deletedWorld) { w.setPhase(corev1.VolumeAvailable) }},
		"topolvm": {edit: func(w *deletedWorld) {
			w.drivers(wellknown.DriverName, wellknown.EarlierDriverName)
		}},
		"controller": {edit: (*deletedWorld).topolvmControllerPod},
		"pod": {edit: func(w *deletedWorld) { w.pod() },
			says: "Pod kept-pod/db on node kept-pod-new uses claim kept-pod/data: delete the Pod"},
		"claim": {edit: func(w *deletedWorld) {
			claim := newClaim(w.name, "data", "1Gi")
			claim.Spec.VolumeName = w.pv.Name
			w.create(claim)
		}, says: "claim kept-claim/data exists, although the PersistentVolume is released"},
		"attached": {edit: func(w *deletedWorld) {
			w.create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"},
				Spec: storagev1.VolumeAttachmentSpec{Attacher: wellknown.EarlierDriverName, NodeName: "x",
					Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(w.pv.Name)}}})
		}, says: "VolumeAttachment csi-1 of node x is for the PersistentVolume"},
		"twice": {edit: func(w *deletedWorld) {
			pv := w.persistentVolume(w.pv.Name)
			pv.ObjectMeta = metav1.ObjectMeta{Name: "kept-other"}
			pv.Spec.CSI.Driver = wellknown.DriverName
			w.create(pv)
		}, says: "another PersistentVolume or VolumeSnapshotContent has its volume handle id-kept-twice-pv"},
		"staged": {edit: func(w *deletedWorld) {
			w.annotateLV(wellknown.EarlierStagedAnnotation, "/var/lib/kubelet/x/globalmount")
		}},
		"moving": {edit: func(w *deletedWorld) { w.annotateLV(wellknown.MovedVolumeAnnotation, "{}") }},
		"unknown": {unserved: true, edit: func(w *deletedWorld) { w.removeAll(&earlierv1.LogicalVolumeList{}) },
			says: "LogicalVolume kept-unknown-pv of the API group topolvm.cybozu.com does not exist"},
		"nodriver": {unserved: true, edit: func(w *deletedWorld) { w.drivers() },
			says: "the kubelet of node kept-nodriver-new does not have the driver topolvm.io"},
		"another": {unserved: true, edit: func(w *deletedWorld) {
			lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: w.pv.Name},
				Spec: topolvmv1.LogicalVolumeSpec{Name: "x", NodeName: w.node(), Size: resource.MustParse("1Gi")}}
			w.create(lv)
			lv.Status.VolumeID = "another"
			w.must(w.api.Status().Update(w.Context(), lv))
		}, says: `LogicalVolume kept-another-pv exists on node kept-another-new for another volume ("another")`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReleasedWorld(t, "kept-"+name, !test.unserved)
			test.edit(w)
			w.spy.Writes()
			if got := w.passes(3); (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
				t.Errorf("got the events %q, want %q", got, test.says)
			}
			if writes := w.spy.Writes(); len(writes) > 0 {
				t.Errorf("got %v", writes)
			}
			w.wantKept()
			if got := w.passes(1); got != "" {
				t.Errorf("the event is repeated: %s", got)
			}
		})
	}
}

// TestAPodWithANewClaimOfTheSameNameDoesNotKeepAVolume: it uses the volume of the new claim.
func TestAPodWithANewClaimOfTheSameNameDoesNotKeepAVolume(t *testing.T) {
	w := newReleasedWorld(t, "released-again", true)
	claim := newClaim(w.name, "data", "1Gi")
	claim.Spec.VolumeName = "another"
	w.create(claim)
	w.pod()
	w.passes(4)
	w.wantDeleted(w.pv, w.pv.Name, w.pv.Spec.CSI.VolumeHandle)
}

// TestAVolumeThatTheNodeCannotRemoveIsReported: its PersistentVolume stays, and it is deleted when the node can.
func TestAVolumeThatTheNodeCannotRemoveIsReported(t *testing.T) {
	w := newReleasedWorld(t, "released-busy", true)
	w.nodeActs()
	_, err := w.runner.pass(t.Context())
	w.must(err)
	lv := w.logicalVolume(w.pv.Name)
	lv.Status.Code, lv.Status.Message = codes.Internal, "logical volume is in use"
	w.must(w.api.Status().Update(t.Context(), lv))
	_, err = w.runner.pass(t.Context())
	w.must(err)
	if got := w.sent(); !strings.Contains(got, "node released-busy-new cannot remove logical volume "+
		"id-released-busy-pv: logical volume is in use") || w.persistentVolume(w.pv.Name).UID != w.pv.UID {
		t.Errorf("got the events %q", got)
	}
	w.nodeActs()
	w.passes(2)
	w.wantDeleted(w.pv, w.pv.Name, w.pv.Spec.CSI.VolumeHandle)
}

// TestAVolumeThatChangesIsNotDeleted: the reason is read again, and each deletion depends on the version that was read.
func TestAVolumeThatChangesIsNotDeleted(t *testing.T) {
	retain := func(w *deletedWorld) {
		w.changeVolume(func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		})
	}
	for name, test := range map[string]struct {
		verb  string
		about client.Object
		do    func(*deletedWorld)
	}{
		"policy":  {"get", &corev1.PersistentVolume{}, retain},
		"between": {"patch", &corev1.PersistentVolume{}, retain},
		"staging": {"delete", &topolvmv1.LogicalVolume{}, func(w *deletedWorld) {
			w.annotateLV(wellknown.EarlierStagedAnnotation, "/x")
		}},
		"released": {"get", &corev1.PersistentVolume{}, func(w *deletedWorld) { w.setPhase(corev1.VolumeBound) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReleasedWorld(t, "changes-"+name, true)
			w.nodeActs()
			done := false
			w.spy.Fail = func(verb string, object any) error {
				if verb == test.verb && fmt.Sprintf("%T", object) == fmt.Sprintf("%T", test.about) && !done {
					done = true
					test.do(w)
				}
				return nil
			}
			w.passes(3)
			w.wantKept()
			if !done {
				t.Error("nothing has changed")
			}
		})
	}
}

// TestAFailedReadDeletesNothing: nothing is written, whatever cannot be read.
func TestAFailedReadDeletesNothing(t *testing.T) {
	w := newReleasedWorld(t, "released-unread", true)
	w.nodeActs()
	w.failEachRead(10)
	w.wantKept()
}

// TestExpansionsBegin: once, when a volume is served and TopoLVM's controller does not run.
func TestExpansionsBegin(t *testing.T) {
	w := &deletedWorld{servedWorld: newServedWorld(t, "expands"), check: func(*topolvmv1.LogicalVolume) {}}
	calls := 0
	w.runner.LegacyServed = func() { calls++ }
	w.topolvmControllerPod()
	w.passes(3)
	if w.wantServed(); calls != 0 {
		t.Error("TopoLVM's own controller expands the volumes")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "topolvm-controller-0", Namespace: w.name}}
	w.must(w.api.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	w.spy.Fail = func(_ string, object any) error {
		if _, is := object.(*corev1.PodList); is {
			return errors.New("no answer")
		}
		return nil
	}
	if _, err := w.runner.pass(t.Context()); err == nil || calls != 0 {
		t.Errorf("got %v, %d calls", err, calls)
	}
	w.spy.Fail = nil
	if w.passes(3); calls != 1 {
		t.Errorf("got %d calls", calls)
	}
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
		t.Errorf("the Pod of the controller is left: %v", err)
	}
}
