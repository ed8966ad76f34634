package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// TestTheClaimOfAVolumeThatLeavesTheNodeStays: what is done between the lists of volumes and the deletion decides.
func TestTheClaimOfAVolumeThatLeavesTheNodeStays(t *testing.T) {
	away := errors.New("the API server is away")
	set := func(change func(lv *topolvmv1.LogicalVolume)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			lv := &topolvmv1.LogicalVolume{}
			if err := c.Get(ctx, client.ObjectKey{Name: "pv"}, lv); err != nil {
				return err
			}
			change(lv)
			return c.Update(ctx, lv)
		}
	}
	annotate := func(key string) func(context.Context, client.Client) error {
		return set(func(lv *topolvmv1.LogicalVolume) { lv.Annotations = map[string]string{key: "x"} })
	}
	for name, test := range map[string]struct {
		meanwhile func(context.Context, client.Client) error
		fails     error
		stays     bool
	}{
		"nothing happens": {meanwhile: func(context.Context, client.Client) error { return nil }},
		"it is switched to another node": {meanwhile: set(func(lv *topolvmv1.LogicalVolume) { lv.Spec.NodeName = "b" }),
			stays: true},
		"it is adopted here":            {meanwhile: annotate(wellknown.AdoptAnnotation), stays: true},
		"its PersistentVolume is moved": {meanwhile: annotate(wellknown.MovedVolumeAnnotation), stays: true},
		"something else is said":        {meanwhile: annotate("x")},
		"it is deleted": {meanwhile: func(ctx context.Context, c client.Client) error {
			return client.IgnoreNotFound(c.Delete(ctx, &topolvmv1.LogicalVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "pv"}}))
		}, stays: true},
		"it cannot be read": {meanwhile: func(context.Context, client.Client) error { return nil }, fails: away, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
				Spec:   topolvmv1.LogicalVolumeSpec{NodeName: "a"},
				Status: topolvmv1.LogicalVolumeStatus{VolumeID: "id"}}
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u"}}
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data", UID: "u"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: wellknown.DriverName, VolumeHandle: "id"}}}}
			api := memory.Builder().WithObjects(lv, claim, pv).Build()
			live := interceptor.NewClient(api, interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
					options ...client.ListOption) error {
					err := c.List(ctx, list, options...)
					if _, isLast := list.(*corev1.PersistentVolumeList); isLast {
						err = errors.Join(err, test.meanwhile(ctx, api))
					}
					return err
				},
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
					options ...client.GetOption) error {
					if _, is := object.(*topolvmv1.LogicalVolume); is && test.fails != nil {
						return test.fails
					}
					return c.Get(ctx, key, object, options...)
				},
			})
			claims := NewClaims(api, live, "operator", events.NewFakeRecorder(10))
			for range 2 {
				err := claims.deleteClaims(t.Context(), "a")
				if !errors.Is(err, test.fails) || err != nil && !strings.Contains(err.Error(), "claim shop/data of node a") {
					t.Errorf("got %v", err)
				}
			}
			err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), &corev1.PersistentVolumeClaim{})
			if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == test.stays {
				t.Errorf("the claim stays: %v (%v)", !apierrors.IsNotFound(err), err)
			}
		})
	}
}
