// Package limits limits the I/O of Pods to their volumes.
package limits

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
)

// PodLimiter limits the I/O of Pods to a device. *cgroup.Pods implements it.
type PodLimiter interface {
	// Supported returns why this node cannot limit the I/O of Pods, or nil if it can.
	Supported() error
	// Limit limits the I/O of Pods to a device, "MAJOR:MINOR". It returns the UIDs of Pods that have no cgroup. After
	// an error, the Pods have the earlier limits.
	Limit(uids []string, device string, limits iolimits.Limits) (missing []string, err error)
}

// Mounts reads the mount table of the node. mounter.Mounter implements it.
type Mounts interface {
	MountPoints(number mounter.Number) ([]string, error)
}

// Limiter limits the I/O of the Pods of a node.
type Limiter struct {
	// Node is the name of this node.
	Node    string
	Volumes *volume.Finder
	Mounts  Mounts
	Pods    PodLimiter
	// mu is locked while limits are read and applied.
	mu sync.Mutex
}

// uid matches the UID of a Pod.
const uid = `[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`

// podPath matches the paths at which the kubelet has the volume of a Pod: of a file system, and of a block volume.
var podPath = regexp.MustCompile(`/pods/(` + uid + `)/|/volumeDevices/(?:publish/[^/]+|[^/]+/dev)/(` + uid + `)$`)

// podAt returns the UID of the Pod that has a volume at a path, or "".
func podAt(path string) string {
	m := podPath.FindStringSubmatch(path)
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}

// limitsOf returns the limits for the text in an annotation, if this node can apply them.
func (l *Limiter) limitsOf(text string) (iolimits.Limits, error) {
	limits, err := iolimits.Parse(text)
	if err == nil && limits != (iolimits.Limits{}) {
		err = l.Supported()
	}
	return limits, err
}

// Supported returns why this node cannot limit the I/O of Pods, or nil if it can.
func (l *Limiter) Supported() error {
	if err := l.Pods.Supported(); err != nil {
		return fmt.Errorf("node %s cannot limit the I/O of Pods: %w", l.Node, err)
	}
	return nil
}

// Publish limits the I/O of a Pod to a volume, and returns the limits. It is called before and after the volume is
// published; earlier are the limits of the first call. The containers of the Pod start later, so they never have more.
// The kubelet repeats the call if it fails. The cache is sufficient: a change that comes before the second call is
// applied by it, and the reconciler finds the Pod for a later one.
func (l *Limiter) Publish(ctx context.Context, v volume.Volume, target, earlier string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	object, err := l.Volumes.Object(ctx, v.ID)
	if err != nil {
		return "", err
	}
	text := view.IOLimitsOf(object).Requested
	if text == "" && earlier == "" {
		return "", nil
	}
	return text, l.applyToPod(v, target, text)
}

func (l *Limiter) applyToPod(v volume.Volume, target, text string) error {
	limits, err := l.limitsOf(text)
	if err != nil {
		return status.Errorf(codes.FailedPrecondition, "volume %s has the I/O limits %s of a VolumeAttributesClass: %v",
			v.ID, text, err)
	}
	pod := podAt(target)
	if pod == "" && limits == (iolimits.Limits{}) {
		return nil
	}
	if pod == "" {
		return status.Errorf(codes.FailedPrecondition, "volume %s has I/O limits, but the target path %s on node %s "+
			"does not name the Pod to limit", v.ID, target, l.Node)
	}
	missing, err := l.Pods.Limit([]string{pod}, v.Number().String(), limits)
	if err != nil {
		return status.Errorf(codes.Internal, "volume %s on node %s: %v", v.ID, l.Node, err)
	}
	if len(missing) > 0 && limits != (iolimits.Limits{}) {
		return status.Errorf(codes.Unavailable, "volume %s has I/O limits, and the kubelet of node %s has not created "+
			"the cgroup of Pod %s yet", v.ID, l.Node, pod)
	}
	return nil
}

// Unpublish removes the limits of a Pod that no longer has a volume, because another volume can get its device number.
// Mostly the Pod ends, and its cgroup with it: a failure is only logged.
func (l *Limiter) Unpublish(ctx context.Context, id, target string) {
	object, err := l.Volumes.Object(ctx, id)
	pod := podAt(target)
	if err != nil || pod == "" || view.IOLimitsOf(object).Requested == "" {
		return
	}
	v, err := l.Volumes.Find(ctx, id)
	if err == nil && v.IsActive() {
		l.mu.Lock()
		defer l.mu.Unlock()
		_, err = l.Pods.Limit([]string{pod}, v.Number().String(), iolimits.Limits{})
	}
	if err != nil {
		log.FromContext(ctx).Info("cannot remove the I/O limits of a Pod", "volume", id, "cause", err.Error())
	}
}

