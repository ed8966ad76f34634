package csinode

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

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/fsck"
)

// A volume is fenced while it is switched to another node, or while it is thick and copied to a clone. The LVM tag
// lvms.fenced= is the fence: the node service does not stage, publish or expand a volume with it, its file system is
// not checked, and it survives a restart of the node. It is set and removed only here, under the lock of the volume.
// FencedAnnotation tells the operator that the fence is there: it is written after the tag, and removed before it. If
// another program removes the tag, Pods may write to the volume. So a fence that was lost is not set again: what was
// copied under it counts by its FenceTimeAnnotation, and the operator requests another one.

const (
	fenceWorkers = 4
	// fenceRetry is the delay until a volume that is in use is examined again. fenceRetryMax limits that after errors.
	fenceRetry    = 2 * time.Second
	fenceRetryMax = 30 * time.Second
	fenceConflict = 100 * time.Millisecond
	// fenceTimeout limits the read of an object from the API server.
	fenceTimeout = 10 * time.Second
	// maxFenceError is the maximum length of FenceErrorAnnotation, in bytes.
	maxFenceError = 1024
)

// movedReason returns why a logical volume with these tags must not be used: it is fenced for a move or a clone, or
// does not have all its data yet. It returns "" if it can be used.
func movedReason(tags []string) string {
	if fences := fenceTags(tags); len(fences) > 0 {
		move := strings.TrimPrefix(fences[0], v1alpha1.FencedTagPrefix)
		if clone, is := strings.CutPrefix(move, v1alpha1.CloneFencePrefix); is {
			return fmt.Sprintf("it is being copied to the LogicalVolume with the UID %s, a clone of it, and can be "+
				"used when that is complete: to use it now, delete the clone's claim", clone)
		}
		return fmt.Sprintf("it is being moved to another node by the VolumeMove with the UID %s, and its Pods get it "+
			"there: to keep it here, delete the VolumeMove; if that does not exist, see the condition of the volume",
			move)
	}
	if isCopying(tags) {
		return "its data is being copied to this node, and is not complete yet"
	}
	return ""
}

func isCopying(tags []string) bool { return slices.Contains(tags, v1alpha1.CopyingTag) }

// unmoved returns an error if a volume must not be checked because of a move or a clone.
func (c *Checker) unmoved(ctx context.Context, v fsck.Volume) error {
	tags, err := c.tags(ctx, path.Base(path.Dir(v.Device)), v.Name)
	if err != nil {
		return fmt.Errorf("read the tags of volume %s on node %s: %w", v.Name, c.node, err)
	}
	if reason := movedReason(tags); reason != "" {
		return fmt.Errorf("%w: volume %s on node %s is not checked: %s", fsck.ErrInUse, v.Name, c.node, reason)
	}
	return nil
}

// MappedDevices reads the devices of logical volumes from the kernel. devicemapper.Reader implements it.
type MappedDevices interface {
	Volume(ctx context.Context, vg, lv string) (devicemapper.Device, error)
}

// FenceReconciler fences the volumes of this node that the operator moves to another one, and thick volumes that are
// cloned, and ends that when it is no longer requested.
type FenceReconciler struct {
	node    *NodeServer
	client  client.Client
	devices MappedDevices
}

// NewFenceReconciler returns a FenceReconciler for the volumes of a node service.
func NewFenceReconciler(node *NodeServer, c client.Client, devices MappedDevices) *FenceReconciler {
	return &FenceReconciler{node: node, client: c, devices: devices}
}

// SetupWithManager adds the reconciler to a manager.
func (r *FenceReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("fences").
		For(&topolvmv1.LogicalVolume{}, builder.WithPredicates(r.changes())).
		WatchesRawSource(source.Channel(r.node.unstaged, handler.EnqueueRequestsFromMapFunc(r.requested))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: fenceWorkers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				fenceConflict, fenceRetryMax),
		}).
		Complete(r)
}

