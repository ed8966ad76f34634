// Package clone has thick volumes closed while they are copied to clones. A thick volume has no snapshots, so its data
// is copied from the volume itself, and must not change meanwhile. The CSI controller creates the LogicalVolume of the
// clone, the target, with CloneVolumeAnnotation. The steps are:
//
//  1. when no Pod uses the volume, this package requests the fence of its LogicalVolume, the source, for the target;
//  2. the node agent of the source confirms that nobody can use the volume;
//  3. this package gives the target the name of this fence, FenceTimeAnnotation. Only then the node agent of the target
//     copies the data, and compares it, and the one of the source sends it only under this fence;
//  4. when the target is complete, refused, deleted or no longer needed, this package removes the fence. When Pods wait
//     for the source, it refuses a target that makes no progress, or if one of the nodes is lost (package fence).
//
// Nothing else requests or removes such a fence. A target is copied under one fence only: if the source no longer has
// it before the target is complete, the volume could have been written to. Then the target is refused, so that the CSI
// controller deletes it, and the next call creates another one.
//
// Each time, the package reads the objects from the API server, decides in a pure function (plan), and writes. So the
// operator can be killed at any time, and continues: the cache has each LogicalVolume that has a fence or is not
// complete, and they are reconciled at the start.
package clone

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

const (
	// conflictDelay is the delay after a write that failed because the object has just changed.
	conflictDelay = time.Second
	// pollInterval is the delay until a volume is read again that has a clone. Pods, claims and Nodes are not watched.
	pollInterval = 15 * time.Second
	// fenceInterval is this delay while a fence is requested, so that a Pod that comes gets the volume.
	fenceInterval = 3 * time.Second
)

// Controller requests and removes the fences of thick volumes that are cloned.
type Controller struct {
	client client.Client
	// live reads from the API server. active is the cache, which has only the LogicalVolumes that are not settled.
	live, active client.Reader
	namespace    string
	now          func() time.Time
}

// New returns a Controller. namespace has the VolumeMoves.
func New(c client.Client, live, active client.Reader, namespace string) *Controller {
	return &Controller{client: c, live: live, active: active, namespace: namespace, now: time.Now}
}

// Reconcile performs what is next for the clones of one LogicalVolume, the source, which may not exist.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	s, err := c.read(ctx, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	st := plan(s, c.now())
	err = c.act(ctx, s, st)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{RequeueAfter: st.after}, err
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=volumemoves,namespace=openshift-lvm-storage,verbs=list;watch

