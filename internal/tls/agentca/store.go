// Package agentca keeps the certificate authority of the node agents in a Secret, which all replicas of the operator
// share. It issues certificates for agents, and the operator's own one, and replaces the authority without an
// interruption. OpenShift's library-go (certrotation) cannot replace it: it stores the key of each certificate in a
// Secret, and here the keys of agents and of the operator never leave their memory.
package agentca

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/kube/periodic"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert/secretcert"
)

// SecretName is the name of the Secret with the authority.
const SecretName = "lvms-agent-ca"

// Keys of the Secret, in addition to tls.crt and tls.key of the authority that signs.
const (
	nextCertificate = "next.crt"
	nextKey         = "next.key"
	previous        = "previous.crt"
)

var errNotReady = errors.New("the certificate authority of the node agents has not been read yet")

// Authority issues certificates. Trusted has the authorities that operator and agents trust, in PEM.
type Authority struct {
	Trusted   []byte
	authority *pki.Authority
	pool      *x509.CertPool
}

// Store is the authority in the Secret, and the operator's own credentials. It is a mutualtls.Source and a Runnable.
type Store struct {
	// client reads and writes without a cache.
	client client.Client
	secret client.ObjectKey
	now    func() time.Time

	options   Options
	authority atomic.Pointer[Authority]
	own       atomic.Pointer[mutualtls.Credentials]
	server    atomic.Pointer[tls.Certificate]
}

// Options configure a Store.
type Options struct {
	// Owner returns the owner of the Secret, which Kubernetes deletes with it. If it fails, the Secret is not created.
	// nil if nothing owns it.
	Owner func(context.Context) (*metav1.OwnerReference, error)
	// Hosts are the names of the server of this replica, for which Serving has a certificate; none if there is no
	// server.
	Hosts []string
}

// NewStore returns the authority in the operator's namespace. It must be started. The client must read without a cache.
func NewStore(direct client.Client, namespace string, options Options) *Store {
	return &Store{client: direct, secret: client.ObjectKey{Namespace: namespace, Name: SecretName}, now: time.Now,
		options: options}
}

// NeedLeaderElection returns false: each replica has a certificate of its own.
func (s *Store) NeedLeaderElection() bool { return false }

// Authority returns the authority that signs, or an error if the Secret was never read.
func (s *Store) Authority() (*Authority, error) {
	if a := s.authority.Load(); a != nil {
		return a, nil
	}
	return nil, errNotReady
}

// Current returns the operator's own credentials.
func (s *Store) Current() (*mutualtls.Credentials, error) {
	own := s.own.Load()
	if own == nil {
		return nil, errNotReady
	}
	if end := own.Certificate.Leaf.NotAfter; s.now().After(end) {
		return nil, fmt.Errorf("the operator's certificate for node agents has expired at %s: Secret %s cannot be "+
			"read or written, see the log of the operator", end.Format(time.RFC3339), s.secret)
	}
	return own, nil
}

// Trusted returns the authorities that clients of Serving must trust, in PEM.
func (s *Store) Trusted() ([]byte, error) {
	authority, err := s.Authority()
	if err != nil {
		return nil, err
	}
	return authority.Trusted, nil
}

// Serving returns the certificate for the hosts of this replica. Clients do not authenticate themselves with one, and
// it has no identity that agents accept.
func (s *Store) Serving() servingcert.Source { return serving{s} }

type serving struct{ store *Store }

// Current implements servingcert.Source.
func (s serving) Current() (*tls.Certificate, error) {
	if certificate := s.store.server.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errNotReady
}

// Start maintains the authority until the context ends. Another replica may change it.
func (s *Store) Start(ctx context.Context) error {
	periodic.Run(ctx, "certificate authority of the node agents", s.Keep, func(err error) {
		log.FromContext(ctx).Error(err, "cannot maintain the certificate authority of the node agents", "secret",
			s.secret)
	})
	return nil
}

// +kubebuilder:rbac:groups="",resources=secrets,namespace=openshift-lvm-storage,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,namespace=openshift-lvm-storage,resourceNames=lvms-agent-ca,verbs=get;update

// Keep reads the Secret, stores the next step of a rotation, and renews the operator's own certificate. An authority is
// used only after it was stored: what another replica does not know must not sign.
func (s *Store) Keep(ctx context.Context) error {
	secret, err := s.read(ctx)
	if err != nil {
		return err
	}
	stored := stateOf(secret)
	current, because, err := stored.rotate(s.now())
	if err != nil {
		return err
	}
	if because != "" {
		if err := s.write(ctx, secret, current); err != nil {
			return err
		}
		log.FromContext(ctx).Info("changed the certificate authority of the node agents", "secret", s.secret, "cause",
			because)
	}
	authority, err := newAuthority(current)
	if err != nil {
		return err
	}
	s.authority.Store(authority)
	return errors.Join(s.renewOwn(authority), s.renewServing(authority))
}