// reportUnstaged reports that a volume is no longer staged, so that a fence that is requested is set at once: its Pods
// wait for it. If too many volumes are reported at once, FenceReconciler examines the volume after fenceRetry.
func (s *NodeServer) reportUnstaged(id string) {
	lv := &topolvmv1.LogicalVolume{Status: topolvmv1.LogicalVolumeStatus{VolumeID: id}}
	select {
	case s.unstaged <- event.GenericEvent{Object: lv}:
	default:
	}
}

// requested returns the LogicalVolume with the volume ID of an object, if it has a fence.
func (r *FenceReconciler) requested(ctx context.Context, object client.Object) []reconcile.Request {
	unstaged, ok := object.(*topolvmv1.LogicalVolume)
	list := &topolvmv1.LogicalVolumeList{}
	if !ok || r.client.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
		return nil // It is examined again after fenceRetry.
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
func (r *FenceReconciler) changes() predicate.Predicate {
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
func (r *FenceReconciler) ours(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	return ok && lv.Spec.NodeName == r.node.Node && lv.Status.VolumeID != "" && lv.DeletionTimestamp.IsZero()
}

func hasFence(object client.Object) bool {
	a := object.GetAnnotations()
	return a[v1alpha1.FenceAnnotation]+a[v1alpha1.FencedAnnotation]+a[v1alpha1.FenceErrorAnnotation]+
		a[v1alpha1.UnfenceAnnotation] != ""
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch

// Reconcile fences one volume, or ends that.
func (r *FenceReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lv := &topolvmv1.LogicalVolume{}
	if err := r.client.Get(ctx, req.NamespacedName, lv); err != nil || !r.ours(lv) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !hasFence(lv) {
		tags, err := r.fences(ctx, lv)
		if err != nil || len(tags) == 0 {
			return ctrl.Result{}, err
		}
	}
	// The cache can be outdated: the volume may be on the other node now.
	reading, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	now := &topolvmv1.LogicalVolume{}
	if err := r.node.Live.Get(reading, req.NamespacedName, now); err != nil || now.UID != lv.UID || !r.ours(now) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	result, err := r.apply(ctx, now)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: fenceConflict}, nil
	}
	return result, client.IgnoreNotFound(err)
}

func (r *FenceReconciler) apply(ctx context.Context, lv *topolvmv1.LogicalVolume) (ctrl.Result, error) {
	fence := lv.Annotations[v1alpha1.FenceAnnotation]
	if fence == "" {
		return ctrl.Result{}, r.unfence(ctx, lv)
	}
	switch lv.Annotations[v1alpha1.FencedAnnotation] {
	case fence:
		return r.confirm(ctx, lv, fence)
	case lostFence(lv):
		return ctrl.Result{}, nil
	}
	if err := r.fence(ctx, lv.Status.VolumeID, fence); err != nil {
		text := status.Convert(err).Message()
		log.FromContext(ctx).Info("cannot fence a volume", "volume", lv.Status.VolumeID, "cause", text)
		if err := r.write(ctx, lv, "", text[:min(len(text), maxFenceError)]); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: fenceRetry}, nil
	}
	return ctrl.Result{}, r.write(ctx, lv, fence, "")
}

// lostFence returns the value of FencedAnnotation that says that the present fence was lost.
func lostFence(lv *topolvmv1.LogicalVolume) string {
	return v1alpha1.LostFencePrefix + lv.Annotations[v1alpha1.FenceTimeAnnotation]
}

