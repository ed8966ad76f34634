package memory_test

import (
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/env"
)

// The tests of this file run in memory and with an API server: both must do the same.

func logicalVolume(name string, finalizers ...string) *topolvmv1.LogicalVolume {
	return &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
		Spec:   topolvmv1.LogicalVolumeSpec{Name: name, NodeName: "a", Size: resource.MustParse("1Gi")},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: "handle"}}
}

func create(t *testing.T, api client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatIsSetAtCreation: UID, time, generation and finalizers. The status is not stored.
func TestWhatIsSetAtCreation(t *testing.T) {
	api := connect(t)
	lv := logicalVolume("new")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "new"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	create(t, api, lv, claim)
	for _, object := range []client.Object{lv, claim} {
		if created := object.GetCreationTimestamp(); object.GetUID() == "" || created.IsZero() {
			t.Errorf("got %T without UID or creation time", object)
		}
	}
	if lv.Status.VolumeID != "" || lv.Generation != 1 {
		t.Errorf("got the generation %d and the status %+v", lv.Generation, lv.Status)
	}
	if len(claim.Finalizers) != 1 || claim.Status.Phase != corev1.ClaimPending {
		t.Errorf("got the claim %v, %v", claim.Finalizers, claim.Status)
	}
}

// TestANamespaceMustExist: otherwise, nothing is created in it.
func TestANamespaceMustExist(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "missing", Name: "x"}}
	if err := connect(t).Create(t.Context(), object); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// TestAnotherObjectWithTheSameNameIsNotChanged: neither an update nor a deletion of the former object applies to it.
func TestAnotherObjectWithTheSameNameIsNotChanged(t *testing.T) {
	api := connect(t)
	former := logicalVolume("again")
	create(t, api, former)
	if err := api.Delete(t.Context(), former.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	create(t, api, logicalVolume("again"))
	if err := api.Update(t.Context(), former.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("update: got %v", err)
	}
	exact := client.Preconditions{UID: &former.UID}
	if err := api.Delete(t.Context(), former.DeepCopy(), exact); !apierrors.IsConflict(err) {
		t.Errorf("delete: got %v", err)
	}
	other := client.Preconditions{UID: ptr.To(types.UID("x"))}
	if err := api.Delete(t.Context(), logicalVolume("gone"), other); !apierrors.IsNotFound(err) {
		t.Errorf("delete what does not exist: got %v", err)
	}
}

// TestAFinalizerKeepsAnObject: until it is removed.
func TestAFinalizerKeepsAnObject(t *testing.T) {
	api := connect(t)
	lv := logicalVolume("kept", "example.com/keep")
	create(t, api, lv)
	for range 2 {
		if err := api.Delete(t.Context(), lv.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(lv), lv); err != nil || lv.DeletionTimestamp.IsZero() {
		t.Fatalf("got %+v, %v", lv.ObjectMeta, err)
	}
	lv.Finalizers = nil
	if err := api.Update(t.Context(), lv); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(lv), lv); !apierrors.IsNotFound(err) {
		t.Errorf("got %+v, %v", lv.ObjectMeta, err)
	}
}

// TestAChangeOfAnOldVersionIsRefused: of the object, and of its status.
func TestAChangeOfAnOldVersionIsRefused(t *testing.T) {
	api := connect(t)
	lv := logicalVolume("old")
	create(t, api, lv)
	old := lv.DeepCopy()
	lv.Status.VolumeID = "handle"
	if err := api.Status().Update(t.Context(), lv); err != nil {
		t.Fatal(err)
	}
	lv.Spec.NodeName, lv.Status.VolumeID = "b", "other"
	if err := api.Update(t.Context(), lv); err != nil || lv.Status.VolumeID != "handle" || lv.Spec.NodeName != "b" {
		t.Errorf("got %+v, %v", lv, err)
	}
	if err := api.Update(t.Context(), old.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if err := api.Status().Update(t.Context(), old.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("status: got %v", err)
	}
	change := client.MergeFromWithOptions(old.DeepCopy(), client.MergeFromWithOptimisticLock{})
	old.Labels = map[string]string{"a": "b"}
	if err := api.Patch(t.Context(), old, change); !apierrors.IsConflict(err) {
		t.Errorf("patch: got %v", err)
	}
}
