package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	lvmsevent "github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// Claims deletes the claims of a Node that is removed, if an administrator requested it with an annotation of the Node.
// This is for a lost machine whose workloads need new volumes on other nodes. Without the annotation, claims stay: in
// most cases the disks return with their data.
//
// A Node with the annotation gets a finalizer, so that the controller can act on its removal. If a Node is removed at
// the moment when the annotation is added, its claims stay, which is safe.
type Claims struct {
	client    client.Client
	live      client.Reader
	namespace string
	recorder  lvmsevent.Recorder
}

// NewClaims returns a Claims controller. The client may read from a cache; live must not.
func NewClaims(c client.Client, live client.Reader, namespace string, recorder lvmsevent.Recorder) *Claims {
	return &Claims{client: c, live: live, namespace: namespace, recorder: recorder}
}

// eventNodeRemoved is a Warning event on the PersistentVolumeClaim: its node was removed with the annotation
// `lvm.topolvm.io/release-claims`, and the claim is about to be deleted.
// What to do: nothing; restore its data from a backup, or from the disks of the node if they are intact.
var eventNodeRemoved = lvmsevent.Warning("NodeRemoved", "Release",
	"the claim is being deleted, because node %s with its volume was deleted with the annotation %s; if the disks of "+
		"the node are intact, the data is still on them")

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=list
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;delete
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters,namespace=openshift-lvm-storage,verbs=list

