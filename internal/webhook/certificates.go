package webhook

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
)

const (
	// caKey is the key of the authorities in the Secret, in addition to tls.crt and tls.key.
	caKey = "ca.crt"

	// lookInterval is the interval at which the Secret and the webhook configuration are checked: another replica may
	// have renewed the certificate, or an installation may have reset the configuration.
	lookInterval = time.Minute
	// retryMin and retryMax limit the time between two attempts after a failure.
	retryMin = time.Second
	retryMax = time.Minute
)

// errNotReady is returned before there is a certificate.
var errNotReady = errors.New("the admission webhook does not have a certificate yet")

// CertificateOptions configure where the certificate is stored and where it is trusted.
type CertificateOptions struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Secret stores the certificate for all replicas.
	Secret client.ObjectKey
	// ServiceName is the Service of the webhook, in the namespace of the Secret.
	ServiceName string
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string
}

// Certificates provides the webhook server's certificate on clusters without a service for it. It creates the
// certificate, shares it among the replicas with a Secret, sets it in the webhook configuration so that the API server
// trusts it, and renews it. It writes no files. Use it with Configure as an option of the webhook server.
type Certificates struct {
	options CertificateOptions
	name    string
	now     func() time.Time

	serving atomic.Pointer[tls.Certificate]
	trusted atomic.Bool
}

// NewCertificates returns a Runnable that maintains the certificate.
func NewCertificates(options CertificateOptions) *Certificates {
	return &Certificates{
		options: options,
		name:    options.ServiceName + "." + options.Secret.Namespace + ".svc",
		now:     time.Now,
	}
}

// NeedLeaderElection returns false: every replica serves.
func (c *Certificates) NeedLeaderElection() bool { return false }

// Configure makes a TLS configuration serve the current certificate.
func (c *Certificates) Configure(config *tls.Config) {
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Current() }
}

// Current returns the current certificate.
func (c *Certificates) Current() (*tls.Certificate, error) {
	if certificate := c.serving.Load(); certificate != nil {
		return certificate, nil
	}
	return nil, errNotReady
}

// Ready is a health check. It returns nil if there is a certificate and the webhook configuration has its authority.
func (c *Certificates) Ready(*http.Request) error {
	if c.serving.Load() == nil || !c.trusted.Load() {
		return errNotReady
	}
	return nil
}

// Start maintains the certificate until the context ends.
func (c *Certificates) Start(ctx context.Context) error {
	retry := retryMin
	for {
		wait := lookInterval
		if err := c.keep(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot store the webhook certificate", "secret", c.options.Secret)
			wait = retry
			retry = min(retry*2, retryMax)
		} else {
			retry = retryMin
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// +kubebuilder:rbac:groups="",resources=secrets,namespace=openshift-lvm-storage,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,namespace=openshift-lvm-storage,resourceNames=lvms-operator-webhook-server-cert,verbs=get;update
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=lvms-operator-webhook,verbs=get;patch

// keep ensures that the Secret has a valid certificate, that the API server trusts it, and that this process serves it.
// In this order a served certificate is always trusted.
func (c *Certificates) keep(ctx context.Context) error {
	secret, err := c.read(ctx)
	if err != nil {
		return err
	}
	shared := pair{secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], secret.Data[caKey]}
	certificate, invalid := shared.check(c.name, c.now())
	if invalid != nil {
		if shared, err = c.renew(ctx, secret, invalid); err != nil {
			return err
		}
		if certificate, err = shared.check(c.name, c.now()); err != nil {
			return fmt.Errorf("verify the new certificate for %s: %w", c.name, err)
		}
	}
	if err := c.trust(ctx, shared.authorities); err != nil {
		return err
	}
	c.serving.Store(certificate)
	c.trusted.Store(true)
	return nil
}

// read returns the Secret, or a new one to create.
func (c *Certificates) read(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := c.options.Client.Get(ctx, c.options.Secret, secret)
	if apierrors.IsNotFound(err) {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: c.options.Secret.Name, Namespace: c.options.Secret.Namespace},
			Type:       corev1.SecretTypeTLS,
		}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", c.options.Secret, err)
	}
	return secret, nil
}

// renew writes a new certificate to the Secret. If another replica was faster, the write fails, and the next attempt
// uses its certificate.
func (c *Certificates) renew(ctx context.Context, secret *corev1.Secret, because error) (pair, error) {
	made, err := issue(c.name, c.now(), secret.Data[caKey])
	if err != nil {
		return pair{}, err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.TLSCertKey] = made.certificate
	secret.Data[corev1.TLSPrivateKeyKey] = made.key
	secret.Data[caKey] = made.authorities
	write := func() error { return c.options.Client.Update(ctx, secret) }
	if secret.ResourceVersion == "" {
		write = func() error { return c.options.Client.Create(ctx, secret) }
	}
	if err := write(); err != nil {
		return pair{}, fmt.Errorf("write Secret %s: %w", c.options.Secret, err)
	}
	log.FromContext(ctx).Info("created a new webhook certificate", "secret", c.options.Secret, "cause",
		because.Error())
	return made, nil
}

// trust sets the authorities in the webhook configuration.
func (c *Certificates) trust(ctx context.Context, authorities []byte) error {
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	if err := c.options.Client.Get(ctx, client.ObjectKey{Name: c.options.Configuration}, configuration); err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", c.options.Configuration, err)
	}
	before := configuration.DeepCopy()
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].ClientConfig.CABundle = authorities
	}
	if slices.EqualFunc(before.Webhooks, configuration.Webhooks, sameBundle) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.options.Client.Patch(ctx, configuration, patch); err != nil {
		return fmt.Errorf("ValidatingWebhookConfiguration %s: set caBundle: %w",
			c.options.Configuration, err)
	}
	return nil
}

func sameBundle(a, b admissionv1.ValidatingWebhook) bool {
	return bytes.Equal(a.ClientConfig.CABundle, b.ClientConfig.CABundle)
}
