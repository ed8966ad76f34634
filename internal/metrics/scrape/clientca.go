package scrape

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The API server publishes the authorities of the client certificates that it accepts, for extension API servers
// (kube-apiserver, pkg/controlplane/controller/clusterauthenticationtrust).
const (
	trustNamespace = "kube-system"
	trustName      = "extension-apiserver-authentication"
	trustKey       = "client-ca-file"
)

const (
	// trustAge is how long the published authorities are cached. A removed authority is trusted no longer than this.
	trustAge = time.Hour
	// trustGap is the minimum time between two reads.
	trustGap = time.Minute
	// trustLimit is the timeout of one read.
	trustLimit = 5 * time.Second
)

// clientCA has the authorities of the client certificates that the API server accepts. It reads them when a client
// sends a certificate, and again if the verification of one fails or after an hour. It does not watch, because a
// thousand agents that nobody scrapes would watch one object.
type clientCA struct {
	reader client.Reader
	now    func() time.Time

	mu     sync.Mutex
	bundle []byte
	pool   *x509.CertPool
	// readAt is the time of the last successful read, triedAt that of the last attempt.
	readAt, triedAt time.Time
}

var _ dynamiccertificates.CAContentProvider = &clientCA{}

// Name implements dynamiccertificates.CAContentProvider.
func (c *clientCA) Name() string { return trustNamespace + "/" + trustName }

// AddListener implements dynamiccertificates.CAContentProvider. It does nothing: callers always read the current
// content.
func (c *clientCA) AddListener(dynamiccertificates.Listener) {}

// CurrentCABundleContent implements dynamiccertificates.CAContentProvider.
func (c *clientCA) CurrentCABundleContent() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bundle
}

// VerifyOptions implements dynamiccertificates.CAContentProvider. It returns false if no authority is known:
// certificates are then ignored, and the client may have a token.
func (c *clientCA) VerifyOptions() (x509.VerifyOptions, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Sub(c.readAt) >= trustAge {
		c.read()
	}
	return x509.VerifyOptions{Roots: c.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, c.pool != nil
}

// renew reads the authorities again, unless the last attempt was less than trustGap ago, and reports whether they have
// changed.
func (c *clientCA) renew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.bundle
	c.read()
	return !bytes.Equal(before, c.bundle)
}

// read updates the authorities. If that fails, it keeps the known ones for up to trustAge.
func (c *clientCA) read() {
	now := c.now()
	if now.Sub(c.triedAt) < trustGap {
		return
	}
	c.triedAt = now
	bundle, pool, err := c.fetch()
	if err == nil {
		c.bundle = bundle
		c.pool = pool
		c.readAt = now
		return
	}
	log.Log.Error(err, "cannot verify client certificates for metrics", "configMap", c.Name())
	if now.Sub(c.readAt) >= trustAge {
		c.bundle = nil
		c.pool = nil
	}
}

func (c *clientCA) fetch() ([]byte, *x509.CertPool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), trustLimit)
	defer cancel()
	published := &corev1.ConfigMap{}
	if err := c.reader.Get(ctx, client.ObjectKey{Namespace: trustNamespace, Name: trustName}, published); err != nil {
		return nil, nil, fmt.Errorf("load the certificate authorities for client certificates: %w", err)
	}
	bundle := []byte(published.Data[trustKey])
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, nil, errors.New("load the certificate authorities for client certificates: " + trustKey +
			" contains no certificate")
	}
	return bundle, pool, nil
}
