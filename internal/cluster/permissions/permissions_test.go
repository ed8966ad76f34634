package permissions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/config/rbac"
)

const roles = `
---
kind: ClusterRole
metadata: {name: o}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}
- {apiGroups: [snapshot.storage.k8s.io], resources: [volumesnapshots/status], verbs: [patch]}
---
kind: Role
metadata: {name: o, namespace: installed}
rules:
- {apiGroups: [apps], resources: [daemonsets], verbs: [list, patch]}
- {apiGroups: [""], resources: [secrets], resourceNames: [cert], verbs: [update]}
---
kind: Role
metadata: {name: o, namespace: kube-public}
rules:
- {apiGroups: [""], resources: [configmaps], resourceNames: [version], verbs: [get]}
`

func TestPermissionsAreThoseOfTheRoles(t *testing.T) {
	for name, tt := range map[string]struct {
		absent []string
		want   []string
	}{
		"all": {nil, []string{
			"get configmaps version in namespace kube-public", "list daemonsets.apps in namespace ns",
			"list nodes in all namespaces",
			"patch daemonsets.apps in namespace ns",
			"patch volumesnapshots.snapshot.storage.k8s.io/status in all namespaces",
			"update secrets cert in namespace ns", "watch nodes in all namespaces",
		}},
		"without snapshots": {[]string{"snapshot.storage.k8s.io"}, []string{
			"get configmaps version in namespace kube-public", "list daemonsets.apps in namespace ns",
			"list nodes in all namespaces",
			"patch daemonsets.apps in namespace ns", "update secrets cert in namespace ns",
			"watch nodes in all namespaces",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, right := range needed(t, tt.absent...) {
				got = append(got, right.String())
			}
			if slices.Sort(got); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if _, err := Of([]byte("rules: 7"), "installed", "ns"); err == nil {
		t.Error("a file that has no roles passes")
	}
}

// The embedded file is the generated one: it has the permissions that the operator needs.
func TestThePermissionsOfTheProgramAreWhole(t *testing.T) {
	all, err := Of(rbac.Operator, rbac.Namespace, "ns")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Right{
		{"watch", "", "persistentvolumeclaims", "", ""}, {"patch", "apps", "daemonsets", "", "ns"},
		{"get", "", "configmaps", "microshift-version", "kube-public"},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is not among them", want)
		}
	}
}

func needed(t *testing.T, absent ...string) []Right {
	t.Helper()
	all, err := Of([]byte(roles), "installed", "ns", absent...)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// apiServer answers reviews. Its list omits hidden permissions, like a server with authorizers that cannot list all of
// them.
type apiServer struct {
	client.Writer
	given, hidden []Right
	fails         error
	single        int
}

func (s *apiServer) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if s.fails != nil {
		return s.fails
	}
	switch review := object.(type) {
	case *authorizationv1.SelfSubjectRulesReview:
		for _, right := range s.given {
			if right.Namespace != "" && right.Namespace != review.Spec.Namespace || slices.Contains(s.hidden, right) {
				continue
			}
			rule := authorizationv1.ResourceRule{Verbs: []string{right.Verb}, APIGroups: []string{right.Group},
				Resources: []string{right.Resource}}
			if right.Name != "" {
				rule.ResourceNames = []string{right.Name}
			}
			review.Status.ResourceRules = append(review.Status.ResourceRules, rule)
		}
	case *authorizationv1.SelfSubjectAccessReview:
		s.single++
		a := review.Spec.ResourceAttributes
		resource := a.Resource
		if a.Subresource != "" {
			resource += "/" + a.Subresource
		}
		review.Status.Allowed = slices.Contains(s.given, Right{a.Verb, a.Group, resource, a.Name, a.Namespace})
	}
	return nil
}

func without(all []Right, verb, resource string) []Right {
	return slices.DeleteFunc(slices.Clone(all), func(r Right) bool { return r.Verb == verb && r.Resource == resource })
}

func TestMissingPermissionsAreNamed(t *testing.T) {
	all := needed(t)
	for name, tt := range map[string]struct {
		server apiServer
		start  string // what prevents the start
		says   string // the error while it runs
	}{
		"none":                      {apiServer{given: all}, "", ""},
		"one that cannot be listed": {apiServer{given: all, hidden: all[:1]}, "", ""},
		"to change something": {apiServer{given: without(all, "patch", "daemonsets")}, "", "ServiceAccount ns/o " +
			"does not have permission to patch daemonsets.apps in namespace ns: its Role or ClusterRole is missing or was " +
			"changed after the installation; restore the permissions"},
		"on a named object": {apiServer{given: without(all, "update", "secrets")}, "",
			"does not have permission to update secrets cert in namespace ns"},
		"on a subresource": {apiServer{given: without(all, "patch", "volumesnapshots/status")}, "",
			"does not have permission to patch volumesnapshots.snapshot.storage.k8s.io/status in all namespaces"},
		"to watch": {apiServer{given: without(all, "watch", "nodes")},
			"does not have permission to watch nodes in all namespaces", "does not have permission to watch nodes in all namespaces"},
		"all of them":                 {apiServer{}, "list daemonsets.apps in namespace ns", "and 2 more"},
		"it cannot be asked: unknown": {apiServer{fails: errors.New("forbidden")}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			watch := NewWatch(&tt.server, "ns/o", all)
			says(t, watch.CanStart(t.Context()), tt.start)
			says(t, watch.Err(), tt.says)
		})
	}
}

func says(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// Listed permissions are not checked one by one: normally there is one request for each namespace.
func TestListedPermissionsAreNotAskedForAgain(t *testing.T) {
	server := &apiServer{given: needed(t)}
	if missing, err := Missing(t.Context(), server, needed(t)); len(missing) > 0 || err != nil || server.single != 0 {
		t.Errorf("missing %v, %v, %d single requests", missing, err, server.single)
	}
}

// Changed receives an event when a permission is removed and when it is granted again, and none in between.
func TestAChangeIsToldOnce(t *testing.T) {
	all := needed(t)
	server := &apiServer{given: all}
	watch := NewWatch(server, "ns/o", all)
	step := func(name string, change func(), told bool, want string) {
		t.Helper()
		change()
		err := watch.ask(t.Context())
		if (err == nil) != (server.fails == nil) {
			t.Errorf("%s: %v", name, err)
		}
		select {
		case event := <-watch.Changed():
			if !told || event.Object == nil {
				t.Errorf("%s: told %v", name, event)
			}
		default:
			if told {
				t.Errorf("%s: not told", name)
			}
		}
		says(t, watch.Err(), want)
	}
	step("all there", func() {}, false, "")
	step("one goes", func() { server.given = without(all, "patch", "daemonsets") }, true, "patch daemonsets.apps")
	step("the same", func() {}, false, "patch daemonsets.apps")
	step("unknown", func() { server.fails = errors.New("away") }, false, "patch daemonsets.apps")
	step("another one too", func() { server.fails, server.given = nil, without(server.given, "list", "nodes") },
		true, "list nodes")
	step("they are back", func() { server.given = all }, true, "")
}

func TestNobodyAsks(t *testing.T) {
	if err := (*Watch)(nil).Err(); err != nil {
		t.Error(err)
	}
}