// read reads the state of a source. The source is read first: a patch of it with its resource version fails if it has
// changed since, and all other objects are newer.
func (c *Controller) read(ctx context.Context, name string) (*state, error) {
	s := &state{name: name}
	var err error
	if s.source, err = relocate.Get(ctx, c.live, client.ObjectKey{Name: name}, &topolvmv1.LogicalVolume{}); err != nil {
		return nil, err
	}
	volumes := &topolvmv1.LogicalVolumeList{}
	if err := c.active.List(ctx, volumes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the LogicalVolumes that are being created: %w", err)
	}
	nodes, err := fence.ReadNodes(ctx, c.client, c.now())
	if err != nil {
		return nil, err
	}
	for _, name := range s.namesOfTargets(volumes.Items) {
		if err := c.readTarget(ctx, s, name, nodes); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(s.targets, func(a, b *target) int {
		return cmp.Or(a.lv.CreationTimestamp.Compare(b.lv.CreationTimestamp.Time),
			strings.Compare(a.lv.Name, b.lv.Name))
	})
	if s.source == nil || len(s.targets) == 0 {
		return s, nil
	}
	s.node = nodes.Get(s.source.Spec.NodeName)
	moves := &v1alpha1.VolumeMoveList{}
	if err := c.client.List(ctx, moves, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list VolumeMoves: %w", err)
	}
	s.move = moveOf(s.fence(), moves.Items)
	s.others = append(fence.Moves(moves.Items, nodes, c.now()), fence.Clones(volumes.Items, nodes, c.now())...)
	return s, c.readPods(ctx, s)
}

// namesOfTargets returns the names of the clones of the source that are not complete, and of that for which the source
// is fenced. volumes are the LogicalVolumes that are not settled.
func (s *state) namesOfTargets(volumes []topolvmv1.LogicalVolume) []string {
	var names []string
	for i := range volumes {
		lv := &volumes[i]
		if isClone(lv) && lv.Status.VolumeID == "" && lv.Spec.Source == s.name {
			names = append(names, lv.Name)
		}
	}
	if s.source == nil {
		return names
	}
	holder := fence.ForClone(s.source)
	if holder != "" && !slices.Contains(names, holder) {
		names = append(names, holder)
	}
	return names
}

// readTarget adds a target to the state, if it is one of the source that is not complete. An object with a
// PersistentVolume was restored from a backup: its data must not be copied again.
func (c *Controller) readTarget(ctx context.Context, s *state, name string, nodes fence.Nodes) error {
	lv, err := relocate.Get(ctx, c.live, client.ObjectKey{Name: name}, &topolvmv1.LogicalVolume{})
	if err != nil || lv == nil || lv.Spec.Source != s.name || !isClone(lv) || lv.Status.VolumeID != "" {
		return err
	}
	pv, err := relocate.Get(ctx, c.live, client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
	if err != nil || pv != nil {
		return err
	}
	lacks, err := c.lacksClaim(ctx, lv)
	if err != nil {
		return err
	}
	s.targets = append(s.targets, &target{lv: lv, lacksClaim: lacks, node: nodes.Get(lv.Spec.NodeName)})
	return nil
}

// lacksClaim reports whether the claim of a target no longer exists.
func (c *Controller) lacksClaim(ctx context.Context, lv *topolvmv1.LogicalVolume) (bool, error) {
	key, known := view.ClaimKey(lv)
	if !known {
		return false, nil
	}
	claim, err := relocate.Get(ctx, c.live, key, &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil {
		return err == nil, err
	}
	uid, ofClaim := strings.CutPrefix(lv.Name, wellknown.ClaimVolumePrefix)
	return ofClaim && uid != string(claim.UID), nil
}

// moveOf returns the name of the VolumeMove with a fence, or "" if it is not that of one.
func moveOf(holder string, moves []v1alpha1.VolumeMove) string {
	for i := range moves {
		if holder != "" && moves[i].UID == types.UID(holder) {
			return moves[i].Name
		}
	}
	return ""
}

// readPods reads the Pods that use the claim of the source and have not ended. A Pod that has no node yet counts: after
// the restart of a workload, its next Pod gets the volume. It does not count if it uses a clone too, and so waits for
// the clone.
func (c *Controller) readPods(ctx context.Context, s *state) error {
	key, known := view.ClaimKey(s.source)
	if !known {
		return nil
	}
	err := paging.Each(ctx, c.live, &corev1.PodList{}, func(list *corev1.PodList) {
		for i := range list.Items {
			pod := &list.Items[i]
			if relocate.Runs(pod) && relocate.Uses(pod, key.Name) && !(pod.Spec.NodeName == "" && s.usesClone(pod)) {
				s.pods = append(s.pods, pod.Namespace+"/"+pod.Name)
			}
		}
	}, client.InNamespace(key.Namespace))
	if err != nil {
		return fmt.Errorf("list the Pods of namespace %s: %w", key.Namespace, err)
	}
	slices.Sort(s.pods)
	return nil
}

// usesClone reports whether a Pod uses the claim of a target.
func (s *state) usesClone(pod *corev1.Pod) bool {
	return slices.ContainsFunc(s.targets, func(t *target) bool {
		key, known := view.ClaimKey(t.lv)
		return known && key.Namespace == pod.Namespace && relocate.Uses(pod, key.Name)
	})
}

// act performs a step. It answers targets first, so that a target that is refused is not copied after the fence is
// removed.
func (c *Controller) act(ctx context.Context, s *state, st step) error {
	for _, a := range st.answers {
		if err := c.answer(ctx, a); err != nil {
			return err
		}
	}
	switch {
	case st.unfence:
		return c.unfence(ctx, s.source)
	case st.fence != nil:
		return c.fence(ctx, s.source, st.fence)
	case st.begin != nil:
		return c.begin(ctx, s.source, st.begin)
	case st.progress != nil:
		return c.recordProgress(ctx, st.progress)
	}
	return nil
}

// answer writes what a target waits for, or why it is refused.
func (c *Controller) answer(ctx context.Context, a answer) error {
	if a.lv.Status.Code == a.code && a.lv.Status.Message == a.message {
		return nil
	}
	before := a.lv.DeepCopy()
	a.lv.Status.Code = a.code
	a.lv.Status.Message = a.message
	err := c.client.Status().Patch(ctx, a.lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the status of LogicalVolume %s: %w", a.lv.Name, err)
	}
	return client.IgnoreNotFound(err)
}

// fence requests that the node agent closes the source for a target.
func (c *Controller) fence(ctx context.Context, source, target *topolvmv1.LogicalVolume) error {
	before := source.DeepCopy()
	fence.Request(source, fence.OfClone(target.UID), target.Name, c.now())
	return c.patch(ctx, "fence", source, before)
}

// begin gives a target the name of the fence under which it is copied.
func (c *Controller) begin(ctx context.Context, source, target *topolvmv1.LogicalVolume) error {
	before := target.DeepCopy()
	metav1.SetMetaDataAnnotation(&target.ObjectMeta, wellknown.FenceTimeAnnotation, fence.Name(source))
	fence.SetProgress(target, fence.Progress{Time: c.now()})
	if err := c.patch(ctx, "begin to copy to", target, before); err != nil {
		return err
	}
	log.FromContext(ctx).Info("begin to copy a thick volume to its clone", "logicalVolume", target.Name, "source",
		source.Name, "from", source.Spec.NodeName, "to", target.Spec.NodeName)
	return nil
}

// recordProgress records how far a target is copied, so that another operator knows since when it is not continued.
func (c *Controller) recordProgress(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	before := lv.DeepCopy()
	fence.SetProgress(lv, fence.ProgressOfClone(lv, c.now()))
	return c.patch(ctx, "record the progress of", lv, before)
}

// unfence requests that the node agent opens the source again.
func (c *Controller) unfence(ctx context.Context, source *topolvmv1.LogicalVolume) error {
	before := source.DeepCopy()
	fence.Withdraw(source)
	if err := c.patch(ctx, "remove the fence of", source, before); err != nil {
		return err
	}
	log.FromContext(ctx).Info("removed the fence of a clone", "logicalVolume", source.Name, "node",
		source.Spec.NodeName)
	return nil
}

// patch changes a LogicalVolume, if it has not changed since it was read.
func (c *Controller) patch(ctx context.Context, verb string, after, before *topolvmv1.LogicalVolume) error {
	err := c.client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("%s LogicalVolume %s on node %s: %w", verb, before.Name, before.Spec.NodeName, err)
	}
	return err
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return builder.ControllerManagedBy(mgr).
		Named("clones").
		Watches(&topolvmv1.LogicalVolume{}, handler.EnqueueRequestsFromMapFunc(sourcesOf)).
		Complete(adapt.Reconciler(c))
}

// sourcesOf returns the sources that a change of a LogicalVolume concerns: that of a clone, and itself if it is fenced
// for one. The last event of a clone that is complete still has its annotation.
func sourcesOf(_ context.Context, object client.Object) []reconcile.Request {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	if !ok {
		return nil
	}
	var requests []reconcile.Request
	if isClone(lv) && lv.Spec.Source != "" {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: lv.Spec.Source}})
	}
	if fence.IsOfClone(fence.Holder(lv)) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: lv.Name}})
	}
	return requests
}

func isClone(lv *topolvmv1.LogicalVolume) bool { return view.CloneVolume(lv) != "" }

// answer is what the status of a target says.
type answer struct {
	lv      *topolvmv1.LogicalVolume
	code    codes.Code
	message string
}
