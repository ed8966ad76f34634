//go:build env

package volumeimport

import (
	"errors"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// TestARestoredLogicalVolumeGetsTheVolumeOfItsPersistentVolume: Velero restored both, and the LogicalVolume has no
// status but the error of the agent.
func TestARestoredLogicalVolumeGetsTheVolumeOfItsPersistentVolume(t *testing.T) {
	for name, test := range map[string]struct {
		lv   func(*topolvmv1.LogicalVolume)
		pv   func(*corev1.PersistentVolume)
		noPV bool
		fail string // the verb of the request that fails
		want string
	}{
		"restored":          {want: "old"},
		"without-pv":        {noPV: true},
		"of-another-driver": {pv: func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other" }},
		"on-another-node":   {pv: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = onNode("other") }},
		"with-a-volume":     {lv: func(lv *topolvmv1.LogicalVolume) { lv.Status.VolumeID = "x" }},
		"refused":           {lv: func(lv *topolvmv1.LogicalVolume) { lv.Status.Code = codes.ResourceExhausted }},
		"not-tried-yet":     {lv: func(lv *topolvmv1.LogicalVolume) { lv.Status.Code = codes.OK }},
		"imported": {lv: func(lv *topolvmv1.LogicalVolume) {
			lv.Annotations = map[string]string{v1alpha1.ImportAnnotation: "chosen"}
		}, want: "chosen"},
		"unreadable": {fail: "get"},
	} {
		t.Run(name, func(t *testing.T) {
			name := "restored-" + name
			w := newWorld(t, name)
			lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topolvmv1.LogicalVolumeSpec{
				Name: name, NodeName: w.node(), DeviceClass: "vg1", Size: resource.MustParse("1Gi")}}
			status := topolvmv1.LogicalVolumeStatus{Code: codes.Unavailable, Message: "nothing is created"}
			lv.Status = status
			if test.lv != nil {
				test.lv(lv)
			}
			status = lv.Status
			w.create(lv)
			lv.Status = status
			w.must(server.Client.Status().Update(t.Context(), lv))
			if !test.noPV {
				pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
				pv.Spec = corev1.PersistentVolumeSpec{
					Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, NodeAffinity: onNode(w.node()),
					PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
						Driver: v1alpha1.DriverName, VolumeHandle: "old"}}}
				if test.pv != nil {
					test.pv(pv)
				}
				w.create(pv)
			}
			if test.fail != "" {
				w.spy.Fail = func(verb string, o any) error {
					if _, ok := o.(*corev1.PersistentVolume); ok && strings.EqualFold(verb, test.fail) {
						return errors.New("no answer")
					}
					return nil
				}
			}
			request := reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
			w.spy.Writes()
			for i := range 2 {
				if _, err := (restores{w.ctl}).Reconcile(t.Context(), request); (err != nil) != (test.fail != "") {
					t.Errorf("got %v", err)
				}
				if writes := w.spy.Writes(); i > 0 && len(writes) > 0 {
					t.Errorf("once more: %v", writes)
				}
			}
			if got := w.logicalVolume(name).Annotations[v1alpha1.ImportAnnotation]; got != test.want {
				t.Errorf("got the volume %q, want %q", got, test.want)
			}
		})
	}
}
