package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/pki"
)

const (
	// validity of a certificate and of its authority.
	validity = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = validity / 3
)

// pair is a serving certificate, its key, and the authorities to trust, all PEM.
type pair struct {
	certificate, key, authorities []byte
}

// issue makes a serving certificate under a new authority, whose key is not kept: nobody can issue another one.
// The authority before it stays trusted, because other replicas serve with its certificate until they look again.
func issue(name string, now time.Time, before []byte) (pair, error) {
	authority, err := pki.NewAuthority(pki.Request{Name: "authority of " + name, Now: now, Validity: validity})
	if err != nil {
		return pair{}, err
	}
	made, err := authority.Issue(pki.Request{
		Name: name, Hosts: []string{name, name + ".cluster.local"},
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Now: now, Validity: validity,
	})
	if err != nil {
		return pair{}, err
	}
	return pair{certificate: made.Certificate, key: made.Key,
		authorities: append(authority.PEM(), firstBlock(before)...)}, nil
}

// check returns the pair ready to serve, or why it cannot serve a name until it is looked at again.
func (p pair) check(name string, now time.Time) (*tls.Certificate, error) {
	certificate, err := tls.X509KeyPair(p.certificate, p.key)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(p.authorities) {
		return nil, errors.New("there is no certificate authority")
	}
	_, err = certificate.Leaf.Verify(x509.VerifyOptions{
		DNSName: name, Roots: authorities, CurrentTime: now.Add(renewBefore),
	})
	return &certificate, err
}

// firstBlock returns the newest of several authorities.
func firstBlock(authorities []byte) []byte {
	block, _ := pem.Decode(bytes.TrimSpace(authorities))
	if block == nil || block.Type != pki.BlockCertificate {
		return nil
	}
	return pem.EncodeToMemory(block)
}
