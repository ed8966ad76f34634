package agentca

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
)

const (
	// validity is the lifetime of an authority.
	validity = 365 * 24 * time.Hour
	// CertificateValidity is the lifetime of a certificate of an agent or of the operator.
	CertificateValidity = 48 * time.Hour
	// distribution is the time between the creation of an authority, from when on it is trusted, and its first
	// signature. An agent that did not run meanwhile reads the trusted authorities when it starts.
	distribution = 24 * time.Hour
	// clockSkew is how much earlier than its creation an authority is valid (package pki).
	clockSkew = time.Hour
)

// state is the authorities that the Secret stores.
type state struct {
	// signing signs certificates. next is trusted, and signs later; it is empty except during a rotation.
	signing, next pki.Pair
	// previous is the certificate of the authority that signed before, PEM, as long as its certificates are in use.
	previous []byte
}

// rotate returns the state for a time, and why it differs, or "" if it does not. An authority that signs was trusted
// for the time distribution before, and its certificates are trusted until the last of them has expired. Only if the
// stored state is not usable, a new authority signs at once.
func (s state) rotate(now time.Time) (after state, because string, err error) {
	signing, err := s.valid(now)
	if err != nil {
		created, createErr := create(now)
		return state{signing: created}, err.Error(), createErr
	}
	if len(s.next.Certificate) > 0 {
		return s.promote(now)
	}
	if len(s.previous) > 0 && now.After(createdAt(signing).Add(distribution+CertificateValidity+clockSkew)) {
		return state{signing: s.signing}, "the certificates of the previous authority have expired", nil
	}
	if signing.NotAfter.Sub(now) >= servingcert.RenewBefore(validity) {
		return s, "", nil
	}
	next, err := create(now)
	return state{signing: s.signing, next: next, previous: s.previous}, "the authority expires soon", err
}

// promote lets the next authority sign if it was distributed.
func (s state) promote(now time.Time) (after state, because string, err error) {
	next, err := pki.LoadAuthority(s.next)
	if err != nil {
		return state{signing: s.signing, previous: s.previous}, fmt.Sprintf("the next authority is not valid: %v", err),
			nil
	}
	if now.Before(createdAt(next.Certificate()).Add(distribution)) {
		return s, "", nil
	}
	return state{signing: s.next, previous: s.signing.Certificate}, "the next authority was distributed", nil
}

// valid returns the certificate of the signing authority, or why it cannot sign.
func (s state) valid(now time.Time) (*x509.Certificate, error) {
	if len(s.signing.Certificate) == 0 {
		return nil, errors.New("there is no authority yet")
	}
	signing, err := pki.LoadAuthority(s.signing)
	if err != nil {
		return nil, err
	}
	certificate := signing.Certificate()
	if now.Before(certificate.NotBefore) || now.Add(CertificateValidity).After(certificate.NotAfter) {
		return nil, fmt.Errorf("the authority is valid from %s to %s", certificate.NotBefore.Format(time.RFC3339),
			certificate.NotAfter.Format(time.RFC3339))
	}
	return certificate, nil
}

// trusted returns the authorities that operator and agents trust, in PEM.
func (s state) trusted() []byte {
	return bytes.Join([][]byte{s.signing.Certificate, s.next.Certificate, s.previous}, nil)
}

func createdAt(certificate *x509.Certificate) time.Time { return certificate.NotBefore.Add(clockSkew) }

func create(now time.Time) (pki.Pair, error) {
	created, err := pki.NewAuthority(pki.Request{Name: "LVMS agents", Now: now, Validity: validity})
	if err != nil {
		return pki.Pair{}, err
	}
	return created.Pair()
}
