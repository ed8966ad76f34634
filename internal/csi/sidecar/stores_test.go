package sidecar

import (
	"errors"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestTheResizerFindsVolumesThatRest(t *testing.T) {
	rests := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "rests"}}
	moves := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "moves",
		Labels: map[string]string{"from": "the cache"}}}
	api := fake.NewClientset(rests)
	volumes := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.PersistentVolume{}, 0, nil)
	claims := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &corev1.PersistentVolumeClaim{}, 0, nil)
	m := &managed{known: map[reflect.Type]toolscache.SharedIndexInformer{
		reflect.TypeFor[*corev1.PersistentVolume](): volumes, reflect.TypeFor[*corev1.PersistentVolumeClaim](): claims,
	}}
	if err := volumes.GetStore().Add(moves); err != nil {
		t.Fatal(err)
	}
	store := m.forResizer(api).InformerFor(&corev1.PersistentVolume{}, nil).GetStore()
	lister := m.forResizer(api).Core().V1().PersistentVolumes().Lister()
	for name, want := range map[string]*corev1.PersistentVolume{"rests": rests, "moves": moves} {
		found, ok, err := store.GetByKey(name)
		if err != nil || !ok || found.(*corev1.PersistentVolume).Labels["from"] != want.Labels["from"] {
			t.Errorf("%s: %v, %v, %v", name, found, ok, err)
		}
		if listed, err := lister.Get(name); err != nil || listed.Labels["from"] != want.Labels["from"] {
			t.Errorf("the lister has %s as %v, %v", name, listed, err)
		}
	}
	if all, err := lister.List(labels.Everything()); err != nil || len(all) != 1 || all[0].Name != "moves" {
		t.Errorf("the lister lists %v, %v", all, err)
	}
	if found, ok, err := store.GetByKey("none"); ok || err != nil {
		t.Errorf("got %v, %v, %v", found, ok, err)
	}
	// Objects that settled during an expansion are not added again.
	for _, kind := range []runtime.Object{&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}} {
		s := m.forResizer(api).InformerFor(kind, nil).GetStore()
		before := len(s.ListKeys())
		if err := s.Update(kind); err != nil || len(s.ListKeys()) != before {
			t.Errorf("%T: %v, %v", kind, err, s.ListKeys())
		}
	}
	away := errors.New("the API server is away")
	api.PrependReactor("get", "persistentvolumes",
		func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	if found, ok, err := store.GetByKey("rests"); ok || !errors.Is(err, away) {
		t.Errorf("a read that fails is not \"there is none\": %v, %v, %v", found, ok, err)
	}
	if found, err := lister.Get("rests"); !errors.Is(err, away) {
		t.Errorf("the lister reports %v, %v", found, err)
	}
}
