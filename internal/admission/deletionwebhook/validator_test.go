package deletionwebhook

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

const (
	operatorNamespace = "openshift-lvm-storage"
	handle            = "11111111-1111-1111-1111-111111111111"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name)}
}

// volume returns the LogicalVolume of claim shop/data, whose UID is 1, on node a.
func volume(changes ...func(*topolvmv1.LogicalVolume)) *topolvmv1.LogicalVolume {
	lv := &topolvmv1.LogicalVolume{ObjectMeta: named("", "pvc-1"),
		Spec:   topolvmv1.LogicalVolumeSpec{NodeName: "a", DeviceClass: "vg1"},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: handle}}
	lv.Annotations = map[string]string{wellknown.ClaimAnnotation: "shop/data"}
	for _, change := range changes {
		change(lv)
	}
	return lv
}

func annotated(key, value string) func(*topolvmv1.LogicalVolume) {
	return func(lv *topolvmv1.LogicalVolume) { lv.Annotations[key] = value }
}

// snapshot makes it the LogicalVolume of the VolumeSnapshot with the UID 1.
func snapshot(lv *topolvmv1.LogicalVolume) { lv.Name, lv.Spec.AccessType = "snapshot-1", "ro" }

func other(name, source, id, node string) *topolvmv1.LogicalVolume {
	return &topolvmv1.LogicalVolume{ObjectMeta: named("", name),
		Spec:   topolvmv1.LogicalVolumeSpec{NodeName: node, DeviceClass: "vg1", Source: source},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: id}}
}

func persistent(name, driver, handle string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: named("", name),
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}},
		Status: corev1.PersistentVolumeStatus{Phase: phase}}
}

func claim(name, uid, volumeName string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volumeName}}
}

func pod(name string, phase corev1.PodPhase, volume corev1.Volume) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: named("shop", name), Spec: corev1.PodSpec{Volumes: []corev1.Volume{volume}},
		Status: corev1.PodStatus{Phase: phase}}
}

func ofClaim(name string) corev1.Volume {
	return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
}

func attachment(driver string, source storagev1.VolumeAttachmentSource) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: named("", "csi-1"),
		Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a", Source: source}}
}

func content(handle, source string, uid types.UID) *snapshotv1.VolumeSnapshotContent {
	c := &snapshotv1.VolumeSnapshotContent{ObjectMeta: named("", "snapcontent-1"),
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: "shop", Name: "snap", UID: uid}}}
	if handle != "" {
		c.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: &handle}
	}
	if source != "" {
		c.Spec.Source.SnapshotHandle = &source
	}
	return c
}

// api returns an API server with the objects. fail returns the error of a list.
func api(fail func(list client.ObjectList) error, objects ...client.Object) client.Client {
	return memory.Builder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if err := fail(list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		}}).Build()
}

func works(client.ObjectList) error { return nil }

