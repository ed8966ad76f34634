//go:build env

package agentaccess

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// create creates objects, and deletes them when the test ends.
func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := server.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := server.Client.Delete(context.Background(), object, client.GracePeriodSeconds(0)); err != nil {
				t.Error(err)
			}
		})
	}
}

// tokens returns configurations with the tokens of the agents of two nodes, and with one that is not bound to a Pod.
// The API server itself tells the policies for which node a token is.
func tokens(t *testing.T) (own, other, unbound *rest.Config) {
	t.Helper()
	// It also installs the roles and the policies.
	if _, err := server.AsNodeAgent("n1"); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "vg-manager"}}
	create(t, account)
	configuration := func(pod *corev1.Pod) *rest.Config {
		request := &authenticationv1.TokenRequest{}
		if pod != nil {
			request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1",
				Name: pod.Name, UID: pod.UID}
		}
		if err := server.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
			t.Fatal(err)
		}
		config := rest.AnonymousClientConfig(server.Config)
		config.BearerToken = request.Status.Token
		config.QPS = -1
		return config
	}
	onNode := func(node string) *rest.Config {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "agent-" + node},
			Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: account.Name,
				Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		create(t, pod)
		return configuration(pod)
	}
	return onNode("n1"), onNode("n2"), configuration(nil)
}

// newObjects creates the objects of the changes by their names.
func newObjects(t *testing.T) map[string]client.Object {
	t.Helper()
	volume := func(name string, annotations map[string]string) *topolvmv1.LogicalVolume {
		return &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: "n1", DeviceClass: "a",
				Size: resource.MustParse("1Gi")}}
	}
	apart := volume("apart", map[string]string{wellknown.SpreadAnnotation: "node:required:a/b"})
	apart.Labels = map[string]string{wellknown.SpreadGroupHashLabel: "0123"}
	classless := volume("classless", nil)
	classless.Spec.DeviceClass = ""
	recovery := func(name string) *lvmv1alpha1.LVMRecovery {
		return &lvmv1alpha1.LVMRecovery{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: env.Namespace},
			Spec: lvmv1alpha1.LVMRecoverySpec{NodeName: "n1", DeviceClassName: "a",
				Action: lvmv1alpha1.RecoveryRemoveLostDevices}}
	}
	status := func(name string) *lvmv1alpha1.LVMVolumeGroupNodeStatus {
		return &lvmv1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: name,
			Namespace: env.Namespace}}
	}
	objects := map[string]client.Object{
		"lv":        volume("lv", nil),
		"classless": classless,
		"apart":     apart,
		"imported":  volume("imported", map[string]string{wellknown.ImportAnnotation: "existing"}),
		"grouped": volume("grouped", map[string]string{wellknown.GroupPendingAnnotation: "g",
			wellknown.PendingDeletionAnnotation: "group snapshot", wellknown.GroupRequestAnnotation: "{}"}),
		"moved": volume("moved", map[string]string{wellknown.MoveAnnotation: "m", wellknown.FenceAnnotation: "m",
			wellknown.UnfenceAnnotation: "m", wellknown.CopyBaseAnnotation: "s1", wellknown.AdoptAnnotation: "t"}),
		"node": &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"},
			Annotations: map[string]string{"a": "1", "capacity.topolvm.io/b": "2"}}},
		"status": status("n1"), "otherStatus": status("n2"),
		"recovery": recovery("recovery"), "succeeded": recovery("succeeded"),
	}
	for _, object := range objects {
		create(t, object)
	}
	succeeded := objects["succeeded"].(*lvmv1alpha1.LVMRecovery)
	succeeded.Status.Phase = lvmv1alpha1.RecoverySucceeded
	if err := server.Client.Status().Update(t.Context(), succeeded); err != nil {
		t.Fatal(err)
	}
	return objects
}

