// Package logicalvolume makes, grows and removes the logical volumes that the LogicalVolume objects of this node ask
// for.
//
// It stands in for TopoLVM's controller, with the same object, finalizer and status. docs/explanation/topolvm.md says
// what is different and why. Whatever ends the process, and whenever: the name of a logical volume is the UID of its
// object, so the next process finds out what is there, and comes to the same end.
package logicalvolume

import (
	"context"
	"errors"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/event"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

// Volumes are the logical volumes of this node: lvmd.Engine.
type Volumes interface {
	Classes
	CreateLV(ctx context.Context, in *proto.CreateLVRequest,
		options ...grpc.CallOption) (*proto.CreateLVResponse, error)
	CreateLVSnapshot(ctx context.Context, in *proto.CreateLVSnapshotRequest,
		options ...grpc.CallOption) (*proto.CreateLVSnapshotResponse, error)
	ResizeLV(ctx context.Context, in *proto.ResizeLVRequest,
		options ...grpc.CallOption) (*proto.ResizeLVResponse, error)
	RemoveLV(ctx context.Context, in *proto.RemoveLVRequest, options ...grpc.CallOption) (*proto.Empty, error)
	FindLV(ctx context.Context, class, name string) (*proto.LogicalVolume, error)
	// Discard removes a volume that lvmd.ErrUnfinished was about.
	Discard(ctx context.Context, class, name string) error
	// Exists tells whether any volume group of the node has a volume of this name.
	Exists(ctx context.Context, name string) (bool, error)
}

// Options are what a Reconciler needs.
type Options struct {
	// Client reads from a cache with the LogicalVolumes of this node at least.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Node is the name of this node, Cluster the identity of the Kubernetes cluster.
	Node, Cluster string
	Volumes       Volumes
	Recorder      event.Recorder
}

// Reconciler serves the LogicalVolumes of this node.
type Reconciler struct {
	Options
	events *event.Emitter
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{Options: o, events: event.NewEmitter(o.Recorder)}
}

// retryRefused is when something is tried again that was refused for a reason that may pass: space may become free.
const retryRefused = time.Minute

// The events about LogicalVolumes.
var (
	// createFailed is a Warning event on the LogicalVolume: the node could not create the logical volume.
	// What to do: see the error in the note; the agent tries again, unless the error is final.
	createFailed = event.Warning("CreateFailed", "Create", "node %s cannot make the logical volume: %s")
	// expandFailed is a Warning event on the LogicalVolume: the node could not extend the logical volume.
	// What to do: see the error in the note; the agent tries again.
	expandFailed = event.Warning("ExpandFailed", "Expand", "node %s cannot grow the logical volume: %s")
	// removeFailed is a Warning event on the LogicalVolume: the node could not remove the logical volume.
	// What to do: see the error in the note; the agent tries again.
	removeFailed = event.Warning("RemoveFailed", "Remove", "node %s cannot remove the logical volume: %s")
)

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings the logical volume of one object to what it asks for.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := &topolvmv1.LogicalVolume{}
	if err := r.Client.Get(ctx, req.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !r.ours(object) {
		return ctrl.Result{}, nil
	}
	result, err := r.reconcile(ctx, object.DeepCopy())
	if apierrors.IsConflict(err) {
		// The cache was behind; what was done on the node is found again.
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	return result, err
}

// ours tells whether an object is for this agent.
func (r *Reconciler) ours(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	if !ok || lv.Spec.NodeName != r.Node {
		return false
	}
	_, pending := lv.Annotations[v1alpha1.PendingDeletionAnnotation]
	return !pending
}

func (r *Reconciler) reconcile(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	if lv.Spec.DeviceClass == "" {
		if done, err := r.nameClass(ctx, lv); done || apierrors.IsConflict(err) {
			return ctrl.Result{}, err
		} else if err != nil {
			return r.fail(ctx, lv, err)
		}
	}
	if !lv.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.remove(ctx, lv)
	}
	marked, err := r.mark(ctx, lv)
	if err != nil {
		return ctrl.Result{}, err
	}
	if lv.Status.VolumeID == "" && !refused(lv.Status.Code) && !marked {
		// The cache may be behind: the volume may have been made a moment ago, or be gone already. What was marked just
		// now was fresh.
		now := &topolvmv1.LogicalVolume{}
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(lv), now); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if now.UID != lv.UID || !now.DeletionTimestamp.IsZero() {
			return ctrl.Result{}, nil // The cache will tell.
		}
		lv = now
	}
	switch {
	case lv.Status.VolumeID == "" && refused(lv.Status.Code):
		// Who asked for it has the answer, and deletes the object or asks for something else.
		return ctrl.Result{}, nil
	case lv.Status.VolumeID == "":
		return r.create(ctx, lv)
	case lv.Status.CurrentSize == nil || lv.Status.CurrentSize.Cmp(lv.Spec.Size) < 0:
		return r.expand(ctx, lv)
	}
	return ctrl.Result{}, nil
}

