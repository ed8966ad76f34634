package notice

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// related records events with the related objects, because the series of an event depends on them.
type related struct{ events []string }

func (r *related) Eventf(regarding, other runtime.Object, kind, reason, _, note string, args ...any) {
	pod, lv := regarding.(*corev1.Pod), other.(*topolvmv1.LogicalVolume)
	r.events = append(r.events, fmt.Sprintf("%s/%s %s %s %s: %s", pod.Namespace, pod.Name, lv.Name, kind, reason,
		fmt.Sprintf(note, args...)))
}

func podWith(name, claim, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{NodeName: node,
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}}}
}

func copyOf(change func(lv *topolvmv1.LogicalVolume)) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1",
		Annotations: map[string]string{wellknown.ClaimAnnotation: "shop/data"}},
		Spec:   topolvmv1.LogicalVolumeSpec{Source: "pvc-0"},
		Status: topolvmv1.LogicalVolumeStatus{Code: codes.Aborted, Message: "1 of 2 MiB (50 %)"}}
	if change != nil {
		change(lv)
	}
	return lv
}

type copyWorld struct {
	*testing.T
	api  client.WithWatch
	fail error
	at   time.Time
	got  *related
	*Copies
}

func newCopyWorld(t *testing.T, objects ...client.Object) *copyWorld {
	t.Helper()
	w := &copyWorld{T: t, at: created.Time, got: &related{}}
	w.api = interceptor.NewClient(memory.Builder().WithObjects(objects...).Build(),
		interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, o ...client.ListOption) error {
				return errors.Join(w.fail, c.List(ctx, l, o...))
			},
		})
	w.Copies = NewCopies(w.api, w.api, w.got)
	w.now = func() time.Time { return w.at }
	return w
}

func (w *copyWorld) look() (reconcile.Result, error) {
	return w.Reconcile(w.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "pvc-1"}})
}

func TestAPodSaysHowMuchOfItsVolumeIsCopied(t *testing.T) {
	const note = "The Pod starts when the volume of the claim shop/data is complete: 1 of 2 MiB (50 %)."
	for name, test := range map[string]struct {
		change func(lv *topolvmv1.LogicalVolume)
		pod    *corev1.Pod
		want   []string
	}{
		"a copy":               {pod: podWith("web", "data", ""), want: []string{"shop/web pvc-1 Normal CopyingVolume: " + note}},
		"Pod of another claim": {pod: podWith("web", "other", "")},
		"Pod that has a node":  {pod: podWith("web", "data", "n1")},
		"complete": {pod: podWith("web", "data", ""), change: func(lv *topolvmv1.LogicalVolume) {
			lv.Status = topolvmv1.LogicalVolumeStatus{VolumeID: "pvc-1"}
		}},
		"failed": {pod: podWith("web", "data", ""), change: func(lv *topolvmv1.LogicalVolume) {
			lv.Status.Code = codes.Unavailable
		}},
		"target of a move": {pod: podWith("web", "data", ""), change: func(lv *topolvmv1.LogicalVolume) {
			lv.Labels = map[string]string{wellknown.MoveLabel: "uid"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCopyWorld(t, test.pod, copyOf(test.change))
			for range 2 { // called twice, events are sent once
				if _, err := w.look(); err != nil {
					t.Error(err)
				}
			}
			if diff := cmp.Diff(test.want, w.got.events); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEventsOfACopyAreSentOnceInAnInterval(t *testing.T) {
	var objects []client.Object
	for i := range maxPods + 2 {
		objects = append(objects, podWith(fmt.Sprintf("web-%d", i), "data", ""))
	}
	w := newCopyWorld(t, append(objects, copyOf(nil))...)
	for _, step := range []struct {
		after, again time.Duration
		events       int
	}{
		{after: 0, again: copyInterval, events: maxPods},
		{after: copyInterval / 4, again: copyInterval * 3 / 4, events: maxPods},
		{after: copyInterval, again: copyInterval, events: 2 * maxPods},
	} {
		w.at = w.at.Add(step.after)
		result, err := w.look()
		if err != nil || result.RequeueAfter != step.again || len(w.got.events) != step.events {
			t.Errorf("after %s: got %+v, %v, and %d events, want %+v", step.after, result, err, len(w.got.events), step)
		}
	}
	lv := copyOf(nil)
	if err := w.api.Delete(t.Context(), lv); err != nil {
		t.Fatal(err)
	}
	if result, err := w.look(); err != nil || result.RequeueAfter != 0 || len(w.sent) > 0 {
		t.Errorf("the copy no longer exists: got %+v, %v", result, err)
	}
}

// TestUnreadablePodsOfACopy: a failed read is tried again, and is not the end.
func TestUnreadablePodsOfACopy(t *testing.T) {
	w := newCopyWorld(t, podWith("web", "data", ""), copyOf(nil))
	w.fail = errors.New("unavailable")
	if _, err := w.look(); err == nil {
		t.Error("a failed read was ignored")
	}
	w.fail = nil
	if _, err := w.look(); err != nil || len(w.got.events) != 1 {
		t.Errorf("got %v, %v", err, w.got.events)
	}
}
