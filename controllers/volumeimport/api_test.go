package volumeimport

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/kill"
)

// world is an approved import on the node NAME-new. Its objects have the prefix NAME.
type world struct {
	*testing.T
	name string
	api  client.Client
	// operator has the permissions of the operator, which uses spy.
	operator client.WithWatch
	spy      *env.Spy
	recovery *v1alpha1.LVMRecovery
	ctl      *Controller
}

func newWorld(t *testing.T, name string, volumes ...v1alpha1.RecoveryVolume) *world {
	t.Helper()
	w := &world{T: t, name: name}
	var err error
	w.api, w.operator, err = connect()
	w.must(err)
	w.guard(nil)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.recovery = &v1alpha1.LVMRecovery{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: env.Namespace},
		Spec: v1alpha1.LVMRecoverySpec{NodeName: w.node(), DeviceClassName: "vg1",
			Action: v1alpha1.RecoveryImportVolumes}}
	plan := &v1alpha1.RecoveryPlan{VolumeGroupUUID: "uuid-1", Devices: []v1alpha1.RecoveryDevice{},
		CreationTime: metav1.Now(), ImportedVolumes: volumes}
	plan.ID = recoveryplan.ID(v1alpha1.RecoveryImportVolumes, w.node(), "vg1", plan)
	w.recovery.Spec.ApprovedPlan = plan.ID
	w.create(w.recovery)
	w.recovery.Status = v1alpha1.LVMRecoveryStatus{Phase: v1alpha1.RecoveryRunning, Plan: plan}
	w.must(w.api.Status().Update(t.Context(), w.recovery))
	w.restart()
	return w
}

func (w *world) node() string { return w.name + "-new" }

// guard starts an operator that one of its writes may end.
func (w *world) guard(p *kill.Points) {
	w.spy = env.Watch(p.Client(w.operator))
	w.restart()
}

func (w *world) restart() { w.ctl = New(w.spy, w.spy, events.NewFakeRecorder(100), env.Namespace) }

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) create(object client.Object) {
	w.Helper()
	w.must(w.api.Create(w.Context(), object))
}

func (w *world) reconcile() error {
	_, err := w.ctl.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.recovery)})
	return err
}

// agent sets the status of the LogicalVolumes that were created for existing volumes, like the agent of node NAME-new.
func (w *world) agent() {
	w.Helper()
	list := &topolvmv1.LogicalVolumeList{}
	w.must(w.api.List(w.Context(), list))
	for i := range list.Items {
		lv := &list.Items[i]
		volume := lv.Annotations[wellknown.ImportAnnotation]
		if volume != "" && lv.Status.VolumeID == "" && lv.Spec.NodeName == w.node() {
			lv.Status.VolumeID = volume
			w.must(w.api.Status().Update(w.Context(), lv))
		}
	}
}

// settle reconciles until the condition ObjectsCreated is True. A failed request is tried again.
func (w *world) settle() {
	w.Helper()
	for range 20 {
		_ = w.reconcile()
		w.agent()
		if w.condition().Status == metav1.ConditionTrue {
			return
		}
	}
	w.Fatalf("the import has not ended: %+v", w.condition())
}

func (w *world) condition() metav1.Condition {
	w.Helper()
	r := &v1alpha1.LVMRecovery{}
	w.must(w.api.Get(w.Context(), client.ObjectKeyFromObject(w.recovery), r))
	found := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionObjectsCreated)
	return ptr.Deref(found, metav1.Condition{})
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	w.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Namespace: w.name, Name: name}, claim))
	return claim
}

func (w *world) persistentVolume(name string) *corev1.PersistentVolume {
	w.Helper()
	pv := &corev1.PersistentVolume{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: name}, pv))
	return pv
}

func (w *world) logicalVolume(name string) *topolvmv1.LogicalVolume {
	w.Helper()
	lv := &topolvmv1.LogicalVolume{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: name}, lv))
	return lv
}

