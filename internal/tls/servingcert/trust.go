package servingcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

// ServiceOf returns the name of the Service that a serving certificate is for. The installer names the Service: OLM
// gives it another name than the manifests do.
func ServiceOf(certificate *tls.Certificate, namespace string) (string, error) {
	leaf, err := leafOf(certificate)
	if err != nil {
		return "", err
	}
	for _, name := range leaf.DNSNames {
		if service, found := strings.CutSuffix(name, "."+namespace+".svc"); found && !strings.Contains(service, ".") {
			return service, nil
		}
	}
	return "", fmt.Errorf("the certificate of the webhook server is for %q, and not for a Service in namespace %s",
		leaf.DNSNames, namespace)
}

func leafOf(certificate *tls.Certificate) (*x509.Certificate, error) {
	if certificate.Leaf != nil {
		return certificate.Leaf, nil
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("certificate of the webhook server: %w", err)
	}
	return leaf, nil
}

// Trusted returns the bundle of the webhook: the serving certificate itself, because the authority that issued it is
// not always known, and the last one from the bundle before, which another replica may still serve.
func Trusted(certificate *tls.Certificate, before []byte, now time.Time) []byte {
	current := certificate.Certificate[0]
	bundle := pki.Encode(pki.BlockCertificate, current)
	for rest := before; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return bundle
		}
		previous, err := x509.ParseCertificate(block.Bytes)
		if err != nil || bytes.Equal(block.Bytes, current) || now.After(previous.NotAfter) {
			continue
		}
		return append(bundle, pki.Encode(pki.BlockCertificate, block.Bytes)...)
	}
}