// try makes a change as a dry run, so that no change depends on another one.
func (c change) try(ctx context.Context, as client.Client, objects map[string]client.Object) error {
	target, found := objects[c.object]
	if !found {
		return fmt.Errorf("there is no object %q", c.object)
	}
	target = target.DeepCopyObject().(client.Object)
	patch := client.RawPatch("application/merge-patch+json",
		[]byte(strings.ReplaceAll(c.body, `"UID"`, `"`+string(target.GetUID())+`"`)))
	if strings.Contains(c.resource, "/status") {
		return as.Status().Patch(ctx, target, patch, client.DryRunAll)
	}
	return as.Patch(ctx, target, patch, client.DryRunAll)
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTheTokenOfAnAgentChangesOnlyTheseObjects tries each row of the changes.
func TestTheTokenOfAnAgentChangesOnlyTheseObjects(t *testing.T) {
	ctx := t.Context()
	objects := newObjects(t)
	ownToken, otherToken, unboundToken := tokens(t)
	own := clientOf(t, ownToken)
	others := map[string]client.Client{"another node": clientOf(t, otherToken), "no node": clientOf(t, unboundToken)}
	byPolicy := func(err error) bool { return err != nil && strings.Contains(err.Error(), "a node agent") }
	// The API server needs a moment to apply roles and policies.
	end := time.Now().Add(env.Patience)
	eventually := func(what string, holds func(error) bool, do func() error) {
		t.Helper()
		for {
			err := do()
			if holds(err) {
				return
			}
			if time.Now().After(end) {
				t.Errorf("%s: got %v", what, err)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	succeeds := func(err error) bool { return err == nil }
	for _, c := range allChanges(t) {
		what := c.resource + ": " + c.what + " " + c.key
		holds := byPolicy
		if c.allowed {
			holds = succeeds
			for name, as := range others {
				eventually(what+" from "+name, byPolicy, func() error { return c.try(ctx, as, objects) })
			}
		}
		eventually(what, holds, func() error { return c.try(ctx, own, objects) })
		// Only the policy refuses it: the change itself is possible.
		if err := c.try(ctx, server.Client, objects); err != nil && !strings.Contains(err.Error(), "mmutable") {
			t.Errorf("%s by an administrator: %v", what, err)
		}
	}
}

// kind is a resource of the API server.
type kind struct {
	group, version, resource string
	namespaced               bool
	// names are those in the permissions, and one that is not.
	names []string
}

// kinds returns the resources of the API server, and those of the permissions that it does not have.
func kinds(t *testing.T, all []permission) []kind {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]kind{}
	for _, list := range lists {
		group, version, isNamed := strings.Cut(list.GroupVersion, "/")
		if !isNamed {
			group, version = "", list.GroupVersion
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			found[resourceOf(group, r.Name)] = kind{group: group, version: version, resource: r.Name,
				namespaced: r.Namespaced}
		}
	}
	for _, p := range all {
		if _, known := found[p.resource]; !known {
			name, group, _ := strings.Cut(p.resource, ".")
			found[p.resource] = kind{group: group, version: "v1", resource: name, namespaced: p.namespace != ""}
		}
	}
	var sorted []kind
	for id, k := range found {
		k.names = []string{"other"}
		for _, p := range all {
			if p.resource == id && p.name != "" {
				k.names = append(k.names, p.name)
			}
		}
		sorted = append(sorted, k)
	}
	slices.SortFunc(sorted, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.resource, b.resource))
	})
	return sorted
}

// request is one request to the API server.
type request struct {
	kind
	verb, namespace, name string
}

// requests returns the requests for a kind: each verb, in each namespace that matters, for each name that matters.
func (k kind) requests() []request {
	namespaces := []string{""}
	if k.namespaced {
		namespaces = []string{env.Namespace, "default"}
	}
	isSub := strings.Contains(k.resource, "/")
	var all []request
	add := func(verb, namespace, name string) { all = append(all, request{k, verb, namespace, name}) }
	for _, namespace := range namespaces {
		for _, name := range k.names {
			for _, verb := range []string{"get", "update", "patch", "delete"} {
				add(verb, namespace, name)
			}
			if isSub {
				add("create", namespace, name)
			}
		}
		if !isSub {
			add("create", namespace, "")
			add("deletecollection", namespace, "")
		}
	}
	if isSub {
		return all
	}
	if k.namespaced {
		namespaces = append(namespaces, "") // in all namespaces
	}
	for _, namespace := range namespaces {
		for _, name := range append([]string{""}, k.names...) {
			add("list", namespace, name)
			add("watch", namespace, name)
		}
	}
	return all
}

