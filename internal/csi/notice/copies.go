package notice

import (
	"context"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// copyInterval is the time between two events about the progress of a copy.
	copyInterval = time.Minute
	// maxPods is the maximum number of Pods that get an event about a copy.
	maxPods = 10
)

// copyingVolume is a Normal event on the Pod: it cannot start yet, because the data of a snapshot or of another volume
// is being copied to the volume of its claim, or the copy of a thick volume waits for its Pods. The note says how
// much is copied, or what the copy waits for. It is sent once a minute.
var copyingVolume = event.Normal("CopyingVolume", "Provision", "The Pod starts when the volume of the claim %s is "+
	"complete: %s.")

// Copies sends CopyingVolume.
type Copies struct {
	cache    client.Reader
	live     client.Reader
	recorder event.Recorder
	now      func() time.Time
	// sent is when events were sent, by the name of the LogicalVolume. It is used by one worker.
	sent map[types.NamespacedName]time.Time
}

// NewCopies returns a Copies. The cache has at least the LogicalVolumes that are not settled; live lists Pods.
func NewCopies(cache, live client.Reader, recorder event.Recorder) *Copies {
	return &Copies{cache: cache, live: live, recorder: recorder, now: time.Now,
		sent: map[types.NamespacedName]time.Time{}}
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch

// Reconcile sends events if data is being copied to a volume, at most once in copyInterval.
func (c *Copies) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	lv := &topolvmv1.LogicalVolume{}
	err := c.cache.Get(ctx, request.NamespacedName, lv)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("read LogicalVolume %s: %w", request.Name, err)
	}
	if apierrors.IsNotFound(err) || !isCopied(lv) {
		delete(c.sent, request.NamespacedName)
		return reconcile.Result{}, nil
	}
	if sent, ok := c.sent[request.NamespacedName]; ok {
		if wait := copyInterval - c.now().Sub(sent); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	pods, err := c.podsOf(ctx, view.Claim(lv))
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, pod := range pods {
		// The recorder joins events about the same objects to a series with the first note. The related object has a
		// resource version, which changes with the progress.
		c.recorder.Eventf(pod, lv, copyingVolume.Type, copyingVolume.Reason, copyingVolume.Action, copyingVolume.Text,
			view.Claim(lv), lv.Status.Message)
	}
	c.sent[request.NamespacedName] = c.now()
	return reconcile.Result{RequeueAfter: copyInterval}, nil
}

// podsOf returns at most maxPods Pods that use a claim and are not bound to a node.
func (c *Copies) podsOf(ctx context.Context, claim string) ([]*corev1.Pod, error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(claim)
	if err != nil {
		return nil, fmt.Errorf("read annotation %s: %w", wellknown.ClaimAnnotation, err)
	}
	var pods []*corev1.Pod
	err = paging.Until(ctx, c.live, &corev1.PodList{}, func(list *corev1.PodList) bool {
		for i := range list.Items {
			if pod := &list.Items[i]; pod.Spec.NodeName == "" && relocate.Runs(pod) && relocate.Uses(pod, name) {
				pods = append(pods, pod.DeepCopy())
			}
		}
		return len(pods) >= maxPods
	}, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("list the Pods of claim %s: %w", claim, err)
	}
	return pods[:min(len(pods), maxPods)], nil
}

// isCopied reports whether a node agent copies data to the volume of a claim. It has the code Aborted until then, and
// the message with the progress.
func isCopied(object client.Object) bool {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	return ok && lv.DeletionTimestamp.IsZero() && lv.Spec.Source != "" && lv.Status.VolumeID == "" &&
		lv.Status.Code == codes.Aborted && lv.Status.Message != "" && view.Claim(lv) != "" &&
		lv.Labels[wellknown.MoveLabel] == ""
}

// SetupWithManager starts the controller with the manager.
func (c *Copies) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("copy-notices").
		Watches(&topolvmv1.LogicalVolume{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(predicate.NewPredicateFuncs(isCopied))).
		Complete(adapt.Reconciler(c))
}
