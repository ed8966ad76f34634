package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
)

// NewSigningRequest returns a certificate signing request (PKCS #10, PEM) for an identity, and its new key.
func NewSigningRequest(uri string) (request []byte, key *ecdsa.PrivateKey, err error) {
	parsed, err := url.Parse(uri)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate signing request: %w", err)
	}
	if key, err = newKey(uri); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{parsed}}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate signing request for %s: %w", uri, err)
	}
	return Encode(blockRequest, der), key, nil
}

// ParseSigningRequest returns the public key of a certificate signing request (PKCS #10, PEM). It returns an error if
// the requester does not have the private key, if the key is not of the curve P-256, or if the request is not for this
// identity alone.
func ParseSigningRequest(request []byte, uri string) (*ecdsa.PublicKey, error) {
	block, rest := pem.Decode(request)
	if block == nil || block.Type != blockRequest || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("certificate signing request: must be one PEM block " + blockRequest)
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate signing request: %w", err)
	}
	if err := parsed.CheckSignature(); err != nil {
		return nil, fmt.Errorf("certificate signing request: is not signed with its own key: %w", err)
	}
	key, is := parsed.PublicKey.(*ecdsa.PublicKey)
	if !is || key.Curve != elliptic.P256() {
		return nil, errors.New("certificate signing request: the key must be of the curve P-256")
	}
	others := len(parsed.DNSNames) + len(parsed.IPAddresses) + len(parsed.EmailAddresses)
	if others > 0 || len(parsed.URIs) != 1 || parsed.URIs[0].String() != uri {
		return nil, fmt.Errorf("certificate signing request: is for %v and %d other names, must be for %s only",
			parsed.URIs, others, uri)
	}
	return key, nil
}

// IssueFor signs a certificate for the key of another program, and returns it in PEM.
func (a *Authority) IssueFor(r Request, key *ecdsa.PublicKey) ([]byte, error) {
	template, err := newTemplate(r)
	if err != nil {
		return nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	certificate, err := sign(template, a.certificate, key, a.key)
	if err != nil {
		return nil, err
	}
	return Encode(BlockCertificate, certificate.Raw), nil
}

// Pair returns the authority's certificate and private key, to store it.
func (a *Authority) Pair() (Pair, error) {
	key, err := a.Key()
	return Pair{Certificate: a.PEM(), Key: key}, err
}

// LoadAuthority returns the authority of a stored pair.
func LoadAuthority(p Pair) (*Authority, error) {
	pair, err := p.TLS()
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	key, is := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !is || !pair.Leaf.IsCA {
		return nil, errors.New("certificate authority: the certificate is not of an authority with an ECDSA key")
	}
	return &Authority{certificate: pair.Leaf, key: key}, nil
}

// Certificate returns the authority's certificate. It must not be changed.
func (a *Authority) Certificate() *x509.Certificate { return a.certificate }

// ParseCertificate returns the certificate of a PEM block.
func ParseCertificate(data []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != BlockCertificate || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("certificate: must be one PEM block " + BlockCertificate)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return certificate, nil
}

// WithKey returns the certificate for a TLS peer that has its private key.
func WithKey(certificate *x509.Certificate, key *ecdsa.PrivateKey) (tls.Certificate, error) {
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return tls.Certificate{}, errors.New("the certificate is for another key")
	}
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate}, nil
}
