package agentcert

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/tls/agentca"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// world is an agent with a fake API server. readErr and writeErr make calls fail, and writes counts the patches.
type world struct {
	*testing.T
	api               client.Client
	ca                *agentca.Store
	agent             *Reconciler
	now               time.Time
	readErr, writeErr error
	writes            int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, now: time.Now(), ca: agentca.NewStore(memory.Builder().Build(), "ns", agentca.Options{})}
	if err := w.ca.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.api = memory.Builder().WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption) error {
				if w.readErr != nil {
					return w.readErr
				}
				return c.Get(ctx, key, o, options...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				options ...client.SubResourcePatchOption) error {
				if w.writeErr != nil {
					return w.writeErr
				}
				w.writes++
				return c.SubResource(sub).Patch(ctx, o, p, options...)
			},
		}).Build()
	w.agent = w.newAgent()
	return w
}

// newAgent returns an agent that has just started.
func (w *world) newAgent() *Reconciler {
	r := New(w.api, "a", "ns")
	r.now = func() time.Time { return w.now }
	return r
}

func nodeStatus() *v1alpha1.LVMVolumeGroupNodeStatus {
	return &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
}

func (w *world) status() *v1alpha1.LVMVolumeGroupNodeStatus {
	w.Helper()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := w.api.Get(w.Context(), client.ObjectKey{Namespace: "ns", Name: "a"}, status); err != nil {
		w.Fatal(err)
	}
	return status
}

func (w *world) reconcile() *v1alpha1.AgentCertificate {
	w.Helper()
	if _, err := w.agent.Reconcile(w.Context(), ctrl.Request{}); err != nil {
		w.Fatal(err)
	}
	return w.status().Status.AgentCertificate
}

// issue answers the request as the operator does, at the time of the world.
func (w *world) issue() {
	w.Helper()
	status := w.status()
	c := status.Status.AgentCertificate
	authority, err := w.ca.Authority()
	if err != nil {
		w.Fatal(err)
	}
	key, err := pki.ParseSigningRequest([]byte(c.Request), mutualtls.Node("a"))
	if err != nil {
		w.Fatal(err)
	}
	certificate, err := authority.IssueFor("a", key, w.now)
	if err != nil {
		w.Fatal(err)
	}
	c.Certificate, c.Authorities = string(certificate), string(authority.Trusted)
	if err := w.api.Status().Update(w.Context(), status); err != nil {
		w.Fatal(err)
	}
}

func TestAnAgentRequestsAndUsesACertificate(t *testing.T) {
	w := newWorld(t, nodeStatus())
	if _, err := w.agent.Current(); !errors.Is(err, errNoCertificate) {
		t.Errorf("got %v", err)
	}
	first := w.reconcile()
	if again := w.reconcile(); *again != *first || first.Request == "" || w.writes != 1 {
		t.Errorf("got %+v and %+v, %d writes", first, again, w.writes)
	}
	w.issue()
	w.reconcile()
	current, err := w.agent.Current()
	if err != nil {
		t.Fatal(err)
	}
	if leaf := current.Certificate.Leaf; len(leaf.URIs) != 1 || leaf.URIs[0].String() != mutualtls.Node("a") {
		t.Errorf("the certificate is for %v", leaf.URIs)
	}
	w.reconcile()
	if after, err := w.agent.Current(); err != nil || after.Certificate.Leaf.SerialNumber.Cmp(
		current.Certificate.Leaf.SerialNumber) != 0 || w.writes != 1 {
		t.Errorf("got %v, %d writes", err, w.writes)
	}
}

// TestARenewalIsEarlyAndWithoutAGap: the certificate is used until the next one was issued, for another key.
func TestARenewalIsEarlyAndWithoutAGap(t *testing.T) {
	w := newWorld(t, nodeStatus())
	first := w.reconcile()
	w.issue()
	w.reconcile()
	before, err := w.agent.Current()
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(agentca.CertificateValidity/2 - 2*time.Hour)
	if got := w.reconcile(); got.Request != first.Request {
		t.Error("is renewed too early")
	}
	w.now = w.now.Add(3 * time.Hour)
	second := w.reconcile()
	if second.Request == first.Request || second.Certificate != "" || second.Authorities == "" {
		t.Errorf("got %+v", second)
	}
	if during, err := w.agent.Current(); err != nil ||
		during.Certificate.Leaf.SerialNumber.Cmp(before.Certificate.Leaf.SerialNumber) != 0 {
		t.Errorf("during the renewal: got %v", err)
	}
	w.issue()
	w.reconcile()
	after, err := w.agent.Current()
	if err != nil || after.Certificate.Leaf.NotAfter.Sub(w.now) < agentca.CertificateValidity-time.Minute {
		t.Errorf("after the renewal: got %v", err)
	}
	if got := w.reconcile(); got.Request != second.Request || w.writes != 2 {
		t.Errorf("got %+v, %d writes", got, w.writes)
	}
}

