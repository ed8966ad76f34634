package volumeimport

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport/legacypv"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// earlierVolume creates the objects of a volume of the earlier driver on the node NAME-new, with a request to migrate
// it.
func (w *world) earlierVolume() *corev1.PersistentVolume {
	w.Helper()
	name := w.name + "-pv"
	w.drivers(wellknown.DriverName)
	facts := migratable(name, w.node())
	old := facts.Old
	old.Finalizers = []string{wellknown.EarlierVolumeFinalizer}
	old.Spec.Name, old.Spec.Size, old.Spec.DeviceClass = name, resource.MustParse("1Gi"), "ssd"
	status := old.Status
	w.create(old)
	old.Status = status
	w.must(w.api.Status().Update(w.Context(), old))
	claim := newClaim(w.name, "data", "1Gi")
	claim.Spec.VolumeName = name
	w.create(claim)
	pv := facts.PV
	pv.Annotations = map[string]string{wellknown.MigrateAnnotation: "true"}
	pv.Finalizers = []string{"external-provisioner.volume.kubernetes.io/finalizer"}
	pv.Spec.Capacity, pv.Spec.AccessModes = claim.Spec.Resources.Requests, claim.Spec.AccessModes
	pv.Spec.StorageClassName = "mine"
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: w.name,
		Name: "data", UID: claim.UID, ResourceVersion: claim.ResourceVersion}
	w.create(pv)
	return pv
}

// drivers sets the drivers that the kubelet of the node NAME-new has.
func (w *world) drivers(names ...string) {
	w.Helper()
	csiNode := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: w.node()}}
	w.must(client.IgnoreNotFound(w.api.Delete(w.Context(), csiNode)))
	for _, name := range names {
		csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, storagev1.CSINodeDriver{Name: name, NodeID: w.node()})
	}
	w.create(csiNode)
}

func (w *world) migrate() error {
	request := reconcile.Request{NamespacedName: client.ObjectKey{Name: w.name + "-pv"}}
	_, err := migrations{w.ctl}.Reconcile(w.Context(), request)
	return err
}

// step does what the operator and the agent do, once. Errors are tried again.
func (w *world) step() {
	_ = w.migrate()
	w.agent()
	_ = w.reconcileMove(w.name + "-pv")
}

// wantDataIsSafe checks what must be true at any time: nothing removes the logical volume.
func (w *world) wantDataIsSafe(when string) {
	w.Helper()
	old := &earlierv1.LogicalVolume{}
	err := w.api.Get(w.Context(), client.ObjectKey{Name: w.name + "-pv"}, old)
	w.must(client.IgnoreNotFound(err))
	if err == nil && !old.DeletionTimestamp.IsZero() &&
		slices.Contains(old.Finalizers, wellknown.EarlierVolumeFinalizer) {
		w.Errorf("%s: the earlier driver would remove the logical volume: %+v", when, old.ObjectMeta)
	}
	pv := &corev1.PersistentVolume{}
	err = w.api.Get(w.Context(), client.ObjectKey{Name: w.name + "-pv"}, pv)
	w.must(client.IgnoreNotFound(err))
	if err == nil && !pv.DeletionTimestamp.IsZero() &&
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		w.Errorf("%s: a provisioner would delete the volume: %+v", when, pv)
	}
	lv := &topolvmv1.LogicalVolume{}
	err = w.api.Get(w.Context(), client.ObjectKey{Name: w.name + "-pv"}, lv)
	w.must(client.IgnoreNotFound(err))
	if err == nil && !lv.DeletionTimestamp.IsZero() {
		w.Errorf("%s: the node agent would remove the logical volume: %+v", when, lv.ObjectMeta)
	}
}

func (w *world) message() string {
	w.Helper()
	return w.persistentVolume(w.name + "-pv").Annotations[wellknown.MigrationAnnotation]
}

func TestAVolumeIsMigrated(t *testing.T) { isMigrated(t, &kill.Points{}) }

// isMigrated ends the operator at a point, and starts it again.
func isMigrated(t *testing.T, p *kill.Points) {
	t.Helper()
	w := newWorld(t, unique("migrate"))
	before := w.earlierVolume()
	claim := w.claim("data")
	w.guard(p)
	for range 5 {
		w.step()
	}
	w.wantDataIsSafe("when the operator has ended")
	p.Restart()
	w.restart()
	for range 5 {
		w.step()
		w.wantDataIsSafe("when the operator runs again")
	}
	w.wantMigrated(before, claim)
	w.spy.Writes()
	w.must(errors.Join(w.migrate(), w.reconcileMove(before.Name)))
	if writes := w.spy.Writes(); len(writes) > 0 {
		t.Errorf("once more: %v", writes)
	}
}