// volume returns an entry of the plan. The objects have the name PREFIX-NAME.
func volume(prefix, name, fs string) v1alpha1.RecoveryVolume {
	return v1alpha1.RecoveryVolume{Name: prefix + "-lv-" + name, UUID: name, Size: 1 << 30, Claim: prefix + "/" + name,
		PersistentVolume: prefix + "-" + name, FSType: fs}
}

// unique returns a name for a world of which there are several.
func unique(name string) string { return fmt.Sprintf("%s-%d", name, worlds.Add(1)) }

var worlds atomic.Int64

// TestObjectsAreCreatedForVolumes: a file system and a block volume.
func TestObjectsAreCreatedForVolumes(t *testing.T) { areCreated(t, &kill.Points{}) }

// areCreated ends the operator at a point, and starts it again.
func areCreated(t *testing.T, p *kill.Points) {
	t.Helper()
	name := unique("create")
	w := newWorld(t, name, volume(name, "fs", "xfs"), volume(name, "block", ""))
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "lvms-vg1"}, Provisioner: "topolvm.io",
		MountOptions: []string{"discard"}}
	if err := w.api.Create(t.Context(), class); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
	w.guard(p)
	for range 4 {
		_ = w.reconcile()
		w.agent()
	}
	p.Restart()
	w.restart()
	w.settle()
	w.wantCreated(name)
	w.spy.Writes()
	w.must(w.reconcile())
	if writes := w.spy.Writes(); len(writes) > 0 {
		t.Errorf("the second time: %v", writes)
	}
}

func (w *world) wantCreated(prefix string) {
	w.Helper()
	for name, mode := range map[string]corev1.PersistentVolumeMode{
		"fs": corev1.PersistentVolumeFilesystem, "block": corev1.PersistentVolumeBlock} {
		claim, pv, lv := w.claim(name), w.persistentVolume(prefix+"-"+name), w.logicalVolume(prefix+"-"+name)
		if claim.Spec.VolumeName != pv.Name || *claim.Spec.VolumeMode != mode || *claim.Spec.StorageClassName != "lvms-vg1" ||
			claim.Spec.Resources.Requests.Storage().Value() != 1<<30 {
			w.Errorf("%s: got the claim %+v", name, claim.Spec)
		}
		source := pv.Spec.CSI
		expect.Equal(w, name+": VolumeHandle", source.VolumeHandle, prefix+"-lv-"+name)
		expect.Equal(w, name+": Driver", source.Driver, "topolvm.io")
		expect.Equal(w, name+": Spec.ClaimRef.UID", pv.Spec.ClaimRef.UID, claim.UID)
		expect.Equal(w, name+": Spec.VolumeMode", *pv.Spec.VolumeMode, mode)
		expect.Equal(w, name+": Spec.PersistentVolumeReclaimPolicy", pv.Spec.PersistentVolumeReclaimPolicy,
			corev1.PersistentVolumeReclaimRetain)
		expect.Equal(w, name+": isOn(pv, w.node())", isOn(pv, w.node()), true)
		expect.Slice(w, name+": Spec.MountOptions", pv.Spec.MountOptions, []string{"discard"})
		expect.Equal(w, name+": Spec.StorageClassName", pv.Spec.StorageClassName, "lvms-vg1")
		if lv.Spec.NodeName != w.node() || lv.Spec.DeviceClass != "vg1" || lv.Spec.Size.Value() != 1<<30 ||
			lv.Annotations[wellknown.ClaimAnnotation] != prefix+"/"+name {
			w.Errorf("%s: got the LogicalVolume %+v", name, lv)
		}
	}
}

func newClaim(namespace, name string, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("mine"),
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}}
}

// TestAnExistingClaimIsUsed: for example because GitOps has created it before. It keeps what it requests.
func TestAnExistingClaimIsUsed(t *testing.T) {
	w := newWorld(t, "existing", volume("existing", "fs", "ext4"))
	claim := newClaim(w.name, "fs", "1Gi")
	w.create(claim)
	w.settle()
	pv := w.persistentVolume("existing-fs")
	if pv.Spec.StorageClassName != "mine" || pv.Spec.AccessModes[0] != corev1.ReadWriteOncePod ||
		pv.Spec.ClaimRef.UID != claim.UID {
		t.Errorf("got the PersistentVolume %+v", pv.Spec)
	}
}

