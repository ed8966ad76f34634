package volumeimport

import (
	"context"
	"errors"
	"fmt"
	"slices"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport/legacypv"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/topolvm/legacy"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// migrations recreates PersistentVolumes of TopoLVM before 0.15 for this driver, because the driver of a
// PersistentVolume cannot be changed. The requests are PersistentVolumes with MigrateAnnotation. Name, claim and
// logical volume stay. The steps are:
//
//  1. create the LogicalVolume of this driver for the existing logical volume, and wait until the node agent has found
//     it;
//  2. write the new PersistentVolume to an annotation of this LogicalVolume. From then on, the migration is completed
//     like a move: see recreate;
//  3. delete the PersistentVolume, with the reclaim policy Retain, and create the new one;
//  4. remove the finalizer of the earlier LogicalVolume, and delete it.
//
// The first step may have been done by legacyVolumes. The second one waits until the node agent has unstaged the
// volume, and no volume is staged after it. Nothing removes the logical volume: TopoLVM must not serve the earlier
// driver on the node, which each step checks again.
type migrations struct{ *Controller }

// Reconcile performs the next steps of a migration. It writes what the migration waits for to MigrationAnnotation.
func (m migrations) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pv := &corev1.PersistentVolume{}
	if err := m.live.Get(ctx, request.NamespacedName, pv); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !view.MigrationRequested(pv) {
		return reconcile.Result{}, nil
	}
	err := m.migrate(ctx, pv)
	var blocked blockedError
	var waiting waitingError
	switch {
	case err == nil:
		log.FromContext(ctx).Info("migrated a volume to this driver", "lv", pv.Spec.CSI.VolumeHandle, "claim",
			legacypv.ClaimOf(pv))
		return reconcile.Result{}, nil
	case errors.As(err, &blocked):
		return reconcile.Result{RequeueAfter: whileBlocked},
			m.tell(ctx, pv, view.MigrationBlockedPrefix+blocked.Error())
	case errors.As(err, &waiting):
		return reconcile.Result{RequeueAfter: whileWaiting}, m.tell(ctx, pv, "waiting: "+waiting.Error())
	}
	return reconcile.Result{}, fmt.Errorf("migrate PersistentVolume %s: %w", pv.Name, err)
}

// tell writes a message to MigrationAnnotation, if it changed.
func (m migrations) tell(ctx context.Context, pv *corev1.PersistentVolume, message string) error {
	message = text.Truncate(message, maxNote)
	if pv.Annotations[wellknown.MigrationAnnotation] == message {
		return nil
	}
	after := pv.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, wellknown.MigrationAnnotation, message)
	// The UID prevents that the annotation is set on the new PersistentVolume.
	err := m.client.Patch(ctx, after, client.MergeFromWithOptions(pv, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // The next attempt reads it again.
	}
	if err != nil {
		return fmt.Errorf("set annotation %s of PersistentVolume %s: %w", wellknown.MigrationAnnotation, pv.Name, err)
	}
	return nil
}

// +kubebuilder:rbac:groups=topolvm.cybozu.com,resources=logicalvolumes,verbs=get;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csinodes,verbs=get
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get

// migrate performs the next steps for a PersistentVolume. It returns nil if the new one exists.
func (m migrations) migrate(ctx context.Context, pv *corev1.PersistentVolume) error {
	lv := &topolvmv1.LogicalVolume{}
	err := m.live.Get(ctx, client.ObjectKeyFromObject(pv), lv)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read LogicalVolume %s: %w", pv.Name, err)
	}
	if err == nil && isMoving(lv) {
		return m.recreate(ctx, lv)
	}
	facts, err := m.facts(ctx, pv)
	if err != nil {
		return err
	}
	if problem := facts.MigrationProblem(); problem != "" {
		return blockedError(problem)
	}
	j := &job{Controller: m.Controller, node: facts.Old.Spec.NodeName, class: facts.Old.Spec.DeviceClass}
	// It returns an error until the node agent has found the logical volume.
	if err := j.logicalVolume(ctx, legacypv.Import(pv, facts.Old)); err != nil {
		return err
	}
	return m.begin(ctx, pv)
}

// begin writes the new PersistentVolume to the LogicalVolume, which begins the migration, and then performs it.
func (m migrations) begin(ctx context.Context, pv *corev1.PersistentVolume) error {
	lv := &topolvmv1.LogicalVolume{}
	if err := m.live.Get(ctx, client.ObjectKeyFromObject(pv), lv); err != nil {
		return fmt.Errorf("read LogicalVolume %s: %w", pv.Name, err)
	}
	if lv.Status.VolumeID != pv.Spec.CSI.VolumeHandle || !lv.DeletionTimestamp.IsZero() {
		return waiting("LogicalVolume %s has just changed", lv.Name)
	}
	if view.EarlierStaged(lv) != "" {
		return waiting("node %s has not unmounted volume %s yet", lv.Spec.NodeName, lv.Status.VolumeID)
	}
	if err := m.store(ctx, lv, legacypv.ForThisDriver(pv, lv.Spec.NodeName)); err != nil {
		return err
	}
	return m.recreate(ctx, lv)
}

