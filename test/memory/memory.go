// Package memory is an API server in memory for tests: controller-runtime's fake client, and what else an API server
// does with the metadata of objects. It has no validation, admission or permissions: package env has those.
package memory

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	configv1 "github.com/openshift/api/config/v1"
	consolev1 "github.com/openshift/api/console/v1"
	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// scheme has the kinds of Kubernetes, OpenShift, TopoLVM, snapshots and the product.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, lvmv1alpha1.AddToScheme,
		topolvmv1.AddToScheme, earlierv1.AddToScheme, snapshotv1.AddToScheme, groupsnapshotv1.AddToScheme,
		configv1.Install, consolev1.Install} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
})

// withStatus are kinds whose status is written separately: it is discarded when an object is created.
func withStatus() []client.Object {
	return []client.Object{&lvmv1alpha1.LVMCluster{}, &lvmv1alpha1.LVMRecovery{}, &lvmv1alpha1.LVMVolumeGroup{},
		&lvmv1alpha1.LVMVolumeGroupNodeStatus{}, &lvmv1alpha1.VolumeMove{}, &topolvmv1.LogicalVolume{},
		&earlierv1.LogicalVolume{}, &snapshotv1.VolumeSnapshot{}, &snapshotv1.VolumeSnapshotContent{},
		&groupsnapshotv1.VolumeGroupSnapshot{}, &groupsnapshotv1.VolumeGroupSnapshotContent{}, &corev1.Node{},
		&corev1.Pod{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &corev1.Namespace{}}
}

// Builder returns a builder of a fake client for all kinds of the product. The client keeps no managed fields, which
// take most of the time of a fake client, and so it has no server-side apply.
func Builder() *fake.ClientBuilder {
	objects := clienttesting.NewObjectTracker(scheme(), serializer.NewCodecFactory(scheme()).UniversalDecoder())
	return fake.NewClientBuilder().WithScheme(scheme()).WithObjectTracker(objects).
		WithStatusSubresource(withStatus()...)
}

// New returns a client of a new API server with some namespaces.
func New(namespaces ...string) client.WithWatch {
	s := &server{}
	c := interceptor.NewClient(Builder().Build(), interceptor.Funcs{Create: s.create, Update: s.update,
		Patch: patch, Delete: s.delete, List: list})
	for _, name := range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := c.Create(context.Background(), namespace); err != nil {
			panic(err)
		}
	}
	return c
}

type server struct{ uids atomic.Int64 }

func (s *server) create(ctx context.Context, c client.WithWatch, object client.Object,
	options ...client.CreateOption) error {
	if name := object.GetNamespace(); name != "" {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{}); err != nil {
			return err
		}
	}
	object.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids.Add(1))))
	object.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	object.SetGeneration(1)
	for _, kind := range withStatus() {
		if reflect.TypeOf(kind) == reflect.TypeOf(object) {
			reflect.ValueOf(object).Elem().FieldByName("Status").SetZero()
		}
	}
	switch o := object.(type) {
	case *corev1.PersistentVolume:
		o.Status.Phase = corev1.VolumePending
		protect(o, "kubernetes.io/pv-protection")
	case *corev1.PersistentVolumeClaim:
		o.Status.Phase = corev1.ClaimPending
		protect(o, "kubernetes.io/pvc-protection")
	}
	return c.Create(ctx, object, options...)
}

// protect adds the finalizer of the admission plugin StorageObjectInUseProtection.
func protect(object client.Object, finalizer string) {
	if !slices.Contains(object.GetFinalizers(), finalizer) {
		object.SetFinalizers(append(object.GetFinalizers(), finalizer))
	}
}

// update refuses an object that was deleted and created again.
func (s *server) update(ctx context.Context, c client.WithWatch, object client.Object,
	options ...client.UpdateOption) error {
	if uid := object.GetUID(); uid != "" {
		if err := require(ctx, c, object, uid); err != nil {
			return err
		}
	}
	return c.Update(ctx, object, options...)
}

// patch refuses another node affinity of a PersistentVolume, as an API server without the feature gate
// MutablePVNodeAffinity.
func patch(ctx context.Context, c client.WithWatch, object client.Object, p client.Patch,
	options ...client.PatchOption) error {
	if _, is := object.(*corev1.PersistentVolume); is {
		data, err := p.Data(object)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte(`"nodeAffinity"`)) {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolume"}, object.GetName(), nil)
		}
	}
	return c.Patch(ctx, object, p, options...)
}

func (s *server) delete(ctx context.Context, c client.WithWatch, object client.Object,
	options ...client.DeleteOption) error {
	all := client.DeleteOptions{}
	if all.ApplyOptions(options); all.Preconditions != nil && all.Preconditions.UID != nil {
		if err := require(ctx, c, object, *all.Preconditions.UID); err != nil {
			return err
		}
	}
	return c.Delete(ctx, object, options...)
}

// list sorts objects by namespace and name, as the API server does.
func list(ctx context.Context, c client.WithWatch, l client.ObjectList, options ...client.ListOption) error {
	if err := c.List(ctx, l, options...); err != nil {
		return err
	}
	items, err := meta.ExtractList(l)
	if err != nil {
		return err
	}
	slices.SortFunc(items, func(a, b runtime.Object) int { return strings.Compare(key(a), key(b)) })
	return meta.SetList(l, items)
}

func key(object runtime.Object) string {
	m, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	return m.GetNamespace() + "/" + m.GetName()
}

// require returns a conflict if the object of a name has another UID.
func require(ctx context.Context, c client.Client, object client.Object, uid types.UID) error {
	now, is := object.DeepCopyObject().(client.Object)
	if !is {
		return fmt.Errorf("%T is no object", object)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
		return err
	}
	if now.GetUID() == uid {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Resource: fmt.Sprintf("%T", object)}, object.GetName(),
		fmt.Errorf("its UID is %s, not %s", now.GetUID(), uid))
}