// TestBlockedImports: nothing is created for a volume that cannot be imported, and the message says what to do. Other
// volumes are imported.
func TestBlockedImports(t *testing.T) {
	for name, test := range map[string]struct {
		volume func(prefix string) v1alpha1.RecoveryVolume
		do     func(*world)
		says   string
	}{
		"nonamespace": {volume: func(p string) v1alpha1.RecoveryVolume {
			v := volume(p, "fs", "xfs")
			v.Claim = "missing/fs"
			return v
		}, says: "claim missing/fs of volume nonamespace-lv-fs cannot be created: create namespace missing"},
		"bound": {do: func(w *world) {
			claim := newClaim(w.name, "fs", "1Gi")
			claim.Spec.VolumeName = "another"
			w.create(claim)
		}, says: "is bound to PersistentVolume another: give the volume another claim"},
		"larger": {do: func(w *world) { w.create(newClaim(w.name, "fs", "2Gi")) },
			says: "requests 2Gi, more than the 1Gi of volume"},
		"mode": {volume: func(p string) v1alpha1.RecoveryVolume { return volume(p, "fs", "") },
			do:   func(w *world) { w.create(newClaim(w.name, "fs", "1Gi")) },
			says: "exists with volumeMode Filesystem, but volume mode-lv-fs has no file system that is known"},
		"lvtaken": {do: func(w *world) {
			lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "lvtaken-fs"},
				Spec: topolvmv1.LogicalVolumeSpec{Name: "x", NodeName: w.node(), Size: resource.MustParse("1Gi")}}
			w.create(lv)
			lv.Status.VolumeID = "another"
			w.must(w.api.Status().Update(w.Context(), lv))
		}, says: `LogicalVolume lvtaken-fs exists on node lvtaken-new for another volume ("another")`},
		"pvtaken": {do: func(w *world) {
			w.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvtaken-fs"},
				Spec: corev1.PersistentVolumeSpec{
					Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					PersistentVolumeSource: corev1.PersistentVolumeSource{
						HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}})
		}, says: "PersistentVolume pvtaken-fs exists for another volume"},
	} {
		t.Run(name, func(t *testing.T) {
			v := volume(name, "fs", "xfs")
			if test.volume != nil {
				v = test.volume(name)
			}
			w := newWorld(t, name, v, volume(name, "other", "xfs"))
			if test.do != nil {
				test.do(w)
			}
			for range 4 {
				w.must(w.reconcile())
				w.agent()
			}
			c := w.condition()
			if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonObjectsBlocked ||
				!strings.Contains(c.Message, test.says) || !strings.Contains(c.Message, "volumes with all objects: 1 of 2") {
				t.Errorf("got the condition %+v, want %q", c, test.says)
			}
			w.persistentVolume(name + "-other")
			pv := &corev1.PersistentVolume{}
			err := w.api.Get(t.Context(), client.ObjectKey{Name: name + "-fs"}, pv)
			if name != "pvtaken" && !apierrors.IsNotFound(err) {
				t.Errorf("got the PersistentVolume %+v: %v", pv.Spec, err)
			}
		})
	}
}

