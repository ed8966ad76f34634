package story

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ServiceCA does what OpenShift's service CA does: it makes Secrets with certificates for Services.
type ServiceCA struct {
	template *x509.Certificate
	key      *ecdsa.PrivateKey
	// Authority is its own certificate, PEM.
	Authority []byte
}

// NewServiceCA returns one with a key of its own.
func NewServiceCA() (*ServiceCA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "service CA"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &ServiceCA{template: template, key: key, Authority: encode("CERTIFICATE", der)}, nil
}

// Serve makes the Secret of a Service in the operator's namespace anew. It goes with the Service, where that is there.
func (ca *ServiceCA) Serve(ctx context.Context, cluster *Cluster, service, secretName string) error {
	host := service + "." + OperatorNamespace + ".svc"
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host, host + ".cluster.local"},
		NotBefore: ca.template.NotBefore, NotAfter: ca.template.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca.template, ca.key.Public(), ca.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(ca.key)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: secretName}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: encode("CERTIFICATE", der), corev1.TLSPrivateKeyKey: encode("EC PRIVATE KEY", private)},
	}
	owner := &corev1.Service{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: OperatorNamespace, Name: service}, owner); client.IgnoreNotFound(err) != nil {
		return err
	} else if err == nil {
		secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: owner.Name, UID: owner.UID}}
	}
	if err := client.IgnoreNotFound(cluster.Delete(ctx, secret)); err != nil {
		return err
	}
	secret.ResourceVersion = ""
	return cluster.Create(ctx, secret)
}

func encode(block string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der})
}
