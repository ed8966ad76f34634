package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

// Lifetimes as on OpenShift.
const (
	authorityLifetime = 26 * 30 * 24 * time.Hour
	servingLifetime   = 2 * 365 * 24 * time.Hour
)

// authority signs serving certificates.
type authority struct {
	*pki.Authority
	certificate *x509.Certificate
	// pem is its own certificate, which clients trust.
	pem []byte
}

func newAuthority() (*authority, error) {
	now := time.Now()
	name := fmt.Sprintf("openshift-service-serving-signer@%d", now.Unix())
	signer, err := pki.NewAuthority(pki.Request{Name: name, Now: now, Validity: authorityLifetime})
	if err != nil {
		return nil, err
	}
	certificate, err := parse(signer.PEM())
	return &authority{Authority: signer, certificate: certificate, pem: signer.PEM()}, err
}

func (a *authority) name() string { return a.certificate.Subject.CommonName }

// issue returns a certificate for the names of a Service, followed by the authority's own as on OpenShift, and its key.
func (a *authority) issue(service *corev1.Service) (chain, key []byte, expiry time.Time, err error) {
	names := servingNames(service)
	now := time.Now()
	pair, err := a.Issue(pki.ServerRequest(now, servingLifetime, names...))
	if err != nil {
		return nil, nil, time.Time{}, err
	}
	return append(pair.Certificate, a.pem...), pair.Key, now.Add(servingLifetime), nil
}

// servingNames returns the DNS names of a Service, including those of the Pods of a headless one.
func servingNames(service *corev1.Service) []string {
	names := pki.ServiceNames(service.Namespace, service.Name)
	if service.Spec.ClusterIP == corev1.ClusterIPNone {
		for _, name := range names {
			names = append(names, "*."+name)
		}
	}
	return names
}

// hasIssued reports whether this authority signed the first certificate of a chain.
func (a *authority) hasIssued(chain []byte) bool {
	certificate, err := parse(chain)
	return err == nil && bytes.Equal(certificate.AuthorityKeyId, a.certificate.SubjectKeyId)
}

// parse parses the first certificate of a chain.
func parse(chain []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(chain)
	if block == nil {
		return nil, fmt.Errorf("no certificate in %d bytes of PEM", len(chain))
	}
	return x509.ParseCertificate(block.Bytes)
}
