//go:build env

package activecache

import (
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// settled creates a claim, a PersistentVolume and a LogicalVolume, all settled.
func settled(t *testing.T, name string) []client.Object {
	t.Helper()
	create := func(object client.Object) {
		t.Helper()
		if err := server.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	status := func(object client.Object) {
		t.Helper()
		if err := server.Client.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	claim := boundClaim(name)
	claim.UID = ""
	claim.Namespace = "default"
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	wanted := claim.Status
	create(claim)
	claim.Status = wanted
	status(claim)
	volume := boundVolume(name)
	volume.Spec = corev1.PersistentVolumeSpec{AccessModes: claim.Spec.AccessModes, Capacity: of("1Gi"),
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "topolvm.io", VolumeHandle: "id-" + name}}}
	create(volume)
	volume.Status.Phase = corev1.VolumeBound
	status(volume)
	size := resource.MustParse("1Gi")
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: "n", Size: size}}
	create(lv)
	lv.Status.VolumeID = "id-" + name
	lv.Status.CurrentSize = &size
	status(lv)
	return []client.Object{claim, volume, lv}
}

// A settled object is not in the cache. Get of the manager's client still returns it, complete; List returns an error.
func TestASettledObjectIsFound(t *testing.T) {
	objects := settled(t, "rests")
	volumes := &Volumes{}
	mgr, err := ctrl.NewManager(server.Config, ctrl.Options{
		Scheme: clientgoscheme.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultTransform: Any, NewInformer: volumes.NewInformer}, NewClient: NewClient,
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = mgr.Start(t.Context()) }()
	if !mgr.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("no cache")
	}
	for _, object := range objects {
		key := client.ObjectKeyFromObject(object)
		for range 2 {
			got, ok := object.DeepCopyObject().(client.Object)
			if !ok {
				t.Fatalf("%T", object)
			}
			if err := mgr.GetClient().Get(t.Context(), key, got); err != nil || got.GetUID() != object.GetUID() {
				t.Errorf("%T: got %v, %v", object, got.GetUID(), err)
			}
		}
		// The cache itself does not have the object.
		if err := mgr.GetCache().Get(t.Context(), key,
			object.DeepCopyObject().(client.Object)); !apierrors.IsNotFound(err) {
			t.Errorf("%T is held: %v", object, err)
		}
		missing := client.ObjectKey{Namespace: key.Namespace, Name: "there-is-none"}
		if err := mgr.GetClient().Get(t.Context(), missing,
			object.DeepCopyObject().(client.Object)); !apierrors.IsNotFound(err) {
			t.Errorf("%T that does not exist: %v", object, err)
		}
	}
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PersistentVolumeList{},
		&topolvmv1.LogicalVolumeList{}} {
		if err := mgr.GetClient().List(t.Context(), list); err == nil || !strings.Contains(err.Error(), "settled") {
			t.Errorf("a list %T that lacks what is settled: %v", list, err)
		}
	}
	if err := mgr.GetClient().List(t.Context(), &corev1.NodeList{}); err != nil {
		t.Error(err)
	}

	// An object that is no longer settled comes from the cache.
	lv := &topolvmv1.LogicalVolume{}
	if err := server.Client.Get(t.Context(), client.ObjectKey{Name: "rests"}, lv); err != nil {
		t.Fatal(err)
	}
	lv.Spec.Size = resource.MustParse("2Gi")
	if err := server.Client.Update(t.Context(), lv); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(env.Patience); mgr.GetCache().Get(t.Context(), client.ObjectKeyFromObject(lv),
		lv) != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not in the cache")
		}
	}
	if err := mgr.GetClient().Get(t.Context(), client.ObjectKeyFromObject(lv), lv); err != nil ||
		lv.Spec.Size.String() != "2Gi" {
		t.Errorf("got %v, %v", lv.Spec.Size, err)
	}
}
