// Package logicalvolume creates, extends and removes the logical volumes for the LogicalVolume objects of this node.
//
// It replaces TopoLVM's controller, with the same object, finalizer and status. docs/explanation/topolvm.md describes
// the differences and the reasons. The process can end at any time: the name of a logical volume is the UID of its
// object, so the next process finds existing volumes and continues.
package logicalvolume

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// Volumes are the logical volumes of this node. engine.Engine implements it.
type Volumes interface {
	Lister
	Provisioner
	Remover
	Copies
	Moves
}

// Lister finds logical volumes.
type Lister interface {
	Classes
	FindLV(ctx context.Context, class, name string) (*lvm.LV, error)
	// Tagged returns the volumes of a class that have a tag.
	Tagged(ctx context.Context, class, tag string) ([]lvm.LV, error)
	// Exists returns true if any volume group of the node has a volume with this name.
	Exists(ctx context.Context, name string) (bool, error)
}

// Provisioner creates and changes logical volumes.
type Provisioner interface {
	CreateLV(ctx context.Context, in engine.NewVolume) (*lvm.LV, error)
	CreateLVSnapshot(ctx context.Context, in engine.NewSnapshot) (*lvm.LV, error)
	ResizeLV(ctx context.Context, class, name string, size int64) (actual int64, err error)
	// Discard removes a volume for which engine.ErrUnfinished was returned.
	Discard(ctx context.Context, class, name string) error
	TagLV(ctx context.Context, class, name string, add, remove []string) error
}

// Remover removes logical volumes, and those of the targets of moves.
type Remover interface {
	// EraseVolume erases a volume before it is removed, if its class requires that. It returns the progress, or "" if
	// this is complete.
	EraseVolume(ctx context.Context, eraser engine.Eraser, class, name string) (progress string, err error)
	RemoveLV(ctx context.Context, class, name string) error
	AbandonTarget(ctx context.Context, class, name, uid string) error
	RemoveTarget(ctx context.Context, class, name, uid string) error
}

// Options configures a Reconciler.
type Options struct {
	// Client reads from a cache that has at least the LogicalVolumes of this node.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Node is the name of this node. Cluster is the identity of the Kubernetes cluster.
	Node, Cluster string
	Volumes       Volumes
	Eraser        engine.Eraser
	// Copier copies the data of volumes of other nodes and device classes, which SourceOn sends.
	Copier   Copier
	SourceOn func(ctx context.Context, node string) (copies.Source, error)
	// SupportsLimits returns why this node cannot limit the I/O of Pods, or nil if it can.
	SupportsLimits func() error
	// Removed is called with the name of a logical volume that no longer exists. It may be called more than once.
	Removed  func(name string) error
	Recorder event.Recorder
}

// Reconciler reconciles the LogicalVolumes of this node. Each of its parts has one of the things that can be done for
// an object.
type Reconciler struct {
	*objects
	importer importer
	receiver receiver
	mover    mover
	remover  remover
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	shared := &objects{Options: o, events: event.NewEmitter(o.Recorder)}
	r := &Reconciler{objects: shared, importer: importer{shared}, receiver: receiver{shared}, mover: mover{shared}}
	r.remover.objects = shared
	r.remover.mover = r.mover
	return r
}

// retryRefused is the delay before a refused operation is retried. The reason can be temporary, for example no free
// space.
const retryRefused = time.Minute

// Events about LogicalVolumes.
var (
	// createFailed is a Warning event on the LogicalVolume: the node could not create the logical volume.
	// What to do: see the error in the note; the agent tries again, unless the error is final.
	createFailed = event.Warning("CreateFailed", "Create", "node %s cannot create the logical volume: %s")
	// expandFailed is a Warning event on the LogicalVolume: the node could not extend the logical volume.
	// What to do: see the error in the note; the agent tries again.
	expandFailed = event.Warning("ExpandFailed", "Expand", "node %s cannot extend the logical volume: %s")
	// removeFailed is a Warning event on the LogicalVolume: the node could not remove the logical volume.
	// What to do: see the error in the note; the agent tries again.
	removeFailed = event.Warning("RemoveFailed", "Remove", "node %s cannot remove the logical volume: %s")
)

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile reconciles the logical volume of one object.
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
		// The cache was outdated. The next attempt finds what was done on the node.
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	if lv.Spec.DeviceClass == "" {
		if done, err := r.nameClass(ctx, lv); done || apierrors.IsConflict(err) {
			return ctrl.Result{}, err
		} else if err != nil {
			return r.fail(ctx, lv, err)
		}
	}
	switch {
	case !lv.DeletionTimestamp.IsZero():
		return r.remover.remove(ctx, lv)
	case lv.Status.VolumeID == "" && view.GroupPending(lv) != "":
		return ctrl.Result{}, nil // GroupReconciler creates it
	}
	marked, err := r.mark(ctx, lv)
	if err != nil {
		return ctrl.Result{}, err
	}
	// The cache may be outdated: the volume may have been created or removed just now. An object that was marked in
	// this reconcile is not outdated.
	if !marked && (lv.Status.VolumeID == "" && !service.IsRefusal(lv.Status.Code) || identity.IsMoved(lv)) {
		if lv, err = r.readAgain(ctx, lv); lv == nil || err != nil {
			return ctrl.Result{}, err
		}
	}
	return r.createOrChange(ctx, lv)
}

