// Package snapshotref reads to which volumes VolumeSnapshotContents refer.
package snapshotref

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/paging"
)

// NamePrefix is the name prefix of the LogicalVolume of a snapshot. The UID of the VolumeSnapshot follows it
// (external-snapshotter, --snapshot-name-prefix).
const NamePrefix = "snapshot-"

// Each reads all VolumeSnapshotContents, and calls each with the volume handles and the names of LogicalVolumes to
// which they refer. The name is known before the snapshot is created, the handle afterward. The cluster must have the
// VolumeSnapshot API.
func Each(ctx context.Context, live client.Reader, each func(handleOrName string)) error {
	contents := &unstructured.UnstructuredList{}
	contents.SetAPIVersion("snapshot.storage.k8s.io/v1")
	contents.SetKind("VolumeSnapshotContentList")
	return paging.Each(ctx, live, contents, func(page *unstructured.UnstructuredList) {
		for i := range page.Items {
			of(page.Items[i].Object, each)
		}
	})
}

// of calls each with what one VolumeSnapshotContent refers to.
func of(content map[string]any, each func(handleOrName string)) {
	for _, path := range [][]string{{"status", "snapshotHandle"}, {"spec", "source", "snapshotHandle"}} {
		if handle, _, _ := unstructured.NestedString(content, path...); handle != "" {
			each(handle)
		}
	}
	if uid, _, _ := unstructured.NestedString(content, "spec", "volumeSnapshotRef", "uid"); uid != "" {
		each(NamePrefix + uid)
	}
}
