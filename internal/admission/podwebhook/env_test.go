//go:build env

package podwebhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	podwebhookrole "github.com/lvm-storage/lvm-operator/config/pod-webhook"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// fixed is a certificate that a test can replace.
type fixed struct {
	certificate *tls.Certificate
	err         error
}

func (f *fixed) Current() (*tls.Certificate, error) { return f.certificate, f.err }

// issue returns a self-signed certificate for a server.
func issue(t *testing.T, now time.Time, hosts ...string) *tls.Certificate {
	t.Helper()
	pair, err := pki.SelfSigned(pki.ServerRequest(now, 24*time.Hour, hosts...))
	must(t, err)
	certificate, err := pair.TLS()
	must(t, err)
	return &certificate
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// roles applies config/pod-webhook, or deletes it.
func roles(t *testing.T, do func(context.Context, client.Object) error) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(podwebhookrole.Role), 1024)
	for range 2 {
		object := &unstructured.Unstructured{}
		must(t, decoder.Decode(object))
		must(t, do(t.Context(), object))
	}
}

func createRoles(t *testing.T) {
	roles(t, func(ctx context.Context, o client.Object) error { return server.Client.Create(ctx, o) })
}

func deleteRoles(t *testing.T) {
	roles(t, func(ctx context.Context, o client.Object) error { return server.Client.Delete(ctx, o) })
}

// registration returns a registration with the operator's permissions.
func registration(t *testing.T, certificate servingcert.Source, enabled bool) (*Registration, *env.Spy) {
	t.Helper()
	config, err := server.AsOperator(env.Namespace)
	must(t, err)
	spy, err := env.NewSpy(config)
	must(t, err)
	return NewRegistration(Options{Client: spy, Namespace: env.Namespace, Certificate: certificate,
		Enabled: enabled}), spy
}

func TestTheRegistrationFollowsTheOption(t *testing.T) {
	ctx := t.Context()
	names := pki.ServiceNames(env.Namespace, "lvms-operator-webhook-service")
	source := &fixed{certificate: issue(t, time.Now(), names...)}
	on, spy := registration(t, source, true)
	writes := func(r *Registration, spy *env.Spy, want ...string) {
		t.Helper()
		must(t, r.ensure(ctx))
		if got := spy.Writes(); !slices.Equal(got, want) {
			t.Errorf("wrote %q, want %q", got, want)
		}
	}
	refuses := func(says string) {
		t.Helper()
		if err := on.ensure(ctx); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
		if got := spy.Writes(); len(got) > 0 {
			t.Errorf("wrote %q", got)
		}
	}
	off, offSpy := registration(t, source, false)
	writes(off, offSpy)
	refuses("ClusterRole lvms-operator-pod-webhook does not exist: apply config/pod-webhook")

	createRoles(t)
	source.err = errors.New("no certificate yet")
	refuses("no certificate yet")
	source.err = nil
	for _, verb := range []string{"list", "get"} {
		spy.Fail = func(v string, _ any) error {
			if v == verb {
				return errors.New("no answer")
			}
			return nil
		}
		refuses("no answer")
	}
	spy.Fail = nil
	writes(on, spy, "apply MutatingWebhookConfiguration lvms-pod-webhook")
	writes(on, spy)
	first := registered(t)
	role := &rbacv1.ClusterRole{}
	must(t, server.Client.Get(ctx, client.ObjectKey{Name: RoleName}, role))
	if owners := first.OwnerReferences; len(owners) != 1 || owners[0].UID != role.UID {
		t.Errorf("owners %v", owners)
	}
	webhook := first.Webhooks[0]
	if webhook.Name != "pod-hook.topolvm.io" || *webhook.FailurePolicy != admissionv1.Ignore ||
		*webhook.ClientConfig.Service.Path != "/pod/mutate" ||
		webhook.ClientConfig.Service.Name != "lvms-operator-webhook-service" {
		t.Errorf("registered %v", webhook)
	}

	source.certificate = issue(t, time.Now(), names...)
	writes(on, spy, "apply MutatingWebhookConfiguration lvms-pod-webhook")
	writes(on, spy)
	if n := strings.Count(string(registered(t).Webhooks[0].ClientConfig.CABundle), "BEGIN"); n != 2 {
		t.Errorf("%d certificates", n)
	}

	offSpy.Fail = func(verb string, _ any) error {
		if verb == "delete" {
			return errors.New("no answer")
		}
		return nil
	}
	if err := off.ensure(ctx); err == nil || !strings.Contains(err.Error(), "delete MutatingWebhookConfiguration") {
		t.Errorf("error %v", err)
	}
	offSpy.Fail = nil
	offSpy.Writes()
	must(t, off.Start(ctx)) // It ends by itself.
	must(t, off.ensure(ctx))
	left := &admissionv1.MutatingWebhookConfigurationList{}
	must(t, server.Client.List(ctx, left))
	if len(left.Items) > 0 {
		t.Errorf("%d registrations are left", len(left.Items))
	}
	deleteRoles(t)
}

func registered(t *testing.T) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	object := &admissionv1.MutatingWebhookConfiguration{}
	must(t, server.Client.Get(t.Context(), client.ObjectKey{Name: ConfigurationName}, object))
	return object
}

// serve serves the webhook at a free port, and returns its URL.
func serve(t *testing.T, handler http.Handler, certificate servingcert.Source) string {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	servingcert.Configure(certificate)(config)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	must(t, err)
	s := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(func() { _ = s.Close() })
	return "https://127.0.0.1:" + strconv.Itoa(listener.Addr().(*net.TCPAddr).Port) + Path
}

