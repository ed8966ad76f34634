//go:build env

package lvmcluster

import (
	"context"
	"strings"
	"testing"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/test/env"
)

// TestWatchesRepairDriftInSeconds runs the controller as the operator does: in a manager, with its caches and
// permissions.
func TestWatchesRepairDriftInSeconds(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	config, err := server.AsOperator(w.cluster.Namespace)
	w.must(err)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  clientgoscheme.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{ByObject: CacheByObject(w.cluster.Namespace)},
	})
	w.must(err)
	w.must(New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("lvms-operator"),
		w.options()).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		w.must(<-ended)
	}()

	objects := []client.Object{
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "lvms-vg1"}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: wellknown.DriverName}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: operand.AgentName, Namespace: w.cluster.Namespace}},
		&lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: "vg1", Namespace: w.cluster.Namespace}},
		&lvmv1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: w.cluster.Namespace}},
		withName(metadataOf(snapshotv1.SchemeGroupVersion.WithKind("VolumeSnapshotClass")), "lvms-vg1"),
		&groupsnapshotv1.VolumeGroupSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: "lvms-vg1"}},
		withName(metadataOf(sccKind), "lvms-vgmanager"),
	}
	appear := func(object client.Object) bool {
		return w.api.Get(ctx, client.ObjectKeyFromObject(object), object) == nil
	}
	for _, object := range objects {
		w.soon(func() bool { return appear(object) }, "%T %s was not made", object, object.GetName())
	}
	// The API server refuses it to others for some objects once the policies are in force.
	operator := w.asServiceAccount("lvms-operator")
	for _, object := range objects {
		w.must(operator.Delete(ctx, object))
		uid := object.GetUID()
		w.soon(func() bool { return appear(object) && object.GetUID() != uid }, "%T %s was not made again", object,
			object.GetName())
	}
}

// If the ServiceAccount is recreated, as after the operator was removed with OLM and installed again, the agents are
// replaced: the API server rejects the tokens of the old one. Without a ServiceAccount the agents stay unchanged.
func TestAgentsFollowTheirServiceAccount(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	_, _ = w.reconcile()
	uidInPods := func() string {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: operand.AgentName, Namespace: w.cluster.Namespace}}
		w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(set), set))
		return set.Spec.Template.Annotations["lvm.openshift.io/service-account-uid"]
	}
	first := w.account()
	if first == "" || uidInPods() != string(first) {
		t.Errorf("the pods are of account %q, want %q", uidInPods(), first)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: operand.AgentName,
		Namespace: w.cluster.Namespace}}
	w.must(w.api.Delete(t.Context(), account))
	for range 2 {
		_, _ = w.reconcile()
		if uidInPods() != string(first) {
			t.Errorf("without an account the pods are of account %q", uidInPods())
		}
	}
	if says := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(says,
		"ServiceAccount "+w.cluster.Namespace+"/vg-manager does not exist") {
		t.Errorf("it says %s", says)
	}
	w.make(&corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: operand.AgentName, Namespace: w.cluster.Namespace}})
	_, _ = w.reconcile()
	if second := w.account(); second == first || uidInPods() != string(second) {
		t.Errorf("the pods are of account %q, want %q", uidInPods(), second)
	}
}

func withName(object *metav1.PartialObjectMetadata, name string) client.Object {
	object.Name = name
	return object
}

// soon waits for the effect of watches. The limit allows for a busy machine; the reconciler's own resync is later.
func (w *world) soon(holds func() bool, format string, args ...any) {
	w.Helper()
	for deadline := time.Now().Add(env.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if holds() {
			return
		}
	}
	w.Fatalf(format, args...)
}

// The operator keeps the dashboard of the console. Without the console's namespace, it reports no error.
func TestDashboardOfTheConsole(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	dashboard := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: operand.DashboardNamespace, Name: operand.DashboardName}}
	get := func() error { return w.api.Get(t.Context(), client.ObjectKeyFromObject(dashboard), dashboard) }
	w.must(get())
	if dashboard.Labels["console.openshift.io/dashboard"] != "true" ||
		!strings.Contains(dashboard.Data["lvms-dashboard.json"], "lvms:thinpool_data:ratio") {
		t.Errorf("got %v", dashboard.Labels)
	}
	w.must(w.api.Delete(t.Context(), dashboard))
	w.spy.Fail = func(verb string, object any) error {
		o, is := object.(interface{ GetName() string })
		if verb == "apply" && is && o.GetName() == operand.DashboardName {
			return apierrors.NewNotFound(corev1.Resource("namespaces"), operand.DashboardNamespace)
		}
		return nil
	}
	if _, err := w.reconcile(); err != nil || w.cluster.Status.State != lvmv1alpha1.LVMStatusReady ||
		!apierrors.IsNotFound(get()) {
		t.Errorf("without the namespace: %v, %s", err, w.condition(lvmv1alpha1.ConditionResourcesAvailable))
	}
	w.spy.Fail = nil
	_, err := w.reconcile()
	w.must(err)
	w.must(get())
}
