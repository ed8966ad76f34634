package agentcert

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/tls/agentca"
	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/expect"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

var nodeA = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "a"}}

// world is a controller with a fake API server. readErr and writeErr make calls fail, and writes counts the patches.
type world struct {
	*testing.T
	api               client.Client
	ca                *agentca.Store
	controller        *Controller
	now               time.Time
	readErr, writeErr error
	writes            int
	said              []string // events
}

// Eventf implements event.Recorder.
func (w *world) Eventf(about, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	w.said = append(w.said, eventType+" "+reason+" "+about.(client.Object).GetName()+": "+fmt.Sprintf(note, args...))
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Now()}
	w.api = memory.Builder().
		WithObjects(&v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a",
			UID: "uid"}}).
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
	w.ca = w.newCA()
	w.controller = New(w.api, w.ca, w)
	w.controller.now = func() time.Time { return w.now }
	// Only TestAnAgentThatChangesItsRequestInALoop is about the rate.
	w.controller.answered = limit.NewRates(limit.Rate{Interval: time.Nanosecond, Burst: 1000}, 10)
	return w
}

// newCA returns another authority.
func (w *world) newCA() *agentca.Store {
	w.Helper()
	ca := agentca.NewStore(memory.Builder().Build(), "ns", agentca.Options{})
	if err := ca.Keep(w.Context()); err != nil {
		w.Fatal(err)
	}
	return ca
}

func (w *world) authority() *agentca.Authority {
	w.Helper()
	authority, err := w.controller.authorities.Authority()
	if err != nil {
		w.Fatal(err)
	}
	return authority
}

func (w *world) status() *v1alpha1.LVMVolumeGroupNodeStatus {
	w.Helper()
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := w.api.Get(w.Context(), nodeA.NamespacedName, status); err != nil {
		w.Fatal(err)
	}
	return status
}

// request writes a request as the agent of the node a does.
func (w *world) request(text string) {
	w.Helper()
	status := w.status()
	status.Status.AgentCertificate = &v1alpha1.AgentCertificate{Request: text}
	if err := w.api.Status().Update(w.Context(), status); err != nil {
		w.Fatal(err)
	}
}

func (w *world) reconcile() *v1alpha1.AgentCertificate {
	w.Helper()
	result, err := w.controller.Reconcile(w.Context(), nodeA)
	if err != nil {
		w.Fatal(err)
	}
	if result.RequeueAfter != resync {
		w.Errorf("requeue after %s", result.RequeueAfter)
	}
	return w.status().Status.AgentCertificate
}

func newRequest(t *testing.T, identity string) (string, *ecdsa.PublicKey) {
	t.Helper()
	request, key, err := pki.NewSigningRequest(identity)
	if err != nil {
		t.Fatal(err)
	}
	return string(request), &key.PublicKey
}

func TestAnAgentGetsACertificateOfItsNode(t *testing.T) {
	w := newWorld(t)
	if got := w.reconcile(); got != nil || w.writes != 0 {
		t.Errorf("without a request: got %+v, %d writes", got, w.writes)
	}
	request, key := newRequest(t, mutualtls.Node("a"))
	w.request(request)
	got := w.reconcile()
	if got.Message != "" || got.Authorities != string(w.authority().Trusted) || w.writes != 1 {
		t.Errorf("got %+v, %d writes", got, w.writes)
	}
	if err := w.authority().Accepts([]byte(got.Certificate), key, w.now); err != nil {
		t.Error(err)
	}
	certificate, err := pki.ParseCertificate([]byte(got.Certificate))
	if err != nil {
		t.Fatal(err)
	}
	if len(certificate.URIs) != 1 {
		t.Fatalf("the certificate is for %v, %v", certificate.URIs, certificate.DNSNames)
	}
	expect.Equal(t, "URIs[0].String()", certificate.URIs[0].String(), mutualtls.Node("a"))
	if len(certificate.DNSNames) != 1 {
		t.Fatalf("the certificate is for %v, %v", certificate.URIs, certificate.DNSNames)
	}
	expect.Equal(t, "DNSNames[0]", certificate.DNSNames[0], "a")
	expect.Equal(t, "IsCA", certificate.IsCA, false)
	if again := w.reconcile(); *again != *got || w.writes != 1 {
		t.Errorf("a second call: got %+v, %d writes", again, w.writes)
	}
}