// reach makes the API server call the registered webhook at a URL: no Service works here.
func reach(t *testing.T, url string) {
	t.Helper()
	object := registered(t)
	object.Webhooks[0].ClientConfig.Service = nil
	object.Webhooks[0].ClientConfig.URL = &url
	must(t, server.Client.Update(t.Context(), object))
}

// The webhook handles the cases of TopoLVM's tests on a real API server, with the registration of the operator.
func TestTheAPIServerCallsTheWebhook(t *testing.T) {
	ctx := t.Context()
	api := server.Client
	source := &fixed{certificate: issue(t, time.Now(), append(pki.ServiceNames(env.Namespace, "x"), "127.0.0.1")...)}
	createRoles(t)
	t.Cleanup(func() {
		object := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}}
		_ = api.Delete(context.Background(), object)
	})
	on, _ := registration(t, source, true)
	must(t, on.ensure(ctx))
	config, err := server.AsOperator(env.Namespace)
	must(t, err)
	operator, err := client.New(config, client.Options{})
	must(t, err)
	mux := http.NewServeMux()
	calls := make(chan struct{}, 100)
	webhook := &admission.Webhook{Handler: New(operator, operator)}
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		calls <- struct{}{}
		webhook.ServeHTTP(w, r)
	})
	url := serve(t, mux, source)
	reach(t, url)

	for _, name := range []string{testNamespace, "ignored"} {
		must(t, api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	for _, class := range storageClasses() {
		must(t, api.Create(ctx, class))
	}
	for _, claim := range claims() {
		phase, other := phases[claim.Name]
		must(t, api.Create(ctx, claim))
		if other {
			claim.Status.Phase = phase
			must(t, api.Status().Update(ctx, claim))
		}
	}
	waitCalled(t, calls)
	for name, test := range cases {
		t.Run(name, func(t *testing.T) { isMarked(t, create(t, podOf(test.volumes)), test.want) })
	}
	t.Run("existing resources are kept", func(t *testing.T) {
		pod := podOf(usesClaims("pvc1"))
		memory := corev1.ResourceList{"memory": resource.MustParse("100Mi")}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: memory, Limits: memory.DeepCopy()}
		created := create(t, pod)
		isMarked(t, created, marks{"dc1": 100 * gib})
		if got := created.Spec.Containers[0].Resources.Requests.Memory().String(); got != "100Mi" {
			t.Errorf("memory %s", got)
		}
	})
	t.Run("namespaces can opt out", func(t *testing.T) {
		optsOut(t)
	})
	t.Run("only Pods with claims need the operator", func(t *testing.T) {
		for len(calls) > 0 {
			<-calls
		}
		create(t, podOf(cases["other volumes"].volumes))
		if len(calls) > 0 {
			t.Error("called for a Pod without claims")
		}
	})
	t.Run("an operator that is away blocks no Pod", func(t *testing.T) {
		reach(t, "https://127.0.0.1:1"+Path)
		var pod *corev1.Pod
		for range 100 { // until the API server has the change
			if pod = create(t, podOf(usesClaims("pvc1"))); pod.Annotations == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("still marked: %v", pod.Annotations)
	})
}

// waitCalled waits until the API server calls the webhook.
func waitCalled(t *testing.T, calls chan struct{}) {
	t.Helper()
	for range 100 {
		create(t, podOf(usesClaims("pvc1")))
		if len(calls) > 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the API server does not call the webhook")
}

// create creates a Pod, and deletes it.
func create(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pod.Spec.AutomountServiceAccountToken = ptr.To(false)
	must(t, server.Client.Create(t.Context(), pod))
	must(t, server.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	return pod
}

func isMarked(t *testing.T, pod *corev1.Pod, want marks) {
	t.Helper()
	if len(pod.Annotations) != len(want) {
		t.Errorf("annotations %v, want %v", pod.Annotations, want)
	}
	for class, size := range want {
		if got := pod.Annotations["capacity.topolvm.io/"+class]; got != strconv.FormatInt(size, 10) {
			t.Errorf("%s: %s, want %d", class, got, size)
		}
	}
	for i := range pod.Spec.Containers {
		resources := pod.Spec.Containers[i].Resources
		for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
			got, found := list["topolvm.io/capacity"]
			if found != (want != nil && i == 0) || found && got.Value() != 1 {
				t.Errorf("container %d has %v", i, list)
			}
		}
	}
}

// optsOut checks that Pods of a namespace with the label, and of the operator's, are not marked.
func optsOut(t *testing.T) {
	ctx := t.Context()
	ignored := &corev1.Namespace{}
	must(t, server.Client.Get(ctx, client.ObjectKey{Name: "ignored"}, ignored))
	ignored.Labels = map[string]string{"topolvm.io/webhook": "ignore", corev1.LabelMetadataName: "ignored"}
	must(t, server.Client.Update(ctx, ignored))
	unmarked := func(namespace string) bool {
		pod := podOf([]corev1.Volume{ephemeral("topolvm-provisioner", gib)})
		pod.Namespace = namespace
		return create(t, pod).Annotations == nil
	}
	if !unmarked(env.Namespace) || !unmarked(metav1.NamespaceSystem) {
		t.Error("a Pod of the operator's namespace or of kube-system is marked")
	}
	for range 100 { // until the API server has the label
		if unmarked("ignored") {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Error("a Pod of a namespace that opted out is marked")
}
