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

// readLimit is for the read of one object.
const readLimit = 30 * time.Second

// wholeClaims reads single claims from the API server. The provisioner asks for the source of a copy only, compares it
// with the new claim, and writes it back with a finalizer: the cache holds less of a claim than that, and would have
// the rest removed.
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

// List lists what the cache has.
func (w wholeClaimsOf) List(selector labels.Selector) ([]*corev1.PersistentVolumeClaim, error) {
	return w.cached.List(selector)
}

// Get reads a claim.
func (w wholeClaimsOf) Get(name string) (*corev1.PersistentVolumeClaim, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	return w.client.CoreV1().PersistentVolumeClaims(w.namespace).Get(ctx, name, metav1.GetOptions{})
}
