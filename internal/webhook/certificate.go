package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

const (
	// validity of a certificate and of its authority.
	validity = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = validity / 3
	// clockSkew is how much the API server's clock may be behind.
	clockSkew = time.Hour

	blockCertificate = "CERTIFICATE"
	blockKey         = "EC PRIVATE KEY"
)

// pair is a serving certificate, its key, and the authorities to trust, all PEM.
type pair struct {
	certificate, key, authorities []byte
}

// issue makes a serving certificate under a new authority, whose key is not kept: nobody can issue another one.
// The authority before it stays trusted, because other replicas serve with its certificate until they look again.
func issue(name string, now time.Time, before []byte) (pair, error) {
	authority, authorityKey, err := newAuthority(name, now)
	if err != nil {
		return pair{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("make a key: %w", err)
	}
	template, err := newTemplate(name, now)
	if err != nil {
		return pair{}, err
	}
	template.DNSNames = []string{name, name + ".cluster.local"}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey)
	if err != nil {
		return pair{}, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair{}, fmt.Errorf("encode the key of %s: %w", name, err)
	}
	return pair{
		certificate: encode(blockCertificate, der),
		key:         encode(blockKey, keyDER),
		authorities: append(encode(blockCertificate, authority.Raw), firstBlock(before)...),
	}, nil
}

func newAuthority(name string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key of a certificate authority: %w", err)
	}
	template, err := newTemplate("authority of "+name, now)
	if err != nil {
		return nil, nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	authority, err := x509.ParseCertificate(der)
	return authority, key, err
}

func newTemplate(name string, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
	}, nil
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

func encode(block string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der})
}

// firstBlock returns the newest of several authorities.
func firstBlock(authorities []byte) []byte {
	block, _ := pem.Decode(bytes.TrimSpace(authorities))
	if block == nil || block.Type != blockCertificate {
		return nil
	}
	return pem.EncodeToMemory(block)
}
