package snapshotmetadata

import (
	"context"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// node returns the node that has a snapshot, by its CSI ID. It reads the LogicalVolume from the API server: a cache
// could have one that was replaced.
func (r *Relay) node(ctx context.Context, handle string) (string, error) {
	object := r.NameOf(handle)
	if object == "" {
		return "", status.Errorf(codes.Unavailable, "no LogicalVolume with the volume ID %s was observed", handle)
	}
	lv := &topolvmv1.LogicalVolume{}
	if err := get(ctx, r.Live, client.ObjectKey{Name: object}, lv, "LogicalVolume"); err != nil {
		return "", err
	}
	if lv.Status.VolumeID != handle || lv.Spec.NodeName == "" {
		return "", status.Errorf(codes.Unavailable, "LogicalVolume %s has the volume ID %q on node %q, want %s", object,
			lv.Status.VolumeID, lv.Spec.NodeName, handle)
	}
	return lv.Spec.NodeName, nil
}

// handle returns the CSI ID of a VolumeSnapshot of this driver that is ready to use. The VolumeSnapshot and its
// VolumeSnapshotContent must refer to each other. It reads them from the API server, because a snapshot could have been
// replaced by another one with the same name.
func (s *Server) handle(ctx context.Context, namespace, name string) (string, error) {
	snapshot := &snapshotv1.VolumeSnapshot{}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if err := get(ctx, s.Live, key, snapshot, "VolumeSnapshot"); err != nil {
		return "", err
	}
	if snapshot.Status == nil || !ptr.Deref(snapshot.Status.ReadyToUse, false) ||
		ptr.Deref(snapshot.Status.BoundVolumeSnapshotContentName, "") == "" {
		return "", status.Errorf(codes.Unavailable, "VolumeSnapshot %s/%s is not ready to use%s", namespace, name,
			reasonOf(snapshot.Status))
	}
	content := &snapshotv1.VolumeSnapshotContent{}
	key = client.ObjectKey{Name: *snapshot.Status.BoundVolumeSnapshotContentName}
	if err := get(ctx, s.Live, key, content, "VolumeSnapshotContent"); err != nil {
		return "", err
	}
	ref := content.Spec.VolumeSnapshotRef
	if ref.Namespace != namespace || ref.Name != name || ref.UID != snapshot.UID {
		return "", status.Errorf(codes.Unavailable, "VolumeSnapshotContent %s is bound to VolumeSnapshot %s/%s, not "+
			"to %s/%s", content.Name, ref.Namespace, ref.Name, namespace, name)
	}
	if content.Spec.Driver != wellknown.DriverName {
		return "", status.Errorf(codes.InvalidArgument, "VolumeSnapshot %s/%s is of the driver %s, not of %s",
			namespace, name, content.Spec.Driver, wellknown.DriverName)
	}
	if content.Status == nil || !ptr.Deref(content.Status.ReadyToUse, false) ||
		ptr.Deref(content.Status.SnapshotHandle, "") == "" {
		return "", status.Errorf(codes.Unavailable, "VolumeSnapshotContent %s is not ready to use", content.Name)
	}
	return *content.Status.SnapshotHandle, nil
}

// reasonOf returns why a snapshot is not ready, to follow the statement that it is not; "" if no reason is reported.
func reasonOf(s *snapshotv1.VolumeSnapshotStatus) string {
	if s == nil || s.Error == nil || ptr.Deref(s.Error.Message, "") == "" {
		return ""
	}
	return ": " + *s.Error.Message
}

// get reads an object. A failed read is never NotFound.
func get(ctx context.Context, live client.Reader, key client.ObjectKey, object client.Object, kind string) error {
	name := key.Name
	if key.Namespace != "" {
		name = key.String()
	}
	err := live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return status.Errorf(codes.NotFound, "%s %s does not exist", kind, name)
	}
	if err != nil {
		return status.Errorf(codes.Unavailable, "read %s %s: %v", kind, name, err)
	}
	return nil
}
