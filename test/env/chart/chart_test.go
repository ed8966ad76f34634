//go:build env

// Package chart installs the Helm chart with the helm program on a real API server without the product's CRDs.
package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/env"
)

const (
	chart     = "../../../charts/lvms-operator"
	namespace = "storage"
	release   = "lvms"
	// soon is the time within which the API server applies a change of CRDs and policies.
	soon = time.Minute
)

// world is an API server and a kubeconfig for it.
type world struct {
	*testing.T
	client.Client
	helmProgram, kubeconfig string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, helmProgram: os.Getenv("LVMS_HELM"), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if w.helmProgram == "" {
		t.Fatal("LVMS_HELM is not set: run `make test-long ITEMS=env`, which builds helm")
	}
	env.Reads(t, chart)
	server := &envtest.Environment{}
	config, err := server.Start()
	w.must(err)
	t.Cleanup(func() { w.must(server.Stop()) })
	w.must(os.WriteFile(w.kubeconfig, server.KubeConfig, 0o600))
	scheme := runtime.NewScheme()
	w.must(errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		lvmv1alpha1.AddToScheme(scheme), topolvmv1.AddToScheme(scheme)))
	w.Client, err = client.New(config, client.Options{Scheme: scheme})
	w.must(err)
	w.must(w.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// run runs helm in the namespace and returns what it prints. The home directory is empty.
func (w *world) run(args ...string) (string, error) {
	command := exec.CommandContext(w.Context(), w.helmProgram, append(args, "--namespace", namespace)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig, "HOME="+w.TempDir())
	out, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("helm %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// helm runs helm, which must succeed.
func (w *world) helm(args ...string) string {
	w.Helper()
	out, err := w.run(args...)
	w.must(err)
	return out
}

// refused runs helm, which must fail with a text.
func (w *world) refused(want string, args ...string) {
	w.Helper()
	if _, err := w.run(args...); err == nil || !strings.Contains(err.Error(), want) {
		w.Fatalf("helm %s: got %v, want an error with %q", strings.Join(args, " "), err, want)
	}
}

// get reads an object.
func (w *world) get(name string, object client.Object) error {
	key := client.ObjectKey{Name: name}
	switch object.(type) {
	case *appsv1.Deployment, *lvmv1alpha1.LVMCluster:
		key.Namespace = namespace
	}
	return w.Get(w.Context(), key, object)
}

// eventually waits until an action succeeds.
func (w *world) eventually(action func() error) {
	w.Helper()
	var err error
	for begin := time.Now(); time.Since(begin) < soon; time.Sleep(200 * time.Millisecond) {
		if err = action(); err == nil {
			return
		}
	}
	w.Fatal(err)
}

// text matches the beginning of a description that has one line.
var text = regexp.MustCompile(`(description: )([A-Z])`)

// oldChart is a copy of the chart in which a text of the CRDs is different.
func (w *world) oldChart() string {
	w.Helper()
	old := filepath.Join(w.TempDir(), "lvms-operator")
	w.must(os.CopyFS(old, os.DirFS(chart)))
	w.must(filepath.WalkDir(filepath.Join(old, "templates", "crds"),
		func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, text.ReplaceAll(data, []byte("${1}Old. $2")), 0o644)
		}))
	return old
}

// description returns the description of the kind in a CRD.
func (w *world) description() string {
	w.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	w.must(w.get("lvmclusters.lvm.topolvm.io", crd))
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Description
}

// createStorage creates an LVMCluster and a volume. The webhook is deleted before, because no operator serves it.
func (w *world) createStorage() {
	w.Helper()
	w.must(w.Delete(w.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "lvms-operator-webhook"}}))
	cluster := &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "my-lvmcluster", Namespace: namespace}}
	cluster.Spec.Storage.DeviceClasses = []lvmv1alpha1.DeviceClass{{Name: "vg1", Default: true}}
	w.eventually(func() error { return w.Create(w.Context(), cluster.DeepCopy()) })
	w.must(w.Create(w.Context(), &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"},
		Spec: topolvmv1.LogicalVolumeSpec{Name: "pvc-1", NodeName: "node1", DeviceClass: "vg1"}}))
}

