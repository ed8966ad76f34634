package unclaimed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

type recorder []string

func (r *recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	*r = append(*r, reason+": "+fmt.Sprintf(note, args...))
}

func volume(name, claim string) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	lv.Spec.NodeName = "node1"
	lv.Status.VolumeID = "handle-" + name
	lv.Spec.Size = resource.MustParse("1Gi")
	lv.Status.CurrentSize = &lv.Spec.Size
	if claim != "" {
		lv.Annotations = map[string]string{wellknown.ClaimAnnotation: claim}
	}
	return lv
}

func persistent(name, driver, handle string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	return pv
}

func claim(name, uid string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name,
		UID: types.UID(uid)}}
}

func content(name string, object map[string]any) *unstructured.Unstructured {
	object["apiVersion"] = "snapshot.storage.k8s.io/v1"
	object["kind"] = "VolumeSnapshotContent"
	u := &unstructured.Unstructured{Object: object}
	u.SetName(name)
	return u
}

type setup struct {
	*testing.T
	*Auditor
	events recorder
	fail   string // the kind that cannot be read
	writes int
}

func newSetup(t *testing.T, snapshots bool, objects ...client.Object) *setup {
	s := &setup{T: t}
	failing := func(object any) error {
		kind := fmt.Sprintf("%T", object)
		if u, ok := object.(*unstructured.UnstructuredList); ok {
			kind = u.GetKind()
		}
		if s.fail != "" && strings.Contains(kind, s.fail) {
			return errors.New("the API server does not answer")
		}
		return nil
	}
	api := memory.Builder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if err := failing(list); err != nil {
				return err
			}
			return w.List(ctx, list, options...)
		},
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if err := failing(o); err != nil {
				return err
			}
			return w.Get(ctx, key, o, options...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch,
			options ...client.PatchOption) error {
			s.writes++
			return w.Patch(ctx, o, p, options...)
		},
	}).Build()
	s.Auditor = New(Options{Client: api, Live: api, Namespace: "operator", Snapshots: snapshots, Recorder: &s.events})
	return s
}

// look audits once, at a time after the first audit, and returns the names of the marked LogicalVolumes.
func (s *setup) look(after time.Duration) (marked string, again bool) {
	s.Helper()
	s.now = func() time.Time { return time.Unix(1000, 0).Add(after) }
	again, err := s.audit(s.Context())
	if (err != nil) != (s.fail != "") {
		s.Fatalf("got %v while %q fails", err, s.fail)
	}
	return s.marked(), again
}

func (s *setup) marked() string {
	s.Helper()
	fail := s.fail
	s.fail = ""
	defer func() { s.fail = fail }()
	list := &topolvmv1.LogicalVolumeList{}
	if err := s.Live.List(s.Context(), list); err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, lv := range list.Items {
		if lv.Annotations[wellknown.UnclaimedAnnotation] == "true" {
			names = append(names, lv.Name)
		}
	}
	return strings.Join(names, " ")
}

func TestWhoIsUnclaimed(t *testing.T) {
	unmade := volume("pvc-unmade", "")
	unmade.Status.VolumeID = ""
	going := volume("pvc-going", "")
	going.Finalizers, going.DeletionTimestamp = []string{"topolvm.io/logicalvolume"},
		&metav1.Time{Time: time.Unix(1, 0)}
	objects := []client.Object{
		unmade, going,
		volume("pvc-bound", ""), persistent("pvc-bound", wellknown.DriverName, "handle-pvc-bound"),
		volume("old-name", ""), persistent("static", wellknown.DriverName, "handle-old-name"),
		volume("pvc-foreign", ""), persistent("pvc-foreign", "other.io", "handle-pvc-foreign"),
		volume("pvc-c1", "shop/pending"), claim("pending", "c1"),
		volume("pvc-c2", "shop/again"), claim("again", "c9"),
		volume("pvc-c3", "shop/gone"),
		volume("snapshot-ready", ""), volume("snapshot-making", ""), volume("snapshot-static", ""),
		volume("snapshot-left", ""),
	}
	contents := []client.Object{
		content("a", map[string]any{"status": map[string]any{"snapshotHandle": "handle-snapshot-ready"}}),
		content("b", map[string]any{"spec": map[string]any{"volumeSnapshotRef": map[string]any{"uid": "making"}}}),
		content("c", map[string]any{"spec": map[string]any{
			"source": map[string]any{"snapshotHandle": "handle-snapshot-static"}}}),
	}
	for name, tt := range map[string]struct {
		s    *setup
		want string
	}{
		"with snapshots": {newSetup(t, true, append(contents, objects...)...),
			"pvc-c2 pvc-c3 pvc-foreign snapshot-left"},
		"without snapshots": {newSetup(t, false, objects...), "pvc-c2 pvc-c3 pvc-foreign"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, again := tt.s.look(0); got != "" || !again {
				t.Errorf("at once: got %q, %v", got, again)
			}
			if got, again := tt.s.look(settleTime - time.Second); got != "" || !again {
				t.Errorf("before they have settled: got %q, %v", got, again)
			}
			for range 2 {
				if got, again := tt.s.look(settleTime); got != tt.want || again {
					t.Errorf("got %q, %v, want %q", got, again, tt.want)
				}
			}
			many := len(strings.Fields(tt.want))
			if tt.s.writes != many || len(tt.s.events) != many ||
				!strings.Contains(tt.s.events[0], "kubectl delete logicalvolume pvc-c2") {
				t.Errorf("%d writes, events %q", tt.s.writes, tt.s.events)
			}
		})
	}
}