// url returns the path and query of a request.
func (r request) url() string {
	path := "/apis/" + r.group
	if r.group == "" {
		path = "/api"
	}
	path += "/" + r.version
	if r.namespace != "" {
		path += "/namespaces/" + r.namespace
	}
	resource, sub, isSub := strings.Cut(r.resource, "/")
	path += "/" + resource
	if r.name != "" && r.verb != "list" && r.verb != "watch" {
		path += "/" + r.name
	}
	if isSub {
		path += "/" + sub
	}
	query := "?dryRun=All"
	if isRead(r.verb) {
		query = "?limit=1"
	}
	if r.verb == "watch" {
		query += "&watch=true&timeoutSeconds=1"
	}
	if r.name != "" && (r.verb == "list" || r.verb == "watch") {
		query += "&fieldSelector=metadata.name%3D" + r.name
	}
	return path + query
}

var methods = map[string]string{"get": http.MethodGet, "list": http.MethodGet, "watch": http.MethodGet,
	"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete,
	"deletecollection": http.MethodDelete}

// permitted sends the request and reports whether the API server permits it. That it cannot be fulfilled is no
// refusal.
func (r request) permitted(ctx context.Context, as *http.Client, host string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var body io.Reader
	if !isRead(r.verb) {
		body = strings.NewReader("{}")
	}
	sent, err := http.NewRequestWithContext(ctx, methods[r.verb], host+r.url(), body)
	if err != nil {
		return false, err
	}
	sent.Header.Set("Content-Type", "application/json")
	if r.verb == "patch" {
		sent.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := as.Do(sent)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusUnauthorized {
		return false, fmt.Errorf("%s: the token is not valid", r.url())
	}
	return response.StatusCode != http.StatusForbidden, nil
}

// want reports whether a permission is for the request.
func (r request) want(all []permission) bool {
	return slices.ContainsFunc(all, func(p permission) bool {
		return p.resource == resourceOf(r.group, r.resource) && slices.Contains(p.verbs, r.verb) &&
			(p.namespace == "" || p.namespace == r.namespace) && (p.name == "" || p.name == r.name)
	})
}

// isForEveryToken reports whether Kubernetes permits a request to everybody: who am I, what may I do, and, since
// version 1.37, which certificates are trusted (ClusterRole system:cluster-trust-bundle-discovery)?
func (r request) isForEveryToken() bool {
	if r.resource == "clustertrustbundles" {
		return slices.Contains([]string{"get", "list", "watch"}, r.verb)
	}
	return r.verb == "create" && strings.HasPrefix(r.resource, "selfsubject")
}

// TestTheTokenOfAnAgentHasOnlyThesePermissions tries each verb on each resource of the API server.
func TestTheTokenOfAnAgentHasOnlyThesePermissions(t *testing.T) {
	token, _, _ := tokens(t)
	agent, err := rest.HTTPClientFor(token)
	if err != nil {
		t.Fatal(err)
	}
	// It follows no redirect, for example to a kubelet.
	agent.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	all := permissions(t)
	granted, refused := 0, 0
	for _, k := range kinds(t, all) {
		for _, r := range k.requests() {
			want := r.want(all) || r.isForEveryToken()
			got, err := r.permitted(t.Context(), agent, token.Host)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("%s %s: permitted is %t, and the page says %t", r.verb, r.url(), got, want)
			}
			if got {
				granted++
			} else {
				refused++
			}
		}
	}
	if granted < 40 || refused < 1000 {
		t.Errorf("%d requests were permitted and %d refused: not all were tried", granted, refused)
	}
}