// mark puts the finalizer and the label on an object that came without: before anything is made, so that nothing can be
// forgotten. It tells whether it did: then the object is as the API server has it.
func (r *Reconciler) mark(ctx context.Context, lv *topolvmv1.LogicalVolume) (bool, error) {
	before := lv.DeepCopy()
	controllerutil.AddFinalizer(lv, v1alpha1.LogicalVolumeFinalizer)
	if lv.Labels[v1alpha1.CreatedByLabel] == "" {
		if lv.Labels == nil {
			lv.Labels = map[string]string{}
		}
		lv.Labels[v1alpha1.CreatedByLabel] = v1alpha1.CreatedByController
	}
	if len(before.Finalizers) == len(lv.Finalizers) && len(before.Labels) == len(lv.Labels) {
		return false, nil
	}
	return true, r.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// refused tells whether a code is an answer that does not change by trying again. The others are told too, and tried
// again.
func refused(code codes.Code) bool {
	switch code {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.Unknown:
		return false
	}
	return true
}

// create makes the logical volume. If it is there already, it was made by a process that did not come to say so.
func (r *Reconciler) create(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	size, err := r.make(ctx, lv)
	if errors.Is(err, lvmd.ErrUnfinished) {
		if err := r.disown(ctx, lv); err != nil {
			return ctrl.Result{}, err
		}
		if err = r.Volumes.Discard(ctx, lv.Spec.DeviceClass, name(lv)); err == nil {
			size, err = r.make(ctx, lv)
		}
	}
	if err != nil {
		r.events.Emit(lv, createFailed, r.Node, message(err))
		return r.fail(ctx, lv, err)
	}
	return ctrl.Result{}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.VolumeID, s.CurrentSize = name(lv), resource.NewQuantity(size, resource.BinarySI)
		s.Code = codes.OK
		s.Message = ""
	})
}