// readAgain reads an object from the API server. It returns nil if the object was deleted or replaced, or belongs to
// another node: the cache will be updated.
func (r *Reconciler) readAgain(ctx context.Context, cached *topolvmv1.LogicalVolume) (*topolvmv1.LogicalVolume, error) {
	now := &topolvmv1.LogicalVolume{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(cached), now); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if now.UID != cached.UID || !now.DeletionTimestamp.IsZero() || !r.ours(now) {
		return nil, nil
	}
	return now, nil
}

// createOrChange does what a volume that is not being deleted needs.
func (r *Reconciler) createOrChange(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	switch {
	case identity.IsMoved(lv):
		return r.move(ctx, lv)
	case lv.Status.VolumeID == "" && service.IsRefusal(lv.Status.Code):
		return r.importer.refused(ctx, lv)
	case lv.Status.VolumeID == "" && view.Import(lv) != "":
		return r.importer.take(ctx, lv, view.Import(lv))
	case lv.Status.VolumeID == "":
		return r.createUnlessRestored(ctx, lv)
	case lv.Status.CurrentSize == nil || lv.Status.CurrentSize.Cmp(lv.Spec.Size) < 0:
		return r.expand(ctx, lv)
	}
	return ctrl.Result{}, nil
}

// move does what is required for a move. The object was read from the API server just now.
func (r *Reconciler) move(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	switch {
	case identity.IsTarget(lv):
		return r.receiver.receive(ctx, lv)
	case identity.IsRetired(lv):
		return r.mover.retire(ctx, lv)
	}
	return r.mover.adopt(ctx, lv)
}

// createUnlessRestored creates the logical volume of an object, unless the object was restored. An object that Velero
// or OADP restored has another UID than the one for which its logical volume was created, and no status: a new logical
// volume would be empty, and the data would be an orphan. Instead, the code Unavailable in the status makes the
// operator choose the logical volume that the PersistentVolume names. A VolumeSnapshot has no PersistentVolume: the
// agent proposes the snapshot that was created for it. The operator marks an object whose claim no longer exists as
// unclaimed: its volume is refused, and the operator deletes the object.
func (r *Reconciler) createUnlessRestored(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	snapshot, err := r.importer.restored(ctx, lv)
	if err == nil && snapshot != "" {
		err = r.importer.propose(ctx, lv, snapshot)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	if err != nil {
		r.events.Emit(lv, createFailed, r.Node, message(err))
		return r.fail(ctx, lv, err)
	}
	if view.IsUnclaimed(lv) {
		return r.fail(ctx, lv, status.Errorf(codes.FailedPrecondition, "PersistentVolumeClaim %s no longer exists, so "+
			"its logical volume is not created", view.Claim(lv)))
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
	text := view.IOLimitsOf(lv).Requested
	limits, err := iolimits.Parse(text)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "annotation %s of LogicalVolume %s: %v",
			wellknown.IOLimitsAnnotation, lv.Name, err)
	}
	if limits == (iolimits.Limits{}) {
		return nil
	}
	if err := r.SupportsLimits(); err != nil {
		return status.Errorf(codes.ResourceExhausted, "the volume has the I/O limits %s of a VolumeAttributesClass: %v",
			text, err)
	}
	return nil
}

// create creates the logical volume. If the volume exists, an earlier process created it and ended before it wrote
// the status.
func (r *Reconciler) create(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	source, err := r.source(ctx, lv)
	if err != nil {
		return r.createFailed(ctx, lv, err)
	}
	if isClone(lv) || r.receiver.isElsewhere(source, lv) {
		return r.receiver.copy(ctx, lv, source)
	}
	size, err := r.make(ctx, lv, source)
	if errors.Is(err, engine.ErrUnfinished) {
		if err := r.disown(ctx, lv); err != nil {
			return ctrl.Result{}, err
		}
		if err = r.Volumes.Discard(ctx, lv.Spec.DeviceClass, identity.Name(lv)); err == nil {
			size, err = r.make(ctx, lv, source)
		}
	}
	if err != nil {
		return r.createFailed(ctx, lv, err)
	}
	return r.created(ctx, lv, size)
}

