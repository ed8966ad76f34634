// Package pki is a lab's certificate authority. It exists as long as the lab, and nothing outside the lab trusts it.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

const validity = 30 * 24 * time.Hour

// CA signs the certificates of one lab.
type CA struct{ *pki.Authority }

// Request describes the subject of a certificate. With Hosts (names and addresses) it is a server certificate too.
type Request struct {
	User   string
	Groups []string
	Hosts  []string
}

// New creates an authority.
func New(name string) (*CA, error) {
	authority, err := pki.NewAuthority(pki.Request{Name: name, Now: time.Now(), Validity: validity})
	return &CA{authority}, err
}

// Issue signs a certificate with a new key.
func (ca *CA) Issue(r Request) (pki.Pair, error) {
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(r.Hosts) > 0 {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	return ca.Authority.Issue(pki.Request{Name: r.User, Groups: r.Groups, Hosts: r.Hosts, Usages: usages,
		Now: time.Now(), Validity: validity})
}

// Write writes NAME.crt and NAME.key into a folder.
func Write(pair pki.Pair, dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), pair.Certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), pair.Key, 0o600)
}

// ServiceAccountKeys returns the keys that sign and verify ServiceAccount tokens.
func ServiceAccountKeys() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if private, err = pki.EncodeKey(key); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, err
	}
	return private, pki.Encode("PUBLIC KEY", der), nil
}

// TLS returns a configuration for both ends of a mutual TLS connection, from CA.crt, NAME.crt and NAME.key in a folder.
func TLS(dir, name string) (*tls.Config, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s/ca.crt holds no certificate", dir)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		RootCAs:      pool,
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
	}, nil
}
