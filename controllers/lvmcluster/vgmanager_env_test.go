//go:build env

package lvmcluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/config/rbac"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/internal/cluster/permissions"
)

// refusedPod creates the event that the DaemonSet controller emits if the API server refuses a Pod.
func (w *world) refusedPod(set client.Object, message string, at time.Time) {
	w.Helper()
	w.make(&corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.cluster.Namespace, GenerateName: "refused-"},
		InvolvedObject: corev1.ObjectReference{Kind: "DaemonSet", Namespace: w.cluster.Namespace,
			Name: operand.AgentName, UID: set.GetUID()},
		Type: corev1.EventTypeWarning, Reason: "FailedCreate", Message: message, LastTimestamp: metav1.NewTime(at),
	})
}

// If the namespace does not allow privileged Pods, the LVMCluster says so and what to do, as long as a Pod is missing.
func TestPodsThatAreNotLetInAreExplained(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	_, err := w.reconcile()
	w.must(err)
	set := &appsv1.DaemonSet{}
	w.must(w.get(set, operand.AgentName))
	scheduled := func(current int32) {
		t.Helper()
		set.Status = appsv1.DaemonSetStatus{ObservedGeneration: set.Generation, DesiredNumberScheduled: 2,
			CurrentNumberScheduled: current, UpdatedNumberScheduled: current}
		w.must(w.api.Status().Update(t.Context(), set))
		_, err := w.reconcile()
		w.must(err)
	}
	now := time.Now()
	w.refusedPod(set,
		`Error creating: pods "vg-manager-b" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)`, now)
	w.refusedPod(set, `Error creating: pods "vg-manager-a" is forbidden: exceeded quota: old`, now.Add(-time.Minute))
	w.refusedPod(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{UID: "another"}},
		`Error creating: pods "vg-manager-c" is forbidden: of a DaemonSet that is gone`, now.Add(time.Minute))
	scheduled(0)
	got := w.condition(lvmv1alpha1.ConditionResourcesAvailable)
	for _, want := range []string{"0 of 2 Pods are created",
		"kubectl label --overwrite namespace " + w.cluster.Namespace + " pod-security.kubernetes.io/enforce=privileged",
		`violates PodSecurity "baseline:latest"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	scheduled(2)
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); strings.Contains(got, "PodSecurity") ||
		!strings.Contains(got, "0 of 2 Pods are ready") {
		t.Errorf("all Pods are created: %q", got)
	}
}

// If the operator lacks a permission, it does everything else, and the LVMCluster reports the missing permission until
// it is granted again.
func TestARightThatIsMissingIsInTheStatus(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	config, err := server.AsOperator(w.cluster.Namespace)
	w.must(err)
	operator, err := client.New(config, client.Options{Scheme: w.api.Scheme()})
	w.must(err)
	needed, err := permissions.Of(rbac.Operator, rbac.Namespace, w.cluster.Namespace)
	w.must(err)
	options := w.options()
	options.Permissions = permissions.NewWatch(operator, w.cluster.Namespace+"/lvms-operator", needed)
	w.controller = New(w.spy, w.spy, w.notes, options)
	w.settle()

	role := &rbacv1.Role{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Namespace: w.cluster.Namespace, Name: "lvms-operator"}, role))
	whole := role.DeepCopy()
	for i, rule := range role.Rules {
		if slices.Contains(rule.Resources, "leases") {
			role.Rules[i].Verbs = []string{"get", "create"}
		}
	}
	w.must(w.api.Update(t.Context(), role))
	asked := func() string {
		w.must(options.Permissions.CanStart(t.Context()))
		_, _ = w.reconcile() // The reconcile returns the failure too.
		return w.condition(lvmv1alpha1.ConditionResourcesAvailable)
	}
	const missing = "lvms-operator does not have permission to update leases.coordination.k8s.io in namespace "
	w.soon(func() bool { return strings.Contains(asked(), missing+w.cluster.Namespace) },
		"the right is not told of: %s", w.condition(lvmv1alpha1.ConditionResourcesAvailable))
	if got := w.condition(lvmv1alpha1.ConditionReady); !strings.HasPrefix(got, "False/Failed: ") ||
		!strings.Contains(got, missing) {
		t.Errorf("Ready = %s", got)
	}
	role.Rules = whole.Rules
	w.must(w.api.Update(t.Context(), role))
	w.soon(func() bool { return !strings.Contains(asked(), missing) }, "the right is back: %s",
		w.condition(lvmv1alpha1.ConditionResourcesAvailable))
	if got := w.condition(lvmv1alpha1.ConditionReady); !strings.Contains(got, "all operands are running") {
		t.Errorf("Ready = %s", got)
	}
}
