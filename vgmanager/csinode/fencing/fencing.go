// Package fencing fences volumes while they are moved or cloned, so that nothing on this node uses them.
package fencing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// A volume is fenced while it is switched to another node, or while it is thick and copied to a clone. The LVM tag
// lvms.fenced= is the fence: the node service does not stage, publish or expand a volume with it, its file system is
// not checked, and it survives a restart of the node. It is set and removed only here, under the lock of the volume.
// FencedAnnotation tells the operator that the fence is there: it is written after the tag, and removed before it. If
// another program removes the tag, Pods may write to the volume. So a fence that was lost is not set again: what was
// copied under it counts by its FenceTimeAnnotation, and the operator requests another one.

const (
	workers = 4
	// Retry is the delay until a volume that is in use is examined again. maxDelay limits that after errors.
	Retry         = 2 * time.Second
	maxDelay      = 30 * time.Second
	conflictDelay = 100 * time.Millisecond
	// readTimeout limits the read of an object from the API server.
	readTimeout = 10 * time.Second
	// maxError is the maximum length of FenceErrorAnnotation, in bytes.
	maxError = 1024
)

// MappedDevices reads the devices of logical volumes from the kernel. devicemapper.Reader implements it.
type MappedDevices interface {
	Volume(ctx context.Context, vg, lv string) (devicemapper.Device, error)
}

// Mounts reads what uses the devices of the node. mounter.Mounter implements it.
type Mounts interface {
	MountPoints(number mounter.Number) ([]string, error)
	// Users describes what uses a device, as the end of a sentence.
	Users(ctx context.Context, number mounter.Number) string
}

// Options configure a Reconciler.
type Options struct {
	// Node is the name of this node.
	Node   string
	Client client.Client
	// Live reads LogicalVolumes from the API server.
	Live    client.Reader
	Volumes *volume.Finder
	Locks   *service.Locks
	Mounts  Mounts
	Devices MappedDevices
	// Unstaged receives LogicalVolumes with the IDs of volumes that were unstaged, so that a fence that is requested
	// can be set.
	Unstaged <-chan event.GenericEvent
}

// Reconciler fences the volumes of this node that the operator moves to another one, and thick volumes that are cloned,
// and ends that when it is no longer requested.
type Reconciler struct{ Options }

// New returns a Reconciler.
func New(o Options) *Reconciler { return &Reconciler{o} }

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("fences").
		For(&topolvmv1.LogicalVolume{}, builder.WithPredicates(r.changes())).
		WatchesRawSource(source.Channel(r.Unstaged, handler.EnqueueRequestsFromMapFunc(r.requested))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				conflictDelay, maxDelay),
		}).
		Complete(adapt.Reconciler(r))
}

// requested returns the LogicalVolume with the volume ID of an object, if it has a fence.
func (r *Reconciler) requested(ctx context.Context, object client.Object) []reconcile.Request {
	unstaged, ok := object.(*topolvmv1.LogicalVolume)
	list := &topolvmv1.LogicalVolumeList{}
	if !ok || r.Client.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
		return nil // It is examined again after Retry.
	}
	for i := range list.Items {
		lv := &list.Items[i]
		if lv.Status.VolumeID == unstaged.Status.VolumeID && r.ours(lv) && hasFence(lv) {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(lv)}}
		}
	}
	return nil
}

// changes selects the events to reconcile: all volumes at the start, because an agent can have been killed before it
// removed a tag, and then those whose fence changes.
func (r *Reconciler) changes() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return r.ours(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return r.ours(e.ObjectNew) && (hasFence(e.ObjectOld) || hasFence(e.ObjectNew))
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// ours reports whether a LogicalVolume is on this node and has a logical volume.
func (r *Reconciler) ours(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	return ok && lv.Spec.NodeName == r.Node && lv.Status.VolumeID != "" && lv.DeletionTimestamp.IsZero()
}

func hasFence(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	return ok && fence.Holder(lv)+fence.Confirmed(lv)+fence.Problem(lv)+fence.Withdrawn(lv) != ""
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch

// Reconcile fences one volume, or ends that.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lv := &topolvmv1.LogicalVolume{}
	if err := r.Client.Get(ctx, req.NamespacedName, lv); err != nil || !r.ours(lv) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !hasFence(lv) {
		tags, err := r.fences(ctx, lv)
		if err != nil || len(tags) == 0 {
			return ctrl.Result{}, err
		}
	}
	// The cache can be outdated: the volume may be on the other node now.
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	now := &topolvmv1.LogicalVolume{}
	if err := r.Live.Get(reading, req.NamespacedName, now); err != nil || now.UID != lv.UID || !r.ours(now) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	result, err := r.apply(ctx, now)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictDelay}, nil
	}
	return result, client.IgnoreNotFound(err)
}