// Reconcile handles one Node.
func (c *Claims) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := c.client.Get(ctx, request.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	asked := asksForRelease(node)
	held := slices.Contains(node.Finalizers, wellknown.NodeFinalizer)
	switch {
	case node.DeletionTimestamp.IsZero() && asked == held:
		return reconcile.Result{}, nil
	case node.DeletionTimestamp.IsZero() && asked:
		// Without an LVMCluster there are no claims to delete, and the operator that would remove the finalizer may
		// soon be removed.
		if used, err := c.used(ctx); err != nil || !used {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, c.setFinalizer(ctx, node, true)
	case !held:
		return reconcile.Result{}, nil
	case !node.DeletionTimestamp.IsZero() && asked:
		if err := c.deleteClaims(ctx, node.Name); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, c.setFinalizer(ctx, node, false)
}

// used reports whether there is an LVMCluster that is not being deleted.
func (c *Claims) used(ctx context.Context) (bool, error) {
	clusters := &lvmv1alpha1.LVMClusterList{}
	if err := c.live.List(ctx, clusters, client.InNamespace(c.namespace)); err != nil {
		return false, fmt.Errorf("list LVMClusters: %w", err)
	}
	return slices.ContainsFunc(clusters.Items,
		func(cluster lvmv1alpha1.LVMCluster) bool { return cluster.DeletionTimestamp.IsZero() }), nil
}

// asksForRelease reports whether a Node has the annotation to delete its claims. The Kubernetes taint out-of-service
// (KEP-2268) does not count: it ends Pods and detaches volumes of a machine that is down, but its disks may be intact.
func asksForRelease(node *corev1.Node) bool {
	return node.Annotations[wellknown.ReleaseClaimsAnnotation] == "true"
}

func (c *Claims) setFinalizer(ctx context.Context, node *corev1.Node, on bool) error {
	after := node.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers,
		func(f string) bool { return f == wellknown.NodeFinalizer })
	if on {
		after.Finalizers = append(after.Finalizers, wellknown.NodeFinalizer)
	}
	// The optimistic lock is necessary because the patch replaces the list of finalizers.
	patch := client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(c.client.Patch(ctx, after, patch, client.FieldOwner(fieldOwner))); err != nil {
		return fmt.Errorf("update the finalizer of node %s: %w", node.Name, err)
	}
	return nil
}

// bound is a claim that is bound to a volume of the node.
type bound struct {
	claim corev1.ObjectReference
	// logicalVolume is the name of the LogicalVolume, and handle the ID of its volume.
	logicalVolume, handle string
}

// deleteClaims deletes the claims that are bound to volumes of a node. The reclaim policy of each PersistentVolume
// decides what happens to its volume.
func (c *Claims) deleteClaims(ctx context.Context, node string) error {
	names := map[string]string{} // by volume ID
	if err := paging.Each(ctx, c.live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			if lv := &list.Items[i]; lv.Spec.NodeName == node && lv.Status.VolumeID != "" {
				names[lv.Status.VolumeID] = lv.Name
			}
		}
	}); err != nil {
		return fmt.Errorf("delete the claims of node %s, which is being deleted: %w", node, err)
	}
	var claims []bound
	if err := paging.Each(ctx, c.live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			pv := &list.Items[i]
			source := pv.Spec.CSI
			if source == nil || source.Driver != wellknown.DriverName || pv.Spec.ClaimRef == nil {
				continue
			}
			if name := names[source.VolumeHandle]; name != "" {
				claims = append(claims, bound{claim: *pv.Spec.ClaimRef, logicalVolume: name,
					handle: source.VolumeHandle})
			}
		}
	}); err != nil {
		return fmt.Errorf("delete the claims of node %s, which is being deleted: %w", node, err)
	}
	var errs []error
	for _, b := range claims {
		isOnNode, err := c.isOnNode(ctx, b, node)
		if err == nil && isOnNode {
			err = c.deleteClaim(ctx, b.claim, node)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// isOnNode reads whether a volume is still on a node. A VolumeMove can have switched it to another node since the lists
// were read: there, its claim and its data must stay. While the switch is not complete, the annotations say so.
func (c *Claims) isOnNode(ctx context.Context, b bound, node string) (bool, error) {
	lv := &topolvmv1.LogicalVolume{}
	err := c.live.Get(ctx, client.ObjectKey{Name: b.logicalVolume}, lv)
	if apierrors.IsNotFound(err) {
		return false, nil // Without the LogicalVolume, it is not known where the volume is.
	}
	if err != nil {
		return false, fmt.Errorf("delete claim %s/%s of node %s, which is being deleted: read LogicalVolume %s: %w",
			b.claim.Namespace, b.claim.Name, node, b.logicalVolume, err)
	}
	isOnNode := lv.Spec.NodeName == node && lv.Status.VolumeID == b.handle && !view.IsBeingSwitched(lv)
	if !isOnNode {
		log.FromContext(ctx).Info("kept a claim of a removed node, because its volume is being moved or was moved",
			"claim", b.claim.Namespace+"/"+b.claim.Name, "node", node, "to", lv.Spec.NodeName)
	}
	return isOnNode, nil
}

// deleteClaim deletes the claim to which a PersistentVolume is bound. It compares the UID, so that it does not delete a
// later claim with the same name.
func (c *Claims) deleteClaim(ctx context.Context, reference corev1.ObjectReference, node string) error {
	claim := &corev1.PersistentVolumeClaim{}
	err := c.live.Get(ctx, types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}, claim)
	if apierrors.IsNotFound(err) || err == nil && (claim.UID != reference.UID || !claim.DeletionTimestamp.IsZero()) {
		return nil
	}
	if err == nil {
		removed := eventNodeRemoved
		c.recorder.Eventf(claim, nil, removed.Type, removed.Reason, removed.Action, removed.Text, node,
			wellknown.ReleaseClaimsAnnotation)
		err = client.IgnoreNotFound(c.client.Delete(ctx, claim, client.Preconditions{UID: &reference.UID}))
	}
	if err != nil {
		return fmt.Errorf("delete claim %s/%s of node %s, which is being deleted: %w", reference.Namespace,
			reference.Name, node, err)
	}
	log.FromContext(ctx).Info("deleted a claim of a removed node", "claim",
		reference.Namespace+"/"+reference.Name, "node", node)
	return nil
}

// SetupWithManager starts the controller with the manager.
func (c *Claims) SetupWithManager(mgr manager.Manager) error {
	concerned := func(object client.Object) bool {
		node, ok := object.(*corev1.Node)
		if !ok {
			return false
		}
		return asksForRelease(node) || slices.Contains(node.Finalizers, wellknown.NodeFinalizer)
	}
	return builder.ControllerManagedBy(mgr).
		Named("node-claims").
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return concerned(e.Object) },
			UpdateFunc: func(e event.UpdateEvent) bool { return concerned(e.ObjectNew) },
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Complete(adapt.Reconciler(c))
}