// TestNothingIsImportedWithoutApproval: each of these is not due.
func TestNothingIsImportedWithoutApproval(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.LVMRecovery){
		"unapproved": func(r *v1alpha1.LVMRecovery) { r.Spec.ApprovedPlan = "" },
		"another":    func(r *v1alpha1.LVMRecovery) { r.Spec.ApprovedPlan = "p0" },
		"awaiting":   func(r *v1alpha1.LVMRecovery) { r.Status.Phase = v1alpha1.RecoveryAwaitingApproval },
		"ended":      func(r *v1alpha1.LVMRecovery) { r.Status.Phase = v1alpha1.RecoverySucceeded },
		"planless":   func(r *v1alpha1.LVMRecovery) { r.Status.Plan = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, name, volume(name, "fs", "xfs"))
			edit(w.recovery)
			status := w.recovery.Status
			w.must(w.api.Update(t.Context(), w.recovery))
			w.recovery.Status = status
			w.must(w.api.Status().Update(t.Context(), w.recovery))
			w.must(w.reconcile())
			if writes := w.spy.Writes(); len(writes) > 0 {
				t.Error(writes)
			}
		})
	}
}

// TestAForgedPlanIsNotExecuted: its content was changed after the approval, with the ID that was approved. Each field
// that decides what is done is tried.
func TestAForgedPlanIsNotExecuted(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.RecoveryPlan){
		"name":  func(p *v1alpha1.RecoveryPlan) { p.ImportedVolumes[0].Name = "of-others" },
		"size":  func(p *v1alpha1.RecoveryPlan) { p.ImportedVolumes[0].Size = 1 << 40 },
		"pv":    func(p *v1alpha1.RecoveryPlan) { p.ImportedVolumes[0].PersistentVolume = "pvc-1" },
		"claim": func(p *v1alpha1.RecoveryPlan) { p.ImportedVolumes[0].Claim = "shop/data" },
		"from":  func(p *v1alpha1.RecoveryPlan) { p.ImportedVolumes[0].FromNode = "b" },
		"fs":    func(p *v1alpha1.RecoveryPlan) { p.ImportedVolumes[0].FSType = "ext4" },
		"group": func(p *v1alpha1.RecoveryPlan) { p.VolumeGroupUUID = "x" },
		"more": func(p *v1alpha1.RecoveryPlan) {
			p.ImportedVolumes = append(p.ImportedVolumes, volume("forged", "b", "xfs"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "forged-"+name, volume("forged-"+name, "fs", "xfs"))
			edit(w.recovery.Status.Plan)
			w.must(w.api.Status().Update(t.Context(), w.recovery))
			for range 2 {
				w.must(w.reconcile())
			}
			if writes := w.spy.Writes(); !slices.Equal(writes, []string{"patch status LVMRecovery " + w.name}) {
				t.Errorf("got %v", writes)
			}
			if c := w.condition(); c.Reason != v1alpha1.ReasonObjectsBlocked ||
				!strings.Contains(c.Message, "is not the one that was approved") {
				t.Errorf("got the condition %+v", c)
			}
		})
	}
}

// moved creates the objects of a volume on the node NAME-old, bound to a claim.
func (w *world) moved(name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	w.Helper()
	old := w.name + "-old"
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + name,
		Finalizers: []string{wellknown.LogicalVolumeFinalizer}},
		Spec: topolvmv1.LogicalVolumeSpec{Name: w.name + "-" + name, NodeName: old, DeviceClass: "vg0",
			Size: resource.MustParse("1Gi")}}
	w.create(lv)
	lv.Status.VolumeID = w.name + "-lv-" + name
	w.must(w.api.Status().Update(w.Context(), lv))
	claim := newClaim(w.name, name, "1Gi")
	claim.Spec.VolumeName = lv.Name
	w.create(claim)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: lv.Name, Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "topolvm.io"},
			Finalizers:  []string{"external-provisioner.volume.kubernetes.io/finalizer"}},
		Spec: corev1.PersistentVolumeSpec{Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
			StorageClassName: "mine", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: w.name, Name: name,
				UID: claim.UID, ResourceVersion: claim.ResourceVersion},
			NodeAffinity: relocate.Affinity(old),
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "topolvm.io", VolumeHandle: lv.Status.VolumeID, FSType: "xfs",
				VolumeAttributes: map[string]string{"x": "y"}}}}}
	w.create(pv)
	return claim, pv
}

func fromOld(prefix, name string) v1alpha1.RecoveryVolume {
	v := volume(prefix, name, "xfs")
	v.FromNode = prefix + "-old"
	return v
}

