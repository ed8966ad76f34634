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
	// validity is the lifetime of a certificate and of its authority.
	validity = 365 * 24 * time.Hour
	// renewBefore is the remaining lifetime at which a certificate is renewed.
	renewBefore = validity / 3
)

// pair is a serving certificate, its key, and the trusted authorities, all in PEM.
type pair struct {
	certificate, key, authorities []byte
}

// issue creates a serving certificate with a new authority. It discards the key of the authority, so that nothing else
// can be signed with it. The previous authority remains trusted, because other replicas serve its certificate until
// their next check.
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

// check parses the pair. It returns an error if the certificate is not valid for a name until its renewal.
func (p pair) check(name string, now time.Time) (*tls.Certificate, error) {
	certificate, err := tls.X509KeyPair(p.certificate, p.key)
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(p.authorities) {
		return nil, errors.New("no certificate authority was found")
	}
	_, err = certificate.Leaf.Verify(x509.VerifyOptions{
		DNSName: name, Roots: authorities, CurrentTime: now.Add(renewBefore),
	})
	return &certificate, err
}

// firstBlock returns the first authority, which is the newest.
func firstBlock(authorities []byte) []byte {
	block, _ := pem.Decode(bytes.TrimSpace(authorities))
	if block == nil || block.Type != pki.BlockCertificate {
		return nil
	}
	return pem.EncodeToMemory(block)
}