// TestTheChartIsInstalledUpgradedAndUninstalled is the life of a release. While an LVMCluster exists, it cannot be
// uninstalled. CRDs and their objects stay.
func TestTheChartIsInstalledUpgradedAndUninstalled(t *testing.T) {
	w := newWorld(t)
	notes := w.helm("install", release, w.oldChart(), "--set", "image.repository=registry.example.com/lvms-operator")
	if !strings.Contains(notes, "kubectl label --overwrite namespace storage pod-security") {
		t.Errorf("the notes are\n%s", notes)
	}
	webhook := &admissionv1.ValidatingWebhookConfiguration{}
	w.must(w.get("lvms-operator-webhook", webhook))
	webhook.Webhooks[0].ClientConfig.CABundle = []byte(certificate)
	w.must(w.Update(t.Context(), webhook))

	w.helm("upgrade", release, chart, "--reuse-values", "--set", "logLevel=debug")
	if text := w.description(); strings.Contains(text, "Old.") {
		t.Errorf("an upgrade does not change the CRDs: %s", text)
	}
	deployment := &appsv1.Deployment{}
	w.must(w.get("lvms-operator", deployment))
	container := deployment.Spec.Template.Spec.Containers[0]
	if container.Args[1] != "--zap-log-level=debug" ||
		!strings.HasPrefix(container.Image, "registry.example.com/lvms-operator:v") {
		t.Errorf("the Deployment has %s %v", container.Image, container.Args)
	}
	w.must(w.get("lvms-operator-webhook", webhook))
	if string(webhook.Webhooks[0].ClientConfig.CABundle) != certificate {
		t.Error("an upgrade removes the certificate that the operator has set")
	}

	w.createStorage()
	w.refusesToUninstall()
	w.must(w.Delete(t.Context(), &lvmv1alpha1.LVMCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "my-lvmcluster", Namespace: namespace}}))
	w.eventually(func() error { _, err := w.run("uninstall", release); return err })
	if err := w.get("lvms-operator", deployment); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment after an uninstallation: %v", err)
	}
	w.must(w.get("pvc-1", &topolvmv1.LogicalVolume{}))

	w.helm("install", release, chart)
	w.helm("uninstall", release)
	w.refused("cannot be imported into the current release", "install", "other", chart)
	w.helm("install", "other", chart, "--take-ownership")
	w.must(w.get("pvc-1", &topolvmv1.LogicalVolume{}))
}

// refusesToUninstall expects that an uninstallation is refused, changes nothing, and can be withdrawn.
func (w *world) refusesToUninstall() {
	w.Helper()
	const message = "LVMCluster my-lvmcluster exists, and its volumes need the operator: nothing was uninstalled"
	// The API server needs a moment to notice the kind and the LVMCluster.
	w.eventually(func() error {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lvms-helm-uninstall", Namespace: namespace}}
		err := w.Create(w.Context(), probe)
		if err == nil {
			return errors.Join(errors.New("the policy does not apply yet"), w.Delete(w.Context(), probe))
		}
		if !strings.Contains(err.Error(), message) {
			return err
		}
		return nil
	})
	w.refused(message, "uninstall", release)
	w.must(w.get("lvms-operator", &appsv1.Deployment{}))
	w.helm("rollback", release, "2")
	if status := w.helm("status", release); !strings.Contains(status, "STATUS: deployed") {
		w.Errorf("the release has\n%s", status)
	}
	w.helm("upgrade", release, chart, "--reuse-values")
}

// certificate is a self-signed one: the API server refuses other texts.
const certificate = `-----BEGIN CERTIFICATE-----
MIIBdjCCARugAwIBAgIUPk/ZtkJxTZyzlLd/YuPrwvdUAsEwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjUxMTQ3MzlaGA8yMTI2MTEwMTExNDcz
OVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABOx/
BOvVrYLNYslHZdVKCxiO/aAq6bP3SJtZEopVOc/z30Yo7vTCBwoJVeSsEch26jvE
DNgw5wBpgUyvgsCP87mjUzBRMB0GA1UdDgQWBBRHzNdYXr+y9PlJzdYItrm05HH0
vzAfBgNVHSMEGDAWgBRHzNdYXr+y9PlJzdYItrm05HH0vzAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0kAMEYCIQCQEMzr63WX3WRgQxwPuW0dQmeA6RVVmNxH
NLYGHquQigIhALSQ2hTdxdAQaGt/o/Qvy8CIYQ1EID7K+ksC6A/D2/kB
-----END CERTIFICATE-----
`
