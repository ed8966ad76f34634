//go:build env

package consoleplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	consolev1 "github.com/openshift/api/console/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

var server *env.Env

func TestMain(m *testing.M) {
	utilruntime.Must(configv1.Install(clientgoscheme.Scheme))
	utilruntime.Must(consolev1.Install(clientgoscheme.Scheme))
	folder, err := os.MkdirTemp("", "crds")
	utilruntime.Must(err)
	env.Main(m, func(e *env.Env) { server = e },
		append(env.ConsoleCRDs(), env.APIServerCRD(), env.ClusterVersionCRD(folder))...)
}

// notes records events.
type notes struct{ said []string }

func (n *notes) Eventf(about, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	n.said = append(n.said, fmt.Sprintf("%T %s %s ", about, eventType, reason)+fmt.Sprintf(note, args...))
}

// world is an installation in its own namespace with a controller that has only the operator's permissions. Tests call
// the controller directly.
type world struct {
	*testing.T
	api        client.Client
	spy        *env.Spy
	notes      *notes
	controller *Controller
	operator   *appsv1.Deployment
	role       *rbacv1.ClusterRole
}

func newWorld(t *testing.T, nodes ...string) *world {
	t.Helper()
	w := &world{T: t, api: server.Client, notes: &notes{}}
	namespace := strings.ToLower(t.Name())
	w.make(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for _, name := range nodes {
		w.make(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	w.role = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "lvms-operator.v0.1.0-x",
		Labels: map[string]string{
			"olm.owner": "lvms-operator.v0.1.0", "olm.owner.namespace": namespace,
			"olm.owner.kind": "ClusterServiceVersion"}}}
	w.make(w.role)
	labels := map[string]string{"app.kubernetes.io/name": installed.Name, "app.kubernetes.io/part-of": "lvms"}
	w.operator = &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: installed.Name,
			Labels: map[string]string{"app.kubernetes.io/name": installed.Name, "app.kubernetes.io/part-of": "lvms"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
					"target.workload.openshift.io/management": "x",
					"kubectl.kubernetes.io/default-container": "manager"}},
				Spec: corev1.PodSpec{
					Containers:  []corev1.Container{{Name: "manager", Image: "operator"}},
					Tolerations: []corev1.Toleration{{Key: "infra", Operator: corev1.TolerationOpExists}},
					Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
						RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
							NodeSelectorTerms: []corev1.NodeSelectorTerm{
								{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu",
									Operator: corev1.NodeSelectorOpDoesNotExist}}}}}}},
				},
			},
		},
	}
	for key, value := range w.role.Labels {
		w.operator.Labels[key] = value
	}
	w.make(w.operator)
	w.spy = server.OperatorSpy(w, namespace)
	w.controller = New(w.spy, w.spy, w.notes, Options{Namespace: namespace, Image: "image@sha256:1", TLSProfile: true})
	t.Cleanup(func() {
		for _, o := range []client.Object{w.role, plugin(), quickStart(),
			&configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}} {
			w.must(client.IgnoreNotFound(w.api.Delete(context.Background(), o)))
		}
		for _, name := range nodes {
			w.must(client.IgnoreNotFound(w.api.Delete(context.Background(),
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})))
		}
	})
	return w
}

func plugin() *consolev1.ConsolePlugin {
	return &consolev1.ConsolePlugin{ObjectMeta: metav1.ObjectMeta{Name: PluginName}}
}

func quickStart() *consolev1.ConsoleQuickStart {
	return &consolev1.ConsoleQuickStart{ObjectMeta: metav1.ObjectMeta{Name: quickStartName}}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) make(o client.Object) {
	w.Helper()
	w.must(w.api.Create(w.Context(), o))
}

func (w *world) read(o client.Object) {
	w.Helper()
	key := client.ObjectKey{Namespace: w.operator.Namespace, Name: Name}
	if o.GetName() != "" {
		key = client.ObjectKey{Name: o.GetName()}
	}
	w.must(w.api.Get(w.Context(), key, o))
}

func (w *world) exists(o client.Object) bool {
	w.Helper()
	key := client.ObjectKey{Namespace: w.operator.Namespace, Name: Name}
	if o.GetName() != "" {
		key = client.ObjectKey{Name: o.GetName()}
	}
	err := w.api.Get(w.Context(), key, o)
	if !apierrors.IsNotFound(err) {
		w.must(err)
	}
	return err == nil
}

// look reconciles once and returns the writes.
func (w *world) look() ([]string, error) {
	_, err := w.controller.Reconcile(w.Context(), reconcile.Request{})
	return w.spy.Writes(), err
}