// TestObjectsMoveWithTheirVolume: in the end, only the node has changed.
func TestObjectsMoveWithTheirVolume(t *testing.T) { move(t, &kill.Points{}) }

// move ends the operator at a point, and starts it again.
func move(t *testing.T, p *kill.Points) {
	t.Helper()
	name := unique("move")
	w := newWorld(t, name, fromOld(name, "data"))
	claim, before := w.moved("data")
	w.guard(p)
	for range 4 {
		_ = w.reconcile()
	}
	p.Restart()
	w.restart()
	w.settle()
	pv, lv := w.persistentVolume(name+"-data"), w.logicalVolume(name+"-data")
	if !isOn(pv, w.node()) || isOn(pv, name+"-old") || pv.UID == before.UID || !pv.DeletionTimestamp.IsZero() {
		t.Errorf("got the PersistentVolume %+v", pv)
	}
	want := before.DeepCopy()
	want.Spec.NodeAffinity, want.Spec.ClaimRef.ResourceVersion = pv.Spec.NodeAffinity, ""
	if diff := cmp.Diff(want.Spec, pv.Spec); diff != "" || pv.Labels["a"] != "b" ||
		!slices.Contains(pv.Finalizers, "external-provisioner.volume.kubernetes.io/finalizer") ||
		pv.Annotations["pv.kubernetes.io/provisioned-by"] != "topolvm.io" {
		t.Errorf("the PersistentVolume has changed: %s %+v", diff, pv.ObjectMeta)
	}
	if lv.Spec.NodeName != w.node() || lv.Spec.DeviceClass != "vg1" || lv.Status.VolumeID != name+"-lv-data" ||
		len(lv.Annotations) > 0 {
		t.Errorf("got the LogicalVolume %+v", lv)
	}
	if got := w.claim("data"); got.UID != claim.UID || got.Spec.VolumeName != pv.Name {
		t.Errorf("got the claim %+v", got)
	}
}

// TestAMoveEndsWithoutItsRecovery: the operator ends, and the LVMRecovery is deleted before it runs again. A move that
// has begun is completed, from the LogicalVolume alone.
func TestAMoveEndsWithoutItsRecovery(t *testing.T) { moveAlone(t, &kill.Points{}) }

// moveAlone ends the operator at a point, and starts it again.
func moveAlone(t *testing.T, p *kill.Points) {
	t.Helper()
	name := unique("alone")
	w := newWorld(t, name, fromOld(name, "data"))
	claim, before := w.moved("data")
	killed := p.Kills()
	w.guard(p)
	_ = w.reconcile()
	w.must(w.api.Delete(t.Context(), w.recovery))
	p.Restart()
	w.restart()
	for range 3 {
		w.must(w.reconcileMove(name + "-data"))
	}
	pv, lv := w.persistentVolume(name+"-data"), w.logicalVolume(name+"-data")
	if lv.Spec.NodeName == name+"-old" {
		if pv.UID != before.UID || !pv.DeletionTimestamp.IsZero() || !isOn(pv, name+"-old") {
			t.Errorf("nothing has begun, but got the PersistentVolume %+v", pv)
		}
	} else {
		expect.Equal(t, "isOn(pv, w.node())", isOn(pv, w.node()), true)
		expect.Equal(t, "the UID is the old one", pv.UID == before.UID, false)
		expect.Equal(t, "DeletionTimestamp", pv.DeletionTimestamp.IsZero(), true)
		expect.Equal(t, "Spec.ClaimRef.UID", pv.Spec.ClaimRef.UID, claim.UID)
		expect.Equal(t, "len(lv.Annotations)", len(lv.Annotations), 0)
	}
	w.spy.Writes()
	w.must(w.reconcileMove(name + "-data"))
	if writes := w.spy.Writes(); len(writes) > 0 {
		t.Errorf("once more: %v", writes)
	}
	if !killed && lv.Spec.NodeName != w.node() {
		t.Errorf("the move has not begun: LogicalVolume on node %s", lv.Spec.NodeName)
	}
}

