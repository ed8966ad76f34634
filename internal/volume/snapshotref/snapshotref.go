// Package snapshotref reads to which volumes VolumeSnapshotContents refer.
package snapshotref

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
)

// Content is what a VolumeSnapshotContent refers to.
type Content struct {
	// Name of the VolumeSnapshotContent.
	Name string
	// Volumes are the volume handles and the names of LogicalVolumes. The name is known before the snapshot is created,
	// the handle afterward.
	Volumes []string

	// snapshot is its VolumeSnapshot, and uid the UID of that one, or "" if they are not bound yet.
	snapshot types.NamespacedName
	uid      types.UID
	// stays is whether it is not deleted with its VolumeSnapshot, because its deletion policy is Retain.
	stays bool
}

// Each reads all VolumeSnapshotContents, and calls each with what they refer to. The cluster must have the
// VolumeSnapshot API.
func Each(ctx context.Context, live client.Reader, each func(Content)) error {
	return eachOf(ctx, live, "VolumeSnapshotContent", func(object *unstructured.Unstructured) {
		each(contentOf(object))
	})
}

// EachByUse does the same as Each. used is whether the VolumeSnapshot of the VolumeSnapshotContent exists or something
// deletes the VolumeSnapshotContent. If it is false, only an administrator can delete it: its deletion policy is
// Retain. If EachByUse fails, it calls each for none or some.
func EachByUse(ctx context.Context, live client.Reader, each func(content Content, used bool)) error {
	retained := map[types.NamespacedName][]Content{}
	err := Each(ctx, live, func(content Content) {
		if content.stays {
			retained[content.snapshot] = append(retained[content.snapshot], content)
			return
		}
		each(content, true)
	})
	if err != nil || len(retained) == 0 {
		return err
	}
	// A VolumeSnapshot exists before the VolumeSnapshotContent that is created for it, so it is not too late to read
	// them here.
	uids := map[types.NamespacedName]types.UID{}
	err = eachOf(ctx, live, "VolumeSnapshot", func(snapshot *unstructured.Unstructured) {
		key := client.ObjectKeyFromObject(snapshot)
		if _, has := retained[key]; has {
			uids[key] = snapshot.GetUID()
		}
	})
	if err != nil {
		return err
	}
	for key, contents := range retained {
		uid, exists := uids[key]
		for _, content := range contents {
			each(content, exists && (content.uid == "" || content.uid == uid))
		}
	}
	return nil
}

// eachOf reads all objects of a kind of the VolumeSnapshot API in pages.
func eachOf(ctx context.Context, live client.Reader, kind string, each func(*unstructured.Unstructured)) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1",
		Kind: kind + "List"})
	err := paging.Each(ctx, live, list, func(page *unstructured.UnstructuredList) {
		for i := range page.Items {
			each(&page.Items[i])
		}
	})
	if err != nil {
		return fmt.Errorf("read %ss: %w", kind, err)
	}
	return nil
}

// contentOf returns what a VolumeSnapshotContent refers to.
func contentOf(object *unstructured.Unstructured) Content {
	field := func(path ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, path...)
		return value
	}
	content := Content{
		Name: object.GetName(),
		snapshot: types.NamespacedName{Namespace: field("spec", "volumeSnapshotRef", "namespace"),
			Name: field("spec", "volumeSnapshotRef", "name")},
		uid:   types.UID(field("spec", "volumeSnapshotRef", "uid")),
		stays: field("spec", "deletionPolicy") == "Retain" && object.GetDeletionTimestamp() == nil,
	}
	for _, handle := range []string{field("status", "snapshotHandle"), field("spec", "source", "snapshotHandle")} {
		if handle != "" {
			content.Volumes = append(content.Volumes, handle)
		}
	}
	if content.uid != "" {
		content.Volumes = append(content.Volumes, wellknown.SnapshotPrefix+string(content.uid))
	}
	return content
}