// make creates a logical volume, which is empty or a copy of a source of the same device class.
func (r *Reconciler) make(ctx context.Context, lv, source *topolvmv1.LogicalVolume) (size int64, err error) {
	bytes := lv.Spec.Size.Value()
	tags := r.newTags(lv)
	if source == nil {
		return sizeOf(r.Volumes.CreateLV(ctx, engine.NewVolume{
			Name: identity.Name(lv), Class: lv.Spec.DeviceClass, OptionClass: lv.Spec.LvcreateOptionClass,
			Size: bytes, Tags: append(tags, wellknown.NewTag),
		}))
	}
	content, err := r.tagsOfSource(ctx, lv.Spec.DeviceClass, source.Status.VolumeID)
	if err != nil {
		return 0, err
	}
	if err := checkFileSystem(lv, content); err != nil {
		return 0, err
	}
	tags = withEncryptionOf(content, tags)
	readOnly, err := engine.IsReadOnly(lv.Spec.AccessType)
	if err != nil {
		return 0, err
	}
	return sizeOf(r.Volumes.CreateLVSnapshot(ctx, engine.NewSnapshot{
		Name: identity.Name(lv), Class: lv.Spec.DeviceClass, Source: source.Status.VolumeID,
		ReadOnly: readOnly, Size: bytes, Tags: tags,
	}))
}

// sizeOf returns the size of a logical volume in bytes.
func sizeOf(made *lvm.LV, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return int64(made.Size), nil
}

// source returns the source of a copy, or nil for an empty volume. If the object of the source no longer exists but the
// copy does, and is complete, the name of the volume is not needed and source returns a placeholder.
func (r *Reconciler) source(ctx context.Context, lv *topolvmv1.LogicalVolume) (*topolvmv1.LogicalVolume, error) {
	if lv.Spec.Source == "" {
		return nil, nil
	}
	source := &topolvmv1.LogicalVolume{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: lv.Spec.Source}, source)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, client.ObjectKey{Name: lv.Spec.Source}, source)
	}
	if apierrors.IsNotFound(err) {
		found, err := r.Volumes.FindLV(ctx, lv.Spec.DeviceClass, identity.Name(lv))
		if err == nil && !lvtag.IsCopying(found.Tags) {
			source.Spec.NodeName = r.Node
			source.Spec.DeviceClass = lv.Spec.DeviceClass
			source.Status.VolumeID = "gone"
			return source, nil
		}
		if err != nil && status.Code(err) != codes.NotFound {
			return nil, status.Errorf(codes.Unavailable, "source LogicalVolume %s no longer exists, and whether its "+
				"copy is complete cannot be read: %s", lv.Spec.Source, message(err))
		}
		return nil, status.Errorf(codes.NotFound,
			"source LogicalVolume %s no longer exists", lv.Spec.Source)
	}
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "read source LogicalVolume %s: %v", lv.Spec.Source, err)
	}
	if source.Status.VolumeID == "" {
		return nil, status.Errorf(codes.FailedPrecondition,
			"source LogicalVolume %s has no logical volume on node %s", lv.Spec.Source, source.Spec.NodeName)
	}
	return source, nil
}

// tagsOfSource returns the tags of the source of a copy.
func (r *Reconciler) tagsOfSource(ctx context.Context, class, source string) ([]string, error) {
	found, err := r.Volumes.FindLV(ctx, class, source)
	if status.Code(err) == codes.NotFound {
		return nil, nil // the copy exists, or is refused for this reason
	}
	if err != nil {
		return nil, err
	}
	return found.Tags, nil
}

// checkFileSystem returns InvalidArgument if a copy is requested with another file system than its source has by its
// tags. A snapshot is not mounted, and so it is not compared.
func checkFileSystem(lv *topolvmv1.LogicalVolume, content []string) error {
	if lv.Spec.AccessType == accessTypeOfSnapshot {
		return nil
	}
	source := cmp.Or(view.CopyOf(lv), lv.Spec.Source)
	for _, tag := range content {
		if have, is := strings.CutPrefix(tag, wellknown.FormattedTagPrefix); is {
			return service.SameFileSystem(source, have, view.FileSystem(lv))
		}
	}
	return nil
}

// withEncryptionOf adds the tag that marks the source of a copy as encrypted, if it is: the copy has its blocks. The
// annotation of the copy is not enough, because that of its source can have been lost.
func withEncryptionOf(content, tags []string) []string {
	for _, tag := range content {
		if strings.HasPrefix(tag, wellknown.EncryptionTagPrefix) && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// expand extends the logical volume, or determines its size if the size is not known.
func (r *Reconciler) expand(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	size, err := r.Volumes.ResizeLV(ctx, lv.Spec.DeviceClass, identity.Name(lv), lv.Spec.Size.Value())
	if err != nil {
		r.events.Emit(lv, expandFailed, r.Node, message(err))
		return r.fail(ctx, lv, err)
	}
	return ctrl.Result{}, r.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.CurrentSize = resource.NewQuantity(size, resource.BinarySI)
		s.Code = codes.OK
		s.Message = ""
	})
}
