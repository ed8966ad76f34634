package logicalvolume

import (
	"context"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

// Classes tell which device class a logical volume is in: lvmd.Engine.
type Classes interface {
	// ClassOf returns the class of an existing volume. NotFound: none of the classes has it. Unavailable: one of them
	// cannot be read, so that is not known.
	ClassOf(ctx context.Context, name string) (string, error)
	// Default returns the default class.
	Default() (lvmd.DeviceClass, bool)
}

// nameClass writes the device class into an object that names none, as TopoLVM and older versions leave it where a
// StorageClass names none. From then on another default changes nothing for it. An existing volume is in the class that
// has it; one that does not exist yet, in the default class. It is done if nothing is left to do for the object.
func (r *Reconciler) nameClass(ctx context.Context, lv *topolvmv1.LogicalVolume) (done bool, err error) {
	class, err := r.Volumes.ClassOf(ctx, name(lv))
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

// releaseUnmade lets an object go whose volume nobody was told of, and no volume group of the node has.
func (r *Reconciler) releaseUnmade(ctx context.Context, lv *topolvmv1.LogicalVolume) (done bool, err error) {
	exists, err := r.Volumes.Exists(ctx, name(lv))
	if err != nil {
		return false, err
	}
	if exists {
		return false, status.Errorf(codes.Unavailable,
			"logical volume %s is in a volume group of node %s that no device class has: "+
				"see the volume groups with vgs, and set spec.deviceClass or remove the logical volume",
			name(lv), r.Node)
	}
	return true, r.release(ctx, lv)
}

// defaultClass is for an object whose volume no class has.
func (r *Reconciler) defaultClass(lv *topolvmv1.LogicalVolume) (string, error) {
	if lv.Status.VolumeID != "" {
		return "", status.Errorf(codes.Unavailable,
			"the object names no device class, and no device class of node %s has "+
				"logical volume %s: attach its disks, or set spec.deviceClass to the class that it was in", r.Node,
			lv.Status.VolumeID)
	}
	class, ok := r.Volumes.Default()
	if !ok {
		return "", status.Errorf(codes.Unavailable,
			"the object names no device class, and node %s has no default one: "+
				"set default: true for a device class of the LVMCluster", r.Node)
	}
	return class.Name, nil
}