// TestWhatSomethingRefersToIsNotDeleted has each kind of object that can refer to a LogicalVolume, and similar ones
// that do not. A second call has the same result.
func TestWhatSomethingRefersToIsNotDeleted(t *testing.T) {
	const driver = wellknown.DriverName
	inline := &corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}}
	ephemeral := corev1.Volume{Name: "data",
		VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
	move := &v1alpha1.VolumeMove{ObjectMeta: named(operatorNamespace, "move")}
	for name, test := range map[string]struct {
		lv      *topolvmv1.LogicalVolume
		objects []client.Object
		want    string // "" if it can be deleted
	}{
		"nothing": {},
		"objects of other volumes": {objects: []client.Object{
			persistent("pvc-2", driver, "other", corev1.VolumeBound), claim("data", "2", "pvc-2"),
			pod("web", corev1.PodRunning, ofClaim("data")), content("other", "", "2"),
			attachment(driver, storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pvc-2")}),
			other("pvc-2", "", "other", "a"), move}},
		"a bound PersistentVolume": {objects: []client.Object{persistent("pvc-1", driver, handle, corev1.VolumeBound)},
			want: "PersistentVolume pvc-1"},
		"a retained PersistentVolume": {objects: []client.Object{
			persistent("pvc-1", driver, handle, corev1.VolumeReleased)}, want: "PersistentVolume pvc-1"},
		"a PersistentVolume of another name and of the driver before TopoLVM 0.15": {objects: []client.Object{
			persistent("mine", wellknown.EarlierDriverName, handle, corev1.VolumeAvailable)},
			want: "PersistentVolume mine"},
		"a PersistentVolume of another driver with its handle": {objects: []client.Object{
			persistent("pvc-2", "example.com", handle, corev1.VolumeBound)}},
		"its claim, before the PersistentVolume exists": {objects: []client.Object{claim("data", "1", "")},
			want: "PersistentVolumeClaim shop/data"},
		"a claim whose PersistentVolume was deleted": {objects: []client.Object{claim("lost", "9", "pvc-1")},
			want: "PersistentVolumeClaim shop/lost"},
		"a claim of an imported PersistentVolume": {objects: []client.Object{
			persistent("mine", driver, handle, corev1.VolumeBound), claim("imported", "9", "mine")},
			want: "PersistentVolume mine, PersistentVolumeClaim shop/imported"},
		"a claim of another PersistentVolume with its name": {objects: []client.Object{
			persistent("pvc-1", "example.com", "x", corev1.VolumeBound), claim("lost", "9", "pvc-1")}},
		"a later claim with the name of its claim, and the Pod of that one": {objects: []client.Object{
			claim("data", "2", "pvc-2"), pod("web", corev1.PodRunning, ofClaim("data"))}},
		"a Pod whose claim was deleted": {objects: []client.Object{pod("web", corev1.PodRunning, ofClaim("data"))},
			want: "Pod shop/web"},
		"a Pod with a generic ephemeral volume": {lv: volume(annotated(wellknown.ClaimAnnotation, "shop/web-data")),
			objects: []client.Object{pod("web", corev1.PodPending, ephemeral)}, want: "Pod shop/web"},
		"a Pod that has ended":   {objects: []client.Object{pod("web", corev1.PodSucceeded, ofClaim("data"))}},
		"a Pod of another claim": {objects: []client.Object{pod("web", corev1.PodRunning, ofClaim("other"))}},
		"a Pod with a claim named like the snapshot": {lv: volume(snapshot),
			objects: []client.Object{pod("web", corev1.PodRunning, ofClaim("data"))}},
		"a VolumeAttachment": {objects: []client.Object{attachment(driver,
			storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pvc-1")})},
			want: "VolumeAttachment csi-1"},
		"a VolumeAttachment without a PersistentVolume": {objects: []client.Object{attachment(driver,
			storagev1.VolumeAttachmentSource{InlineVolumeSpec: inline})}, want: "VolumeAttachment csi-1"},
		"a VolumeAttachment of another driver": {objects: []client.Object{attachment("example.com",
			storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pvc-1")})}},
		"a snapshot": {lv: volume(snapshot), objects: []client.Object{content(handle, "", "7")},
			want: "VolumeSnapshotContent snapcontent-1"},
		"a snapshot that was created manually": {lv: volume(snapshot), objects: []client.Object{content("", handle, "7")},
			want: "VolumeSnapshotContent snapcontent-1"},
		"a snapshot whose handle is not recorded yet": {lv: volume(snapshot), objects: []client.Object{content("", "", "1")},
			want: "VolumeSnapshotContent snapcontent-1"},
		"a snapshot that was deleted": {lv: volume(snapshot), objects: []client.Object{content("other", "", "7")}},
		"a group snapshot that is being created": {lv: volume(snapshot, annotated(wellknown.GroupPendingAnnotation, "g1")),
			want: "group snapshot g1, which is being created"},
		"a copy that is being created": {objects: []client.Object{other("pvc-2", "pvc-1", "", "b")},
			want: "LogicalVolume pvc-2, which is being copied from it"},
		"a complete copy": {objects: []client.Object{other("pvc-2", "pvc-1", "other", "b")}},
		"another object of the volume": {objects: []client.Object{other("pvc-2", "", handle, "a")},
			want: "LogicalVolume pvc-2, which has the same volume"},
		"the object of a volume of that name on another node": {objects: []client.Object{other("pvc-2", "", handle, "b")}},
		"its move": {lv: volume(annotated(wellknown.MoveAnnotation, "uid-of-move")), objects: []client.Object{move},
			want: "VolumeMove openshift-lvm-storage/move"},
		"the move for which it is fenced": {lv: volume(annotated(wellknown.FenceAnnotation, "uid-of-move")),
			objects: []client.Object{move}, want: "VolumeMove openshift-lvm-storage/move"},
		"a move that no longer exists": {lv: volume(annotated(wellknown.MoveAnnotation, "uid-of-move"))},
		"marked as unclaimed, but bound": {lv: volume(annotated(wellknown.UnclaimedAnnotation, "true")),
			objects: []client.Object{persistent("pvc-1", driver, handle, corev1.VolumeBound)},
			want:    "PersistentVolume pvc-1"},
		"it was never created": {lv: volume(func(lv *topolvmv1.LogicalVolume) { lv.Status.VolumeID = "" }),
			objects: []client.Object{claim("data", "1", "")}},
		"it is being deleted already": {lv: volume(func(lv *topolvmv1.LogicalVolume) {
			lv.DeletionTimestamp, lv.Finalizers = ptr.To(metav1.Now()), []string{"topolvm.io/logicalvolume"}
		}), objects: []client.Object{claim("data", "1", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			lv := test.lv
			if lv == nil {
				lv = volume()
			}
			v := &Validator{Live: api(works, append(test.objects, lv)...), Namespace: operatorNamespace}
			for range 2 {
				_, err := v.ValidateDelete(t.Context(), lv)
				switch {
				case test.want == "" && err != nil:
					t.Errorf("refused: %v", err)
				case test.want != "" && (err == nil || !strings.Contains(err.Error(), "refer: "+test.want+". Instead")):
					t.Errorf("got %v, want %q", err, test.want)
				}
			}
		})
	}
}

func TestARefusalNamesAFewObjectsAndWhatToDo(t *testing.T) {
	objects := []client.Object{volume()}
	for i := range 1200 { // more than a page
		objects = append(objects, persistent(fmt.Sprintf("pv-%04d", i), wellknown.DriverName, handle, corev1.VolumeBound))
	}
	v := &Validator{Live: api(works, objects...), Namespace: operatorNamespace}
	_, err := v.ValidateDelete(t.Context(), volume())
	const want = "deleting LogicalVolume pvc-1 would destroy the data of its volume on node a, to which these objects " +
		"refer: PersistentVolume pv-0000, PersistentVolume pv-0001, PersistentVolume pv-0002, PersistentVolume pv-0003, " +
		"PersistentVolume pv-0004 and 1195 more. Instead, delete the PersistentVolumeClaim, PersistentVolume or " +
		"VolumeSnapshot. If the data is not needed and nothing uses the volume, first run: kubectl annotate " +
		"logicalvolume pvc-1 lvm.topolvm.io/allow-deletion=true"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A read that fails does not show that nothing refers to the volume.
func TestAFailedReadRefusesTheDeletion(t *testing.T) {
	away := errors.New("the API server is away")
	lists := []client.ObjectList{&topolvmv1.LogicalVolumeList{}, &v1alpha1.VolumeMoveList{},
		&corev1.PersistentVolumeList{}, &corev1.PersistentVolumeClaimList{}, &corev1.PodList{},
		&storagev1.VolumeAttachmentList{}, &unstructured.UnstructuredList{}}
	for _, failing := range lists {
		t.Run(fmt.Sprintf("%T", failing), func(t *testing.T) {
			fails := true
			v := &Validator{Namespace: operatorNamespace, Live: api(func(list client.ObjectList) error {
				if fails && reflect.TypeOf(list) == reflect.TypeOf(failing) {
					return away
				}
				return nil
			}, volume())}
			_, err := v.ValidateDelete(t.Context(), volume())
			if !errors.Is(err, away) || !strings.Contains(err.Error(), "is not known") ||
				!strings.Contains(err.Error(), "Try again. ") {
				t.Errorf("got %v", err)
			}
			fails = false
			if _, err := v.ValidateDelete(t.Context(), volume()); err != nil {
				t.Errorf("after that: %v", err)
			}
		})
	}
}

// Without the API of snapshots, a volume has none, but what refers to a snapshot is not known.
func TestWithoutTheSnapshotAPI(t *testing.T) {
	missing := func(list client.ObjectList) error {
		if _, is := list.(*unstructured.UnstructuredList); is {
			return &meta.NoKindMatchError{}
		}
		return nil
	}
	v := &Validator{Live: api(missing), Namespace: operatorNamespace}
	if _, err := v.ValidateDelete(t.Context(), volume()); err != nil {
		t.Error(err)
	}
	const want = "is not known: it is a snapshot, and the cluster does not have the VolumeSnapshot API"
	if _, err := v.ValidateDelete(t.Context(), volume(snapshot)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