func TestAMarkGoesWhenTheVolumeIsClaimedAgain(t *testing.T) {
	s := newSetup(t, true, volume("pvc-1", "shop/gone"))
	s.look(0)
	if got, _ := s.look(settleTime); got != "pvc-1" {
		t.Fatalf("got %q", got)
	}
	whole := func() map[string]string {
		t.Helper()
		lv := &topolvmv1.LogicalVolume{}
		if err := s.Live.Get(t.Context(), client.ObjectKey{Name: "pvc-1"}, lv); err != nil {
			t.Fatal(err)
		}
		return lv.Annotations
	}
	if got := whole(); got[wellknown.ClaimAnnotation] != "shop/gone" {
		t.Errorf("what the cache has not is lost: %v", got)
	}
	if err := s.Client.Create(t.Context(), persistent("restored", wellknown.DriverName, "handle-pvc-1")); err != nil {
		t.Fatal(err)
	}
	if got, again := s.look(2 * settleTime); got != "" || again {
		t.Errorf("got %q, %v", got, again)
	}
	if got := whole(); got[wellknown.ClaimAnnotation] != "shop/gone" {
		t.Errorf("what the cache has not is lost: %v", got)
	}
}

func TestAReadThatFailsChangesNoMark(t *testing.T) {
	for _, kind := range []string{"LogicalVolumeList", "PersistentVolumeList", "VolumeSnapshotContentList",
		"PersistentVolumeClaim"} {
		marked := volume("pvc-a", "")
		marked.Annotations = map[string]string{wellknown.UnclaimedAnnotation: "true"}
		s := newSetup(t, true, marked, persistent("a", wellknown.DriverName, "handle-pvc-a"),
			volume("pvc-b", "shop/gone"))
		s.look(0)
		s.fail = kind
		before := s.marked()
		if got, _ := s.look(2 * settleTime); got != before {
			t.Errorf("%s: got %q after %q", kind, got, before)
		}
		s.fail = ""
		if got, _ := s.look(2 * settleTime); got != "pvc-b" {
			t.Errorf("%s: got %q when reads succeed again", kind, got)
		}
	}
}

func TestAllPagesAreRead(t *testing.T) {
	objects := []client.Object{}
	for i := range 3 {
		objects = append(objects, persistent(fmt.Sprint("pv-", i), wellknown.DriverName, fmt.Sprint("handle-pvc-", i)),
			volume(fmt.Sprint("pvc-", i), ""))
	}
	s := newSetup(t, false, objects...)
	var asked []string
	s.Live = pageReader{Reader: s.Live, asked: &asked}
	if again, err := s.audit(t.Context()); again || err != nil {
		t.Errorf("got %v, %v", again, err)
	}
	if got := strings.Join(asked, " "); got != "PV 500/ PV 500/1 PV 500/2 VM 500/ LV 500/ LV 500/1 LV 500/2" {
		t.Errorf("asked for %q", got)
	}
}

// pageReader returns one object per page.
type pageReader struct {
	client.Reader
	asked *[]string
}

func (r pageReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	at := 0
	if _, err := fmt.Sscan(o.Continue, &at); err != nil && o.Continue != "" {
		return err
	}
	if err := r.Reader.List(ctx, list); err != nil {
		return err
	}
	kind := ""
	n := 0
	switch l := list.(type) {
	case *corev1.PersistentVolumeList:
		kind, n, l.Items = "PV", len(l.Items), l.Items[at:at+1]
	case *topolvmv1.LogicalVolumeList:
		kind, n, l.Items = "LV", len(l.Items), l.Items[at:at+1]
	case *v1alpha1.VolumeMoveList:
		kind = "VM"
	}
	*r.asked = append(*r.asked, fmt.Sprintf("%s %d/%s", kind, o.Limit, o.Continue))
	if at+1 < n {
		list.SetContinue(fmt.Sprint(at + 1))
	}
	return nil
}

// TestARefusedObjectGoesWithItsClaim has an operator that was killed before it withdrew the object, and a claim that
// was deleted meanwhile. Nothing else would delete the object, and it would block the deletion of the LVMCluster.
func TestARefusedObjectGoesWithItsClaim(t *testing.T) {
	refused := func(name, claim string) *topolvmv1.LogicalVolume {
		lv := volume(name, claim)
		lv.Status = topolvmv1.LogicalVolumeStatus{Code: codes.ResourceExhausted}
		return lv
	}
	pending := refused("pvc-pending", "shop/pending")
	pending.Status.Code = codes.Unavailable
	s := newSetup(t, true, refused("pvc-gone", "shop/gone"), refused("pvc-other", "shop/again"), claim("again", "new"),
		refused("pvc-waits", "shop/waits"), claim("waits", "waits"), refused("snapshot-gone", "shop/snap"),
		refused("snapshot-kept", "shop/kept"),
		content("kept", map[string]any{"spec": map[string]any{
			"volumeSnapshotRef": map[string]any{"uid": "kept"}}}), pending)
	left := func() string {
		list := &topolvmv1.LogicalVolumeList{}
		if err := s.Live.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return strings.Join(names, " ")
	}
	all := left()
	s.look(0)
	if got := left(); got != all {
		t.Errorf("at once: %s is left of %s", got, all)
	}
	s.fail = "PersistentVolumeClaim"
	s.look(settleTime)
	s.fail = ""
	for _, name := range []string{"pvc-gone", "pvc-other", "snapshot-kept", "pvc-waits", "pvc-pending"} {
		if !strings.Contains(left(), name) {
			t.Errorf("%s is gone, and the claims could not be read", name)
		}
	}
	for range 2 {
		s.look(settleTime + time.Second)
		if got, want := left(), "pvc-pending pvc-waits snapshot-kept"; got != want {
			t.Errorf("%s are left, want %s", got, want)
		}
	}
}
