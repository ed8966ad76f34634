package volumehealth

import (
	"context"
	"errors"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

const (
	missing = `[{"status":"Degraded","reason":"DeviceMissing","message":"a device is missing"}]`
	failed  = `[{"status":"Inaccessible","reason":"ThinPoolUnhealthy","message":"the pool failed"}]`
)

// world is an API server with a volume, its claim and its PersistentVolume.
type world struct {
	*testing.T
	client.Client
	controller *Controller
	now        time.Time
	patches    int
	// fails is the error of each request, if it is set.
	fails error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	w := &world{T: t, now: time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)}
	w.must(clientgoscheme.AddToScheme(scheme))
	w.must(topolvmv1.AddToScheme(scheme))
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "claim"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef:               &corev1.ObjectReference{Namespace: "shop", Name: "orders", UID: "claim"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{VolumeHandle: "id"}},
	}}
	lv := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "lv", Annotations: map[string]string{wellknown.ClaimAnnotation: "shop/orders"}},
		Status:     topolvmv1.LogicalVolumeStatus{VolumeID: "id"},
	}
	w.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim, pv, lv).
		WithStatusSubresource(claim).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			return errors.Join(w.fails, c.Get(ctx, key, o, options...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			w.patches++
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		}}).Build()
	w.controller = New(w.Client, w.Client, func(id string) string { return map[string]string{"id": "lv"}[id] })
	w.controller.now = func() time.Time { return w.now }
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// reports sets what the agent reports, runs the controller twice, and returns the health in the status of the claim.
func (w *world) reports(text string) *corev1.VolumeHealthStatus {
	w.Helper()
	lv := &topolvmv1.LogicalVolume{}
	w.must(w.Get(w.Context(), client.ObjectKey{Name: "lv"}, lv))
	lv.Annotations[wellknown.HealthAnnotation] = text
	w.must(w.Update(w.Context(), lv))
	for range 2 {
		w.must(w.reconcile("orders"))
	}
	return w.status()
}

func (w *world) reconcile(claim string) error {
	_, err := w.controller.Reconcile(w.Context(),
		reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: claim}})
	return err
}

func (w *world) status() *corev1.VolumeHealthStatus {
	w.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	w.must(w.Get(w.Context(), client.ObjectKey{Namespace: "shop", Name: "orders"}, claim))
	return claim.Status.HealthStatus
}

func TestTheClaimHasTheHealthOfItsVolume(t *testing.T) {
	w := newWorld(t)
	if got := w.reports(""); got != nil || w.patches != 0 {
		t.Errorf("healthy: got %v after %d patches", got, w.patches)
	}
	first := w.now
	got := w.reports(missing)
	if got == nil || len(got.HealthConditions) != 1 || got.HealthConditions[0].Reason != "DeviceMissing" {
		t.Fatalf("got %v", got)
	}
	if !got.LastTransitionTime.Time.Equal(first) || w.patches != 1 {
		t.Errorf("got %v after %d patches", got, w.patches)
	}
	w.now = w.now.Add(time.Hour)
	got = w.reports(`[{"status":"Degraded","reason":"DeviceMissing","message":"two devices are missing"}]`)
	if got == nil || got.HealthConditions[0].Message != "two devices are missing" || !got.LastTransitionTime.Time.Equal(first) {
		t.Errorf("another message: got %v", got)
	}
	if got = w.reports(failed); got == nil || !got.LastTransitionTime.Time.Equal(w.now) ||
		got.HealthConditions[0].Status != corev1.VolumeHealthInaccessible {
		t.Errorf("another condition: got %v", got)
	}
	if got = w.reports(""); got != nil {
		t.Errorf("healthy again: got %v", got)
	}
}

func TestAFailedReadChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.reports(missing)
	w.fails = errors.New("no answer")
	if err := w.reconcile("orders"); err == nil {
		t.Error("no error")
	}
	w.fails = nil
	if got := w.status(); got == nil || w.patches != 1 {
		t.Errorf("got %v after %d patches", got, w.patches)
	}
	w.must(w.reconcile("deleted"))
}

func TestAnotherVolumeDoesNotChangeTheClaim(t *testing.T) {
	type objects struct {
		claim *corev1.PersistentVolumeClaim
		pv    *corev1.PersistentVolume
		lv    *topolvmv1.LogicalVolume
	}
	for name, change := range map[string]func(o objects){
		"the volume has another handle": func(o objects) { o.lv.Status.VolumeID = "copy" },
		"bound to another claim":        func(o objects) { o.pv.Spec.ClaimRef.UID = "x" },
		"not bound":                     func(o objects) { o.pv.Spec.ClaimRef = nil },
		"another driver":                func(o objects) { o.pv.Spec.CSI.VolumeHandle = "theirs" },
		"no CSI driver":                 func(o objects) { o.pv.Spec.CSI = nil },
		"pending":                       func(o objects) { o.claim.Spec.VolumeName = "" },
		"no PersistentVolume":           func(o objects) { o.claim.Spec.VolumeName = "none" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			o := objects{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &topolvmv1.LogicalVolume{}}
			w.must(w.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "orders"}, o.claim))
			w.must(w.Get(t.Context(), client.ObjectKey{Name: "pv"}, o.pv))
			w.must(w.Get(t.Context(), client.ObjectKey{Name: "lv"}, o.lv))
			change(o)
			metav1.SetMetaDataAnnotation(&o.lv.ObjectMeta, wellknown.HealthAnnotation, missing)
			for _, object := range []client.Object{o.claim, o.pv, o.lv} {
				w.must(w.Update(t.Context(), object))
			}
			w.must(w.reconcile("orders"))
			if got := w.status(); got != nil {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestWhichChangesAreHandled: a LogicalVolume that is healthy again settles, so the object of the event has no health.
func TestWhichChangesAreHandled(t *testing.T) {
	w := newWorld(t)
	lv := &topolvmv1.LogicalVolume{}
	w.must(w.Get(t.Context(), client.ObjectKey{Name: "lv"}, lv))
	handled := func() int { return len(w.controller.claimOf(t.Context(), lv)) }
	if handled() != 0 {
		t.Error("a healthy volume is handled")
	}
	lv.Annotations[wellknown.HealthAnnotation] = missing
	if handled() != 1 {
		t.Error("a volume that is not healthy is not handled")
	}
	w.reports(missing)
	delete(lv.Annotations, wellknown.HealthAnnotation)
	if handled() != 1 {
		t.Error("a volume that is healthy again is not handled")
	}
	lv.Annotations = nil
	if handled() != 0 {
		t.Error("a volume without a claim is handled")
	}
}
