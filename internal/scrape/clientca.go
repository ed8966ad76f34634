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

// The API server publishes whose client certificates it takes, for servers that extend it (kube-apiserver,
// pkg/controlplane/controller/clusterauthenticationtrust).
const (
	trustNamespace = "kube-system"
	trustName      = "extension-apiserver-authentication"
	trustKey       = "client-ca-file"
)

const (
	// trustAge is how long the published authorities count. One that is taken away counts no longer than this.
	trustAge = time.Hour
	// trustGap is the least time between two reads.
	trustGap = time.Minute
	// trustLimit is for one read.
	trustLimit = 5 * time.Second
)

// clientCA are the authorities whose client certificates the API server takes. They are read when a client shows a
// certificate, and again when one does not fit or an hour is over: a thousand agents that nobody asks do not watch one
// object.
type clientCA struct {
	reader client.Reader
	now    func() time.Time

	mu     sync.Mutex
	bundle []byte
	pool   *x509.CertPool
	// readAt is when they were last read, triedAt when that was last tried.
	readAt, triedAt time.Time
}

var _ dynamiccertificates.CAContentProvider = &clientCA{}

// Name implements dynamiccertificates.CAContentProvider.
func (c *clientCA) Name() string { return trustNamespace + "/" + trustName }

// AddListener implements dynamiccertificates.CAContentProvider. Who asks gets what is there: nobody needs to be told.
func (c *clientCA) AddListener(dynamiccertificates.Listener) {}

// CurrentCABundleContent implements dynamiccertificates.CAContentProvider.
func (c *clientCA) CurrentCABundleContent() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bundle
}

// VerifyOptions implements dynamiccertificates.CAContentProvider. It is false while no authority is known: then a
// certificate is worth nothing, and the client may have a token.
func (c *clientCA) VerifyOptions() (x509.VerifyOptions, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now().Sub(c.readAt) >= trustAge {
		c.read()
	}
	return x509.VerifyOptions{Roots: c.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, c.pool != nil
}

// renew reads the authorities again, unless that was tried less than a minute ago, and tells whether there are others
// now.
func (c *clientCA) renew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.bundle
	c.read()
	return !bytes.Equal(before, c.bundle)
}

// read keeps what is known where it fails, for as long as trustAge.
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
	log.Log.Error(err, "client certificates for metrics cannot be checked", "configMap", c.Name())
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
		return nil, nil, fmt.Errorf("authorities of client certificates: %w", err)
	}
	bundle := []byte(published.Data[trustKey])
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, nil, errors.New("authorities of client certificates: " + trustKey + " has no certificate")
	}
	return bundle, pool, nil
}
