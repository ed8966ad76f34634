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

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// location is where a snapshot is. handle is its CSI ID.
type location struct{ handle, node string }

// locate returns where the snapshot of a VolumeSnapshot is. It reads the objects from the API server, because a
// snapshot could have been replaced by another one with the same name.
func (s *Server) locate(ctx context.Context, namespace, name string) (location, error) {
	handle, err := s.handle(ctx, namespace, name)
	if err != nil {
		return location{}, err
	}
	object := s.NameOf(handle)
	if object == "" {
		return location{}, status.Errorf(codes.Unavailable, "VolumeSnapshot %s/%s: no LogicalVolume with the volume "+
			"ID %s was observed", namespace, name, handle)
	}
	lv := &topolvmv1.LogicalVolume{}
	if err := s.get(ctx, client.ObjectKey{Name: object}, lv, "LogicalVolume"); err != nil {
		return location{}, err
	}
	if lv.Status.VolumeID != handle || lv.Spec.NodeName == "" {
		return location{}, status.Errorf(codes.Unavailable, "VolumeSnapshot %s/%s: LogicalVolume %s has the volume ID "+
			"%q on node %q, want %s", namespace, name, object, lv.Status.VolumeID, lv.Spec.NodeName, handle)
	}
	return location{handle: handle, node: lv.Spec.NodeName}, nil
}

// handle returns the CSI ID of a VolumeSnapshot of this driver that is ready to use. The VolumeSnapshot and its
// VolumeSnapshotContent must refer to each other.
func (s *Server) handle(ctx context.Context, namespace, name string) (string, error) {
	snapshot := &snapshotv1.VolumeSnapshot{}
	if err := s.get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, snapshot, "VolumeSnapshot"); err != nil {
		return "", err
	}
	if snapshot.Status == nil || !ptr.Deref(snapshot.Status.ReadyToUse, false) ||
		ptr.Deref(snapshot.Status.BoundVolumeSnapshotContentName, "") == "" {
		return "", status.Errorf(codes.Unavailable, "VolumeSnapshot %s/%s is not ready to use", namespace, name)
	}
	content := &snapshotv1.VolumeSnapshotContent{}
	key := client.ObjectKey{Name: *snapshot.Status.BoundVolumeSnapshotContentName}
	if err := s.get(ctx, key, content, "VolumeSnapshotContent"); err != nil {
		return "", err
	}
	ref := content.Spec.VolumeSnapshotRef
	if ref.Namespace != namespace || ref.Name != name || ref.UID != snapshot.UID {
		return "", status.Errorf(codes.Unavailable, "VolumeSnapshotContent %s is bound to VolumeSnapshot %s/%s, not "+
			"to %s/%s", content.Name, ref.Namespace, ref.Name, namespace, name)
	}
	if content.Spec.Driver != lvmv1alpha1.DriverName {
		return "", status.Errorf(codes.InvalidArgument, "VolumeSnapshot %s/%s is of the driver %s, not of %s",
			namespace, name, content.Spec.Driver, lvmv1alpha1.DriverName)
	}
	if content.Status == nil || !ptr.Deref(content.Status.ReadyToUse, false) ||
		ptr.Deref(content.Status.SnapshotHandle, "") == "" {
		return "", status.Errorf(codes.Unavailable, "VolumeSnapshotContent %s is not ready to use", content.Name)
	}
	return *content.Status.SnapshotHandle, nil
}

// get reads an object. A failed read is never NotFound.
func (s *Server) get(ctx context.Context, key client.ObjectKey, object client.Object, kind string) error {
	name := key.Name
	if key.Namespace != "" {
		name = key.String()
	}
	err := s.Live.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return status.Errorf(codes.NotFound, "%s %s does not exist", kind, name)
	}
	if err != nil {
		return status.Errorf(codes.Unavailable, "read %s %s: %v", kind, name, err)
	}
	return nil
}
