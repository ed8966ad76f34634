package olm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// server is an API server with one OperatorCondition.
type server struct {
	*testing.T
	client.Client
	calls int
	fails error
	gate  *Gate
	now   time.Time
}

func newServer(t *testing.T, conditions ...any) *server {
	s := &server{T: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"conditions": conditions}}}
	object.SetGroupVersionKind(operatorCondition)
	object.SetNamespace("ns")
	object.SetName("lvms-operator.v1")
	s.Client = fake.NewClientBuilder().WithObjects(object).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			s.calls++
			return errors.Join(s.fails, c.Get(ctx, key, o, options...))
		},
	}).Build()
	s.gate = NewGate(s, "ns", "lvms-operator.v1")
	s.gate.now = func() time.Time { return s.now }
	return s
}

func (s *server) say(obstacles ...string) {
	s.Helper()
	if err := s.gate.Say(s.Context(), obstacles); err != nil {
		s.Fatal(err)
	}
}

// wants compares the conditions, each as "type status reason time message".
func (s *server) wants(want ...string) {
	s.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(operatorCondition)
	if err := s.Get(s.Context(), s.gate.key, object); err != nil {
		s.Fatal(err)
	}
	list, _, _ := unstructured.NestedSlice(object.Object, "spec", "conditions")
	var got []string
	for _, entry := range list {
		c, _ := entry.(map[string]any)
		var words []string
		for _, key := range []string{"type", "status", "reason", "lastTransitionTime", "message"} {
			word, _ := c[key].(string)
			words = append(words, word)
		}
		got = append(got, strings.Join(words, " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Error(diff)
	}
}

func TestGate(t *testing.T) {
	other := map[string]any{"type": "Other", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2025-01-01T00:00:00Z"}
	s := newServer(t, other)
	const others = "Other True R 2025-01-01T00:00:00Z m"
	s.say()
	s.wants(others, "Upgradeable True AsExpected 2026-01-02T03:04:05Z nothing speaks against an upgrade")
	s.now = s.now.Add(time.Hour)
	s.say("a", "b")
	s.wants(others, "Upgradeable False StorageIsBeingChanged 2026-01-02T04:04:05Z a; b")
	s.now = s.now.Add(time.Hour)
	s.say("a")
	s.wants(others, "Upgradeable False StorageIsBeingChanged 2026-01-02T04:04:05Z a")
	calls := s.calls
	s.say("a")
	if s.calls != calls {
		t.Error("what was said is said again")
	}
	s.say()
	s.wants(others, "Upgradeable True AsExpected 2026-01-02T05:04:05Z nothing speaks against an upgrade")
}

func TestGateThatCannotBeRead(t *testing.T) {
	s := newServer(t)
	s.fails = errors.New("the API server is away")
	if err := s.gate.Say(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "OperatorCondition lvms-operator.v1: the API server is away") {
		t.Errorf("got %v", err)
	}
	s.fails = nil
	s.say("a")
	s.wants("Upgradeable False StorageIsBeingChanged 2026-01-02T03:04:05Z a")
}

func TestWithoutOLM(t *testing.T) {
	if err := NewGate(nil, "ns", "").Say(t.Context(), []string{"a"}); err != nil {
		t.Error(err)
	}
	s := newServer(t)
	s.gate.key.Name = "another"
	s.say("a")
}

func TestLongMessage(t *testing.T) {
	if got := shortened([]string{strings.Repeat("a", 800), strings.Repeat("b", 800), "c"}); len(got) > maxMessage || !strings.HasSuffix(got, "; and 2 more") {
		t.Errorf("got %q", got)
	}
	if got := shortened([]string{strings.Repeat("a", 2000)}); got != "1 volume groups are being changed or are degraded" {
		t.Errorf("got %q", got)
	}
}
