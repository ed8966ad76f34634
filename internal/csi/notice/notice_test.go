package notice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

var created = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

func nodeWith(name, class, bytes string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{wellknown.CapacityAnnotationPrefix + class: bytes}}}
}

func storageClass(name, provisioner, class string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
		Parameters: map[string]string{wellknown.DeviceClassParameter: class}}
}

func claimOf(class, size string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "uid", CreationTimestamp: created},
		Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	if class != "" {
		claim.Spec.StorageClassName = ptr.To(class)
	}
	return claim
}

func drain(r *events.FakeRecorder) []string {
	var list []string
	for {
		select {
		case e := <-r.Events:
			list = append(list, e)
		default:
			return list
		}
	}
}

var shop = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "data"}}

func TestClaimsThatNoNodeHasCapacityFor(t *testing.T) {
	base := []client.Object{storageClass("lvms-vg1", "topolvm.io", "vg1"), storageClass("other", "other.io", "vg1")}
	const tooLarge = "Warning NotEnoughCapacity Requested storage (2Gi) is greater than available capacity on any node "
	var many []client.Object
	for i := range 10 {
		many = append(many, nodeWith(fmt.Sprintf("n%02d", i), "vg1", fmt.Sprint(1<<20*(i+1))))
	}
	for name, test := range map[string]struct {
		claim   *corev1.PersistentVolumeClaim
		objects []client.Object
		age     time.Duration
		want    []string
		again   time.Duration
	}{
		"too large": {claim: claimOf("lvms-vg1", "2Gi"), age: time.Minute, again: interval,
			objects: []client.Object{nodeWith("a", "vg1", "1073741824"), nodeWith("b", "vg1", "2147483647"),
				nodeWith("c", "vg2", "9999999999999")},
			want: []string{tooLarge + "(b: 2147483647, a: 1Gi)."}},
		"no node offers the class": {claim: claimOf("lvms-vg1", "2Gi"), age: time.Minute, again: interval,
			want: []string{tooLarge + "(no node offers the device class)."}},
		"many nodes": {claim: claimOf("lvms-vg1", "2Gi"), age: time.Minute, again: interval, objects: many,
			want: []string{tooLarge + "(n09: 10Mi, n08: 9Mi, n07: 8Mi, n06: 7Mi, n05: 6Mi, n04: 5Mi, n03: 4Mi, " +
				"n02: 3Mi, 2 more nodes with less)."}},
		"exactly fits": {claim: claimOf("lvms-vg1", "2Gi"), age: time.Minute, again: interval,
			objects: []client.Object{nodeWith("a", "vg1", "2147483648")}},
		"too young":            {claim: claimOf("lvms-vg1", "2Gi"), age: 5 * time.Second, again: settle - 5*time.Second},
		"of another driver":    {claim: claimOf("other", "2Gi"), age: time.Minute},
		"of no StorageClass":   {claim: claimOf("", "2Gi"), age: time.Minute},
		"StorageClass is gone": {claim: claimOf("gone", "2Gi"), age: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			objects := append(append(base, test.objects...), test.claim)
			c := NewClaims(memory.Builder().WithObjects(objects...).Build(), recorder)
			c.now = func() time.Time { return created.Add(test.age) }
			for range 2 { // the same event is not sent twice
				result, err := c.Reconcile(t.Context(), shop)
				if err != nil || result.RequeueAfter != test.again {
					t.Errorf("got %+v, %v, want a look in %s", result, err, test.again)
				}
			}
			if diff := cmp.Diff(test.want, drain(recorder)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAClaimThatGetsCapacityIsForgotten: if the capacity is gone again, or another claim has the name, the event is
// sent again.
func TestAClaimThatGetsCapacityIsForgotten(t *testing.T) {
	claim := claimOf("lvms-vg1", "2Gi")
	node := nodeWith("a", "vg1", "1")
	api := memory.Builder().WithObjects(storageClass("lvms-vg1", "topolvm.io", "vg1"), claim, node).Build()
	recorder := events.NewFakeRecorder(10)
	c := NewClaims(api, recorder)
	sent := func(what string, want int) {
		t.Helper()
		if _, err := c.Reconcile(t.Context(), shop); err != nil {
			t.Fatal(err)
		}
		if got := drain(recorder); len(got) != want {
			t.Errorf("%s: got the events %q, want %d", what, got, want)
		}
	}
	update := func(object client.Object) {
		t.Helper()
		if err := api.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	sent("too large", 1)
	node.Annotations[wellknown.CapacityAnnotationPrefix+"vg1"] = "9999999999"
	update(node)
	sent("fits", 0)
	node.Annotations[wellknown.CapacityAnnotationPrefix+"vg1"] = "1"
	update(node)
	sent("too large again", 1)
	if err := api.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	sent("deleted", 0)
	if len(c.about) != 0 {
		t.Errorf("%v is kept", c.about)
	}
	claim = claimOf("lvms-vg1", "2Gi")
	claim.UID = "another"
	if err := api.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	sent("another claim", 1)
	claim.Status.Phase, claim.Spec.VolumeName = corev1.ClaimBound, "pv"
	update(claim)
	sent("bound", 0)
}

// TestNothingIsSaidIfNodesCannotBeRead: an unknown capacity is not a small one.
func TestNothingIsSaidIfNodesCannotBeRead(t *testing.T) {
	api := memory.Builder().WithObjects(storageClass("lvms-vg1", "topolvm.io", "vg1"), claimOf("lvms-vg1", "2Gi")).
		WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList,
			...client.ListOption) error {
			return errors.New("no answer")
		}}).Build()
	recorder := events.NewFakeRecorder(10)
	if _, err := NewClaims(api, recorder).Reconcile(t.Context(), shop); err == nil || len(drain(recorder)) > 0 {
		t.Errorf("got the error %v", err)
	}
}

func TestPersistentVolumesWithoutAClaim(t *testing.T) {
	volume := func(edit func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data", UID: "uid"},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "topolvm.io", VolumeHandle: "vol"}}}}
		edit(pv)
		return pv
	}
	for name, test := range map[string]struct {
		edit func(*corev1.PersistentVolume)
		want bool
	}{
		"without":           {func(*corev1.PersistentVolume) {}, true},
		"with":              {func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = &corev1.ObjectReference{Name: "c"} }, false},
		"of another driver": {func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other.io" }, false},
		"of no driver":      {func(pv *corev1.PersistentVolume) { pv.Spec.CSI = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			api := memory.Builder().WithObjects(volume(test.edit)).Build()
			v := NewVolumes(api, recorder)
			request := reconcile.Request{NamespacedName: types.NamespacedName{Name: "data"}}
			for range 2 {
				if _, err := v.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
			}
			got := drain(recorder)
			if (len(got) == 1 && strings.HasPrefix(got[0], "Warning ClaimReferenceRemoved Claim reference has been removed. "+
				"This PV is no longer dynamically managed by LVM Storage and will need to be cleaned up manually") &&
				strings.Contains(got[0], "the data of volume vol")) != test.want || !test.want && len(got) > 0 {
				t.Errorf("got the events %q, want one: %t", got, test.want)
			}
			if err := api.Delete(t.Context(), volume(test.edit)); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Reconcile(t.Context(), request); err != nil || len(v.about) > 0 {
				t.Errorf("%v is kept: %v", v.about, err)
			}
		})
	}
}