func (r *Reconciler) apply(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	holder := fence.Holder(lv)
	if holder == "" {
		return ctrl.Result{}, r.unfence(ctx, lv)
	}
	switch fence.Confirmed(lv) {
	case holder:
		return r.confirm(ctx, lv, holder)
	case fence.Lost(lv):
		return ctrl.Result{}, nil
	}
	if err := r.fence(ctx, lv.Status.VolumeID, holder); err != nil {
		text := status.Convert(err).Message()
		log.FromContext(ctx).Info("cannot fence a volume", "volume", lv.Status.VolumeID, "cause", text)
		if err := r.write(ctx, lv, "", text[:min(len(text), maxError)]); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: Retry}, nil
	}
	return ctrl.Result{}, r.write(ctx, lv, holder, "")
}

// confirm keeps what the operator was told, that a volume is fenced, as long as the volume has the tag. That its device
// is open is no reason to withdraw it: this agent reads a thick volume to copy it. Neither is a failed read. A fence
// without its tag is lost for good.
func (r *Reconciler) confirm(ctx context.Context, lv *topolvmv1.LogicalVolume, holder string) (ctrl.Result, error) {
	tags, err := r.fences(ctx, lv)
	switch {
	case err != nil:
		log.FromContext(ctx).Info("cannot read the fence of a volume", "volume", lv.Status.VolumeID, "cause",
			err.Error())
		return ctrl.Result{RequeueAfter: Retry}, nil
	case len(tags) == 1 && tags[0] == wellknown.FencedTagPrefix+holder:
		return ctrl.Result{}, r.write(ctx, lv, holder, "")
	}
	problem := fmt.Sprintf("the fence of volume %s was removed from its logical volume on node %s by another program, "+
		"so the volume may have changed since: this fence is not set again, and the operator has to request another "+
		"one", lv.Status.VolumeID, r.Node)
	log.FromContext(ctx).Info("lost the fence of a volume", "volume", lv.Status.VolumeID, "cause",
		"its tags are "+strings.Join(tags, ", "))
	return ctrl.Result{}, r.write(ctx, lv, fence.Lost(lv), problem)
}

// fences returns the tags that fence a volume. A logical volume that does not exist has none.
func (r *Reconciler) fences(ctx context.Context, lv *topolvmv1.LogicalVolume) ([]string, error) {
	found, err := r.Volumes.LVM.FindLV(ctx, lv.Spec.DeviceClass, lv.Status.VolumeID)
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read whether volume %s on node %s is fenced: %w", lv.Status.VolumeID, r.Node, err)
	}
	return volume.FenceTags(found.Tags), nil
}

// pattern matches a fence, which becomes a part of an LVM tag.
var pattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// fence sets the tag of a volume that nobody uses. It looks again after that: then nobody can begin to use it, except a
// program that an administrator starts on the node.
func (r *Reconciler) fence(ctx context.Context, id, fence string) error {
	if !pattern.MatchString(fence) {
		return fmt.Errorf("annotation %s is %q, must be the UID of a VolumeMove, or that of a clone after %q",
			wellknown.FenceAnnotation, fence, wellknown.CloneFencePrefix)
	}
	if err := r.Locks.Enter(id); err != nil {
		return err
	}
	defer r.Locks.Leave(id)
	v, err := r.Volumes.Find(ctx, id)
	if err != nil {
		return err
	}
	if err := r.unused(ctx, v); err != nil {
		return err
	}
	tag := wellknown.FencedTagPrefix + fence
	var others []string
	has := false
	for _, present := range volume.FenceTags(v.LV.Tags) {
		if present == tag {
			has = true
			continue
		}
		others = append(others, present)
	}
	if has && len(others) == 0 {
		return nil
	}
	if err := r.Volumes.LVM.TagLV(ctx, v.Class, id, []string{tag}, others); err != nil {
		return fmt.Errorf("tag volume %s on node %s as fenced: %w", id, r.Node, err)
	}
	log.FromContext(ctx).Info("fenced a volume", "volume", id, "lv", v.LV.Path)
	return r.unused(ctx, v)
}

