package driver

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// This file creates copies of snapshots and volumes. On the node of the source, and in its device class, a copy is a
// snapshot of the source. Elsewhere, the node agent copies the data of a snapshot: that of the request, or one that is
// created for the copy. A thick volume has no snapshots: wherever the copy is, its data is copied from the volume
// itself. Package clone requests that nobody uses the volume meanwhile.

// copySource is the source of a copy, and on which nodes the copy can be. A nil copySource is that of an empty volume.
type copySource struct {
	lv        *topolvmv1.LogicalVolume
	placement string
	// thick: the source is a thick volume.
	thick bool
}

func (c *copySource) node() string { return c.lv.Spec.NodeName }

// mustStay reports whether the copy can only be on the node of the source.
func (c *copySource) mustStay() bool { return c != nil && c.placement == v1alpha1.SourceNodeOnly }

// prefers reports whether the copy is on the node of the source if that has enough capacity.
func (c *copySource) prefers(allowed []string) bool {
	return c != nil && c.placement == v1alpha1.PreferSourceNode &&
		(len(allowed) == 0 || slices.Contains(allowed, c.node()))
}

// isElsewhere reports whether a LogicalVolume cannot be a snapshot of the source.
func (c *copySource) isElsewhere(lv *topolvmv1.LogicalVolume) bool {
	return c.isCopiedTo(lv.Spec.NodeName, lv.Spec.DeviceClass)
}

// isCopiedTo reports whether the data of the source is copied for a LogicalVolume on a node, in a device class.
func (c *copySource) isCopiedTo(node, class string) bool {
	return c != nil && (c.thick || node != c.node() || class != c.lv.Spec.DeviceClass)
}

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
	lv, err := s.find(ctx, id)
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
	if source.Spec.AccessType == accessSnapshot {
		return false, nil
	}
	class := source.Spec.DeviceClass
	if class == "" {
		var err error
		if class, err = DefaultClass(ctx, s.Client); err != nil {
			return false, err
		}
	}
	classes, err := s.thickClasses(ctx)
	if err != nil {
		return false, err
	}
	return classes[class], nil
}

// thickClasses returns for each device class of the LVMClusters whether it is thick.
func (s *ControllerServer) thickClasses(ctx context.Context) (map[string]bool, error) {
	clusters := &v1alpha1.LVMClusterList{}
	if err := s.Client.List(ctx, clusters); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list LVMClusters: %v", err)
	}
	thick := map[string]bool{}
	for i := range clusters.Items {
		for _, class := range clusters.Items[i].Spec.Storage.DeviceClasses {
			thick[class.Name] = class.ThinPoolConfig == nil
		}
	}
	return thick, nil
}

func checkSourcePlacement(parameters map[string]string) error {
	value := parameters[v1alpha1.SourcePlacementParameter]
	known := []string{"", v1alpha1.SourceNodeOnly, v1alpha1.PreferSourceNode, v1alpha1.SourceAnyNode}
	if slices.Contains(known, value) {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "parameter %s of the StorageClass is %q, must be %s, %s or %s",
		v1alpha1.SourcePlacementParameter, value, v1alpha1.SourceNodeOnly, v1alpha1.PreferSourceNode,
		v1alpha1.SourceAnyNode)
}

// setSource makes a LogicalVolume a copy. It returns an error if it cannot be one of this source. thick: the source is
// a thick volume.
func setSource(desired, source *topolvmv1.LogicalVolume, thick bool,
	parameters map[string]string) (*copySource, error) {
	if err := sameEncryption(source, desired.Annotations[v1alpha1.EncryptionAnnotation]); err != nil {
		return nil, err
	}
	desired.Spec.Source = source.Name
	desired.Spec.AccessType = "rw"
	if desired.Spec.DeviceClass == "" {
		desired.Spec.DeviceClass = source.Spec.DeviceClass
	}
	if desired.Spec.DeviceClass == source.Spec.DeviceClass && !thick {
		desired.Spec.LvcreateOptionClass = ""
	}
	placement := parameters[v1alpha1.SourcePlacementParameter]
	if placement == "" {
		placement = v1alpha1.PreferSourceNode
	}
	return &copySource{lv: source, placement: placement, thick: thick}, nil
}

// originOf returns the LogicalVolume of which another one is a copy, or "".
func originOf(lv *topolvmv1.LogicalVolume) string {
	if origin := lv.Annotations[v1alpha1.CopyOfAnnotation]; origin != "" {
		return origin
	}
	return lv.Spec.Source
}

