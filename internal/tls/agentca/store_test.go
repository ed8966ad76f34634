package agentca

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// api is a fake API server. readErr and writeErr make calls fail, and writes counts those that did not.
type api struct {
	client.Client
	readErr, writeErr error
	writes            int
}

func newAPI(objects ...client.Object) *api {
	a := &api{}
	write := func(do func() error) error {
		if a.writeErr != nil {
			return a.writeErr
		}
		a.writes++
		return do()
	}
	a.Client = memory.Builder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if a.readErr != nil {
				return a.readErr
			}
			return c.Get(ctx, key, o, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, o, options...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return write(func() error { return c.Update(ctx, o, options...) })
		},
	}).Build()
	return a
}

func newStore(a *api, now *time.Time) *Store {
	s := NewStore(a, "ns", Options{})
	s.now = func() time.Time { return *now }
	return s
}

func (s *Store) must(t *testing.T) (*Authority, *mutualtls.Credentials) {
	t.Helper()
	if err := s.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	authority, err := s.Authority()
	if err != nil {
		t.Fatal(err)
	}
	own, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	return authority, own
}

func TestReplicasShareAnAuthority(t *testing.T) {
	now := start
	a := newAPI()
	first, second := newStore(a, &now), newStore(a, &now)
	for _, s := range []*Store{first, second} {
		if _, err := s.Authority(); err == nil {
			t.Error("there is an authority before the Secret was read")
		}
		if _, err := s.Current(); err == nil {
			t.Error("there is a certificate before the Secret was read")
		}
	}
	one, own := first.must(t)
	other, otherOwn := second.must(t)
	if !bytes.Equal(one.Trusted, other.Trusted) || a.writes != 1 {
		t.Errorf("the replicas have different authorities, or wrote %d times", a.writes)
	}
	for _, c := range []*mutualtls.Credentials{own, otherOwn} {
		leaf := c.Certificate.Leaf
		if err := other.verify(leaf, now); err != nil || len(leaf.URIs) != 1 ||
			leaf.URIs[0].String() != mutualtls.Operator {
			t.Errorf("got %v, %v", leaf.URIs, err)
		}
	}
	if _, again := first.must(t); again.Certificate.Leaf != own.Certificate.Leaf || a.writes != 1 {
		t.Error("a second call issues another certificate")
	}
	now = now.Add(CertificateValidity/2 + time.Minute)
	if _, renewed := first.must(t); renewed.Certificate.Leaf == own.Certificate.Leaf || a.writes != 1 {
		t.Error("the certificate is not renewed")
	}
}

// TestARotationIsStored: the operator's peers trust its certificate in each step, also with authorities of a day ago.
func TestARotationIsStored(t *testing.T) {
	now := start
	s := newStore(newAPI(), &now)
	before, _ := s.must(t)
	promoted := renewal.Add(distribution)
	for _, step := range []time.Time{renewal, promoted, promoted.Add(distribution + CertificateValidity)} {
		now = step
		current, own := s.must(t)
		for _, peer := range []*Authority{before, current} {
			if err := peer.verify(own.Certificate.Leaf, now); err != nil {
				t.Errorf("at %s: %v", now, err)
			}
		}
		if bytes.Equal(before.Trusted, current.Trusted) {
			t.Errorf("at %s: nothing has changed", now)
		}
		if fresh := newStore(s.client.(*api), &now); fresh.Keep(t.Context()) != nil ||
			!bytes.Equal(fresh.authority.Load().Trusted, current.Trusted) {
			t.Errorf("at %s: another replica reads another state", now)
		}
		before = current
	}
}

func TestASecretThatIsNotReadIsNotReplaced(t *testing.T) {
	now := start
	a := newAPI()
	s := newStore(a, &now)
	before, own := s.must(t)
	away := errors.New("the API server is away")
	a.readErr = away
	if err := s.Keep(t.Context()); !errors.Is(err, away) || !strings.Contains(err.Error(), "ns/"+SecretName) {
		t.Errorf("got %v", err)
	}
	if after, err := s.Authority(); err != nil || after != before || a.writes != 1 {
		t.Errorf("the authority has changed: %v, %d writes", err, a.writes)
	}
	now = own.Certificate.Leaf.NotAfter.Add(time.Second)
	if _, err := s.Current(); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("got %v", err)
	}
}

// TestWhatIsNotStoredDoesNotSign: another replica would not know it.
func TestWhatIsNotStoredDoesNotSign(t *testing.T) {
	now := start
	a := newAPI()
	a.writeErr = errors.New("conflict")
	s := newStore(a, &now)
	if err := s.Keep(t.Context()); !errors.Is(err, a.writeErr) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Authority(); err == nil {
		t.Error("an authority that is not stored signs")
	}
}