// disown makes sure that nobody was told of a volume, and that nobody will be: a write of a process that has ended
// since may still be on its way to the API server. That write is for the object as it was; this one changes it.
func (r *Reconciler) disown(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	before := lv.DeepCopy()
	lv.Status.Code = codes.Aborted
	lv.Status.Message = fmt.Sprintf("%v: the logical volume is recreated (%s)", lvmd.ErrUnfinished,
		time.Now().UTC().Format(time.RFC3339Nano))
	return r.Client.Status().Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (r *Reconciler) make(ctx context.Context, lv *topolvmv1.LogicalVolume) (size int64, err error) {
	bytes := lv.Spec.Size.Value()
	if lv.Spec.Source == "" {
		response, err := r.Volumes.CreateLV(ctx, &proto.CreateLVRequest{
			Name: name(lv), DeviceClass: lv.Spec.DeviceClass, LvcreateOptionClass: lv.Spec.LvcreateOptionClass,
			SizeBytes: bytes,
			Tags:      append(tagsOf(lv, r.Cluster, lv.Annotations[v1alpha1.ClaimAnnotation]), v1alpha1.NewTag),
		})
		return response.GetVolume().GetSizeBytes(), err
	}
	source, err := r.source(ctx, lv)
	if err != nil {
		return 0, err
	}
	response, err := r.Volumes.CreateLVSnapshot(ctx, &proto.CreateLVSnapshotRequest{
		Name: name(lv), DeviceClass: lv.Spec.DeviceClass, SourceVolume: source, AccessType: lv.Spec.AccessType,
		SizeBytes: bytes,
		Tags:      tagsOf(lv, r.Cluster, lv.Annotations[v1alpha1.ClaimAnnotation]),
	})
	return response.GetSnapshot().GetSizeBytes(), err
}

// source returns the name of the logical volume that a copy is made of. When its object is gone, the copy may have been
// made before: then it is found without the name.
func (r *Reconciler) source(ctx context.Context, lv *topolvmv1.LogicalVolume) (string, error) {
	source := &topolvmv1.LogicalVolume{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: lv.Spec.Source}, source)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, client.ObjectKey{Name: lv.Spec.Source}, source)
	}
	if apierrors.IsNotFound(err) {
		if _, err := r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, name(lv)); err == nil {
			return "gone", nil
		}
		return "", status.Errorf(codes.NotFound,
			"the source, LogicalVolume %s, no longer exists", lv.Spec.Source)
	}
	if err != nil {
		return "", status.Errorf(codes.Unavailable, "the source, LogicalVolume %s: %v", lv.Spec.Source, err)
	}
	if source.Spec.NodeName != r.Node || source.Status.VolumeID == "" {
		return "", status.Errorf(codes.FailedPrecondition,
			"the source, LogicalVolume %s, has no logical volume on node %s", lv.Spec.Source, r.Node)
	}
	return source.Status.VolumeID, nil
}

// name is that of the logical volume of an object.
func name(lv *topolvmv1.LogicalVolume) string {
	if lv.Status.VolumeID != "" {
		return lv.Status.VolumeID
	}
	return string(lv.UID)
}

// tagsOf say whose a logical volume is, to whoever finds it on a disk.
func tagsOf(lv *topolvmv1.LogicalVolume, cluster, claim string) []string {
	tags := []string{
		v1alpha1.VolumeUIDTagPrefix + string(lv.UID), v1alpha1.VolumeNameTagPrefix + lv.Name,
		v1alpha1.ClusterTagPrefix + cluster,
	}
	if isTag(claim) {
		tags = append(tags, v1alpha1.VolumeClaimTagPrefix+claim)
	}
	return tags
}

// isTag tells whether LVM takes a text as part of a tag (lvm(8)). A claim that was written by hand may be anything.
func isTag(text string) bool {
	for _, c := range text {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' ||
			c == '/' || c == '_') {
			return false
		}
	}
	const longest = 512 // of 1024 for the whole tag
	return text != "" && len(text) <= longest
}

// expand grows the logical volume, or finds out its size where that is not known.
func (r *Reconciler) expand(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	response, err := r.Volumes.ResizeLV(ctx, &proto.ResizeLVRequest{
		Name: name(lv), DeviceClass: lv.Spec.DeviceClass, SizeBytes: lv.Spec.Size.Value(),
	})
	if err != nil {
		r.events.Emit(lv, expandFailed, r.Node, message(err))
		return r.fail(ctx, lv, err)
	}
	return ctrl.Result{}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.CurrentSize = resource.NewQuantity(response.GetSizeBytes(), resource.BinarySI)
		s.Code = codes.OK
		s.Message = ""
	})
}

