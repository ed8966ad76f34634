package olm

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-lib/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// recorder stands in for the OperatorCondition. operator-lib finds the real one only in a Pod: test/e2e/catalog reads
// it.
type recorder struct {
	conditions.Condition
	writes []string
	fails  error
}

func (r *recorder) Set(_ context.Context, status metav1.ConditionStatus, options ...conditions.Option) error {
	if r.fails != nil {
		return r.fails
	}
	c := metav1.Condition{Status: status}
	for _, option := range options {
		option(&c)
	}
	r.writes = append(r.writes, strings.Join([]string{string(c.Status), c.Reason, c.Message}, " "))
	return nil
}

func TestUpgradeableFollowsTheObstacles(t *testing.T) {
	condition := &recorder{}
	gate := NewGate(condition)
	for _, obstacles := range [][]string{nil, {"a", "b"}, {"a"}, {"a"}, nil, nil} {
		if err := gate.SetUpgradeable(t.Context(), obstacles); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"True AsExpected nothing speaks against an upgrade",
		"False StorageIsBeingChanged a; b",
		"False StorageIsBeingChanged a",
		"True AsExpected nothing speaks against an upgrade",
	}
	if diff := cmp.Diff(want, condition.writes); diff != "" {
		t.Error(diff)
	}
}

func TestAFailedWriteIsTriedAgain(t *testing.T) {
	t.Setenv(conditionVariable, "lvms-operator.v1")
	condition := &recorder{fails: errors.New("the API server is away")}
	gate := NewGate(condition)
	err := gate.SetUpgradeable(t.Context(), []string{"a"})
	if err == nil ||
		err.Error() != "set condition Upgradeable of OperatorCondition lvms-operator.v1: the API server is away" {
		t.Errorf("got %v", err)
	}
	condition.fails = nil
	if err := gate.SetUpgradeable(t.Context(), []string{"a"}); err != nil || len(condition.writes) != 1 {
		t.Errorf("wrote %q, %v", condition.writes, err)
	}
}

func TestWithoutOLM(t *testing.T) {
	t.Setenv(conditionVariable, "")
	gate, err := FromEnvironment(nil)
	if gate != nil || err != nil {
		t.Errorf("got %v, %v", gate, err)
	}
	if err := gate.SetUpgradeable(t.Context(), []string{"a"}); err != nil {
		t.Error(err)
	}
}

// OLM may name an OperatorCondition in the environment even if it does not have the kind.
func TestWithoutTheOperatorCondition(t *testing.T) {
	kind := schema.GroupKind{Group: "operators.coreos.com", Kind: "OperatorCondition"}
	for _, absent := range []error{
		apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: "operatorconditions"}, "x"),
		&meta.NoKindMatchError{GroupKind: kind, SearchedVersions: []string{"v2"}},
	} {
		if err := NewGate(&recorder{fails: absent}).SetUpgradeable(t.Context(), []string{"a"}); err != nil {
			t.Error(err)
		}
	}
}

func TestLongMessage(t *testing.T) {
	got := shortened([]string{strings.Repeat("a", 800), strings.Repeat("b", 800), "c"})
	if len(got) > maxMessage || !strings.HasSuffix(got, "; and 2 more") {
		t.Errorf("got %q", got)
	}
	if got := shortened([]string{strings.Repeat("a",
		2000)}); got != "1 volume groups are being changed" {
		t.Errorf("got %q", got)
	}
}