// confirm keeps what the operator was told, that a volume is fenced, as long as the volume has the tag. That its device
// is open is no reason to withdraw it: this agent reads a thick volume to copy it. Neither is a failed read. A fence
// without its tag is lost for good.
func (r *FenceReconciler) confirm(ctx context.Context, lv *topolvmv1.LogicalVolume, fence string) (ctrl.Result, error) {
	tags, err := r.fences(ctx, lv)
	switch {
	case err != nil:
		log.FromContext(ctx).Info("cannot read the fence of a volume", "volume", lv.Status.VolumeID, "cause",
			err.Error())
		return ctrl.Result{RequeueAfter: fenceRetry}, nil
	case len(tags) == 1 && tags[0] == v1alpha1.FencedTagPrefix+fence:
		return ctrl.Result{}, r.write(ctx, lv, fence, "")
	}
	problem := fmt.Sprintf("the fence of volume %s was removed from its logical volume on node %s by another program, "+
		"so the volume may have changed since: this fence is not set again, and the operator has to request another "+
		"one", lv.Status.VolumeID, r.node.Node)
	log.FromContext(ctx).Info("lost the fence of a volume", "volume", lv.Status.VolumeID, "cause",
		"its tags are "+strings.Join(tags, ", "))
	return ctrl.Result{}, r.write(ctx, lv, lostFence(lv), problem)
}

// fences returns the tags that fence a volume. A logical volume that does not exist has none.
func (r *FenceReconciler) fences(ctx context.Context, lv *topolvmv1.LogicalVolume) ([]string, error) {
	found, err := r.node.Volumes.FindLV(ctx, lv.Spec.DeviceClass, lv.Status.VolumeID)
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read whether volume %s on node %s is fenced: %w", lv.Status.VolumeID, r.node.Node, err)
	}
	return fenceTags(found.GetTags()), nil
}

func fenceTags(tags []string) []string {
	var list []string
	for _, tag := range tags {
		if strings.HasPrefix(tag, v1alpha1.FencedTagPrefix) {
			list = append(list, tag)
		}
	}
	return list
}

// fencePattern matches a fence, which becomes a part of an LVM tag.
var fencePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// fence sets the tag of a volume that nobody uses. It looks again after that: then nobody can begin to use it, except a
// program that an administrator starts on the node.
func (r *FenceReconciler) fence(ctx context.Context, id, fence string) error {
	if !fencePattern.MatchString(fence) {
		return fmt.Errorf("annotation %s is %q, must be the UID of a VolumeMove, or that of a clone after %q",
			v1alpha1.FenceAnnotation, fence, v1alpha1.CloneFencePrefix)
	}
	if err := r.node.locks.Enter(id); err != nil {
		return err
	}
	defer r.node.locks.Leave(id)
	v, err := r.node.find(ctx, id)
	if err != nil {
		return err
	}
	if err := r.unused(ctx, v); err != nil {
		return err
	}
	tag := v1alpha1.FencedTagPrefix + fence
	var others []string
	has := false
	for _, present := range fenceTags(v.lv.GetTags()) {
		if present == tag {
			has = true
			continue
		}
		others = append(others, present)
	}
	if has && len(others) == 0 {
		return nil
	}
	if err := r.node.Volumes.TagLV(ctx, v.class, id, []string{tag}, others); err != nil {
		return fmt.Errorf("tag volume %s on node %s as fenced: %w", id, r.node.Node, err)
	}
	log.FromContext(ctx).Info("fenced a volume", "volume", id, "lv", v.lv.GetPath())
	return r.unused(ctx, v)
}