func (w *world) wantMigrated(before *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) {
	w.Helper()
	pv, lv := w.persistentVolume(before.Name), w.logicalVolume(before.Name)
	want := before.DeepCopy()
	want.Spec.CSI.Driver = wellknown.DriverName
	want.Spec.NodeAffinity = relocate.Affinity(w.node())
	want.Spec.ClaimRef.ResourceVersion = ""
	if diff := cmp.Diff(want.Spec, pv.Spec); diff != "" || pv.UID == before.UID || !pv.DeletionTimestamp.IsZero() {
		w.Errorf("got another PersistentVolume: %s %+v", diff, pv.ObjectMeta)
	}
	if pv.Annotations[wellknown.MigratedFromAnnotation] != wellknown.EarlierDriverName ||
		pv.Annotations[wellknown.MigrateAnnotation] != "" || pv.Annotations[wellknown.MigrationAnnotation] != "" {
		w.Errorf("got the annotations %v", pv.Annotations)
	}
	expect.Equal(w, "Spec.NodeName", lv.Spec.NodeName, w.node())
	expect.Equal(w, "Spec.DeviceClass", lv.Spec.DeviceClass, "ssd")
	expect.Equal(w, "Spec.Size.Value()", lv.Spec.Size.Value(), 1<<30)
	expect.Equal(w, "Status.VolumeID", lv.Status.VolumeID, before.Spec.CSI.VolumeHandle)
	expect.Equal(w, "Annotations[wellknown.MovedVolumeAnnotation]", lv.Annotations[wellknown.MovedVolumeAnnotation], "")
	expect.Equal(w, "Annotations[wellknown.ClaimAnnotation]", lv.Annotations[wellknown.ClaimAnnotation], w.name+"/data")
	if got := w.claim("data"); got.UID != claim.UID || got.Spec.VolumeName != pv.Name {
		w.Errorf("got the claim %+v", got)
	}
	err := w.api.Get(w.Context(), client.ObjectKey{Name: before.Name}, &earlierv1.LogicalVolume{})
	if !apierrors.IsNotFound(err) {
		w.Errorf("the earlier LogicalVolume was not deleted: %v", err)
	}
}

func (w *world) pod() *corev1.Pod {
	w.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: w.name}}
	if err := w.api.Create(w.Context(), account); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: w.name}, Spec: corev1.PodSpec{
		NodeName: w.node(), Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
	w.create(pod)
	return pod
}

// TestAMigrationIsBlocked: nothing is written but the reason, and it continues when the reason is gone.
func TestAMigrationIsBlocked(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*world) (undo func())
		says string
	}{
		"pod": {func(w *world) func() {
			pod := w.pod()
			return func() { w.must(w.api.Delete(w.Context(), pod, client.GracePeriodSeconds(0))) }
		}, "blocked: Pod migrate-pod/db uses claim migrate-pod/data: delete the Pod"},
		"runs": {func(w *world) func() {
			w.drivers(wellknown.DriverName, wellknown.EarlierDriverName)
			return func() { w.drivers(wellknown.DriverName) }
		}, "blocked: the kubelet of node migrate-runs-new has the driver topolvm.cybozu.com"},
		"nodriver": {func(w *world) func() {
			w.drivers()
			return func() { w.drivers(wellknown.DriverName) }
		}, "blocked: the kubelet of node migrate-nodriver-new does not have the driver topolvm.io"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "migrate-"+name)
			before := w.earlierVolume()
			undo := test.do(w)
			for i := range 2 {
				w.must(w.migrate())
				writes := w.spy.Writes()
				if i == 1 && len(writes) > 0 || i == 0 && len(writes) != 1 {
					t.Errorf("attempt %d writes %v", i, writes)
				}
			}
			if got := w.message(); !strings.Contains(got, test.says) {
				t.Errorf("got %q, want %q", got, test.says)
			}
			undo()
			for range 5 {
				w.step()
			}
			w.wantMigrated(before, w.claim("data"))
		})
	}
}

// TestAMigrationWaitsForTheNode: the agent has not found the logical volume, or does not have it.
func TestAMigrationWaitsForTheNode(t *testing.T) {
	w := newWorld(t, "migrate-waits")
	before := w.earlierVolume()
	w.must(w.migrate())
	if got := w.message(); !strings.Contains(got, "waiting: volume id-migrate-waits-pv: node ") {
		t.Errorf("got %q", got)
	}
	lv := w.logicalVolume(before.Name)
	lv.Status.Message = "device class ssd on node x has no logical volume"
	w.must(w.api.Status().Update(t.Context(), lv))
	w.must(w.migrate())
	if got := w.message(); !strings.Contains(got, "blocked: ") || !strings.Contains(got, "has no logical volume") {
		t.Errorf("got %q", got)
	}
	if pv := w.persistentVolume(before.Name); pv.UID != before.UID || !pv.DeletionTimestamp.IsZero() ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("got %+v", pv)
	}
}