func TestAnExpiredCertificateIsNotUsed(t *testing.T) {
	w := newWorld(t, nodeStatus())
	w.reconcile()
	w.issue()
	w.reconcile()
	w.now = w.now.Add(agentca.CertificateValidity + time.Minute)
	if _, err := w.agent.Current(); err == nil || !strings.Contains(err.Error(), "node a") ||
		!strings.Contains(err.Error(), "has expired") {
		t.Errorf("got %v", err)
	}
}

// TestAnAgentThatRestartsHasAnotherKey: it does not use the certificate of the agent before.
func TestAnAgentThatRestartsHasAnotherKey(t *testing.T) {
	w := newWorld(t, nodeStatus())
	first := w.reconcile()
	w.issue()
	w.reconcile()
	w.agent = w.newAgent()
	second := w.reconcile()
	if second.Request == first.Request || second.Certificate != "" {
		t.Errorf("got %+v", second)
	}
	if _, err := w.agent.Current(); !errors.Is(err, errNoCertificate) {
		t.Errorf("got %v", err)
	}
}

// TestARecreatedNodeStatusGetsTheSameRequest: the certificate remains in use.
func TestARecreatedNodeStatusGetsTheSameRequest(t *testing.T) {
	w := newWorld(t, nodeStatus())
	first := w.reconcile()
	w.issue()
	w.reconcile()
	before, err := w.agent.Current()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.api.Delete(t.Context(), w.status()); err != nil {
		t.Fatal(err)
	}
	if result, err := w.agent.Reconcile(t.Context(), ctrl.Request{}); err != nil ||
		result.RequeueAfter != whileWaiting {
		t.Errorf("got %v, %v", result, err)
	}
	if err := w.api.Create(t.Context(), nodeStatus()); err != nil {
		t.Fatal(err)
	}
	if got := w.reconcile(); got.Request != first.Request {
		t.Errorf("got %+v", got)
	}
	if after, err := w.agent.Current(); err != nil || after != before {
		t.Errorf("got %v", err)
	}
}

// TestAnotherAuthorityIsTrusted: the operator issues a certificate for the same request.
func TestAnotherAuthorityIsTrusted(t *testing.T) {
	w := newWorld(t, nodeStatus())
	w.reconcile()
	w.issue()
	w.reconcile()
	w.ca = agentca.NewStore(memory.Builder().Build(), "ns", agentca.Options{})
	if err := w.ca.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.issue()
	w.reconcile()
	current, err := w.agent.Current()
	if err != nil {
		t.Fatal(err)
	}
	other, err := w.ca.Current()
	if err != nil {
		t.Fatal(err)
	}
	if !current.Authorities.Equal(other.Authorities) || w.writes != 1 {
		t.Errorf("the new authority is not trusted, %d writes", w.writes)
	}
}

func TestWhatFailsIsReported(t *testing.T) {
	w := newWorld(t, nodeStatus())
	away := errors.New("the API server is away")
	w.readErr = away
	if _, err := w.agent.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, away) {
		t.Errorf("read: got %v", err)
	}
	w.readErr, w.writeErr = nil, away
	if _, err := w.agent.Reconcile(t.Context(), ctrl.Request{}); !errors.Is(err, away) {
		t.Errorf("write: got %v", err)
	}
	w.writeErr = nil
	w.reconcile()
	w.issue()
	w.reconcile()
	before, err := w.agent.Current()
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(*v1alpha1.AgentCertificate){
		"certificate": func(c *v1alpha1.AgentCertificate) { c.Certificate = "x" },
		"authorities": func(c *v1alpha1.AgentCertificate) { c.Authorities = "x" },
	} {
		status := w.status()
		intact := status.Status.AgentCertificate.DeepCopy()
		damage(status.Status.AgentCertificate)
		if err := w.api.Status().Update(t.Context(), status); err != nil {
			t.Fatal(err)
		}
		if _, err := w.agent.Reconcile(t.Context(), ctrl.Request{}); err == nil ||
			!strings.Contains(err.Error(), "node status a") {
			t.Errorf("%s: got %v", name, err)
		}
		if after, err := w.agent.Current(); err != nil || after != before {
			t.Errorf("%s: got %v", name, err)
		}
		status = w.status()
		status.Status.AgentCertificate = intact
		if err := w.api.Status().Update(t.Context(), status); err != nil {
			t.Fatal(err)
		}
	}
}
