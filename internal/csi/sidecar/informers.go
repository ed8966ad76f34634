package sidecar

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watched lists the kinds that the sidecars read on every cluster.
var watched = []client.Object{
	&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &corev1.Node{}, &storagev1.StorageClass{},
	&storagev1.CSINode{},
}

// managed is an informer factory for the sidecars that returns the informers of a manager, so that the process holds
// each object only once.
type managed struct {
	informers.SharedInformerFactory // for methods that the sidecars do not call
	cache                           cache.Cache
	known                           map[reflect.Type]toolscache.SharedIndexInformer
}

// newManaged gets the informers from the cache. The manager starts them.
func newManaged(ctx context.Context, kube kubernetes.Interface, c cache.Cache, kinds []client.Object) (*managed,
	error) {
	m := &managed{SharedInformerFactory: informers.NewSharedInformerFactory(kube, 0), cache: c,
		known: map[reflect.Type]toolscache.SharedIndexInformer{}}
	for _, object := range kinds {
		informer, err := c.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("informer of %T for the CSI sidecars: %w", object, err)
		}
		whole, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return nil, fmt.Errorf("informer of %T for the CSI sidecars: the manager's cache has a %T",
				object, informer)
		}
		m.known[reflect.TypeOf(object)] = whole
	}
	return m, nil
}

// InformerFor returns the manager's informer of a kind.
func (m *managed) InformerFor(object runtime.Object,
	_ internalinterfaces.NewInformerFunc) toolscache.SharedIndexInformer {
	informer, ok := m.known[reflect.TypeOf(object)]
	if !ok {
		// This panics when the process starts, before it does anything: a new version of a sidecar uses another kind.
		panic(fmt.Sprintf("a CSI sidecar asks for an informer of %T, which internal/csi/sidecar does not list",
			object))
	}
	return informer
}

// Core returns the informers of core kinds.
func (m *managed) Core() core.Interface { return core.New(m, metav1.NamespaceAll, nil) }

// Storage returns the informers of the kinds of storage.k8s.io.
func (m *managed) Storage() storage.Interface { return storage.New(m, metav1.NamespaceAll, nil) }

// Start does nothing: the manager starts its informers.
func (m *managed) Start(<-chan struct{}) {}

// StartWithContext does nothing, like Start.
func (m *managed) StartWithContext(context.Context) {}

// WaitForCacheSync waits for the informers.
func (m *managed) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	synced := map[reflect.Type]bool{}
	for kind, informer := range m.known {
		synced[kind] = toolscache.WaitForCacheSync(stop, informer.HasSynced)
	}
	return synced
}

var _ internalinterfaces.SharedInformerFactory = &managed{}

func synced(ctx context.Context, factory informers.SharedInformerFactory) bool {
	for _, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return false
		}
	}
	return true
}
