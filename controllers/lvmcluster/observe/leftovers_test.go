package observe

import (
	"context"
	"errors"
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

// logicalVolumeOf returns a LogicalVolume with the volume handle "id-" and its name.
func logicalVolumeOf(name string) *topolvmv1.LogicalVolume {
	return &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:   topolvmv1.LogicalVolumeSpec{NodeName: "n1", DeviceClass: "vg1"},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: "id-" + name}}
}

// persistentVolumeOf returns the PersistentVolume of a LogicalVolume.
func persistentVolumeOf(name string, policy corev1.PersistentVolumeReclaimPolicy,
	phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: policy,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName, VolumeHandle: "id-" + name}}},
		Status: corev1.PersistentVolumeStatus{Phase: phase}}
}

func claimOf(uid types.UID) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: uid},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("of-another-name")}}
}

// snapshotOf returns the VolumeSnapshot of contentOf.
func snapshotOf(uid types.UID) *snapshotv1.VolumeSnapshot {
	return &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "snap", UID: uid}}
}

// retainedContent returns a VolumeSnapshotContent with the deletion policy Retain.
func retainedContent(name string, uid types.UID, handle string) *snapshotv1.VolumeSnapshotContent {
	content := contentOf(uid, handle, "")
	content.Name = name
	content.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentRetain
	return content
}

// contentOf returns a VolumeSnapshotContent of a VolumeSnapshot.
func contentOf(uid types.UID, handle, source string) *snapshotv1.VolumeSnapshotContent {
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "snapcontent"},
		Spec: snapshotv1.VolumeSnapshotContentSpec{VolumeSnapshotRef: corev1.ObjectReference{
			Namespace: "shop", Name: "snap", UID: uid}}}
	if handle != "" {
		content.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: &handle}
	}
	if source != "" {
		content.Spec.Source.SnapshotHandle = &source
	}
	return content
}

func readerOf(t *testing.T, failList func(client.ObjectList) error, objects ...client.Object) client.Reader {
	t.Helper()
	return memory.Builder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if err := failList(list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		}}).Build()
}

func noFailure(client.ObjectList) error { return nil }

const (
	begin = "volumes that no claim or snapshot uses must be deleted manually; if you need their data, copy it first; " +
		"then run, for the objects of each volume, `"
	deletePV      = "kubectl delete persistentvolume "
	deleteContent = "kubectl delete volumesnapshotcontent "
	deleteLV      = "kubectl delete logicalvolume "
)