// read returns the Secret, or a new one to create.
func (s *Store) read(ctx context.Context) (*corev1.Secret, error) {
	secret, err := secretcert.Read(ctx, s.client, s.secret)
	if err != nil || !secretcert.IsNew(secret) {
		return secret, err
	}
	secret.Labels = map[string]string{"app.kubernetes.io/part-of": "lvms"}
	if s.options.Owner == nil {
		return secret, nil
	}
	owner, err := s.options.Owner(ctx)
	if err != nil {
		return nil, fmt.Errorf("create Secret %s: %w", s.secret, err)
	}
	secret.OwnerReferences = []metav1.OwnerReference{*owner}
	return secret, nil
}

func stateOf(secret *corev1.Secret) state {
	return state{
		signing:  pki.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]},
		next:     pki.Pair{Certificate: secret.Data[nextCertificate], Key: secret.Data[nextKey]},
		previous: secret.Data[previous],
	}
}

// write stores a state.
func (s *Store) write(ctx context.Context, secret *corev1.Secret, current state) error {
	data := map[string][]byte{corev1.TLSCertKey: current.signing.Certificate,
		corev1.TLSPrivateKeyKey: current.signing.Key}
	for key, value := range map[string][]byte{nextCertificate: current.next.Certificate, nextKey: current.next.Key,
		previous: current.previous} {
		if len(value) > 0 {
			data[key] = value
		}
	}
	secret.Data = data
	return secretcert.Write(ctx, s.client, secret)
}

func newAuthority(s state) (*Authority, error) {
	authority, err := pki.LoadAuthority(s.signing)
	if err != nil {
		return nil, err
	}
	a := &Authority{Trusted: s.trusted(), authority: authority, pool: x509.NewCertPool()}
	if !a.pool.AppendCertsFromPEM(a.Trusted) {
		return nil, errors.New("the certificate authority of the node agents has no certificate")
	}
	return a, nil
}

// renewOwn renews the operator's certificate, and lets the operator trust the authorities of now.
func (s *Store) renewOwn(a *Authority) error {
	var current *tls.Certificate
	if own := s.own.Load(); own != nil {
		current = &own.Certificate
	}
	certificate, err := a.renew(current, pki.Request{Name: "LVMS operator", URIs: []string{mutualtls.Operator},
		Usages: usages, Now: s.now(), Validity: CertificateValidity})
	if err != nil {
		return err
	}
	s.own.Store(&mutualtls.Credentials{Certificate: *certificate, Authorities: a.pool})
	return nil
}

// renewServing renews the certificate of the server.
func (s *Store) renewServing(a *Authority) error {
	if len(s.options.Hosts) == 0 {
		return nil
	}
	certificate, err := a.renew(s.server.Load(), pki.ServerRequest(s.now(), CertificateValidity, s.options.Hosts...))
	if err != nil {
		return err
	}
	s.server.Store(certificate)
	return nil
}

// renew returns the current certificate, or a new one if it is nil, not trusted, or half of its lifetime is over.
func (a *Authority) renew(current *tls.Certificate, r pki.Request) (*tls.Certificate, error) {
	if current != nil && a.verify(current.Leaf, r.Now.Add(CertificateValidity/2)) == nil {
		return current, nil
	}
	pair, err := a.authority.Issue(r)
	if err != nil {
		return nil, err
	}
	certificate, err := pair.TLS()
	return &certificate, err
}

// usages: an agent serves the operator and, as a client, other agents.
var usages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// verify returns an error if peers do not trust a certificate at a time.
func (a *Authority) verify(certificate *x509.Certificate, at time.Time) error {
	_, err := certificate.Verify(x509.VerifyOptions{Roots: a.pool, CurrentTime: at, KeyUsages: usages})
	return err
}

// Accepts returns an error if the certificate of an agent (PEM) is not for its key, or is not trusted at a time.
func (a *Authority) Accepts(certificate []byte, key *ecdsa.PublicKey, at time.Time) error {
	parsed, err := pki.ParseCertificate(certificate)
	if err != nil {
		return err
	}
	if !key.Equal(parsed.PublicKey) {
		return errors.New("the certificate is for another key")
	}
	return a.verify(parsed, at)
}

// IssueFor returns a certificate (PEM) for the key of the agent of a node.
func (a *Authority) IssueFor(node string, key *ecdsa.PublicKey, now time.Time) ([]byte, error) {
	return a.authority.IssueFor(pki.Request{Name: "LVMS node agent", URIs: []string{mutualtls.Node(node)},
		Hosts: []string{node}, Usages: usages, Now: now, Validity: CertificateValidity}, key)
}
