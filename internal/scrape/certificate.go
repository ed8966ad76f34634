package scrape

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	certificateFile, keyFile = "tls.crt", "tls.key"
	// validity is that of a certificate of our own. It is replaced when a third of it is left.
	validity = 90 * 24 * time.Hour
	// clockSkew is how much a client's clock may be behind.
	clockSkew = time.Hour
)

// Certificate is what a server shows: the one in a folder, which OpenShift's service CA fills through an optional Secret and renews there;
// and one that it signs itself as long as that is not there.
type Certificate struct {
	folder string
	now    func() time.Time

	mu sync.Mutex
	// loaded is from the folder, written at changed; own is ours.
	loaded, own *tls.Certificate
	changed     time.Time
}

// NewCertificate returns a Certificate. An empty folder name is for none.
func NewCertificate(folder string) *Certificate { return &Certificate{folder: folder, now: time.Now} }

// Configure makes a server show it.
func (c *Certificate) Configure(server *tls.Config) {
	server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Current() }
}

// Current returns the certificate that holds now.
func (c *Certificate) Current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.folder != "" {
		err := c.load()
		if err == nil {
			return c.loaded, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if c.own == nil || c.own.Leaf.NotAfter.Sub(c.now()) < validity/3 {
		own, err := selfSigned(c.now())
		if err != nil {
			return nil, err
		}
		c.own = own
	}
	return c.own, nil
}

// FromFolder returns the one in the folder, or why there is none.
func (c *Certificate) FromFolder() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		return nil, err
	}
	return c.loaded, nil
}

// load reads the files where they have changed. While the new ones do not fit each other, being written, the last ones hold.
func (c *Certificate) load() error {
	file := filepath.Join(c.folder, certificateFile)
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if c.loaded != nil && info.ModTime().Equal(c.changed) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(file, filepath.Join(c.folder, keyFile))
	if err != nil {
		if c.loaded != nil {
			return nil
		}
		return fmt.Errorf("certificate of the metrics in %s: %w", c.folder, err)
	}
	c.loaded, c.changed = &pair, info.ModTime()
	return nil
}

func selfSigned(now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for the metrics: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "lvms-metrics"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(validity), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of the metrics: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
