package logicalvolume

import (
	"context"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// Classes returns the device class of a logical volume. engine.Engine implements it.
type Classes interface {
	// ClassOf returns the class of an existing volume. It returns NotFound if no class has the volume, and
	// Unavailable if a class cannot be read, because that class may have the volume.
	ClassOf(ctx context.Context, name string) (string, error)
	// Default returns the default class.
	Default() (deviceclass.Class, bool)
}

// nameClass sets the device class of an object that has none, as TopoLVM and older versions create it for a
// StorageClass without a device class. After that, another default class does not affect the object. If the volume
// exists, it uses the class of the volume, otherwise the default class. done is true if nothing else must be done for
// the object.
func (r *Reconciler) nameClass(ctx context.Context, lv *topolvmv1.LogicalVolume) (done bool, err error) {
	class, err := r.Volumes.ClassOf(ctx, identity.Name(lv))
	if status.Code(err) == codes.NotFound {
		if lv.Status.VolumeID == "" && !lv.DeletionTimestamp.IsZero() {
			return r.releaseUnmade(ctx, lv)
		}
		class, err = r.defaultClass(lv)
	}
	if err != nil {
		return false, err
	}
	before := lv.DeepCopy()
	lv.Spec.DeviceClass = class
	err = r.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

// releaseUnmade removes the finalizer of an object whose status has no volume, if no volume group of the node has the
// volume.
func (r *Reconciler) releaseUnmade(ctx context.Context, lv *topolvmv1.LogicalVolume) (done bool, err error) {
	exists, err := r.Volumes.Exists(ctx, identity.Name(lv))
	if err != nil {
		return false, err
	}
	if exists {
		return false, status.Errorf(codes.Unavailable,
			"logical volume %s is in a volume group of node %s that belongs to no device class: "+
				"list the volume groups with vgs, and set spec.deviceClass or remove the logical volume",
			identity.Name(lv), r.Node)
	}
	return true, r.release(ctx, lv)
}

// defaultClass returns the class for an object whose volume is in no class. It returns an error if the volume was
// created.
func (r *Reconciler) defaultClass(lv *topolvmv1.LogicalVolume) (string, error) {
	if lv.Status.VolumeID != "" {
		return "", status.Errorf(codes.Unavailable,
			"spec.deviceClass is empty, and no device class of node %s has "+
				"logical volume %s: attach its disks, or set spec.deviceClass to its device class", r.Node,
			lv.Status.VolumeID)
	}
	class, ok := r.Volumes.Default()
	if !ok {
		return "", status.Errorf(codes.Unavailable,
			"spec.deviceClass is empty, and node %s has no default device class: "+
				"set default: true for a device class of the LVMCluster", r.Node)
	}
	return class.Name, nil
}
