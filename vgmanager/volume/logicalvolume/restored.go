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

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// createUnlessRestored creates the logical volume of an object, unless the object was restored. An object that Velero
// or OADP restored has another UID than the one for which its logical volume was created, and no status: a new logical
// volume would be empty, and the data would be an orphan. Instead, the code Unavailable in the status makes the
// operator choose the logical volume that the PersistentVolume names. A VolumeSnapshot has no PersistentVolume: the
// agent proposes the snapshot that was created for it. The operator marks an object whose claim no longer exists as
// unclaimed: its volume is refused, and the operator deletes the object.
func (r *Reconciler) createUnlessRestored(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	snapshot, err := r.restored(ctx, lv)
	if err == nil && snapshot != "" {
		err = r.propose(ctx, lv, snapshot)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	if err != nil {
		r.events.Emit(lv, createFailed, r.Node, message(err))
		return r.fail(ctx, lv, err)
	}
	if _, unclaimed := lv.Annotations[v1alpha1.UnclaimedAnnotation]; unclaimed {
		return r.fail(ctx, lv, status.Errorf(codes.FailedPrecondition, "PersistentVolumeClaim %s no longer exists, so "+
			"its logical volume is not created", lv.Annotations[v1alpha1.ClaimAnnotation]))
	}
	if err := r.checkLimits(lv); err != nil {
		r.events.Emit(lv, createFailed, r.Node, message(err))
		return r.fail(ctx, lv, err)
	}
	return r.create(ctx, lv)
}

// checkLimits returns an error if a volume has I/O limits that this node cannot apply. The provisioner then selects
// another node.
func (r *Reconciler) checkLimits(lv *topolvmv1.LogicalVolume) error {
	text := lv.Annotations[v1alpha1.IOLimitsAnnotation]
	limits, err := v1alpha1.ParseIOLimits(text)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "annotation %s of LogicalVolume %s: %v",
			v1alpha1.IOLimitsAnnotation, lv.Name, err)
	}
	if limits == (v1alpha1.IOLimits{}) {
		return nil
	}
	if err := r.SupportsLimits(); err != nil {
		return status.Errorf(codes.ResourceExhausted, "the volume has the I/O limits %s of a VolumeAttributesClass: %v",
			text, err)
	}
	return nil
}

// propose names the existing snapshot of a restored object in an annotation. It always returns an error: with the code
// Unavailable, the operator reads the annotation. Agents cannot choose the volume of an object themselves.
func (r *Reconciler) propose(ctx context.Context, lv *topolvmv1.LogicalVolume, snapshot string) error {
	if err := r.untaken(ctx, lv, snapshot); err != nil {
		return err
	}
	if lv.Annotations[v1alpha1.ExistingVolumeAnnotation] != snapshot {
		before := lv.DeepCopy()
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, v1alpha1.ExistingVolumeAnnotation, snapshot)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		switch err := r.Client.Patch(ctx, lv, patch); {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			return err // The object has changed.
		case err != nil:
			return status.Errorf(codes.Unavailable, "set annotation %s of LogicalVolume %s: %v",
				v1alpha1.ExistingVolumeAnnotation, lv.Name, err)
		}
	}
	return status.Errorf(codes.Unavailable, "device class %s on node %s has the snapshot %s of an earlier "+
		"LogicalVolume %s. It is used when the operator has checked that no other object has it",
		lv.Spec.DeviceClass, r.Node, snapshot, lv.Name)
}

// refused is called for an object whose status has a final error. The client deletes the object, or requests something
// else. Only a restored object has no client: its error is not final.
func (r *Reconciler) refused(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	handle, err := r.handle(ctx, lv)
	if err != nil || handle == "" || handle == string(lv.UID) {
		return ctrl.Result{}, err
	}
	return r.fail(ctx, lv, status.Errorf(codes.Unavailable, "PersistentVolume %s has the logical volume %s, which was "+
		"created for an earlier LogicalVolume of this name: %s", lv.Name, handle, lv.Status.Message))
}

// restored returns an error with the code Unavailable if the object was restored, or if this is not known: a logical
// volume has the name of the object in its tags and was created for an earlier object of this name, or the device class
// does not exist yet and the PersistentVolume names another logical volume, or the object is one of a VolumeSnapshot. A
// logical volume that nobody has used yet has no data and does not count, unless the PersistentVolume names it. For a
// VolumeSnapshot with one such logical volume, restored returns its name instead.
func (r *Reconciler) restored(ctx context.Context, lv *topolvmv1.LogicalVolume) (snapshot string, err error) {
	tagged, err := r.Volumes.Tagged(ctx, lv.Spec.DeviceClass, v1alpha1.VolumeNameTagPrefix+lv.Name)
	if err != nil && status.Code(err) != codes.NotFound {
		return "", status.Errorf(codes.Unavailable, "%s", message(err))
	}
	if err == nil && len(tagged) == 0 {
		return "", nil
	}
	handle, readErr := r.handle(ctx, lv)
	switch {
	case readErr != nil:
		return "", readErr
	case err != nil && handle == "" && isSnapshot(lv):
		// The snapshotter requests a snapshot of a volume, which has a device class, or the object was restored. A
		// refusal would be final.
		return "", status.Errorf(codes.Unavailable, "device class %s is not set up on node %s yet, which may have the "+
			"snapshot of LogicalVolume %s", lv.Spec.DeviceClass, r.Node, lv.Name)
	case err != nil && handle == "":
		return "", nil // The request is refused.
	case err != nil:
		return "", status.Errorf(codes.Unavailable, "device class %s is not set up on node %s yet, which has the "+
			"logical volume of PersistentVolume %s", lv.Spec.DeviceClass, r.Node, lv.Name)
	}
	var former []string
	for _, v := range tagged {
		switch {
		case v.Name == string(lv.UID):
			return "", nil // An earlier process created it.
		case v.Name == handle || !slices.Contains(v.Tags, v1alpha1.NewTag):
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
		"without, set annotation %s of LogicalVolume %s to its name", lv.Spec.DeviceClass, r.Node, lv.Name,
		strings.Join(former, ", "), lv.Name, v1alpha1.ImportAnnotation, lv.Name)
}

// isSnapshot returns true for the object of a VolumeSnapshot. Its name has the UID of the VolumeSnapshot, so a logical
// volume with this name in its tags is the snapshot that was created for it.
func isSnapshot(lv *topolvmv1.LogicalVolume) bool {
	return lv.Spec.AccessType == accessTypeOfSnapshot && lv.Spec.Source != "" &&
		strings.HasPrefix(lv.Name, snapshotPrefix)
}

// handle returns the volume handle of the PersistentVolume with the name of the object, or "" if there is none of this
// driver.
func (r *Reconciler) handle(ctx context.Context, lv *topolvmv1.LogicalVolume) (string, error) {
	pv := &corev1.PersistentVolume{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: lv.Name}, pv)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", status.Errorf(codes.Unavailable, "read PersistentVolume %s: %v", lv.Name, err)
	}
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != v1alpha1.DriverName {
		return "", nil
	}
	return pv.Spec.CSI.VolumeHandle, nil
}
