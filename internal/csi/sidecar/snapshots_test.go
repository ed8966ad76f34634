package sidecar

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/lvm-storage/lvm-operator/test/expect"
)

// TestTheDriverDecidesWhichRequestIsEnough: the provisioner does not see the restoreSize of a VolumeSnapshot, and sees
// all else.
func TestTheDriverDecidesWhichRequestIsEnough(t *testing.T) {
	size := resource.MustParse("956Mi")
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "ready", UID: "uid-ready"}
	objects := map[string]any{
		"ready": &snapshotv1.VolumeSnapshot{ObjectMeta: meta, Status: &snapshotv1.VolumeSnapshotStatus{RestoreSize: &size,
			ReadyToUse: ptr.To(true), BoundVolumeSnapshotContentName: ptr.To("content")}},
		"new": &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const path = "/apis/snapshot.storage.k8s.io/v1/namespaces/shop/volumesnapshots/"
		object, found := objects[r.URL.Path[min(len(path), len(r.URL.Path)):]]
		w.Header().Set("Content-Type", "application/json")
		if !found {
			w.WriteHeader(http.StatusForbidden)
			object = apierrors.NewForbidden(snapshotv1.Resource("volumesnapshots"), r.URL.Path, nil).Status()
		}
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	api, err := snapshotclient.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	snapshots := restoredSnapshots{api}.SnapshotV1().VolumeSnapshots("shop")
	for range 2 {
		got, err := snapshots.Get(t.Context(), "ready", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		expect.Equal(t, "metadata", got.ObjectMeta, meta)
		expect.Equal(t, "status", got.Status, &snapshotv1.VolumeSnapshotStatus{ReadyToUse: ptr.To(true),
			BoundVolumeSnapshotContentName: ptr.To("content")})
	}
	if got, err := snapshots.Get(t.Context(), "new", metav1.GetOptions{}); err != nil || got.Status != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := snapshots.Get(t.Context(), "forbidden", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the read failed: got %v", err)
	}
}
