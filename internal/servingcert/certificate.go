// Package servingcert provides the certificate of a server: one from a directory, into which a Secret is mounted and in
// which it is renewed, or a self-signed one if the server allows that.
package servingcert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/pki"
)

const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
	// validity is the lifetime of a self-signed certificate. It is replaced when a third of it remains.
	validity = 90 * 24 * time.Hour
)

// Certificate is the certificate of a server. It comes from a directory, to which OpenShift's service CA delivers and
// renews it with a Secret. Current returns a self-signed certificate as long as the directory has never had one.
type Certificate struct {
	folder string
	report func(error)
	now    func() time.Time

	mu sync.Mutex
	// loaded is from the directory, with the modification time changed; own is self-signed.
	loaded, own *tls.Certificate
	changed     time.Time
	// reported is the last reported error.
	reported string
}

// New returns a Certificate. An empty folder means that there is no directory. report receives each new error that
// prevents the use of the files while an earlier certificate is still served; it may be nil.
func New(folder string, report func(error)) *Certificate {
	if report == nil {
		report = func(error) {}
	}
	return &Certificate{folder: folder, report: report, now: time.Now}
}

// Configure makes a server use Current.
func (c *Certificate) Configure(server *tls.Config) {
	server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Current() }
}

// Current returns the current certificate. It returns an error if the directory has a certificate that could never be
// read: clients would not trust a self-signed one in its place.
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

// FromFolder returns the certificate of the directory, or the error if none was ever loaded.
func (c *Certificate) FromFolder() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		return nil, err
	}
	return c.loaded, nil
}

// load reads the files if they have changed. If the new files do not match, because they are being written, or no
// longer exist, the previous certificate remains in use.
func (c *Certificate) load() error {
	err := c.read()
	if err == nil {
		c.reported = ""
		return nil
	}
	if c.loaded == nil {
		return err
	}
	if text := err.Error(); text != c.reported {
		c.reported = text
		c.report(err)
	}
	return nil
}

func (c *Certificate) read() error {
	crt := filepath.Join(c.folder, certificateFile)
	key := filepath.Join(c.folder, keyFile)
	changed, err := modified(crt, key)
	if err != nil {
		return fmt.Errorf("serving certificate: %w", err)
	}
	if c.loaded != nil && changed.Equal(c.changed) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(crt, key)
	if err != nil {
		return fmt.Errorf("serving certificate in %s: %w", c.folder, err)
	}
	c.loaded = &pair
	c.changed = changed
	return nil
}

// modified returns the latest modification time of the files.
func modified(names ...string) (time.Time, error) {
	var last time.Time
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return time.Time{}, err
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, nil
}

func selfSigned(now time.Time) (*tls.Certificate, error) {
	pair, err := pki.SelfSigned(pki.Request{
		Name: "lvms-metrics", Hosts: []string{"localhost"}, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		Now: now, Validity: validity,
	})
	if err != nil {
		return nil, err
	}
	certificate, err := pair.TLS()
	return &certificate, err
}