func (w *world) reconcileMove(name string) error {
	_, err := moves{w.ctl}.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	return err
}

// TestOnlyThePersistentVolumeOfTheVolumeIsRecreated: the annotation of a LogicalVolume is not a way to create or delete
// other PersistentVolumes.
func TestOnlyThePersistentVolumeOfTheVolumeIsRecreated(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*corev1.PersistentVolume)
		says string
	}{
		"name": {func(pv *corev1.PersistentVolume) { pv.Name = "another" }, "is for another volume or node"},
		"path": {func(pv *corev1.PersistentVolume) {
			pv.Spec.CSI, pv.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/"}
		}, "is for another volume or node"},
		"driver": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other" }, "is for another volume or node"},
		"handle": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "other" },
			"is for another volume or node"},
		"node": {func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = relocate.Affinity("other") },
			"is for another volume or node"},
		"text": {nil, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "only"+name)
			_, before := w.moved("data")
			lv := w.logicalVolume(before.Name)
			lv.Spec.NodeName = w.node()
			annotation := "x"
			if test.edit != nil {
				pv := relocate.PersistentVolume(before, w.node())
				test.edit(pv)
				data, err := json.Marshal(pv)
				w.must(err)
				annotation = string(data)
			}
			lv.Annotations = map[string]string{wellknown.MovedVolumeAnnotation: annotation}
			w.must(w.api.Update(t.Context(), lv))
			err := w.reconcileMove(lv.Name)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got the error %v, want %q", err, test.says)
			}
			if writes := w.spy.Writes(); len(writes) > 0 {
				t.Error(writes)
			}
		})
	}
}

// forge replaces what an annotation may not decide: who gets the volume, with which Secret, and how it is mounted.
func forge(pv *corev1.PersistentVolume) {
	pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "attacker", Name: "mine", UID: "u"}
	pv.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: "kube-system", Name: "token"}
	pv.Spec.CSI.VolumeAttributes = map[string]string{"lvm.topolvm.io/mkfs-options": "-K"}
	pv.Spec.MountOptions = []string{"suid"}
	pv.Spec.StorageClassName = "other"
	pv.Labels, pv.Finalizers = map[string]string{"forged": "yes"}, []string{"example.com/forged"}
}

// TestOnlyTheNodeOfARecreatedPersistentVolumeChanges: everything else is from the PersistentVolume that is replaced,
// whatever the annotation has, and even if the operator is killed in between.
func TestOnlyTheNodeOfARecreatedPersistentVolumeChanges(t *testing.T) { moveForged(t, &kill.Points{}) }

// moveForged ends the operator at a point, and starts it again.
func moveForged(t *testing.T, p *kill.Points) {
	t.Helper()
	w := newWorld(t, unique("forged"))
	_, before := w.moved("data")
	lv := w.logicalVolume(before.Name)
	lv.Spec.NodeName = w.node()
	pv := relocate.PersistentVolume(before, w.node())
	forge(pv)
	data, err := json.Marshal(pv)
	w.must(err)
	lv.Annotations = map[string]string{wellknown.MovedVolumeAnnotation: string(data)}
	w.must(w.api.Update(t.Context(), lv))
	w.guard(p)
	_ = w.reconcileMove(lv.Name)
	p.Restart()
	w.restart()
	for range 2 {
		w.must(w.reconcileMove(lv.Name))
	}
	want, got := relocate.PersistentVolume(before, w.node()), w.persistentVolume(before.Name)
	want.Spec.VolumeMode = got.Spec.VolumeMode // The API server sets the default.
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" || got.UID == before.UID {
		t.Errorf("got another PersistentVolume: %s", diff)
	}
	if got.Labels["forged"] != "" || got.Labels["a"] != "b" || slices.Contains(got.Finalizers, "example.com/forged") {
		t.Errorf("got the metadata %+v", got.ObjectMeta)
	}
	if lv := w.logicalVolume(before.Name); len(lv.Annotations) > 0 {
		t.Errorf("got the annotations %v", lv.Annotations)
	}
	w.spy.Writes()
	w.must(w.reconcileMove(before.Name))
	if writes := w.spy.Writes(); len(writes) > 0 {
		t.Errorf("once more: %v", writes)
	}
}

