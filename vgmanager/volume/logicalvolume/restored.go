package logicalvolume

import (
	"context"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// propose names the existing snapshot of a restored object in an annotation. It always returns an error: with the code
// Unavailable, the operator reads the annotation. Agents cannot choose the volume of an object themselves.
func (p *importer) propose(ctx context.Context, lv *topolvmv1.LogicalVolume, snapshot string) error {
	if err := p.untaken(ctx, lv, snapshot); err != nil {
		return err
	}
	if view.ExistingVolume(lv) != snapshot {
		before := lv.DeepCopy()
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.ExistingVolumeAnnotation, snapshot)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		switch err := p.Client.Patch(ctx, lv, patch); {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return err // The object has changed.
		case err != nil:
			return status.Errorf(codes.Unavailable, "set annotation %s of LogicalVolume %s: %v",
				wellknown.ExistingVolumeAnnotation, lv.Name, err)
		}
	}
	return status.Errorf(codes.Unavailable, "device class %s on node %s has the snapshot %s of an earlier "+
		"LogicalVolume %s. It is used when the operator has checked that no other object has it",
		lv.Spec.DeviceClass, p.Node, snapshot, lv.Name)
}

// refused is called for an object whose status has a final error. The client deletes the object, or requests something
// else. Only a restored object has no client: its error is not final.
func (p *importer) refused(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	handle, err := p.handle(ctx, lv)
	if err != nil || handle == "" || handle == string(lv.UID) {
		return ctrl.Result{}, err
	}
	return p.fail(ctx, lv, status.Errorf(codes.Unavailable, "PersistentVolume %s has the logical volume %s, which was "+
		"created for an earlier LogicalVolume of this name: %s", lv.Name, handle, lv.Status.Message))
}

// restored returns an error with the code Unavailable if the object was restored, or if this is not known: a logical
// volume has the name of the object in its tags and was created for an earlier object of this name, or the device class
// does not exist yet and the PersistentVolume names another logical volume, or the object is one of a VolumeSnapshot. A
// logical volume that nobody has used yet has no data and does not count, unless the PersistentVolume names it. For a
// VolumeSnapshot with one such logical volume, restored returns its name instead.
func (p *importer) restored(ctx context.Context, lv *topolvmv1.LogicalVolume) (snapshot string, err error) {
	tagged, err := p.Volumes.Tagged(ctx, lv.Spec.DeviceClass, wellknown.VolumeNameTagPrefix+lv.Name)
	switch {
	case status.Code(err) == codes.NotFound:
		return "", p.restoredWithoutClass(ctx, lv)
	case err != nil:
		return "", status.Errorf(codes.Unavailable, "%s", message(err))
	case len(tagged) == 0:
		return "", nil
	}
	handle, err := p.handle(ctx, lv)
	if err != nil {
		return "", err
	}
	var former []string
	for _, v := range tagged {
		switch {
		case v.Name == string(lv.UID):
			return "", nil // An earlier process created it.
		case v.Name == handle || !slices.Contains(v.Tags, wellknown.NewTag):
			former = append(former, v.Name)
		}
	}
	switch {
	case len(former) == 0:
		return "", nil
	case len(former) == 1 && isSnapshot(lv):
		return former[0], nil
	}
	return "", status.Errorf(codes.Unavailable, "device class %s on node %s has a logical volume of an earlier "+
		"LogicalVolume %s: %s. Nothing is created beside it. It is used if PersistentVolume %s names it; to use it "+
		"without, set annotation %s of LogicalVolume %s to its name", lv.Spec.DeviceClass, p.Node, lv.Name,
		strings.Join(former, ", "), lv.Name, wellknown.ImportAnnotation, lv.Name)
}

// restoredWithoutClass is restored while the device class does not exist on the node.
func (p *importer) restoredWithoutClass(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	handle, err := p.handle(ctx, lv)
	switch {
	case err != nil:
		return err
	case handle != "":
		return status.Errorf(codes.Unavailable, "device class %s is not set up on node %s yet, which has the logical "+
			"volume of PersistentVolume %s", lv.Spec.DeviceClass, p.Node, lv.Name)
	case isSnapshot(lv):
		// The snapshotter requests a snapshot of a volume, which has a device class, or the object was restored. A
		// refusal would be final.
		return status.Errorf(codes.Unavailable, "device class %s is not set up on node %s yet, which may have the "+
			"snapshot of LogicalVolume %s", lv.Spec.DeviceClass, p.Node, lv.Name)
	}
	return nil // The request is refused.
}

// isSnapshot returns true for the object of a VolumeSnapshot. Its name has the UID of the VolumeSnapshot, so a logical
// volume with this name in its tags is the snapshot that was created for it.
func isSnapshot(lv *topolvmv1.LogicalVolume) bool {
	return lv.Spec.AccessType == accessTypeOfSnapshot && lv.Spec.Source != "" &&
		strings.HasPrefix(lv.Name, wellknown.SnapshotPrefix)
}

// handle returns the volume handle of the PersistentVolume with the name of the object, or "" if there is none of this
// driver.
func (p *importer) handle(ctx context.Context, lv *topolvmv1.LogicalVolume) (string, error) {
	pv := &corev1.PersistentVolume{}
	err := p.Live.Get(ctx, client.ObjectKey{Name: lv.Name}, pv)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", status.Errorf(codes.Unavailable, "read PersistentVolume %s: %v", lv.Name, err)
	}
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != wellknown.DriverName {
		return "", nil
	}
	return pv.Spec.CSI.VolumeHandle, nil
}
