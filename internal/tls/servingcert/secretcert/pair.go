package secretcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
)

// validity is the lifetime of a certificate and of its authority.
const validity = 365 * 24 * time.Hour

// pair is a serving certificate with its key, and the trusted authorities, all in PEM.
type pair struct {
	pki.Pair
	authorities []byte
}

// issue creates a serving certificate for names with a new authority. It discards the key of the authority, so that
// nothing else can be signed with it. The previous authority remains trusted, because other replicas serve its
// certificate until their next check.
func issue(names []string, now time.Time, before []byte) (pair, error) {
	authority, err := pki.NewAuthority(pki.Request{Name: "authority of " + names[0], Now: now, Validity: validity})
	if err != nil {
		return pair{}, err
	}
	issued, err := authority.Issue(pki.ServerRequest(now, validity, names...))
	if err != nil {
		return pair{}, err
	}
	return pair{issued, append(authority.PEM(), firstBlock(before)...)}, nil
}

// check parses the pair. It returns an error if the certificate is not valid for a name until its renewal.
func (p pair) check(name string, now time.Time) (*tls.Certificate, error) {
	certificate, err := p.TLS()
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(p.authorities) {
		return nil, errors.New("no certificate authority was found")
	}
	_, err = certificate.Leaf.Verify(x509.VerifyOptions{
		DNSName: name, Roots: authorities, CurrentTime: now.Add(servingcert.RenewBefore(validity)),
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
