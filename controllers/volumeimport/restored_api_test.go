package volumeimport

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/test/env"
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
		"on-another-node":   {pv: func(pv *corev1.PersistentVolume) { pv.Spec.NodeAffinity = relocate.Affinity("other") }},
		"with-a-volume":     {lv: func(lv *topolvmv1.LogicalVolume) { lv.Status.VolumeID = "x" }},
		"refused":           {lv: func(lv *topolvmv1.LogicalVolume) { lv.Status.Code = codes.ResourceExhausted }},
		"not-tried-yet":     {lv: func(lv *topolvmv1.LogicalVolume) { lv.Status.Code = codes.OK }},
		"imported": {lv: func(lv *topolvmv1.LogicalVolume) {
			lv.Annotations = map[string]string{wellknown.ImportAnnotation: "chosen"}
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
			w.must(w.api.Status().Update(t.Context(), lv))
			if !test.noPV {
				pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
				pv.Spec = corev1.PersistentVolumeSpec{
					Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, NodeAffinity: relocate.Affinity(w.node()),
					PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
						Driver: wellknown.DriverName, VolumeHandle: "old"}}}
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
			if got := w.logicalVolume(name).Annotations[wellknown.ImportAnnotation]; got != test.want {
				t.Errorf("got the volume %q, want %q", got, test.want)
			}
		})
	}
}

// TestARestoredSnapshotGetsTheVolumeThatItsAgentFound: a VolumeSnapshot has no PersistentVolume.
func TestARestoredSnapshotGetsTheVolumeThatItsAgentFound(t *testing.T) {
	for name, test := range map[string]struct {
		// found is the volume in the annotation of the agent.
		found string
		// other and pv are objects that have the volume.
		other func(*topolvmv1.LogicalVolume)
		pv    string
		// prefix is that of the name.
		prefix string
		fail   string // the kind whose list cannot be read
		want   string
		// refused is in the event.
		refused string
	}{
		"found":         {found: "old", want: "old"},
		"not-found-yet": {},
		"no-snapshot":   {found: "old", prefix: "pvc-"},
		"another-has-it": {found: "old", other: func(lv *topolvmv1.LogicalVolume) { lv.Status.VolumeID = "%s" },
			refused: "but LogicalVolume other-another-has-it of node n has it now"},
		"another-imports-it": {found: "old", other: func(lv *topolvmv1.LogicalVolume) {
			lv.Annotations = map[string]string{wellknown.ImportAnnotation: "%s"}
		}, refused: "but LogicalVolume other-another-imports-it of node n has it now"},
		"a-pv-has-it": {found: "old", pv: wellknown.DriverName,
			refused: "but PersistentVolume pv-a-pv-has-it has it now"},
		"pv-of-another-driver":    {found: "old", pv: "other", want: "old"},
		"unreadable-volumes":      {found: "old", fail: "PersistentVolumeList"},
		"unreadable-logical-ones": {found: "old", fail: "LogicalVolumeList"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "snap-"+name)
			// A handle belongs to one case.
			volume := func(format string) string { return strings.ReplaceAll(format, "%s", "old-"+name) }
			lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(test.prefix, "snapshot-") + name},
				Spec: topolvmv1.LogicalVolumeSpec{Name: name, NodeName: w.node(), DeviceClass: "vg1", Source: "gone",
					AccessType: "ro", Size: resource.MustParse("1Gi")}}
			if test.found != "" {
				lv.Annotations = map[string]string{wellknown.ExistingVolumeAnnotation: volume("%s")}
			}
			w.createWith(lv, topolvmv1.LogicalVolumeStatus{Code: codes.Unavailable, Message: "it is used when"})
			if test.other != nil {
				other := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "other-" + name}, Spec: lv.Spec}
				other.Spec.NodeName = "n"
				test.other(other)
				for k, v := range other.Annotations {
					other.Annotations[k] = volume(v)
				}
				w.createWith(other, topolvmv1.LogicalVolumeStatus{VolumeID: volume(other.Status.VolumeID)})
			}
			if test.pv != "" {
				w.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
					Spec: corev1.PersistentVolumeSpec{
						Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
							Driver: test.pv, VolumeHandle: volume("%s")}}}})
			}
			w.spy.Fail = func(verb string, o any) error {
				if strings.EqualFold(verb, "list") && strings.HasSuffix(fmt.Sprintf("%T", o), "."+test.fail) {
					return errors.New("no answer")
				}
				return nil
			}
			recorder := events.NewFakeRecorder(100)
			w.ctl = New(w.spy, w.spy, recorder, env.Namespace)
			w.spy.Writes()
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(lv)}
			for i := range 2 {
				if _, err := (restores{w.ctl}).Reconcile(t.Context(), request); (err != nil) != (test.fail != "") {
					t.Errorf("got %v", err)
				}
				if writes := w.spy.Writes(); i > 0 && len(writes) > 0 {
					t.Errorf("once more: %v", writes)
				}
			}
			want := test.want
			if want != "" {
				want = volume("%s")
			}
			if got := w.logicalVolume(lv.Name).Annotations[wellknown.ImportAnnotation]; got != want {
				t.Errorf("got the volume %q, want %q", got, want)
			}
			event := ""
			if len(recorder.Events) > 0 {
				event = <-recorder.Events
			}
			if (event != "") != (test.refused != "") || !strings.Contains(event, test.refused) {
				t.Errorf("got the event %q, want %q", event, test.refused)
			}
		})
	}
}

// createWith creates a LogicalVolume with a status.
func (w *world) createWith(lv *topolvmv1.LogicalVolume, status topolvmv1.LogicalVolumeStatus) {
	w.Helper()
	w.create(lv)
	lv.Status = status
	w.must(w.api.Status().Update(w.Context(), lv))
}