// TestAPersistentVolumeThatChangesIsNotLost: a change between the preparation of a move and the deletion is kept, and
// nothing is deleted if the PersistentVolume cannot be read or stored.
func TestAPersistentVolumeThatChangesIsNotLost(t *testing.T) {
	w := newWorld(t, unique("changes"))
	_, before := w.moved("data")
	lv := w.logicalVolume(before.Name)
	lv.Spec.NodeName = w.node()
	data, err := json.Marshal(relocate.PersistentVolume(before, w.node()))
	w.must(err)
	lv.Annotations = map[string]string{wellknown.MovedVolumeAnnotation: string(data)}
	w.must(w.api.Update(t.Context(), lv))
	before.Labels["later"] = "yes"
	w.must(w.api.Update(t.Context(), before))
	for what, fails := range map[string]func(string, any) bool{
		"the PersistentVolume cannot be read": func(verb string, object any) bool {
			_, is := object.(*corev1.PersistentVolume)
			return is && verb == "get"
		},
		"it cannot be stored": func(verb string, object any) bool {
			_, is := object.(*topolvmv1.LogicalVolume)
			return is && verb == "patch"
		},
	} {
		w.spy.Fail = func(verb string, object any) error {
			if fails(verb, object) {
				return errors.New("the API server does not answer")
			}
			return nil
		}
		if err := w.reconcileMove(lv.Name); err == nil {
			t.Errorf("%s: no error", what)
		}
		w.spy.Fail = nil
		if pv := w.persistentVolume(before.Name); pv.UID != before.UID || !pv.DeletionTimestamp.IsZero() {
			t.Fatalf("%s: it was deleted", what)
		}
	}
	w.must(w.reconcileMove(lv.Name))
	if pv := w.persistentVolume(before.Name); pv.UID == before.UID || pv.Labels["later"] != "yes" ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("got the PersistentVolume %+v", pv)
	}
}

// TestASnapshotMovesWithItsVolume: it has a LogicalVolume only.
func TestASnapshotMovesWithItsVolume(t *testing.T) {
	v := fromOld("snap", "s")
	v.Claim = ""
	w := newWorld(t, "snap", v)
	_, pv := w.moved("s")
	pv.Finalizers = nil
	w.must(w.api.Update(t.Context(), pv))
	w.must(w.api.Delete(t.Context(), pv))
	w.settle()
	if lv := w.logicalVolume("snap-s"); lv.Spec.NodeName != "snap-new" || len(lv.Annotations) > 0 {
		t.Errorf("got the LogicalVolume %+v", lv)
	}
}

// TestAPersistentVolumeWithoutLogicalVolumeMoves: as after the restore of a backup that has no LogicalVolumes.
func TestAPersistentVolumeWithoutLogicalVolumeMoves(t *testing.T) {
	w := newWorld(t, "pvonly", fromOld("pvonly", "data"))
	w.moved("data")
	lv := w.logicalVolume("pvonly-data")
	lv.Finalizers = nil
	w.must(w.api.Update(t.Context(), lv))
	w.must(w.api.Delete(t.Context(), lv))
	w.settle()
	if lv := w.logicalVolume("pvonly-data"); lv.Spec.NodeName != "pvonly-new" || lv.Status.VolumeID != "pvonly-lv-data" {
		t.Errorf("got the LogicalVolume %+v", lv)
	}
	if pv := w.persistentVolume("pvonly-data"); !isOn(pv, "pvonly-new") {
		t.Errorf("got the PersistentVolume %+v", pv.Spec)
	}
}

