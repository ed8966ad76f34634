package story

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

const certificateValidity = 365 * 24 * time.Hour

// ServiceCA simulates OpenShift's service CA: it creates Secrets with certificates for Services.
type ServiceCA struct {
	authority *pki.Authority
	// Authority is its own certificate in PEM.
	Authority []byte
}

// NewServiceCA returns a ServiceCA with a new key.
func NewServiceCA() (*ServiceCA, error) {
	authority, err := pki.NewAuthority(pki.Request{Name: "service CA", Now: time.Now(), Validity: certificateValidity})
	if err != nil {
		return nil, err
	}
	return &ServiceCA{authority: authority, Authority: authority.PEM()}, nil
}

// Serve recreates the Secret of a Service in the operator's namespace. If the Service exists, it owns the Secret.
func (ca *ServiceCA) Serve(ctx context.Context, cluster *Cluster, service, secretName string) error {
	pair, err := ca.authority.Issue(pki.ServerRequest(time.Now(), certificateValidity,
		pki.ServiceNames(cluster.InstallNamespace(), service)...))
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.InstallNamespace(), Name: secretName},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key},
	}
	owner := &corev1.Service{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: cluster.InstallNamespace(), Name: service},
		owner); client.IgnoreNotFound(err) != nil {
		return err
	} else if err == nil {
		secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: owner.Name,
			UID: owner.UID}}
	}
	if err := client.IgnoreNotFound(cluster.Delete(ctx, secret)); err != nil {
		return err
	}
	secret.ResourceVersion = ""
	return cluster.Create(ctx, secret)
}
