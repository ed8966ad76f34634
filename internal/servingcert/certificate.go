// Package servingcert has the certificate that a server shows: one that a Secret brings into a folder and renews there,
// or, where a server is allowed to do without, one that it signs itself.
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
	// validity is that of a certificate of our own. It is replaced when a third of it is left.
	validity = 90 * 24 * time.Hour
)

// Certificate is what a server shows: the one in a folder, which OpenShift's service CA fills through a Secret and
// renews there; and from Current one that it signs itself as long as that was never there.
type Certificate struct {
	folder string
	report func(error)
	now    func() time.Time

	mu sync.Mutex
	// loaded is from the folder, written at changed; own is ours.
	loaded, own *tls.Certificate
	changed     time.Time
	// reported is the error that was reported last.
	reported string
}

// New returns a Certificate. An empty folder name is for none. report is told, each time again, why what is in the
// folder now cannot be shown while an earlier one holds; nil for nobody.
func New(folder string, report func(error)) *Certificate {
	if report == nil {
		report = func(error) {}
	}
	return &Certificate{folder: folder, report: report, now: time.Now}
}

// Configure makes a server show what Current returns.
func (c *Certificate) Configure(server *tls.Config) {
	server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Current() }
}

// Current returns the certificate that holds now. It fails where the folder has one that was never readable: what is
// signed here instead is not what clients expect then.
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

// FromFolder returns the one in the folder, or why there never was one.
func (c *Certificate) FromFolder() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		return nil, err
	}
	return c.loaded, nil
}

// load reads the files where they have changed. While the new ones do not fit each other, being written, or are gone,
// the last ones hold.
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

// modified is the last change of the files.
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