const (
	// workers is the number of volumes whose limits are changed at the same time.
	workers = 4
	// Retry is the delay before limits that could not be applied are tried again.
	Retry = time.Minute
	// conflictDelay is the delay after a write to an object that has changed.
	conflictDelay = 100 * time.Millisecond
	// maxError is the maximum length of an error in an annotation.
	maxError = 1024
)

// Reconciler applies the requested limits of a volume to the Pods that use it, and writes to the LogicalVolume
// which limits are in force. Limits remain in the kernel while no agent runs; the next agent applies them again.
type Reconciler struct {
	limiter *Limiter
	client  client.Client
}

// NewReconciler returns a Reconciler with the limits of a node.
func NewReconciler(limiter *Limiter, c client.Client) *Reconciler {
	return &Reconciler{limiter: limiter, client: c}
}

// SetupWithManager adds the reconciler to a manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("iolimits").
		For(&topolvmv1.LogicalVolume{}, builder.WithPredicates(predicate.NewPredicateFuncs(r.ours))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				conflictDelay, Retry),
		}).
		Complete(adapt.Reconciler(r))
}

// ours reports whether a LogicalVolume is on this node and has, or had, limits.
func (r *Reconciler) ours(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	if !ok || lv.Spec.NodeName != r.limiter.Node || lv.Status.VolumeID == "" || !lv.DeletionTimestamp.IsZero() {
		return false
	}
	return view.IOLimitsOf(lv) != view.IOLimits{}
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=list;watch;patch

// Reconcile applies the limits of one volume.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lv := &topolvmv1.LogicalVolume{}
	if err := r.client.Get(ctx, req.NamespacedName, lv); err != nil || !r.ours(lv) {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	id := lv.Status.VolumeID
	v, err := r.limiter.Volumes.Find(ctx, id)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("limits of volume %s: %w", id, err)
	}
	current, refusal, err := r.apply(ctx, lv, v)
	if err != nil || !current {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if err := r.write(ctx, lv.DeepCopy(), refusal); err != nil {
		if apierrors.IsConflict(err) {
			return ctrl.Result{RequeueAfter: conflictDelay}, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if refusal != nil {
		return ctrl.Result{RequeueAfter: Retry}, nil
	}
	return ctrl.Result{}, nil
}

// apply reads the object again and applies its limits: a Pod may have got the volume with later limits than those that
// were read before the lock. It returns false if the object no longer needs it. The refusal is why the limits could not
// be applied.
func (r *Reconciler) apply(ctx context.Context, lv *topolvmv1.LogicalVolume, v volume.Volume) (current bool,
	refusal, err error) {
	r.limiter.mu.Lock()
	defer r.limiter.mu.Unlock()
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(lv), lv); err != nil {
		return false, nil, err
	}
	if !r.ours(lv) || lv.Status.VolumeID != v.ID {
		return false, nil, nil
	}
	return true, r.limiter.limitPods(v, view.IOLimitsOf(lv).Requested), nil
}

// limitPods limits the I/O of all Pods that have a volume. A Pod without a cgroup has ended.
func (l *Limiter) limitPods(v volume.Volume, text string) error {
	limits, err := l.limitsOf(text)
	if err != nil || !v.IsActive() {
		return err
	}
	points, err := l.Mounts.MountPoints(v.Number())
	if err != nil {
		return fmt.Errorf("the mounts of volume %s on node %s cannot be read: %w", v.ID, l.Node, err)
	}
	var pods []string
	for _, point := range points {
		if pod := podAt(point); pod != "" {
			pods = append(pods, pod)
		}
	}
	slices.Sort(pods)
	_, err = l.Pods.Limit(slices.Compact(pods), v.Number().String(), limits)
	return err
}

// write writes which limits are in force, or why the requested ones are not. It returns a conflict if the object has
// changed since it was read.
func (r *Reconciler) write(ctx context.Context, lv *topolvmv1.LogicalVolume, refusal error) error {
	limits := view.IOLimitsOf(lv)
	if refusal == nil {
		limits.InForce, limits.Failed = limits.Requested, ""
	} else {
		limits.Fail(refusal.Error(), maxError)
		if limits.InForce == limits.Requested {
			limits.InForce = ""
		}
		log.FromContext(ctx).Info("cannot apply I/O limits", "volume", lv.Status.VolumeID, "cause", refusal.Error())
	}
	if limits == view.IOLimitsOf(lv) {
		return nil
	}
	before := lv.DeepCopy()
	limits.Set(lv)
	return r.client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