func (w *world) deployment() *appsv1.Deployment {
	w.Helper()
	d := &appsv1.Deployment{}
	w.read(d)
	return d
}

// The operator's own permissions are sufficient, a second reconcile writes nothing, and all objects are deleted with
// the operator.
func TestThePluginIsServed(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	want := []string{"apply ServiceAccount " + Name, "apply Service " + Name, "apply NetworkPolicy " + Name,
		"apply Deployment " + Name, "apply PodDisruptionBudget " + Name,
		"apply ConsoleQuickStart " + quickStartName, "apply ConsolePlugin " + PluginName}
	if writes, err := w.look(); err != nil || !slices.Equal(writes, want) {
		t.Errorf("wrote %q, %v, want %q", writes, err, want)
	}
	if writes, err := w.look(); err != nil || len(writes) != 0 {
		t.Errorf("a second look wrote %q, %v", writes, err)
	}
	for _, o := range []client.Object{&appsv1.Deployment{}, &corev1.ServiceAccount{}, &corev1.Service{},
		&networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{}} {
		w.read(o)
		owners := o.GetOwnerReferences()
		if len(owners) != 1 || owners[0].UID != w.operator.UID || o.GetLabels()["olm.owner"] != "" ||
			o.GetLabels()["app.kubernetes.io/part-of"] != "lvms" {
			t.Errorf("%T has the owners %v and the labels %v", o, owners, o.GetLabels())
		}
	}
	for _, o := range []client.Object{plugin(), quickStart()} {
		w.read(o)
		if owners := o.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != w.role.UID ||
			owners[0].BlockOwnerDeletion != nil {
			t.Errorf("%T has the owners %v", o, owners)
		}
	}
	if len(w.notes.said) != 0 {
		t.Errorf("said %q", w.notes.said)
	}

	d := w.deployment()
	service := &corev1.Service{}
	made := plugin()
	w.read(service)
	w.read(made)
	backend := made.Spec.Backend.Service
	if backend.Name != service.Name || backend.Namespace != service.Namespace ||
		backend.Port != service.Spec.Ports[0].Port || made.Spec.I18n.LoadType != consolev1.Preload {
		t.Errorf("the console is sent to %v, and loads translations %q", backend, made.Spec.I18n.LoadType)
	}
	pod := d.Spec.Template
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the Service does not find Pods with the labels %v", pod.Labels)
		}
	}
	secret := service.Annotations[servingCert]
	if volume := pod.Spec.Volumes[0]; volume.Secret.SecretName != secret || volume.Secret.Optional != nil {
		t.Errorf("the certificate of the Service is in %q, and mounted is %+v", secret, volume)
	}
	if pod.Labels["app.kubernetes.io/name"] == w.operator.Spec.Selector.MatchLabels["app.kubernetes.io/name"] {
		t.Error("its Pods would be taken for the operator's")
	}
	expect.Equal(t, "Spec.Replicas", *d.Spec.Replicas, 2)
	expect.Equal(t, "len(pod.Spec.Tolerations)", len(pod.Spec.Tolerations), 1)
	expect.NotZero(t, "Spec.Affinity.NodeAffinity", pod.Spec.Affinity.NodeAffinity)
	expect.Equal(t, "len(pod.Annotations)", len(pod.Annotations), 1)
	expect.Equal(t, "Spec.Containers[0].Image", pod.Spec.Containers[0].Image, "image@sha256:1")
}

