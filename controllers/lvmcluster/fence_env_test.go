//go:build env

package lvmcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
)

const fencePolicy = "lvms-vg-manager-nodes"

// No agent is started before the API server has checked the policies that restrict it.
func TestAgentsAreStartedOnlyWhenTheirPoliciesAreInForce(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.must(w.api.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: fencePolicy}}))
	away := errors.New("the API server is away")
	w.spy.Fail = func(verb string, object any) error {
		policy, is := object.(*unstructured.Unstructured)
		if verb == "get" && is && policy.GetKind() == "ValidatingAdmissionPolicy" {
			return away
		}
		return nil
	}
	if _, err := w.reconcile(); err == nil || w.exists(&appsv1.DaemonSet{}, operand.AgentName) {
		t.Errorf("the policies cannot be read: %v, and the agents are started: %v", err,
			w.exists(&appsv1.DaemonSet{}, operand.AgentName))
	}
	w.spy.Fail = nil
	for _, step := range []struct {
		check func() error
		says  string
	}{
		{func() error { return nil }, "kube-controller-manager has not checked ValidatingAdmissionPolicy " + fencePolicy},
		{func() error { return server.CheckPolicy(t.Context(), fencePolicy) }, ""},
	} {
		w.must(step.check())
		for range 2 {
			_, err := w.reconcile()
			w.must(err)
		}
		if w.exists(&appsv1.DaemonSet{}, operand.AgentName) != (step.says == "") {
			t.Errorf("%q: the agents are started: %v", step.says, step.says != "")
		}
		if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); step.says != "" &&
			(!strings.Contains(got, "node agents are started only when") || !strings.Contains(got, step.says)) {
			t.Errorf("%q does not say %q", got, step.says)
		}
	}
}

// Volumes need their agents: an existing DaemonSet stays when a policy disappears and cannot be created again, and the
// LVMCluster says so.
func TestAgentsStayWhenAPolicyDisappears(t *testing.T) {
	w := newWorld(t, fixture.Thin("vg1"))
	w.settle()
	w.must(w.api.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: fencePolicy}}))
	refused := errors.New("another policy engine refuses it")
	w.spy.Fail = func(verb string, object any) error {
		if o, is := object.(interface{ GetName() string }); verb == "apply" && is && o.GetName() == fencePolicy {
			return refused
		}
		return nil
	}
	for range 2 {
		if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), refused.Error()) {
			t.Errorf("got %v", err)
		}
	}
	const says = "ValidatingAdmissionPolicyBinding " + fencePolicy + " does not exist, so node agents are not restricted"
	if got := w.condition(lvmv1alpha1.ConditionResourcesAvailable); !strings.Contains(got, says) {
		t.Errorf("%q does not say %q", got, says)
	}
	if !w.exists(&appsv1.DaemonSet{}, operand.AgentName) {
		t.Error("the agents are gone")
	}
	if !slices.ContainsFunc(w.notes.said, func(s string) bool { return strings.Contains(s, says) }) {
		t.Errorf("events %q", w.notes.said)
	}
	w.spy.Fail = nil
	_, err := w.reconcile()
	w.must(err)
	if !w.exists(&admissionv1.ValidatingAdmissionPolicyBinding{}, fencePolicy) ||
		w.cluster.Status.State != lvmv1alpha1.LVMStatusReady {
		t.Errorf("the policy is not back: %+v", w.cluster.Status)
	}
}