func readyNode(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

// TestObjectsStayWithANodeThatHasTheVolume: the other node is ready, and has the disks or a Pod with the claim.
func TestObjectsStayWithANodeThatHasTheVolume(t *testing.T) {
	ofGroup := func(w *world, class, uuid string, state v1alpha1.PhysicalVolumeState) {
		s := &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-old",
			Namespace: env.Namespace}}
		w.create(s)
		s.Status.NodeStatus = []v1alpha1.VGStatus{{Name: class, UUID: uuid, Status: v1alpha1.VGStatusReady,
			PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "pv1", Name: "/dev/sdb", State: state}}}}
		w.must(w.api.Status().Update(w.Context(), s))
	}
	status := func(w *world, state v1alpha1.PhysicalVolumeState) { ofGroup(w, "vg1", "uuid-1", state) }
	// The other node has a volume group of its own, and its agent reports a condition of the volume.
	says := func(condition string) func(w *world) {
		return func(w *world) {
			ofGroup(w, "vg0", "uuid-0", v1alpha1.PhysicalVolumeReady)
			lv := w.logicalVolume(w.name + "-data")
			metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.ConditionAnnotation, condition)
			w.must(w.api.Update(w.Context(), lv))
		}
	}
	pod := func(w *world) {
		w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: w.name}})
		w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: w.name}, Spec: corev1.PodSpec{
			NodeName: w.name + "-old", Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}})
	}
	for name, test := range map[string]struct {
		ready corev1.ConditionStatus
		do    func(*world)
		says  string // empty: the objects move
	}{
		"hasdisks": {corev1.ConditionTrue, func(w *world) { status(w, v1alpha1.PhysicalVolumeReady) },
			"node hasdisks-old is ready and reports that it has devices of volume group vg1 (uuid-1) too"},
		"lostdisks": {corev1.ConditionTrue, func(w *world) { status(w, v1alpha1.PhysicalVolumeMissing) }, ""},
		"hasvolume": {corev1.ConditionTrue, func(w *world) { ofGroup(w, "vg0", "uuid-0", v1alpha1.PhysicalVolumeReady) },
			"node hasvolume-old is ready and has volume group vg0 (uuid-0), and its node agent does not report that it " +
				"lacks the logical volume"},
		"hasbroken":   {corev1.ConditionTrue, says("a disk is missing"), "does not report that it lacks"},
		"lacksvolume": {corev1.ConditionTrue, says("node lacksvolume-old has no logical volume lacksvolume-lv-data"), ""},
		"otherclass": {corev1.ConditionTrue, func(w *world) { ofGroup(w, "vg9", "uuid-9", v1alpha1.PhysicalVolumeReady) },
			""},
		"haspod":      {corev1.ConditionTrue, pod, "Pod haspod/db on node haspod-old uses claim haspod/data: delete the Pod"},
		"deaddisks":   {corev1.ConditionUnknown, func(w *world) { status(w, v1alpha1.PhysicalVolumeReady) }, ""},
		"deadwithpod": {corev1.ConditionUnknown, pod, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, name, fromOld(name, "data"))
			node := readyNode(name+"-old", test.ready)
			condition := node.Status
			w.create(node)
			node.Status = condition
			w.must(w.api.Status().Update(t.Context(), node))
			_, before := w.moved("data")
			test.do(w)
			if test.says == "" {
				w.settle()
				return
			}
			w.must(w.reconcile())
			if c := w.condition(); c.Reason != v1alpha1.ReasonObjectsBlocked ||
				!strings.Contains(c.Message, test.says) {
				t.Errorf("got the condition %+v", c)
			}
			if pv := w.persistentVolume(name + "-data"); pv.UID != before.UID || !pv.DeletionTimestamp.IsZero() {
				t.Errorf("got the PersistentVolume %+v", pv)
			}
			if lv := w.logicalVolume(name + "-data"); lv.Spec.NodeName != name+"-old" {
				t.Errorf("got the LogicalVolume %+v", lv.Spec)
			}
		})
	}
}