// The API server enforces the Pod Security level restricted, and the Pods have no token.
func TestItsPodsAreRestricted(t *testing.T) {
	w := newWorld(t, "a")
	_, err := w.look()
	w.must(err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restricted",
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	w.make(namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "x"},
		Spec: w.deployment().Spec.Template.Spec}
	w.must(w.api.Create(t.Context(), pod.DeepCopy(), client.DryRunAll))
	container := pod.Spec.Containers[0]
	if *pod.Spec.AutomountServiceAccountToken || !*container.SecurityContext.ReadOnlyRootFilesystem ||
		container.Resources.Requests.Memory().IsZero() {
		t.Errorf("got %+v", pod.Spec)
	}
	pod.Spec.SecurityContext.RunAsNonRoot = nil
	if err := w.api.Create(t.Context(), pod, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("got %v: the level is not enforced here", err)
	}
	policy := &networkingv1.NetworkPolicy{}
	w.read(policy)
	from := policy.Spec.Ingress[0].From
	expect.Equal(t, "len(policy.Spec.Ingress)", len(policy.Spec.Ingress), 1)
	if len(from) != 1 {
		t.Fatalf("got %+v", policy.Spec)
	}
	expect.Equal(t, `from[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]`,
		from[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"], "openshift-console")
	expect.NotZero(t, "from[0].PodSelector", from[0].PodSelector)
	expect.Equal(t, "len(policy.Spec.Egress)", len(policy.Spec.Egress), 0)
	expect.Equal(t, "Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)",
		slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress), true)
}

// There is one Pod for each node, at most two, and a PodDisruptionBudget if there are two.
func TestReplicasFollowTheNodes(t *testing.T) {
	w := newWorld(t, "a")
	replicas := func() string {
		t.Helper()
		for range 2 {
			_, err := w.look()
			w.must(err)
		}
		return fmt.Sprint(*w.deployment().Spec.Replicas, w.exists(&policyv1.PodDisruptionBudget{}))
	}
	if got := replicas(); got != "1 false" {
		t.Errorf("got %s on a single node", got)
	}
	w.make(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"gpu": "true"}}})
	if got := replicas(); got != "1 false" {
		t.Errorf("got %s with a node on which the operator does not run", got)
	}
	w.make(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	if got := replicas(); got != "2 true" {
		t.Errorf("got %s on two nodes", got)
	}
	for _, name := range []string{"b", "c"} {
		w.must(w.api.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	if got := replicas(); got != "1 false" {
		t.Errorf("got %s when the other node is gone", got)
	}
}

func TestWhatSomebodyChangesIsChangedBack(t *testing.T) {
	w := newWorld(t, "a")
	_, err := w.look()
	w.must(err)
	w.must(w.api.Delete(t.Context(), plugin()))
	w.must(w.api.Delete(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.operator.Namespace, Name: Name}}))
	w.must(w.api.Patch(t.Context(), w.deployment(),
		client.RawPatch("application/merge-patch+json",
			[]byte(`{"spec":{"replicas":0,"template":{"spec":{"automountServiceAccountToken":true}}}}`))))
	w.must(w.api.Patch(t.Context(), quickStart(),
		client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"displayName":"other"}}`))))
	_, err = w.look()
	w.must(err)
	w.read(plugin())
	w.read(&corev1.Service{})
	changed := quickStart()
	w.read(changed)
	if d := w.deployment(); *d.Spec.Replicas != 1 || *d.Spec.Template.Spec.AutomountServiceAccountToken ||
		changed.Spec.DisplayName == "other" {
		t.Errorf("got %+v, %s", d.Spec, changed.Spec.DisplayName)
	}
}

// An upgrade with OLM creates a new ClusterRole. The cluster-scoped objects get an owner reference to it before OLM
// deletes the old one.
func TestAnUpgradeKeepsThePlugin(t *testing.T) {
	w := newWorld(t, "a")
	_, err := w.look()
	w.must(err)
	next := w.upgrade()
	_, err = w.look()
	w.must(err)
	w.ownedBy(next)
}

// The new Pod of an upgrade gives the cluster-scoped objects their new owner also if the leader, which is the old Pod,
// does not: OLM deletes the old owner when the new Pod is ready.
func TestANewPodKeepsThePluginBeforeItIsReady(t *testing.T) {
	w := newWorld(t, "a")
	_, err := w.look()
	w.must(err)
	before := plugin()
	w.read(before)
	next := w.upgrade()
	spy := server.OperatorSpy(w, w.operator.Namespace)
	pod := New(spy, spy, nil, Options{Namespace: w.operator.Namespace, Image: "image@sha256:2"})
	away := errors.New("away")
	spy.Fail = func(verb string, object any) error {
		if _, is := object.(*metav1.PartialObjectMetadataList); is && verb == "list" {
			return away
		}
		return nil
	}
	if err := pod.ApplyClusterScoped(t.Context()); !errors.Is(err, away) || len(spy.Writes()) > 0 {
		t.Errorf("the read of the ClusterRoles fails: got %v", err)
	}
	spy.Fail = nil
	for range 2 {
		w.must(pod.ApplyClusterScoped(t.Context()))
		w.ownedBy(next)
	}
	after := plugin()
	w.read(after)
	if after.UID != before.UID || w.deployment().Spec.Template.Spec.Containers[0].Image != "image@sha256:1" {
		t.Errorf("a Pod that is not the leader changed more: %v", spy.Writes())
	}
	w.must(w.api.Delete(t.Context(), w.operator))
	if err := pod.ApplyClusterScoped(t.Context()); err != nil {
		t.Errorf("the operator is being removed: %v", err)
	}
}

// upgrade does what OLM does first: it creates the ClusterRole of the next version, and changes the labels of the
// operator's Deployment.
func (w *world) upgrade() *rbacv1.ClusterRole {
	w.Helper()
	next := w.role.DeepCopy()
	next.ObjectMeta = metav1.ObjectMeta{Name: "lvms-operator.v0.2.0-x", Labels: map[string]string{
		"olm.owner": "lvms-operator.v0.2.0", "olm.owner.namespace": w.operator.Namespace,
		"olm.owner.kind": "ClusterServiceVersion"}}
	w.make(next)
	w.Cleanup(func() { _ = w.api.Delete(context.Background(), next) })
	w.must(w.api.Patch(w.Context(), w.operator, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"olm.owner":"lvms-operator.v0.2.0"}}}`))))
	return next
}

