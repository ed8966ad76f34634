package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// This file creates copies of snapshots and volumes. On the node of the source, and in its device class, a copy is a
// snapshot of the source. Elsewhere, the node agent copies the data of a snapshot: that of the request, or one that is
// created for the copy. A thick volume has no snapshots: wherever the copy is, its data is copied from the volume
// itself. Package clone requests that nobody uses the volume meanwhile.

// sourceOf returns the LogicalVolume to copy, or nil if the request has no source.
func (s *ControllerServer) sourceOf(ctx context.Context,
	source *csi.VolumeContentSource) (*topolvmv1.LogicalVolume, error) {
	var id, kind string
	switch {
	case source == nil:
		return nil, nil
	case source.GetSnapshot() != nil:
		id = source.GetSnapshot().GetSnapshotId()
		kind = "snapshot"
	case source.GetVolume() != nil:
		id = source.GetVolume().GetVolumeId()
		kind = "volume"
	default:
		return nil, status.Error(codes.InvalidArgument, "the source is neither a snapshot nor a volume")
	}
	lv, err := s.volumes.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	if lv == nil {
		return nil, status.Errorf(codes.NotFound, "source %s %q does not exist", kind, id)
	}
	return lv, nil
}

// isThick reports whether a source is a thick volume. A snapshot is always thin. A device class that only its node
// knows, as on MicroShift, is taken as thin: then the node agent refuses a snapshot of a thick volume.
func (s *ControllerServer) isThick(ctx context.Context, source *topolvmv1.LogicalVolume) (bool, error) {
	if source.Spec.AccessType == volumespec.AccessSnapshot {
		return false, nil
	}
	class := source.Spec.DeviceClass
	if class == "" {
		var err error
		if class, err = supply.DefaultClass(ctx, s.volumes.Client); err != nil {
			return false, err
		}
	}
	classes, err := supply.ThickClasses(ctx, s.volumes.Client)
	if err != nil {
		return false, err
	}
	return classes[class], nil
}

// prepareCopy sets the source of a copy for which a node was selected. If the copy cannot be a snapshot of the source,
// and the source can change, prepareCopy creates a snapshot of it first. A copy of a thick volume waits until package
// clone has the volume closed.
func (s *ControllerServer) prepareCopy(ctx context.Context, desired *topolvmv1.LogicalVolume,
	source *volumespec.Source) error {
	if source == nil {
		return nil
	}
	desired.Spec.Source = source.LV.Name
	delete(desired.Annotations, wellknown.CopyOfAnnotation)
	if source.Thick {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, wellknown.CloneVolumeAnnotation, source.LV.Status.VolumeID)
		return nil
	}
	if !source.IsElsewhere(desired) || source.LV.Spec.AccessType == volumespec.AccessSnapshot {
		return nil
	}
	snapshot := volumespec.New(volumespec.PreparationPrefix+desired.Name, volumespec.SizeOf(source.LV),
		view.Claim(desired))
	view.SetEncryption(snapshot, view.Encryption(source.LV))
	metav1.SetMetaDataAnnotation(&snapshot.ObjectMeta, wellknown.CopyForAnnotation, desired.Name)
	snapshot.Spec.Source = source.LV.Name
	snapshot.Spec.AccessType = volumespec.AccessSnapshot
	snapshot.Spec.DeviceClass = source.LV.Spec.DeviceClass
	snapshot.Spec.NodeName = source.Node()
	_, err := s.volumes.Ensure(ctx, snapshot, func(*topolvmv1.LogicalVolume) error { return nil })
	if err != nil {
		return status.Errorf(status.Code(err), "create a snapshot of %s, to copy it to node %s and device class %s: %s",
			source.LV.Name, desired.Spec.NodeName, desired.Spec.DeviceClass, status.Convert(err).Message())
	}
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, wellknown.CopyOfAnnotation, source.LV.Name)
	desired.Spec.Source = snapshot.Name
	return nil
}

// dropPreparation deletes the snapshot that was created for a copy, which is complete. If it fails, the audit of
// LogicalVolumes deletes the snapshot later.
func (s *ControllerServer) dropPreparation(ctx context.Context, lv *topolvmv1.LogicalVolume) {
	if view.CopyOf(lv) == "" || lv.Spec.Source != volumespec.PreparationPrefix+lv.Name {
		return
	}
	snapshot := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: lv.Spec.Source}}
	if err := s.volumes.Client.Delete(ctx, snapshot); client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Info("cannot delete the snapshot of a copy yet", "logicalVolume", snapshot.Name, "cause",
			err.Error())
	}
}

// endCopy deletes a copy that is not complete, because its claim was deleted, and returns an error for the call then.
// Otherwise the provisioner would repeat the call until all data is copied, and delete the volume only then.
func (s *ControllerServer) endCopy(ctx context.Context, desired *topolvmv1.LogicalVolume,
	source *volumespec.Source) error {
	present, err := s.volumes.Read(ctx, desired.Name)
	if err != nil || present == nil || present.Status.VolumeID != "" || !source.IsElsewhere(present) {
		return err
	}
	waiting, cancel := objects.WithResponseMargin(ctx)
	defer cancel()
	if err := s.volumes.Withdraw(waiting, present); err != nil {
		return err
	}
	s.dropPreparation(ctx, present)
	return claimDeleted(source, desired)
}

// claimDeleted is the error for a copy whose claim was deleted. The provisioner does not repeat a call with this code.
func claimDeleted(source *volumespec.Source, desired *topolvmv1.LogicalVolume) error {
	return status.Errorf(codes.NotFound, "claim %s does not exist: the data of %s is not copied for it",
		view.Claim(desired), source.LV.Name)
}

// recallRequest gives a snapshot of an earlier version, which has no record, the request of its source, if the source
// exists and still has the size that it had then. It changes only the given object.
func (s *ControllerServer) recallRequest(ctx context.Context, snapshot *topolvmv1.LogicalVolume) error {
	if snapshot.Spec.AccessType != volumespec.AccessSnapshot || view.RequestedSize(snapshot) > 0 {
		return nil
	}
	source, err := s.volumes.Read(ctx, snapshot.Spec.Source)
	if err != nil || source == nil || volumespec.SizeOf(source) != volumespec.SizeOf(snapshot) {
		return err
	}
	view.SetRequestedSize(snapshot, volumespec.RequestedOf(source))
	return nil
}
