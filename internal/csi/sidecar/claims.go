package sidecar

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// readLimit is the timeout of reading one object.
const readLimit = 30 * time.Second

// wholeClaims reads single claims from the API server. The provisioner reads only the source of a copy this way,
// compares it with the new claim, and updates it with a finalizer. The cache holds only a part of a claim, and an
// update from the cache would remove the rest.
type wholeClaims struct {
	corelisters.PersistentVolumeClaimLister
	client kubernetes.Interface
}

// PersistentVolumeClaims returns the lister of a namespace.
func (w wholeClaims) PersistentVolumeClaims(namespace string) corelisters.PersistentVolumeClaimNamespaceLister {
	return wholeClaimsOf{w.PersistentVolumeClaimLister.PersistentVolumeClaims(namespace), w.client, namespace}
}

type wholeClaimsOf struct {
	cached    corelisters.PersistentVolumeClaimNamespaceLister
	client    kubernetes.Interface
	namespace string
}

// List returns the claims of the cache.
func (w wholeClaimsOf) List(selector labels.Selector) ([]*corev1.PersistentVolumeClaim, error) {
	return w.cached.List(selector)
}

// Get reads a claim from the API server.
func (w wholeClaimsOf) Get(name string) (*corev1.PersistentVolumeClaim, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	return w.client.CoreV1().PersistentVolumeClaims(w.namespace).Get(ctx, name, metav1.GetOptions{})
}