// ownedBy checks that the ClusterRole is the only owner of the cluster-scoped objects.
func (w *world) ownedBy(role *rbacv1.ClusterRole) {
	w.Helper()
	for _, o := range []client.Object{plugin(), quickStart()} {
		w.read(o)
		if owners := o.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != role.UID {
			w.Errorf("%T has the owners %v", o, owners)
		}
	}
}

func TestTLSFollowsTheClustersProfile(t *testing.T) {
	w := newWorld(t, "a")
	args := func() string {
		t.Helper()
		return strings.Join(w.deployment().Spec.Template.Spec.Containers[0].Args, " ")
	}
	_, err := w.look()
	w.must(err)
	if got := args(); !strings.Contains(got, "--tls-min-version=VersionTLS12 --tls-ciphers=") ||
		!strings.Contains(got, "ECDHE-RSA-AES128-GCM-SHA256") {
		t.Errorf("without an APIServer object: %s", got)
	}
	profile := &configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: configv1.APIServerSpec{
		TLSSecurityProfile: &configv1.TLSSecurityProfile{Type: configv1.TLSProfileModernType,
			Modern: &configv1.ModernTLSProfile{}}}}
	w.make(profile)
	_, err = w.look()
	w.must(err)
	if got := args(); !strings.Contains(got, "VersionTLS13") {
		t.Errorf("Modern: %s", got)
	}
	profile.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{Type: configv1.TLSProfileCustomType,
		Custom: &configv1.CustomTLSProfile{
			TLSProfileSpec: configv1.TLSProfileSpec{MinTLSVersion: configv1.VersionTLS12,
				Ciphers: []string{"RC4-SHA"}}}}
	w.must(w.api.Update(t.Context(), profile))
	if _, err := w.look(); err == nil || !strings.Contains(err.Error(), "RC4-SHA") ||
		!strings.Contains(args(), "VersionTLS13") {
		t.Errorf("one that cannot be served: got %v, %s", err, args())
	}
}

// A failed read is neither empty nor absent. One event on the operator's Deployment reports it.
func TestAFailedReadIsToldAndChangesNothing(t *testing.T) {
	w := newWorld(t, "a", "b")
	_, err := w.look()
	w.must(err)
	away := errors.New("away")
	for name, fails := range map[string]func(object any) bool{
		"nodes":        func(object any) bool { _, is := object.(*corev1.NodeList); return is },
		"ClusterRoles": func(object any) bool { _, is := object.(*metav1.PartialObjectMetadataList); return is },
		"the profile":  func(object any) bool { _, is := object.(*configv1.APIServer); return is },
	} {
		w.notes.said = nil
		w.spy.Fail = func(verb string, object any) error {
			if (verb == "get" || verb == "list") && fails(object) {
				return fmt.Errorf("%s: %w", name, away)
			}
			return nil
		}
		for range 2 {
			if writes, err := w.look(); !errors.Is(err, away) || len(writes) != 0 {
				t.Errorf("%s: wrote %q, %v", name, writes, err)
			}
		}
		if len(w.notes.said) != 1 || !strings.Contains(w.notes.said[0],
			"*v1.Deployment Warning ConsolePluginIncomplete") || !strings.Contains(w.notes.said[0], "away") {
			t.Errorf("%s: said %q", name, w.notes.said)
		}
	}
	w.spy.Fail = nil
	if _, err := w.look(); err != nil || *w.deployment().Spec.Replicas != 2 {
		t.Errorf("got %v", err)
	}
}