// unused returns an error that says what uses a volume: mounts, open files, mapped devices on it, or a file system that
// is being created.
func (r *FenceReconciler) unused(ctx context.Context, v volume) error {
	if v.isFormatting() {
		return fmt.Errorf("volume %s on node %s is in use: its file system is not complete", v.id, r.node.Node)
	}
	if isCopying(v.lv.GetTags()) {
		return fmt.Errorf("volume %s on node %s does not have all its data", v.id, r.node.Node)
	}
	device, err := r.devices.Volume(ctx, path.Base(path.Dir(v.lv.GetPath())), v.lv.GetName())
	if errors.Is(err, devicemapper.ErrNotFound) {
		return nil // It is not active.
	}
	if err != nil {
		return fmt.Errorf("read the open count of volume %s on node %s: %w", v.id, r.node.Node, err)
	}
	numbers := []deviceNumber{numberOf(v)}
	var own deviceNumber
	if _, err := fmt.Sscanf(device.Number, "%d:%d", &own.major, &own.minor); err != nil {
		return fmt.Errorf("device number %q of volume %s on node %s: %w", device.Number, v.id, r.node.Node, err)
	}
	if own != numbers[0] {
		numbers = append(numbers, own)
	}
	for _, number := range numbers {
		points, err := r.node.disks.mountPoints(number)
		if err != nil {
			return fmt.Errorf("read the mounts of volume %s on node %s: %w", v.id, r.node.Node, err)
		}
		if len(points) > 0 {
			return fmt.Errorf("volume %s on node %s is in use: it is mounted at %s", v.id, r.node.Node,
				strings.Join(points, ", "))
		}
	}
	if device.Open > 0 {
		return fmt.Errorf("volume %s on node %s is in use: its device %s is open %d times: %s", v.id, r.node.Node,
			device.Number, device.Open, r.node.disks.users(ctx, own))
	}
	return nil
}

// unfence ends the fence of a volume: first what tells the operator about it, and then the fence. With the other order,
// the operator could find the annotation of a fence that no longer exists. It ends only a fence that the object knows:
// any other one is reported, because the volume can have moved to another node after the time of the objects.
func (r *FenceReconciler) unfence(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	// An operator of an earlier version withdraws a fence without UnfenceAnnotation.
	withdrawn := []string{v1alpha1.FencedTagPrefix + lv.Annotations[v1alpha1.UnfenceAnnotation],
		v1alpha1.FencedTagPrefix + lv.Annotations[v1alpha1.FencedAnnotation]}
	if lv.Annotations[v1alpha1.FencedAnnotation] != "" {
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
		if err := r.node.Volumes.TagLV(ctx, lv.Spec.DeviceClass, lv.Status.VolumeID, nil, ended); err != nil {
			return fmt.Errorf("remove the fence of volume %s on node %s: %w", lv.Status.VolumeID, r.node.Node, err)
		}
		log.FromContext(ctx).Info("ended the fence of a volume", "volume", lv.Status.VolumeID)
	}
	return r.annotate(ctx, lv, map[string]string{v1alpha1.FencedAnnotation: "", v1alpha1.UnfenceAnnotation: "",
		v1alpha1.FenceErrorAnnotation: r.unknownFence(lv, tags)})
}

// unknownFence says what to do about fences that nothing requests.
func (r *FenceReconciler) unknownFence(lv *topolvmv1.LogicalVolume, tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	fence := strings.TrimPrefix(tags[0], v1alpha1.FencedTagPrefix)
	return fmt.Sprintf("the logical volume of volume %s on node %s is closed by the fence %s, which nothing in the "+
		"cluster requests: the objects can be of an earlier time than a VolumeMove that has moved the volume, so "+
		"another node can have later data. Look for it with `kubectl lvms orphans`, and import it on that node. Only "+
		"if no node has it, open this volume: kubectl annotate logicalvolume %s %s=%s", lv.Status.VolumeID, r.node.Node,
		fence, lv.Name, v1alpha1.UnfenceAnnotation, fence)
}

// write writes for what a volume is fenced, or that its fence was lost, or why it is not fenced.
func (r *FenceReconciler) write(ctx context.Context, lv *topolvmv1.LogicalVolume, fence, problem string) error {
	return r.annotate(ctx, lv, map[string]string{v1alpha1.FencedAnnotation: fence,
		v1alpha1.FenceErrorAnnotation: problem})
}

// annotate sets annotations, and removes those without a value. It returns a conflict if the object has changed since
// it was read, so that an answer to an earlier request is never that to a later one.
func (r *FenceReconciler) annotate(ctx context.Context, lv *topolvmv1.LogicalVolume, values map[string]string) error {
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
	return r.client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
