// Package pki issues X.509 certificates with ECDSA keys: for the admission webhook, for metrics, for connections
// between operator and node agents, and for labs and tests. It uses only the standard library, so that the server of
// the console plugin stays small; client-go's util/cert supports only RSA keys and authorities with a lifetime of ten
// years.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"time"
)

// clockSkew is how much the clock of a peer may be behind.
const clockSkew = time.Hour

// Types of PEM blocks.
const (
	BlockCertificate = "CERTIFICATE"
	blockKey         = "EC PRIVATE KEY"
	blockPKCS8Key    = "PRIVATE KEY"
	blockRequest     = "CERTIFICATE REQUEST"
)

// Request describes a certificate.
type Request struct {
	// Name is the common name, which Kubernetes uses as the user. Groups are the groups of the user.
	Name   string
	Groups []string
	// Hosts are DNS names and IP addresses.
	Hosts []string
	// URIs are identities.
	URIs []string
	// Usages are the usages of the key. An authority has none.
	Usages []x509.ExtKeyUsage
	// Now is the start of the validity, less an hour for clocks that are behind.
	Now      time.Time
	Validity time.Duration
}

// ServerRequest describes the certificate of a server. The first host is the common name.
func ServerRequest(now time.Time, validity time.Duration, hosts ...string) Request {
	return Request{Name: hosts[0], Hosts: hosts, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Now: now,
		Validity: validity}
}

// ServiceNames returns the DNS names of a Service inside its cluster.
func ServiceNames(namespace, service string) []string {
	host := service + "." + namespace + ".svc"
	return []string{host, host + ".cluster.local"}
}

// Pair is a certificate with its key, both in PEM.
type Pair struct {
	Certificate, Key []byte
}

// TLS returns the pair for a TLS server.
func (p Pair) TLS() (tls.Certificate, error) { return tls.X509KeyPair(p.Certificate, p.Key) }

// Authority signs certificates. It keeps its key only in memory.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority creates an authority.
func NewAuthority(r Request) (*Authority, error) {
	key, err := newKey(r.Name)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(r)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign
	certificate, err := sign(template, template, key.Public(), key)
	return &Authority{certificate: certificate, key: key}, err
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return Encode(BlockCertificate, a.certificate.Raw) }

// Key returns the authority's private key in PKCS #8, PEM, for another program that signs with it.
func (a *Authority) Key() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("encode the private key of %s: %w", a.certificate.Subject.CommonName, err)
	}
	return Encode(blockPKCS8Key, der), nil
}

// Issue signs a certificate with a new key.
func (a *Authority) Issue(r Request) (Pair, error) {
	return issue(r, func(template *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
		return sign(template, a.certificate, key.Public(), a.key)
	})
}

// SelfSigned returns a self-signed certificate with a new key.
func SelfSigned(r Request) (Pair, error) {
	return issue(r, func(template *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
		return sign(template, template, key.Public(), key)
	})
}

func issue(r Request, signed func(*x509.Certificate, *ecdsa.PrivateKey) (*x509.Certificate, error)) (Pair, error) {
	key, err := newKey(r.Name)
	if err != nil {
		return Pair{}, err
	}
	template, err := newTemplate(r)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	certificate, err := signed(template, key)
	if err != nil {
		return Pair{}, err
	}
	private, err := EncodeKey(key)
	return Pair{Certificate: Encode(BlockCertificate, certificate.Raw), Key: private}, err
}

// Encode returns a PEM block.
func Encode(block string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der})
}

// EncodeKey returns a private key in SEC 1, PEM.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a private key: %w", err)
	}
	return Encode(blockKey, der), nil
}

func newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a private key for %s: %w", name, err)
	}
	return key, nil
}

func newTemplate(r Request) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("generate a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: r.Name, Organization: r.Groups},
		NotBefore:             r.Now.Add(-clockSkew),
		NotAfter:              r.Now.Add(r.Validity),
		BasicConstraintsValid: true,
		ExtKeyUsage:           r.Usages,
	}
	for _, uri := range r.URIs {
		parsed, err := url.Parse(uri)
		if err != nil {
			return nil, fmt.Errorf("identity of %s: %w", r.Name, err)
		}
		template.URIs = append(template.URIs, parsed)
	}
	for _, host := range r.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template, nil
}

func sign(template, parent *x509.Certificate, key crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, signer)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate for %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}