// replaceLegacy deletes a PersistentVolume of the earlier driver, and creates the one for this driver. A Pod may use
// it since the migration was requested, so this is checked again.
func (c *Controller) replaceLegacy(ctx context.Context, lv *topolvmv1.LogicalVolume,
	present, stored *corev1.PersistentVolume) error {
	facts, err := (migrations{c}).facts(ctx, present)
	if err != nil {
		return err
	}
	if problem := facts.UseProblem(); problem != "" {
		return blockedError(problem)
	}
	return c.replace(ctx, lv, present, keepPolicy(legacypv.ForThisDriver(present, lv.Spec.NodeName), stored))
}

// releaseLegacy deletes the LogicalVolume of the earlier driver, but not its logical volume. The annotation keeps the
// node service of that driver away, and without the finalizer the object does not wait for it.
func (c *Controller) releaseLegacy(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	old, err := legacy.Get(ctx, c.live, lv.Name)
	if err != nil || old == nil || old.Status.VolumeID != lv.Status.VolumeID {
		return err
	}
	registered, err := c.driversOf(ctx, lv.Spec.NodeName)
	if err != nil {
		return err
	}
	if slices.Contains(registered, wellknown.EarlierDriverName) {
		return blockedError(legacypv.StillRuns(lv.Spec.NodeName))
	}
	before := old.DeepCopy()
	old.Finalizers = slices.DeleteFunc(old.Finalizers,
		func(f string) bool { return f == wellknown.EarlierVolumeFinalizer })
	metav1.SetMetaDataAnnotation(&old.ObjectMeta, wellknown.EarlierPendingDeletionAnnotation, "true")
	err = c.client.Patch(ctx, old, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err == nil && old.DeletionTimestamp.IsZero() {
		// If the driver changed the object after all, its version is another one.
		err = c.client.Delete(ctx, old, client.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion})
	}
	switch {
	case apierrors.IsConflict(err):
		return waiting("LogicalVolume %s of the API group %s has just changed", old.Name, earlierv1.GroupVersion.Group)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("release LogicalVolume %s of the API group %s: %w", old.Name, earlierv1.GroupVersion.Group,
			err)
	}
	return nil
}

// driversOf returns the names of the CSI drivers that the kubelet of a node has, without the earlier driver if the node
// agent of this product serves it. It returns none for a node that does not exist.
func (c *Controller) driversOf(ctx context.Context, node string) ([]string, error) {
	csiNode := &storagev1.CSINode{}
	err := c.live.Get(ctx, client.ObjectKey{Name: node}, csiNode)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read CSINode %s: %w", node, err)
	}
	var names []string
	for _, driver := range csiNode.Spec.Drivers {
		if driver.Name == wellknown.EarlierDriverName && driver.NodeID == node+wellknown.EarlierNodeIDSuffix {
			continue
		}
		names = append(names, driver.Name)
	}
	return names, nil
}

// facts reads the facts from the API server. If one cannot be read, it returns an error.
func (m migrations) facts(ctx context.Context, pv *corev1.PersistentVolume) (legacypv.Facts, error) {
	facts := legacypv.Facts{PV: pv}
	var err error
	if facts.Old, err = legacy.Get(ctx, m.live, pv.Name); err != nil {
		return facts, err
	}
	if facts.Drivers, err = m.driversOf(ctx, view.NodeOfEarlierVolume(pv)); err != nil {
		return facts, err
	}
	reference := pv.Spec.ClaimRef
	if reference == nil {
		return facts, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err = m.live.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, claim)
	switch {
	case err == nil && claim.UID == reference.UID:
		facts.Claim = claim
	case err != nil && !apierrors.IsNotFound(err):
		return facts, fmt.Errorf("read claim %s: %w", legacypv.ClaimOf(pv), err)
	}
	pods, err := (&job{Controller: m.Controller}).podsIn(ctx, reference.Namespace)
	if err != nil {
		return facts, err
	}
	for i := range pods {
		if relocate.Runs(&pods[i]) && relocate.Uses(&pods[i], reference.Name) {
			facts.Pod = &pods[i]
		}
	}
	return facts, nil
}

func (m migrations) setupWithManager(mgr manager.Manager) error {
	requested := predicate.NewPredicateFuncs(func(object client.Object) bool {
		pv, is := object.(*corev1.PersistentVolume)
		return is && view.MigrationRequested(pv)
	})
	return builder.ControllerManagedBy(mgr).
		Named("volumemigration").
		Watches(&corev1.PersistentVolume{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(requested)).
		Complete(adapt.Reconciler(m))
}
