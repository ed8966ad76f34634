//go:build env

package clone

import (
	"context"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var (
	server   *env.Env
	operator client.Client
)

func TestMain(m *testing.M) {
	env.Main(m, func(e *env.Env) {
		server = e
		for _, name := range []string{env.Namespace, "shop"} {
			_ = e.Client.Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		config, err := e.AsOperator(env.Namespace)
		if err == nil {
			operator, err = client.New(config, client.Options{Scheme: e.Client.Scheme()})
		}
		if err != nil {
			panic(err)
		}
	})
}

// TestTheOperatorClonesAThickVolume with its own permissions, on a real API server.
func TestTheOperatorClonesAThickVolume(t *testing.T) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(lv *topolvmv1.LogicalVolume) *topolvmv1.LogicalVolume {
		t.Helper()
		status := lv.Status
		lv.UID, lv.CreationTimestamp = "", metav1.Time{}
		must(server.Client.Create(ctx, lv))
		lv.Status = status
		must(server.Client.Status().Update(ctx, lv))
		return lv
	}
	volume, target := create(source()), copyTo(1)
	for _, name := range []string{volume.Spec.NodeName, target.Spec.NodeName} {
		must(server.Client.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "clone1"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: target.Spec.Size}}}}
	must(server.Client.Create(ctx, claim))
	target.Name = wellknown.ClaimVolumePrefix + string(claim.UID)
	target = create(target)
	read := func(lv *topolvmv1.LogicalVolume) {
		t.Helper()
		must(server.Client.Get(ctx, client.ObjectKeyFromObject(lv), lv))
	}
	operate := func() {
		t.Helper()
		for range 2 {
			_, err := New(operator, operator, operator, env.Namespace).Reconcile(ctx,
				reconcile.Request{NamespacedName: types.NamespacedName{Name: volume.Name}})
			must(err)
		}
		read(volume)
		read(target)
	}
	operate()
	fence := fence.OfClone(target.UID)
	if volume.Annotations[wellknown.FenceAnnotation] != fence || target.Status.Code != codes.Aborted ||
		target.Annotations[wellknown.FenceTimeAnnotation] != "" {
		t.Fatalf("got %v, %v, %+v", volume.Annotations, target.Annotations, target.Status)
	}
	volume.Annotations[wellknown.FencedAnnotation] = fence
	must(server.Client.Update(ctx, volume))
	operate()
	name := volume.Annotations[wellknown.FenceTimeAnnotation]
	if name == "" || target.Annotations[wellknown.FenceTimeAnnotation] != name {
		t.Fatalf("got %v, %v", volume.Annotations, target.Annotations)
	}
	target.Status = topolvmv1.LogicalVolumeStatus{VolumeID: string(target.UID)}
	must(server.Client.Status().Update(ctx, target))
	operate()
	for _, key := range []string{wellknown.FenceAnnotation, wellknown.FenceTimeAnnotation,
		wellknown.FenceForAnnotation} {
		if value, has := volume.Annotations[key]; has {
			t.Errorf("the source has %s: %s", key, value)
		}
	}
}
