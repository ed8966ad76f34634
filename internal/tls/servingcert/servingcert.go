// Package servingcert provides the certificates of servers. A Folder loads one from a directory, into which a Secret is
// mounted and in which it is renewed, or has a self-signed one if the server allows that. Package secretcert keeps one
// in a Secret, on clusters that provide none. controller-runtime's certwatcher cannot replace a Folder: it fails if the
// files do not exist when it is created, although the Secret is often delivered later.
package servingcert

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
	// validity is the lifetime of a self-signed certificate.
	validity = 90 * 24 * time.Hour
)

// Source has the certificate of a server.
type Source interface {
	// Current returns the current certificate.
	Current() (*tls.Certificate, error)
}

// Configure returns an option of a server that serves the current certificate of a source.
func Configure(source Source) func(*tls.Config) {
	return func(server *tls.Config) {
		server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return source.Current() }
	}
}

// RenewBefore returns the remaining lifetime at which a certificate with a validity is renewed.
func RenewBefore(validity time.Duration) time.Duration { return validity / 3 }

// Folder is the certificate in a directory, to which OpenShift's service CA or OLM delivers and renews it with a
// Secret.
type Folder struct {
	path   string
	report func(error)
	now    func() time.Time
	// selfSigned allows a self-signed certificate as long as the directory has never had one.
	selfSigned bool

	mu sync.Mutex
	// loaded is from the directory, with the modification time changed; own is self-signed.
	loaded, own *tls.Certificate
	changed     time.Time
	// reported is the last reported error.
	reported string
}

// NewFolder returns the certificate in a directory. report receives each new error that prevents the use of the files
// while an earlier certificate is still served; it may be nil.
func NewFolder(path string, report func(error)) *Folder {
	if report == nil {
		report = func(error) {}
	}
	return &Folder{path: path, report: report, now: time.Now}
}

// NewFolderOrSelfSigned returns the certificate in a directory, and a self-signed one as long as the directory has
// never had one. An empty path means that there is no directory.
func NewFolderOrSelfSigned(path string, report func(error)) *Folder {
	f := NewFolder(path, report)
	f.selfSigned = true
	return f
}

// Current returns the current certificate, or an error if none was ever loaded. If the directory has a certificate that
// cannot be read, it does not return a self-signed one in its place: clients would not trust it.
func (f *Folder) Current() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" && f.selfSigned {
		return f.currentOwn()
	}
	err := f.load()
	switch {
	case err == nil:
		return f.loaded, nil
	case f.selfSigned && errors.Is(err, fs.ErrNotExist):
		return f.currentOwn()
	}
	return nil, err
}

// currentOwn returns the self-signed certificate.
func (f *Folder) currentOwn() (*tls.Certificate, error) {
	if f.own == nil || f.own.Leaf.NotAfter.Sub(f.now()) < RenewBefore(validity) {
		own, err := selfSigned(f.now())
		if err != nil {
			return nil, err
		}
		f.own = own
	}
	return f.own, nil
}

// load reads the files if they have changed. If the new files do not match, because they are being written, or no
// longer exist, the previous certificate remains in use.
func (f *Folder) load() error {
	err := f.read()
	if err == nil {
		f.reported = ""
		return nil
	}
	if f.loaded == nil {
		return err
	}
	if text := err.Error(); text != f.reported {
		f.reported = text
		f.report(err)
	}
	return nil
}

func (f *Folder) read() error {
	crt := filepath.Join(f.path, certificateFile)
	key := filepath.Join(f.path, keyFile)
	changed, err := modified(crt, key)
	if err != nil {
		return fmt.Errorf("serving certificate: %w", err)
	}
	if f.loaded != nil && changed.Equal(f.changed) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(crt, key)
	if err != nil {
		return fmt.Errorf("serving certificate in %s: %w", f.path, err)
	}
	f.loaded = &pair
	f.changed = changed
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
	request := pki.ServerRequest(now, validity, "localhost")
	request.Name = "lvms-metrics"
	pair, err := pki.SelfSigned(request)
	if err != nil {
		return nil, err
	}
	certificate, err := pair.TLS()
	return &certificate, err
}