func TestTheCertificateFollowsRequestAndAuthority(t *testing.T) {
	w := newWorld(t)
	request, key := newRequest(t, mutualtls.Node("a"))
	w.request(request)
	first := w.reconcile()

	second, secondKey := newRequest(t, mutualtls.Node("a"))
	status := w.status()
	status.Status.AgentCertificate.Request = second
	if err := w.api.Status().Update(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	got := w.reconcile()
	if err := w.authority().Accepts([]byte(got.Certificate), secondKey, w.now); err != nil {
		t.Errorf("a new request: %v", err)
	}
	w.request(request)
	got = w.reconcile()
	w.now = w.now.Add(agentca.CertificateValidity + time.Minute)
	if again := w.reconcile(); again.Certificate == got.Certificate ||
		w.authority().Accepts([]byte(again.Certificate), key, w.now) != nil {
		t.Error("an expired certificate stays")
	}
	w.controller.authorities = w.newCA()
	got = w.reconcile()
	if err := w.authority().Accepts([]byte(got.Certificate), key, w.now); err != nil ||
		got.Authorities == first.Authorities {
		t.Errorf("another authority: %v", err)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	foreign, _ := newRequest(t, mutualtls.Node("b"))
	operator, _ := newRequest(t, mutualtls.Operator)
	for name, tt := range map[string]struct{ request, want string }{
		"of another node": {foreign, "must be for " + mutualtls.Node("a")},
		"of the operator": {operator, "must be for " + mutualtls.Node("a")},
		"damaged":         {"x", "one PEM block"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			valid, _ := newRequest(t, mutualtls.Node("a"))
			w.request(valid)
			w.reconcile()
			status := w.status()
			status.Status.AgentCertificate.Request = tt.request
			if err := w.api.Status().Update(t.Context(), status); err != nil {
				t.Fatal(err)
			}
			got := w.reconcile()
			if got.Certificate != "" || !strings.Contains(got.Message, tt.want) ||
				!strings.Contains(got.Message, "node agent of a") {
				t.Errorf("got %+v", got)
			}
			if writes := w.writes; *w.reconcile() != *got || w.writes != writes {
				t.Error("a second call writes again")
			}
			w.request(valid)
			if got := w.reconcile(); got.Certificate == "" || got.Message != "" {
				t.Errorf("a valid request after it: got %+v", got)
			}
		})
	}
}

func TestALongMessageIsTruncated(t *testing.T) {
	w := newWorld(t)
	long, _ := newRequest(t, mutualtls.Node(strings.Repeat("b", 2*maxMessage)))
	w.request(long)
	if got := w.reconcile(); len(got.Message) > maxMessage || got.Message == "" {
		t.Errorf("got %d bytes", len(got.Message))
	}
}

func TestWhatFailsIsReported(t *testing.T) {
	w := newWorld(t)
	request, _ := newRequest(t, mutualtls.Node("a"))
	w.request(request)
	away := errors.New("the API server is away")
	w.readErr = away
	if _, err := w.controller.Reconcile(t.Context(), nodeA); !errors.Is(err, away) {
		t.Errorf("read: got %v", err)
	}
	w.readErr = nil
	w.writeErr = away
	if _, err := w.controller.Reconcile(t.Context(), nodeA); !errors.Is(err, away) {
		t.Errorf("write: got %v", err)
	}
	w.writeErr = nil
	w.controller.authorities = agentca.NewStore(memory.Builder().Build(), "ns", agentca.Options{})
	if _, err := w.controller.Reconcile(t.Context(), nodeA); err == nil || !strings.Contains(err.Error(), "of a:") {
		t.Errorf("without an authority: got %v", err)
	}
	if w.writes != 0 {
		t.Errorf("%d writes", w.writes)
	}
	gone := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "gone"}}
	if _, err := w.controller.Reconcile(t.Context(), gone); err != nil {
		t.Errorf("a node status that is gone: %v", err)
	}
}

// TestAMissingCertificateIsReported: after a while, and once until it is there again.
func TestAMissingCertificateIsReported(t *testing.T) {
	w := newWorld(t)
	expect := func(when string, want ...string) {
		t.Helper()
		for range 2 {
			_, _ = w.controller.Reconcile(t.Context(), nodeA)
		}
		if len(w.said) != len(want) {
			t.Fatalf("%s: got %q", when, w.said)
		}
		for i, text := range want {
			if !strings.HasPrefix(w.said[i], "Warning AgentCertificateMissing a: ") ||
				!strings.Contains(w.said[i], "node agent of a") || !strings.Contains(w.said[i], text) {
				t.Errorf("%s: got %q", when, w.said[i])
			}
		}
		w.said = nil
	}
	expect("at first")
	w.now = w.now.Add(grace - time.Second)
	expect("within the time")
	w.now = w.now.Add(time.Second)
	expect("after it", "it has requested none")
	request, _ := newRequest(t, mutualtls.Node("a"))
	w.request(request)
	expect("with a certificate")

	authorities := w.controller.authorities
	w.controller.authorities = agentca.NewStore(memory.Builder().Build(), "ns", agentca.Options{})
	w.now = w.now.Add(agentca.CertificateValidity + time.Minute)
	expect("expired, without an authority, at first")
	w.now = w.now.Add(grace)
	expect("expired, without an authority", "it has expired at 2")
	w.controller.authorities = authorities
	expect("renewed")

	foreign, _ := newRequest(t, mutualtls.Node("b"))
	w.request(foreign)
	expect("refused", "must be for "+mutualtls.Node("a"))
	if err := w.api.Delete(t.Context(), w.status()); err != nil {
		t.Fatal(err)
	}
	expect("without the node status")
	if len(w.controller.without) != 0 {
		t.Errorf("%v is kept", w.controller.without)
	}
}

