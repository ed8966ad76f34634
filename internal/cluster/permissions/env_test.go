//go:build env

package permissions

import (
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/config/rbac"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// The API server answers like the fake of the unit tests: a ServiceAccount with the roles of the installation lacks
// nothing, and removed permissions are listed.
func TestTheAPIServerKnowsWhatWasTaken(t *testing.T) {
	config, err := server.AsOperator(env.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	operator, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	all, err := Of(rbac.Operator, rbac.Namespace, env.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	watch := NewWatch(operator, env.Namespace+"/lvms-operator", all)
	if err := watch.CanStart(t.Context()); err != nil || watch.Err() != nil || watch.missing.Load() == nil {
		t.Fatalf("with all permissions: %v, %v", err, watch.Err())
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "lvms-operator"}}
	clusterRole := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "lvms-operator"}}
	taken := 0
	isTaken := func(resource string) bool { return resource == "daemonsets" || resource == "csinodes" }
	for object, rules := range map[client.Object]*[]rbacv1.PolicyRule{role: &role.Rules,
		clusterRole: &clusterRole.Rules} {
		if err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		var kept []rbacv1.PolicyRule
		for _, rule := range *rules {
			left := slices.DeleteFunc(slices.Clone(rule.Resources), isTaken)
			if len(left) < len(rule.Resources) {
				taken++
			}
			if rule.Resources = left; len(left) == 0 && len(rule.NonResourceURLs) == 0 {
				continue
			}
			kept = append(kept, rule)
		}
		*rules = kept
		if err := server.Client.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if taken != 2 {
		t.Fatalf("%d rules were taken", taken)
	}
	// The API server receives changes of roles with a watch.
	want := []Right{{"watch", "apps", "daemonsets", "", env.Namespace}, {"watch", "storage.k8s.io", "csinodes", "", ""}}
	var missing []Right
	for end := time.Now().Add(env.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if missing, err = Missing(t.Context(), operator, all); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(missing, want[0]) && slices.Contains(missing, want[1]) {
			break
		}
	}
	for _, right := range missing {
		if !isTaken(right.Resource) {
			t.Errorf("%s was not taken", right)
		}
	}
	if err := watch.CanStart(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "does not have permission to list daemonsets.apps in namespace "+env.Namespace) {
		t.Errorf("got %v of %v", err, missing)
	}
}