func TestADamagedSecretIsReplaced(t *testing.T) {
	now := start
	a := newAPI(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: SecretName},
		Data: map[string][]byte{corev1.TLSCertKey: []byte("x"), previous: []byte("no certificate")}})
	s := newStore(a, &now)
	authority, own := s.must(t)
	if err := authority.verify(own.Certificate.Leaf, now); err != nil || a.writes != 1 {
		t.Errorf("got %v, %d writes", err, a.writes)
	}
	if bytes.Contains(authority.Trusted, []byte("no certificate")) {
		t.Error("what was stored before is trusted")
	}
}

func TestCertificatesOfAgents(t *testing.T) {
	now := start
	s := newStore(newAPI(), &now)
	authority, _ := s.must(t)
	request, _, err := pki.NewSigningRequest(mutualtls.Node("a"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.ParseSigningRequest(request, mutualtls.Node("a"))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.IssueFor("a", key, now)
	if err != nil {
		t.Fatal(err)
	}
	otherRequest, _, err := pki.NewSigningRequest(mutualtls.Node("a"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.ParseSigningRequest(otherRequest, mutualtls.Node("a"))
	if err != nil {
		t.Fatal(err)
	}
	foreignStore := newStore(newAPI(), &now)
	foreign, _ := foreignStore.must(t)
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"its own":           {authority.Accepts(certificate, key, now), ""},
		"just before end":   {authority.Accepts(certificate, key, now.Add(CertificateValidity-time.Minute)), ""},
		"expired":           {authority.Accepts(certificate, key, now.Add(CertificateValidity+time.Minute)), "expired"},
		"another key":       {authority.Accepts(certificate, other, now), "another key"},
		"another authority": {foreign.Accepts(certificate, key, now), "unknown authority"},
		"nothing":           {authority.Accepts(nil, key, now), "one PEM block"},
	} {
		if (tt.err == nil) != (tt.want == "") || tt.err != nil && !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, tt.err, tt.want)
		}
	}
}

// TestTheServerIsTrusted: clients with the authorities of now verify it by the name of the host, in each step of a
// rotation, and it has no identity for node agents.
func TestTheServerIsTrusted(t *testing.T) {
	now := start
	a := newAPI()
	s := newStore(a, &now)
	if _, err := s.Serving().Current(); err == nil {
		t.Error("there is a certificate without hosts")
	}
	s.options.Hosts = []string{"service.ns.svc", "service.ns.svc.cluster.local"}
	if _, err := s.Trusted(); err == nil {
		t.Error("there are authorities before the Secret was read")
	}
	var before *x509.Certificate
	for _, step := range []time.Duration{0, time.Hour, CertificateValidity/2 + time.Hour,
		validity - servingcert.RenewBefore(validity) + time.Hour,
		validity - servingcert.RenewBefore(validity) + distribution + 2*time.Hour} {
		now = start.Add(step)
		s.must(t)
		trusted, err := s.Trusted()
		if err != nil {
			t.Fatal(err)
		}
		certificate, err := s.Serving().Current()
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(trusted)
		for _, host := range s.options.Hosts {
			if _, err := certificate.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool,
				CurrentTime: now.Add(CertificateValidity / 3)}); err != nil {
				t.Errorf("after %s: %v", step, err)
			}
		}
		if len(certificate.Leaf.URIs) != 0 {
			t.Errorf("it has the identity %v", certificate.Leaf.URIs)
		}
		if renewed := certificate.Leaf != before; renewed != (step != time.Hour) {
			t.Errorf("after %s: renewed %t", step, renewed)
		}
		before = certificate.Leaf
	}
}

// TestTheSecretHasItsOwner: without one, it is not created, because nothing would delete it.
func TestTheSecretHasItsOwner(t *testing.T) {
	now := start
	a := newAPI()
	s := newStore(a, &now)
	gone := errors.New("the Deployment is gone")
	s.options.Owner = func(context.Context) (*metav1.OwnerReference, error) { return nil, gone }
	if err := s.Keep(t.Context()); !errors.Is(err, gone) || a.writes != 0 {
		t.Errorf("got %v, %d writes", err, a.writes)
	}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "operator", UID: "uid"}
	s.options.Owner = func(context.Context) (*metav1.OwnerReference, error) { return &owner, nil }
	s.must(t)
	secret := &corev1.Secret{}
	if err := a.Get(t.Context(), s.secret, secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0] != owner {
		t.Errorf("owners %v", secret.OwnerReferences)
	}
	s.options.Owner = func(context.Context) (*metav1.OwnerReference, error) { return nil, gone }
	s.must(t)
}
