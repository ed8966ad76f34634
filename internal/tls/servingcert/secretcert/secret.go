// Package secretcert keeps the certificate of the admission webhook in a Secret, on clusters that do not provide one.
// The rotators of cert-controller and of OpenShift's library-go cannot replace it: they store the key of the authority
// too, and here nobody can sign another certificate.
package secretcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/kube/periodic"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

// caKey is the key of the authorities in the Secret, in addition to tls.crt and tls.key.
const caKey = "ca.crt"

// errNotReady is returned before there is a certificate.
var errNotReady = errors.New("the admission webhook does not have a certificate yet")

// Options configure where the certificate is stored and where it is trusted.
type Options struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Secret stores the certificate for all replicas.
	Secret client.ObjectKey
	// ServiceName is the Service of the webhook, in the namespace of the Secret.
	ServiceName string
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string
}

// Secret is the webhook server's certificate. It creates the certificate, shares it among the replicas with a Secret,
// sets it in the webhook configuration so that the API server trusts it, and renews it. It writes no files. It is a
// servingcert.Source and a Runnable.
type Secret struct {
	options Options
	names   []string
	now     func() time.Time

	serving atomic.Pointer[tls.Certificate]
	trusted atomic.Bool
}

// New returns the certificate in a Secret. It must be started.
func New(options Options) *Secret {
	return &Secret{
		options: options,
		names:   pki.ServiceNames(options.Secret.Namespace, options.ServiceName),
		now:     time.Now,
	}
}

// NeedLeaderElection returns false: every replica serves.
func (s *Secret) NeedLeaderElection() bool { return false }

// Current returns the current certificate.
func (s *Secret) Current() (*tls.Certificate, error) {
	if certificate := s.serving.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errNotReady
}

// Ready is a health check. It returns nil if there is a certificate and the webhook configuration has its authority.
func (s *Secret) Ready(*http.Request) error {
	if s.serving.Load() == nil || !s.trusted.Load() {
		return errNotReady
	}
	return nil
}

// Start maintains the certificate until the context ends. Another replica may renew it, and an installation may reset
// the webhook configuration.
func (s *Secret) Start(ctx context.Context) error {
	periodic.Run(ctx, "renewal of the webhook certificate", s.keep, func(err error) {
		log.FromContext(ctx).Error(err, "cannot store the webhook certificate", "secret", s.options.Secret)
	})
	return nil
}

// +kubebuilder:rbac:groups="",resources=secrets,namespace=openshift-lvm-storage,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,namespace=openshift-lvm-storage,resourceNames=lvms-operator-webhook-server-cert,verbs=get;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=lvms-operator-webhook,verbs=get;patch

// keep ensures that the Secret has a valid certificate, that the API server trusts it, and that this process serves it.
// In this order a served certificate is always trusted.
func (s *Secret) keep(ctx context.Context) error {
	secret, err := Read(ctx, s.options.Client, s.options.Secret)
	if err != nil {
		return err
	}
	shared := pair{pki.Pair{Certificate: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]},
		secret.Data[caKey]}
	certificate, invalid := shared.check(s.names[0], s.now())
	if invalid != nil {
		if shared, err = s.renew(ctx, secret, invalid); err != nil {
			return err
		}
		if certificate, err = shared.check(s.names[0], s.now()); err != nil {
			return fmt.Errorf("verify the new certificate for %s: %w", s.names[0], err)
		}
	}
	if err := s.trust(ctx, shared.authorities); err != nil {
		return err
	}
	s.serving.Store(certificate)
	s.trusted.Store(true)
	return nil
}

// Read returns a Secret with a certificate, or a new one to create.
func Read(ctx context.Context, c client.Client, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace},
			Type:       corev1.SecretTypeTLS,
		}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	return secret, nil
}

// IsNew returns true if the API server does not have a Secret of Read yet.
func IsNew(secret *corev1.Secret) bool { return secret.ResourceVersion == "" }

// Write stores a Secret of Read. If another replica was faster, it fails, and the next attempt reads what that one
// stored.
func Write(ctx context.Context, c client.Client, secret *corev1.Secret) error {
	write := func() error { return c.Update(ctx, secret) }
	if IsNew(secret) {
		write = func() error { return c.Create(ctx, secret) }
	}
	if err := write(); err != nil {
		return fmt.Errorf("write Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

// renew writes a new certificate to the Secret.
func (s *Secret) renew(ctx context.Context, secret *corev1.Secret, because error) (pair, error) {
	made, err := issue(s.names, s.now(), secret.Data[caKey])
	if err != nil {
		return pair{}, err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.TLSCertKey] = made.Certificate
	secret.Data[corev1.TLSPrivateKeyKey] = made.Key
	secret.Data[caKey] = made.authorities
	if err := Write(ctx, s.options.Client, secret); err != nil {
		return pair{}, err
	}
	log.FromContext(ctx).Info("created a new webhook certificate", "secret", s.options.Secret, "cause",
		because.Error())
	return made, nil
}

// trust sets the authorities in the webhook configuration.
func (s *Secret) trust(ctx context.Context, authorities []byte) error {
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	if err := s.options.Client.Get(ctx, client.ObjectKey{Name: s.options.Configuration}, configuration); err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", s.options.Configuration, err)
	}
	before := configuration.DeepCopy()
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].ClientConfig.CABundle = authorities
	}
	if slices.EqualFunc(before.Webhooks, configuration.Webhooks, sameBundle) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := s.options.Client.Patch(ctx, configuration, patch); err != nil {
		return fmt.Errorf("ValidatingWebhookConfiguration %s: set caBundle: %w",
			s.options.Configuration, err)
	}
	return nil
}

func sameBundle(a, b admissionv1.ValidatingWebhook) bool {
	return bytes.Equal(a.ClientConfig.CABundle, b.ClientConfig.CABundle)
}
