//go:build env

package deletionwebhook

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) {
	env.Main(m, func(e *env.Env) { server = e }, env.OptionalCRDs()...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixed is a certificate that a test can replace.
type fixed struct {
	certificate *tls.Certificate
	err         error
}

func (f *fixed) Current() (*tls.Certificate, error) { return f.certificate, f.err }

func issue(t *testing.T) *tls.Certificate {
	t.Helper()
	pair, err := pki.SelfSigned(pki.ServerRequest(time.Now(), time.Hour, pki.ServiceNames(env.Namespace, "hooks")...))
	must(t, err)
	certificate, err := pair.TLS()
	must(t, err)
	return &certificate
}

// asOperator returns a client with the operator's permissions.
func asOperator(t *testing.T) *env.Spy {
	t.Helper()
	config, err := server.AsOperator(env.Namespace)
	must(t, err)
	spy, err := env.NewSpy(config)
	must(t, err)
	return spy
}

func TestTheRegistrationIsKeptUntilItIsRemoved(t *testing.T) {
	ctx := t.Context()
	source := &fixed{err: errors.New("no certificate yet")}
	spy := asOperator(t)
	r := NewRegistration(Options{Client: spy, Namespace: env.Namespace, Certificate: source})
	writes := func(do func(context.Context) error, want ...string) {
		t.Helper()
		must(t, do(ctx))
		if got := spy.Writes(); !slices.Equal(got, want) {
			t.Errorf("wrote %q, want %q", got, want)
		}
	}
	const written, removed = "apply ValidatingWebhookConfiguration lvms-logicalvolume-deletion",
		"delete ValidatingWebhookConfiguration lvms-logicalvolume-deletion"
	writes(r.refresh) // Nobody has asked for it.
	if err := r.Ensure(ctx); err == nil || !strings.Contains(err.Error(), "no certificate yet") {
		t.Errorf("got %v", err)
	}
	source.certificate, source.err = issue(t), nil
	writes(r.refresh, written)
	writes(r.Ensure)
	first := source.certificate.Certificate[0]
	source.certificate = issue(t)
	writes(r.refresh, written)
	got := &admissionv1.ValidatingWebhookConfiguration{}
	must(t, server.Client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, got))
	want := string(pki.Encode(pki.BlockCertificate, source.certificate.Certificate[0])) +
		string(pki.Encode(pki.BlockCertificate, first))
	if hook := got.Webhooks[0]; string(hook.ClientConfig.CABundle) != want ||
		hook.ClientConfig.Service.Name != "hooks" || *hook.FailurePolicy != admissionv1.Fail {
		t.Errorf("got %+v", hook)
	}
	// Somebody deletes it.
	must(t, server.Client.Delete(ctx, got))
	writes(r.refresh, written)
	spy.Fail = func(verb string, _ any) error {
		if verb == "get" {
			return errors.New("no answer")
		}
		return nil
	}
	if err := r.Ensure(ctx); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v", err)
	}
	spy.Fail = nil
	writes(r.Remove, removed)
	must(t, r.Remove(ctx))
	spy.Writes()
	writes(r.refresh)
	if err := server.Client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, got); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// registered registers the webhook of this package with the API server, and serves it with the operator's permissions.
func registered(t *testing.T) (stop func()) {
	t.Helper()
	ctx := context.Background()
	r := NewRegistration(Options{Client: server.Client, Namespace: env.Namespace, Certificate: &fixed{
		certificate: issue(t)}})
	must(t, r.Ensure(ctx))
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	must(t, server.Client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, configuration))
	must(t, r.Remove(ctx))
	configuration.ObjectMeta = metav1.ObjectMeta{Name: ConfigurationName}
	operator, err := server.AsOperator(env.Namespace)
	must(t, err)
	live, err := client.New(operator, client.Options{Scheme: server.Client.Scheme()})
	must(t, err)
	end, err := server.Serve(configuration, func(mgr ctrl.Manager) error {
		return (&Validator{Live: live, Namespace: env.Namespace}).SetupWithManager(mgr)
	})
	must(t, err)
	return func() {
		must(t, end())
		must(t, r.Remove(ctx))
	}
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	must(t, server.Client.Create(t.Context(), object))
	t.Cleanup(func() {
		_ = server.Client.Delete(context.Background(), object)
		object.SetFinalizers(nil)
		_ = server.Client.Update(context.Background(), object)
	})
}

func createVolume(t *testing.T, name, id string) *topolvmv1.LogicalVolume {
	t.Helper()
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topolvmv1.LogicalVolumeSpec{
		Name: name, NodeName: "a", DeviceClass: "vg1", Size: resource.MustParse("1Gi")}}
	create(t, lv)
	lv.Status.VolumeID = id
	must(t, server.Client.Status().Update(t.Context(), lv))
	return lv
}

// eventually repeats a request, because the API server needs a moment to notice a registration and its end.
func eventually(t *testing.T, what, want string, ask func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(env.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = ask(); err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want) {
			return
		}
	}
	t.Errorf("%s: got %v, want %q", what, err, want)
}

// TestKubectlDeleteLogicalVolume deletes LogicalVolumes as people do, while the API server calls the webhook, and when
// nobody serves it.
func TestKubectlDeleteLogicalVolume(t *testing.T) {
	ctx := t.Context()
	stop := registered(t)
	free, used := createVolume(t, "free", "id-free"), createVolume(t, "used", "id-used")
	create(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "of-used"}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: wellknown.DriverName, VolumeHandle: "id-used"}}}})
	dryRun := func(c client.Client, lv *topolvmv1.LogicalVolume) func() error {
		return func() error { return c.Delete(ctx, lv.DeepCopy(), client.DryRunAll) }
	}
	const refused = "would destroy the data of its volume on node a, to which these objects refer: " +
		"PersistentVolume of-used"
	eventually(t, "in use", refused, dryRun(server.Client, used))
	eventually(t, "a collection", refused, func() error {
		return server.Client.DeleteAllOf(ctx, &topolvmv1.LogicalVolume{},
			&client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{DryRun: []string{"All"}}})
	})
	must(t, dryRun(server.Client, free)())
	must(t, server.Client.Delete(ctx, free.DeepCopy()))
	err := server.Client.Delete(ctx, free.DeepCopy())
	if client.IgnoreNotFound(err) != nil {
		t.Errorf("called twice: %v", err)
	}
	free = createVolume(t, "free-2", "id-free-2")
	// The operator deletes what its users have deleted, without asking itself.
	operator := asOperator(t)
	must(t, dryRun(operator, used)())

	// Nobody serves the webhook: what is free is refused too, and the annotation still allows it.
	stop()
	registration := NewRegistration(Options{Client: operator, Namespace: env.Namespace, Certificate: &fixed{
		certificate: issue(t)}})
	must(t, registration.Ensure(ctx))
	defer func() { must(t, registration.Remove(context.Background())) }()
	const unserved = `failed calling webhook "logicalvolume-deletion.lvm.topolvm.io"`
	eventually(t, "without an operator", unserved, dryRun(server.Client, free))
	must(t, dryRun(operator, used)())
	never := createVolume(t, "never", "")
	must(t, dryRun(server.Client, never)())
	metav1.SetMetaDataAnnotation(&used.ObjectMeta, wellknown.AllowDeletionAnnotation, "true")
	must(t, server.Client.Update(ctx, used))
	must(t, dryRun(server.Client, used)())
}
