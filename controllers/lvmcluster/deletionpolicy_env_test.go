//go:build env

package lvmcluster

import (
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/internal/admission/deletionwebhook"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// refusedSoon repeats a request until the answer has the text: the API server needs a moment to enforce a new policy.
func (w *world) refusedSoon(what, text string, ask func() error) {
	w.Helper()
	var err error
	for deadline := time.Now().Add(env.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = ask(); err != nil && strings.Contains(err.Error(), text) {
			return
		}
	}
	w.Errorf("%s: got %v, want %q", what, err, text)
}

// allowedSoon repeats a request until it is allowed: the API server needs a moment until it no longer applies a policy.
func (w *world) allowedSoon(what string, ask func() error) {
	w.Helper()
	for deadline := time.Now().Add(env.Patience); ; time.Sleep(20 * time.Millisecond) {
		if err := ask(); err == nil {
			return
		} else if time.Now().After(deadline) {
			w.Fatalf("%s: %v", what, err)
		}
	}
}

// As long as there is an LVMCluster, nobody can delete objects that its volumes need, neither by name nor as a
// collection.
func TestWhatVolumesNeedCannotBeDeleted(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	_, err := w.reconcile()
	w.must(err)
	ctx := t.Context()
	remove := w.volume("data", "vg1")
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-data"}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.cluster.Namespace}}
	// No operator serves the webhook here, so it is not known whether something refers to the LogicalVolume.
	const unserved = `failed calling webhook "logicalvolume-deletion.lvm.topolvm.io"`
	w.refusedSoon("LogicalVolume", unserved, func() error { return w.api.Delete(ctx, lv, client.DryRunAll) })
	w.refusedSoon("all LogicalVolumes", unserved, func() error {
		return w.api.DeleteAllOf(ctx, &topolvmv1.LogicalVolume{},
			&client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{DryRun: []string{"All"}}})
	})
	w.refusedSoon("namespace", "cannot be deleted while an LVMCluster exists",
		func() error { return w.api.Delete(ctx, namespace, client.DryRunAll) })
	for _, name := range []string{"lvmclusters.lvm.topolvm.io", "lvmvolumegroups.lvm.topolvm.io",
		"lvmvolumegroupnodestatuses.lvm.topolvm.io", "lvmrecoveries.lvm.topolvm.io",
		"lvmdeviceapprovals.lvm.topolvm.io", "logicalvolumes.topolvm.io"} {
		crd := metadataOf(crdKind)
		crd.Name = name
		w.refusedSoon(name, "cannot be deleted while an LVMCluster exists",
			func() error { return w.api.Delete(ctx, crd, client.DryRunAll) })
	}
	w.refusedSoon("all CRDs", "cannot be deleted while an LVMCluster exists", func() error {
		return w.api.DeleteAllOf(ctx, metadataOf(crdKind),
			&client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{DryRun: []string{"All"}}})
	})
	group := &lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: w.cluster.Namespace}}
	nodeStatus := &lvmv1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: "a",
		Namespace: w.cluster.Namespace}}
	for _, object := range []client.Object{group, nodeStatus} {
		w.refusedSoon(object.GetName(), "deleted by the operator alone",
			func() error { return w.api.Delete(ctx, object, client.DryRunAll) })
		w.must(w.asServiceAccount("lvms-operator").Delete(ctx, object, client.DryRunAll))
	}
	other := metadataOf(crdKind)
	other.Name = "volumesnapshots.snapshot.storage.k8s.io"
	w.must(w.api.Delete(ctx, other, client.DryRunAll))
	// The operator deletes LogicalVolumes for CSI calls. Anybody may delete those without data and those with an
	// annotation that allows it, also while no operator answers.
	w.must(w.asServiceAccount("lvms-operator").Delete(ctx, lv, client.DryRunAll))
	w.make(&topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "never-made"},
		Spec: topolvmv1.LogicalVolumeSpec{Name: "never-made", NodeName: "a", Size: *lvSize("1Gi")}})
	w.must(w.api.Delete(ctx, &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "never-made"}}))
	w.annotate(lv, wellknown.AllowDeletionAnnotation, "true")
	w.must(w.api.Delete(ctx, lv, client.DryRunAll))
	w.annotate(lv, wellknown.AllowDeletionAnnotation, "")
	remove()

	// The webhook and the policies are deleted with the LVMCluster.
	w.must(w.api.Delete(ctx, w.cluster))
	_, err = w.reconcile()
	w.must(err)
	w.playRemoval("vg1")
	w.must(w.api.DeleteAllOf(ctx, &storagev1.CSINode{}))
	for range 2 {
		_, err = w.reconcile()
		w.must(err)
	}
	if err := w.api.Get(ctx, client.ObjectKey{Name: deletionwebhook.ConfigurationName},
		&admissionv1.ValidatingWebhookConfiguration{}); !apierrors.IsNotFound(err) {
		t.Errorf("the webhook is left: %v", err)
	}
	w.allowedSoon("the LVMCluster is gone, and its namespace cannot be deleted",
		func() error { return w.api.Delete(ctx, namespace, client.DryRunAll) })
}
