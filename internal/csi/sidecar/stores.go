package sidecar

import (
	"context"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
)

// forResizer returns the informers for the resizer. The resizer reads the PersistentVolume of a claim, which is settled
// and thus not in the cache, and it writes to the stores, which must follow only the API server.
func (m *managed) forResizer(client kubernetes.Interface) *managed {
	other := *m
	other.known = maps.Clone(m.known)
	for kind, live := range map[reflect.Type]func(store) toolscache.Indexer{
		reflect.TypeFor[*corev1.PersistentVolume](): func(
			s store) toolscache.Indexer {
			return wholeVolumes{s, client}
		},
		reflect.TypeFor[*corev1.PersistentVolumeClaim](): func(s store) toolscache.Indexer { return s },
	} {
		informer := m.known[kind]
		other.known[kind] = withStore{informer, live(store{informer.GetIndexer()})}
	}
	return &other
}

// withStore is an informer with a different store.
type withStore struct {
	toolscache.SharedIndexInformer
	store toolscache.Indexer
}

// GetStore returns the different store.
func (i withStore) GetStore() toolscache.Store { return i.store }

// GetIndexer returns the different store, for listers.
func (i withStore) GetIndexer() toolscache.Indexer { return i.store }

// store ignores updates by others than the informer: an object that has settled meanwhile would be added again and
// never removed.
type store struct{ toolscache.Indexer }

// Update does nothing.
func (store) Update(any) error { return nil }

// wholeVolumes reads PersistentVolumes that are not in the cache from the API server.
type wholeVolumes struct {
	store
	client kubernetes.Interface
}

// GetByKey returns a PersistentVolume by its name.
func (s wholeVolumes) GetByKey(name string) (any, bool, error) {
	if held, ok, err := s.Indexer.GetByKey(name); ok || err != nil {
		return held, ok, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	volume, err := s.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	return volume, err == nil, err
}