// TestAPodThatStartsDuringAMigrationBlocksIt: nothing is deleted that it uses. The same applies to the earlier driver.
func TestAPodThatStartsDuringAMigrationBlocksIt(t *testing.T) {
	for name, start := range map[string]func(*world){
		"pod":    func(w *world) { w.pod() },
		"driver": func(w *world) { w.drivers(wellknown.DriverName, wellknown.EarlierDriverName) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "migrate-during-"+name)
			before := w.earlierVolume()
			w.must(w.migrate())
			w.agent()
			// It is killed after the annotation with the new PersistentVolume was written.
			w.spy.Fail = func(verb string, object any) error {
				if _, is := object.(*corev1.PersistentVolume); is && verb != "get" {
					return errors.New("killed")
				}
				return nil
			}
			_ = w.migrate()
			w.spy.Fail = nil
			if w.logicalVolume(before.Name).Annotations[wellknown.MovedVolumeAnnotation] == "" {
				t.Fatal("the migration has not begun")
			}
			start(w)
			for range 2 {
				if err := w.reconcileMove(before.Name); err == nil {
					t.Error("the volume moves")
				}
				w.must(w.migrate())
			}
			if pv := w.persistentVolume(before.Name); pv.UID != before.UID || !pv.DeletionTimestamp.IsZero() ||
				!strings.Contains(w.message(), "blocked: ") {
				t.Errorf("got %+v", pv)
			}
		})
	}
}

// TestTheEarlierDriverThatStartsAgainKeepsItsObject: the PersistentVolume was recreated already.
func TestTheEarlierDriverThatStartsAgainKeepsItsObject(t *testing.T) {
	w := newWorld(t, "migrate-again")
	before := w.earlierVolume()
	w.must(w.migrate())
	w.agent()
	w.spy.Fail = func(_ string, object any) error {
		if _, is := object.(*earlierv1.LogicalVolume); is && w.persistentVolumeIsNew(before) {
			return errors.New("killed")
		}
		return nil
	}
	for range 3 {
		_ = w.migrate()
		_ = w.reconcileMove(before.Name)
	}
	w.spy.Fail = nil
	w.drivers(wellknown.DriverName, wellknown.EarlierDriverName)
	if err := w.reconcileMove(before.Name); err == nil || !strings.Contains(err.Error(), "stop TopoLVM") {
		t.Errorf("got %v", err)
	}
	old := &earlierv1.LogicalVolume{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: before.Name}, old))
	if !old.DeletionTimestamp.IsZero() || len(old.Finalizers) != 1 {
		t.Errorf("got %+v", old.ObjectMeta)
	}
	w.drivers(wellknown.DriverName)
	w.step()
	w.wantMigrated(before, w.claim("data"))
}

func (w *world) persistentVolumeIsNew(before *corev1.PersistentVolume) bool {
	pv := &corev1.PersistentVolume{}
	err := w.api.Get(w.Context(), client.ObjectKeyFromObject(before), pv)
	return err == nil && pv.UID != before.UID
}

// TestAMigrationReadsEverythingBeforeItWrites: a failed read is an error, and nothing is written.
func TestAMigrationReadsEverythingBeforeItWrites(t *testing.T) {
	w := newWorld(t, "migrate-unread")
	w.earlierVolume()
	w.spy.FailEachRead(t, 6, w.migrate)
}

// TestOnlyRequestedVolumesOfTheEarlierDriverAreMigrated: the annotation has no effect on others.
func TestOnlyRequestedVolumesOfTheEarlierDriverAreMigrated(t *testing.T) {
	for name, edit := range map[string]func(*corev1.PersistentVolume){
		"no-request": func(pv *corev1.PersistentVolume) { pv.Annotations = nil },
		"withdrawn":  func(pv *corev1.PersistentVolume) { pv.Annotations[wellknown.MigrateAnnotation] = "false" },
	} {
		w := newWorld(t, "migrate-"+name)
		pv := w.earlierVolume()
		edit(pv)
		w.must(w.api.Update(t.Context(), pv))
		w.spy.Writes()
		w.must(w.migrate())
		if writes := w.spy.Writes(); len(writes) > 0 {
			t.Errorf("%s: %v", name, writes)
		}
	}
	for driver, want := range map[string]bool{wellknown.EarlierDriverName: true, wellknown.DriverName: false,
		"x": false} {
		pv := migratable("pv", "worker-1").PV
		pv.Annotations, pv.Spec.CSI.Driver = map[string]string{wellknown.MigrateAnnotation: "true"}, driver
		if got := view.MigrationRequested(pv); got != want {
			t.Errorf("%s: got %v", driver, got)
		}
	}
}

// migratable returns a PersistentVolume of the earlier driver on a node that can be migrated, with its objects.
func migratable(name, node string) legacypv.Facts {
	affinity := relocate.Affinity(node)
	affinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Key = wellknown.EarlierTopologyNodeKey
	return legacypv.Facts{
		PV: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data"}, NodeAffinity: affinity,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: wellknown.EarlierDriverName, VolumeHandle: "id-" + name, FSType: "xfs"}}}},
		Claim: &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: name}},
		Old: &earlierv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:   earlierv1.LogicalVolumeSpec{NodeName: node},
			Status: earlierv1.LogicalVolumeStatus{VolumeID: "id-" + name}},
		Drivers: []string{"other", wellknown.DriverName},
	}
}