// TestAnOldAnswerIsNotWritten: the agent has written another request since the read.
func TestAnOldAnswerIsNotWritten(t *testing.T) {
	w := newWorld(t)
	request, _ := newRequest(t, mutualtls.Node("a"))
	w.request(request)
	stale := w.status()
	other, _ := newRequest(t, mutualtls.Node("a"))
	w.request(other)
	fresh := w.controller.client
	w.controller.client = staleReader{Client: fresh, status: stale}
	result, err := w.controller.Reconcile(t.Context(), nodeA)
	if err != nil || result.RequeueAfter != afterConflict {
		t.Errorf("got %v, %v", result, err)
	}
	if got := w.status().Status.AgentCertificate; got.Request != other || got.Certificate != "" {
		t.Errorf("got %+v", got)
	}
}

// staleReader reads an old node status, as a cache can.
type staleReader struct {
	client.Client
	status *v1alpha1.LVMVolumeGroupNodeStatus
}

func (s staleReader) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	s.status.DeepCopyInto(o.(*v1alpha1.LVMVolumeGroupNodeStatus))
	return nil
}

func TestOnlyChangesOfTheCertificateWakeTheController(t *testing.T) {
	before := &v1alpha1.LVMVolumeGroupNodeStatus{}
	devices := before.DeepCopy()
	devices.Status.DevicesOmitted = 1
	request := before.DeepCopy()
	request.Status.AgentCertificate = &v1alpha1.AgentCertificate{Request: "x"}
	changed := certificateChanged()
	if changed.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: devices}) {
		t.Error("a change of devices wakes it")
	}
	if !changed.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: request}) {
		t.Error("a request does not wake it")
	}
}

// TestAnAgentThatChangesItsRequestInALoop gets few answers, which are delayed more the more it asks, and does not delay
// those of other agents. A failed write counts, too: it has cost as much.
func TestAnAgentThatChangesItsRequestInALoop(t *testing.T) {
	other := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "b"}}
	for name, failure := range map[string]error{"written": nil, "not written": errors.New("the API server is away")} {
		w := newWorld(t)
		if err := w.api.Create(t.Context(), &v1alpha1.LVMVolumeGroupNodeStatus{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "b", UID: "b"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			w.controller.answered = limit.NewRates(answers, maxNodes)
			w.writeErr = failure
			attempts := 0
			loop := func(n int) (wait time.Duration) {
				for i := range n {
					w.request(fmt.Sprint("request ", attempts, i))
					before := w.controller.answered.Delay("a")
					result, err := w.controller.Reconcile(context.Background(), nodeA)
					if (err != nil) != (failure != nil && before == 0) {
						t.Fatalf("%s: got %v", name, err)
					}
					if before == 0 {
						attempts++
					} else {
						wait = result.RequeueAfter
					}
				}
				return wait
			}
			if wait := loop(100); attempts != answers.Burst || wait != answers.Interval {
				t.Errorf("%s: %d answers and a delay of %s, want %d and %s", name, attempts, wait, answers.Burst,
					answers.Interval)
			}
			if failure == nil && w.writes != answers.Burst {
				t.Errorf("%s: %d writes, want %d", name, w.writes, answers.Burst)
			}
			w.writeErr = nil
			status := &v1alpha1.LVMVolumeGroupNodeStatus{}
			if err := w.api.Get(context.Background(), other.NamespacedName, status); err != nil {
				t.Fatal(err)
			}
			status.Status.AgentCertificate = &v1alpha1.AgentCertificate{Request: "another one"}
			if err := w.api.Status().Update(context.Background(), status); err != nil {
				t.Fatal(err)
			}
			writes := w.writes
			for range 2 {
				if result, err := w.controller.Reconcile(context.Background(), other); err != nil ||
					result.RequeueAfter != resync || w.writes != writes+1 {
					t.Errorf("%s: another agent: %v, %v, %d writes", name, result, err, w.writes-writes)
				}
			}
			w.writeErr = failure
			time.Sleep(answers.Interval)
			if loop(100); attempts != answers.Burst+1 {
				t.Errorf("%s: %d answers after a minute, want one more", name, attempts)
			}
		})
	}
}