// preparationPrefix precedes the name of a LogicalVolume in that of the snapshot that is created to copy its source.
const preparationPrefix = "copy-"

// IsPreparation reports whether a LogicalVolume is a snapshot that was created to copy its source. Its name and its
// access type must show this too: whoever can write the annotation must not have another volume deleted.
func IsPreparation(lv *topolvmv1.LogicalVolume) bool {
	copied := lv.Annotations[v1alpha1.CopyForAnnotation]
	return copied != "" && lv.Name == preparationPrefix+copied && lv.Spec.AccessType == accessSnapshot
}

// prepareCopy sets the source of a copy for which a node was selected. If the copy cannot be a snapshot of the source,
// and the source can change, prepareCopy creates a snapshot of it first. A copy of a thick volume waits until package
// clone has the volume closed.
func (s *ControllerServer) prepareCopy(ctx context.Context, desired *topolvmv1.LogicalVolume,
	source *copySource) error {
	if source == nil {
		return nil
	}
	desired.Spec.Source = source.lv.Name
	delete(desired.Annotations, v1alpha1.CopyOfAnnotation)
	if source.thick {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, v1alpha1.CloneVolumeAnnotation, source.lv.Status.VolumeID)
		return nil
	}
	if !source.isElsewhere(desired) || source.lv.Spec.AccessType == accessSnapshot {
		return nil
	}
	snapshot := newDesiredVolume(preparationPrefix+desired.Name, sizeOfVolume(source.lv),
		desired.Annotations[v1alpha1.ClaimAnnotation])
	setEncryption(snapshot, source.lv.Annotations[v1alpha1.EncryptionAnnotation])
	metav1.SetMetaDataAnnotation(&snapshot.ObjectMeta, v1alpha1.CopyForAnnotation, desired.Name)
	snapshot.Spec.Source = source.lv.Name
	snapshot.Spec.AccessType = accessSnapshot
	snapshot.Spec.DeviceClass = source.lv.Spec.DeviceClass
	snapshot.Spec.NodeName = source.node()
	_, err := s.ensureVolume(ctx, snapshot, func(*topolvmv1.LogicalVolume) error { return nil })
	if err != nil {
		return status.Errorf(status.Code(err), "create a snapshot of %s, to copy it to node %s and device class %s: %s",
			source.lv.Name, desired.Spec.NodeName, desired.Spec.DeviceClass, status.Convert(err).Message())
	}
	metav1.SetMetaDataAnnotation(&desired.ObjectMeta, v1alpha1.CopyOfAnnotation, source.lv.Name)
	desired.Spec.Source = snapshot.Name
	return nil
}

// dropPreparation deletes the snapshot that was created for a copy, which is complete. If it fails, the audit of
// LogicalVolumes deletes the snapshot later.
func (s *ControllerServer) dropPreparation(ctx context.Context, lv *topolvmv1.LogicalVolume) {
	if lv.Annotations[v1alpha1.CopyOfAnnotation] == "" || lv.Spec.Source != preparationPrefix+lv.Name {
		return
	}
	snapshot := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: lv.Spec.Source}}
	if err := s.Client.Delete(ctx, snapshot); client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Info("cannot delete the snapshot of a copy yet", "logicalVolume", snapshot.Name, "cause",
			err.Error())
	}
}

// endCopy deletes a copy that is not complete, because its claim was deleted, and returns an error for the call then.
// Otherwise the provisioner would repeat the call until all data is copied, and delete the volume only then.
func (s *ControllerServer) endCopy(ctx context.Context, desired *topolvmv1.LogicalVolume, source *copySource) error {
	present, err := s.live(ctx, desired.Name)
	if err != nil || present == nil || present.Status.VolumeID != "" || !source.isElsewhere(present) {
		return err
	}
	waiting, cancel := withResponseMargin(ctx)
	defer cancel()
	if err := s.withdraw(waiting, present); err != nil {
		return err
	}
	s.dropPreparation(ctx, present)
	return source.claimDeleted(desired)
}

// claimDeleted is the error for a copy whose claim was deleted. The provisioner does not repeat a call with this code.
func (c *copySource) claimDeleted(desired *topolvmv1.LogicalVolume) error {
	return status.Errorf(codes.NotFound, "claim %s does not exist: the data of %s is not copied for it",
		desired.Annotations[v1alpha1.ClaimAnnotation], c.lv.Name)
}