// fail puts an error into the status, for who waits for the answer.
func (r *Reconciler) fail(ctx context.Context, lv *topolvmv1.LogicalVolume, cause error) (ctrl.Result, error) {
	code := status.Code(cause)
	err := r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) { s.Code, s.Message = code, message(cause) })
	if err != nil {
		return ctrl.Result{}, err
	}
	if refused(code) {
		log.FromContext(ctx).Info("refused", "code", code.String(), "cause", message(cause))
		return ctrl.Result{RequeueAfter: retryRefused}, nil
	}
	return ctrl.Result{}, cause
}

// write changes the status, if the object is still as it was read: an answer is never about another request than the
// one in the spec.
func (r *Reconciler) write(ctx context.Context, lv *topolvmv1.LogicalVolume,
	change func(*topolvmv1.LogicalVolumeStatus)) error {
	before := lv.DeepCopy()
	change(&lv.Status)
	if sameStatus(before.Status, lv.Status) {
		return nil
	}
	err := r.Client.Status().Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

func sameStatus(a, b topolvmv1.LogicalVolumeStatus) bool {
	sizes := a.CurrentSize == nil && b.CurrentSize == nil ||
		a.CurrentSize != nil && b.CurrentSize != nil && a.CurrentSize.Cmp(*b.CurrentSize) == 0
	return a.VolumeID == b.VolumeID && a.Code == b.Code && a.Message == b.Message && sizes
}

// maxMessage keeps a status readable; LVM can say a lot.
const maxMessage = 2048

func message(err error) string {
	text := status.Convert(err).Message()
	return text[:min(len(text), maxMessage)]
}

// remove removes the logical volume and lets the object go. The logical volume may not exist: it was never made, or it
// was removed by a process that did not come to say so.
func (r *Reconciler) remove(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if !controllerutil.ContainsFinalizer(lv, v1alpha1.LogicalVolumeFinalizer) {
		return nil
	}
	err := r.removable(ctx, lv)
	if err == nil {
		err = r.unbound(ctx, lv)
	}
	if err == nil {
		_, err = r.Volumes.RemoveLV(ctx, &proto.RemoveLVRequest{Name: name(lv), DeviceClass: lv.Spec.DeviceClass})
	}
	if err != nil && status.Code(err) != codes.NotFound && !r.neverMade(ctx, lv) {
		r.events.Emit(lv, removeFailed, r.Node, message(err))
		_, failed := r.fail(ctx, lv, err)
		return errors.Join(failed, fmt.Errorf("logical volume %s: %w", name(lv), err))
	}
	return r.release(ctx, lv)
}

// release lets an object go that has no logical volume.
func (r *Reconciler) release(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	r.events.Clear(lv, createFailed.Reason, expandFailed.Reason, removeFailed.Reason)
	before := lv.DeepCopy()
	controllerutil.RemoveFinalizer(lv, v1alpha1.LogicalVolumeFinalizer)
	err := r.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	return client.IgnoreNotFound(err)
}

// neverMade tells that there is nothing to remove, although the device class cannot be asked: the node never had it.
// Nobody was told of a volume, and none is there.
func (r *Reconciler) neverMade(ctx context.Context, lv *topolvmv1.LogicalVolume) bool {
	if lv.Status.VolumeID != "" || !refused(lv.Status.Code) {
		return false
	}
	exists, err := r.Volumes.Exists(ctx, name(lv))
	return err == nil && !exists
}

// removable refuses to remove what belongs to another object. A status that was edited, or that came from a backup, may
// name it.
func (r *Reconciler) removable(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if name(lv) == string(lv.UID) {
		return nil
	}
	list := &topolvmv1.LogicalVolumeList{}
	if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID != lv.UID && other.Spec.NodeName == r.Node &&
			(string(other.UID) == name(lv) || other.Status.VolumeID == name(lv)) {
			return status.Errorf(codes.FailedPrecondition,
				"status.volumeID is %s, which is the logical volume of LogicalVolume %s: it is not removed; correct "+
					"status.volumeID", name(lv), other.Name)
		}
	}
	return nil
}