// The console gets the build for its version, also after an upgrade, and after an operator that knew only one build. A
// version that cannot be read changes nothing.
func TestTheConsoleGetsTheBuildForItsVersion(t *testing.T) {
	w := newWorld(t, "a")
	path := func() string {
		t.Helper()
		p := plugin()
		w.read(p)
		return p.Spec.Backend.Service.BasePath
	}
	expect := func(what, want string) {
		t.Helper()
		_, err := w.look()
		w.must(err)
		if got := path(); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
		if writes, err := w.look(); err != nil || len(writes) != 0 {
			t.Errorf("%s: a second look wrote %q, %v", what, writes, err)
		}
	}
	cluster := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: versionName},
		Spec: configv1.ClusterVersionSpec{ClusterID: "2a1d4d3c-0000-4000-8000-000000000000"}}
	t.Cleanup(func() { w.must(client.IgnoreNotFound(w.api.Delete(context.Background(), cluster))) })
	expect("not OpenShift", currentPath)
	w.make(cluster)
	history := func(updates ...configv1.UpdateHistory) {
		t.Helper()
		for i := range updates {
			updates[i].StartedTime = metav1.Now()
		}
		cluster.Status = configv1.ClusterVersionStatus{History: updates,
			Desired: configv1.Release{Version: updates[0].Version}}
		w.must(w.api.Status().Update(t.Context(), cluster))
	}
	expect("no version yet", currentPath)
	history(update(configv1.CompletedUpdate, "4.21.7"))
	expect("4.21", legacyPath)
	w.must(w.api.Patch(t.Context(), plugin(), client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"backend":{"service":{"basePath":"/"}}}}`)), client.FieldOwner("earlier")))
	expect("the path of an earlier operator", legacyPath)

	w.spy.Fail = func(_ string, object any) error {
		if _, is := object.(*configv1.ClusterVersion); is {
			return errors.New("away")
		}
		return nil
	}
	history(update(configv1.CompletedUpdate, "4.22.0"), update(configv1.CompletedUpdate, "4.21.7"))
	for range 2 {
		if writes, err := w.look(); err == nil || !strings.Contains(err.Error(), "away") || len(writes) != 0 ||
			path() != legacyPath {
			t.Errorf("unreadable: wrote %q, %v, has %s", writes, err, path())
		}
	}
	w.must(w.api.Delete(t.Context(), plugin()))
	if _, err := w.look(); err == nil || w.exists(plugin()) {
		t.Errorf("unreadable, and there is no plugin: got one, %v", err)
	}
	w.spy.Fail = nil
	expect("4.22", currentPath)
}

// If there is no owner for cluster-scoped objects, the operator creates only the others.
func TestNothingIsMadeThatNobodyWouldRemove(t *testing.T) {
	w := newWorld(t, "a")
	w.must(w.api.Delete(t.Context(), w.role))
	if _, err := w.look(); err == nil || !strings.Contains(err.Error(), "no ClusterRole") {
		t.Errorf("got %v", err)
	}
	if w.exists(plugin()) || w.exists(quickStart()) || !w.exists(&appsv1.Deployment{}) {
		t.Error("got the plugin, or no Deployment")
	}
	if said := strings.Join(w.notes.said, "\n"); !strings.Contains(said, "reinstall the operator") {
		t.Errorf("said %q", said)
	}
}

func TestNothingIsMadeWhenTheOperatorGoes(t *testing.T) {
	w := newWorld(t, "a")
	w.must(w.api.Delete(t.Context(), w.operator))
	if writes, err := w.look(); err != nil || len(writes) != 0 {
		t.Errorf("wrote %q, %v", writes, err)
	}
}

// Pods wait for their certificate or for something else. The Deployment's controller reports it after the deadline.
func TestPodsThatDoNotRunAreTold(t *testing.T) {
	w := newWorld(t, "a")
	_, err := w.look()
	w.must(err)
	status := func(condition appsv1.DeploymentCondition, available int32) {
		t.Helper()
		d := w.deployment()
		d.Status = appsv1.DeploymentStatus{Replicas: available, ReadyReplicas: available, AvailableReplicas: available,
			Conditions: []appsv1.DeploymentCondition{condition}}
		w.must(w.api.Status().Update(t.Context(), d))
		_, err := w.look()
		w.must(err)
	}
	stuck := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse,
		Reason: "ProgressDeadlineExceeded", Message: "timed out progressing"}
	status(stuck, 1)
	if len(w.notes.said) != 0 {
		t.Errorf("one still serves, and it said %q", w.notes.said)
	}
	status(stuck, 0)
	status(stuck, 0)
	if len(w.notes.said) != 1 || !strings.Contains(w.notes.said[0], "ConsolePluginUnavailable") ||
		!strings.Contains(w.notes.said[0], "timed out progressing") {
		t.Errorf("said %q", w.notes.said)
	}
}