// unused returns an error that says what uses a volume: mounts, open files, mapped devices on it, or a file system that
// is being created.
func (r *Reconciler) unused(ctx context.Context, v volume.Volume) error {
	if v.IsFormatting() {
		return fmt.Errorf("volume %s on node %s is in use: its file system is not complete", v.ID, r.Node)
	}
	if volume.IsCopying(v.LV.Tags) {
		return fmt.Errorf("volume %s on node %s does not have all its data", v.ID, r.Node)
	}
	device, err := r.Devices.Volume(ctx, path.Base(path.Dir(v.LV.Path)), v.LV.Name)
	if errors.Is(err, devicemapper.ErrNotFound) {
		return nil // It is not active.
	}
	if err != nil {
		return fmt.Errorf("read the open count of volume %s on node %s: %w", v.ID, r.Node, err)
	}
	numbers := []mounter.Number{v.Number()}
	var own mounter.Number
	if _, err := fmt.Sscanf(device.Number, "%d:%d", &own.Major, &own.Minor); err != nil {
		return fmt.Errorf("device number %q of volume %s on node %s: %w", device.Number, v.ID, r.Node, err)
	}
	if own != numbers[0] {
		numbers = append(numbers, own)
	}
	for _, number := range numbers {
		points, err := r.Mounts.MountPoints(number)
		if err != nil {
			return fmt.Errorf("read the mounts of volume %s on node %s: %w", v.ID, r.Node, err)
		}
		if len(points) > 0 {
			return fmt.Errorf("volume %s on node %s is in use: it is mounted at %s", v.ID, r.Node,
				strings.Join(points, ", "))
		}
	}
	if device.Open > 0 {
		return fmt.Errorf("volume %s on node %s is in use: its device %s is open %d times: %s", v.ID, r.Node,
			device.Number, device.Open, r.Mounts.Users(ctx, own))
	}
	return nil
}

// unfence ends the fence of a volume: first what tells the operator about it, and then the fence. With the other order,
// the operator could find the annotation of a fence that no longer exists. It ends only a fence that the object knows:
// any other one is reported, because the volume can have moved to another node after the time of the objects.
func (r *Reconciler) unfence(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	// An operator of an earlier version withdraws a fence without UnfenceAnnotation.
	withdrawn := []string{wellknown.FencedTagPrefix + fence.Withdrawn(lv),
		wellknown.FencedTagPrefix + fence.Confirmed(lv)}
	if fence.Confirmed(lv) != "" {
		if err := r.write(ctx, lv, "", ""); err != nil {
			return err
		}
	}
	tags, err := r.fences(ctx, lv)
	if err != nil {
		return err
	}
	var ended []string
	tags = slices.DeleteFunc(tags, func(tag string) bool {
		is := slices.Contains(withdrawn, tag)
		if is {
			ended = append(ended, tag)
		}
		return is
	})
	if len(ended) > 0 {
		if err := r.Volumes.LVM.TagLV(ctx, lv.Spec.DeviceClass, lv.Status.VolumeID, nil, ended); err != nil {
			return fmt.Errorf("remove the fence of volume %s on node %s: %w", lv.Status.VolumeID, r.Node, err)
		}
		log.FromContext(ctx).Info("ended the fence of a volume", "volume", lv.Status.VolumeID)
	}
	return r.annotate(ctx, lv, map[string]string{wellknown.FencedAnnotation: "", wellknown.UnfenceAnnotation: "",
		wellknown.FenceErrorAnnotation: r.unknownFence(lv, tags)})
}

// unknownFence says what to do about fences that nothing requests.
func (r *Reconciler) unknownFence(lv *topolvmv1.LogicalVolume, tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	fence := strings.TrimPrefix(tags[0], wellknown.FencedTagPrefix)
	return fmt.Sprintf("the logical volume of volume %s on node %s is closed by the fence %s, which nothing in the "+
		"cluster requests: the objects can be of an earlier time than a VolumeMove that has moved the volume, so "+
		"another node can have later data. Look for it with `kubectl lvms orphans`, and import it on that node. Only "+
		"if no node has it, open this volume: kubectl annotate logicalvolume %s %s=%s", lv.Status.VolumeID, r.Node,
		fence, lv.Name, wellknown.UnfenceAnnotation, fence)
}

// write writes for what a volume is fenced, or that its fence was lost, or why it is not fenced.
func (r *Reconciler) write(ctx context.Context, lv *topolvmv1.LogicalVolume, fence, problem string) error {
	return r.annotate(ctx, lv, map[string]string{wellknown.FencedAnnotation: fence,
		wellknown.FenceErrorAnnotation: problem})
}

// annotate sets annotations, and removes those without a value. It returns a conflict if the object has changed since
// it was read, so that an answer to an earlier request is never that to a later one.
func (r *Reconciler) annotate(ctx context.Context, lv *topolvmv1.LogicalVolume, values map[string]string) error {
	before := lv.DeepCopy()
	for key, value := range values {
		delete(lv.Annotations, key)
		if value != "" {
			metav1.SetMetaDataAnnotation(&lv.ObjectMeta, key, value)
		}
	}
	if maps.Equal(before.Annotations, lv.Annotations) {
		return nil
	}
	return r.Client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