func TestLeftoversAreVolumesThatNothingDeletes(t *testing.T) {
	const (
		retain = corev1.PersistentVolumeReclaimRetain
		remove = corev1.PersistentVolumeReclaimDelete
	)
	deleting := logicalVolumeOf("pvc-1")
	deleting.DeletionTimestamp, deleting.Finalizers = ptr.To(metav1.Now()), []string{"topolvm.io/logicalvolume"}
	pending := logicalVolumeOf("pvc-1")
	pending.Status.VolumeID = ""
	grouped := logicalVolumeOf("snapshot-1")
	metav1.SetMetaDataAnnotation(&grouped.ObjectMeta, wellknown.GroupPendingAnnotation, "group-1")
	imported := persistentVolumeOf("pvc-1", retain, corev1.VolumeReleased)
	imported.Name = "imported"
	removed := retainedContent("c1", "1", "id-snapshot-1")
	removed.DeletionTimestamp, removed.Finalizers = ptr.To(metav1.Now()), []string{"snapshot.storage.kubernetes.io/x"}
	policyDelete := contentOf("1", "id-snapshot-1", "")
	policyDelete.Spec.DeletionPolicy = snapshotv1.VolumeSnapshotContentDelete
	manual := retainedContent("c1", "", "")
	manual.Spec.Source.SnapshotHandle = ptr.To("id-snapshot-1")
	for name, c := range map[string]struct {
		objects   []client.Object
		snapshots bool
		want      string
	}{
		"nothing": {},
		"a LogicalVolume whose claim and PersistentVolume were deleted": {
			objects: []client.Object{logicalVolumeOf("pvc-1"), claimOf("2")},
			want:    begin + deleteLV + "pvc-1`: 1 volume: LogicalVolume pvc-1 on node n1"},
		"a retained PersistentVolume whose claim was deleted": {
			objects: []client.Object{logicalVolumeOf("pvc-1"), persistentVolumeOf("pvc-1", retain,
				corev1.VolumeReleased)},
			want: begin + deletePV + "pvc-1 && " + deleteLV + "pvc-1`: 1 volume: LogicalVolume and PersistentVolume pvc-1 on node n1"},
		"a retained PersistentVolume without a LogicalVolume": {
			objects: []client.Object{persistentVolumeOf("pvc-1", retain, corev1.VolumeAvailable)},
			want:    begin + deletePV + "pvc-1`: 1 volume: PersistentVolume pvc-1"},
		"both kinds": {
			objects: []client.Object{logicalVolumeOf("pvc-2"), logicalVolumeOf("pvc-1"),
				persistentVolumeOf("pvc-1", retain, corev1.VolumeReleased)},
			want: begin + deletePV + "PERSISTENTVOLUME && " + deleteLV + "LOGICALVOLUME`: 2 volumes: LogicalVolume and PersistentVolume pvc-1 on node n1, " +
				"LogicalVolume pvc-2 on node n1"},
		"a retained PersistentVolume of another name": {
			objects: []client.Object{logicalVolumeOf("pvc-1"), imported},
			want:    begin + deletePV + "imported && " + deleteLV + "pvc-1`: 1 volume: LogicalVolume pvc-1 on node n1 with PersistentVolume imported"},
		"a retained PersistentVolume that is bound": {
			objects: []client.Object{logicalVolumeOf("pvc-1"), persistentVolumeOf("pvc-1", retain,
				corev1.VolumeBound)}},
		"a PersistentVolume that the provisioner deletes": {
			objects: []client.Object{logicalVolumeOf("pvc-1"), persistentVolumeOf("pvc-1", remove,
				corev1.VolumeReleased)}},
		"a new volume whose PersistentVolume does not exist yet": {
			objects: []client.Object{logicalVolumeOf("pvc-1"), claimOf("1")}},
		"a LogicalVolume that is being deleted": {objects: []client.Object{deleting}},
		"a LogicalVolume that is being created": {objects: []client.Object{pending}},
		"a snapshot that was deleted": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), contentOf("2", "id-of-another", "")},
			want:    begin + deleteLV + "snapshot-1`: 1 volume: LogicalVolume snapshot-1 on node n1"},
		"a snapshot": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), contentOf("2", "id-snapshot-1", "")}},
		"a snapshot that was created manually": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), contentOf("2", "", "id-snapshot-1")}},
		"a snapshot that is being created": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), contentOf("1", "", "")}},
		"a snapshot of a group that is not complete": {snapshots: true, objects: []client.Object{grouped}},
		"a retained snapshot": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), retainedContent("c1", "1", "id-snapshot-1"),
				snapshotOf("2")},
			want: begin + deleteContent + "c1 && " + deleteLV + "snapshot-1`: 1 volume: LogicalVolume snapshot-1 on node n1 with VolumeSnapshotContent c1"},
		"a retained snapshot that was created manually": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), manual},
			want:    begin + deleteContent + "c1 && " + deleteLV + "snapshot-1`: 1 volume: LogicalVolume snapshot-1 on node n1 with VolumeSnapshotContent c1"},
		"a retained snapshot of two objects, and a retained PersistentVolume": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), logicalVolumeOf("pvc-1"),
				persistentVolumeOf("pvc-1", retain, corev1.VolumeReleased),
				retainedContent("c2", "1", "id-snapshot-1"), retainedContent("c1", "3", "id-snapshot-1")},
			want: begin + deletePV + "PERSISTENTVOLUME && " + deleteContent + "VOLUMESNAPSHOTCONTENT && " + deleteLV + "LOGICALVOLUME`: 2 volumes: LogicalVolume and PersistentVolume pvc-1 " +
				"on node n1, LogicalVolume snapshot-1 on node n1 with VolumeSnapshotContent c1 and c2"},
		"a retained snapshot of two objects, alone": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), retainedContent("c2", "1", "id-snapshot-1"),
				retainedContent("c1", "3", "id-snapshot-1")},
			want: begin + deleteContent + "c1 c2 && " + deleteLV + "snapshot-1`: 1 volume: LogicalVolume snapshot-1 on node n1 with VolumeSnapshotContent c1 and c2"},
		"a snapshot with the deletion policy Retain": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), retainedContent("c1", "1", "id-snapshot-1"),
				snapshotOf("1")}},
		"a snapshot of two objects, one of which is retained": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), retainedContent("c1", "3", "id-snapshot-1"),
				retainedContent("c2", "1", "id-snapshot-1"), snapshotOf("1")}},
		"a retained snapshot that is bound manually": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), manual, snapshotOf("9")}},
		"a retained snapshot that is being deleted": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), removed}},
		"a snapshot that the snapshotter deletes": {snapshots: true,
			objects: []client.Object{logicalVolumeOf("snapshot-1"), policyDelete}},
		"a snapshot without the API of snapshots": {objects: []client.Object{logicalVolumeOf("snapshot-1")}},
	} {
		t.Run(name, func(t *testing.T) {
			live := readerOf(t, noFailure, c.objects...)
			users, err := usersOf(t.Context(), live, scope{}, false)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for range 2 { // A second call has the same result.
				leftovers, err := users.Leftovers(t.Context(), live, c.snapshots)
				if err != nil {
					t.Fatal(err)
				}
				if got = ""; len(leftovers) > 0 {
					got = leftovers.String()
				}
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestAFailedReadOfSnapshotsHasNoLeftovers(t *testing.T) {
	away := errors.New("the API server is away")
	for _, kind := range []string{"VolumeSnapshotContent", "VolumeSnapshot"} {
		t.Run(kind, func(t *testing.T) {
			live := readerOf(t, func(list client.ObjectList) error {
				if list.GetObjectKind().GroupVersionKind().Kind == kind+"List" {
					return away
				}
				return nil
			}, logicalVolumeOf("snapshot-1"), retainedContent("c1", "1", "id-snapshot-1"), snapshotOf("1"),
				logicalVolumeOf("pvc-1"))
			users, err := usersOf(t.Context(), live, scope{}, false)
			if err != nil {
				t.Fatal(err)
			}
			leftovers, err := users.Leftovers(t.Context(), live, true)
			if !errors.Is(err, away) || len(leftovers) > 0 || !strings.Contains(err.Error(), kind+"s") {
				t.Errorf("leftovers %v, error %v", leftovers, err)
			}
		})
	}
}

func TestLeftoversOfOneDeviceClass(t *testing.T) {
	const retain = corev1.PersistentVolumeReclaimRetain
	other := logicalVolumeOf("pvc-2")
	other.Spec.DeviceClass = "vg2"
	live := readerOf(t, noFailure, logicalVolumeOf("pvc-1"), other,
		persistentVolumeOf("pvc-1", retain, corev1.VolumeBound),
		persistentVolumeOf("pvc-2", retain, corev1.VolumeReleased))
	for class, want := range map[string]string{
		"vg1": "",
		"vg2": begin + deletePV + "pvc-2 && " + deleteLV + "pvc-2`: 1 volume: LogicalVolume and PersistentVolume pvc-2 on node n1",
	} {
		t.Run(class, func(t *testing.T) {
			users, err := UsersOf(t.Context(), live,
				&lvmv1alpha1.LVMVolumeGroup{ObjectMeta: metav1.ObjectMeta{Name: class}})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if leftovers, err := users.Leftovers(t.Context(), live, true); err != nil {
				t.Fatal(err)
			} else if len(leftovers) > 0 {
				got = leftovers.String()
			}
			if got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestManyLeftoversFitIntoAnEvent(t *testing.T) {
	const uuid = "pvc-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
	var many Leftovers
	for range 10000 {
		many = append(many, Leftover{LogicalVolume: uuid, Node: "worker-12.example.com", PersistentVolume: uuid})
	}
	got := many.String()
	if len(got) > 1024 || !strings.HasSuffix(got, " and 9995 more") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
