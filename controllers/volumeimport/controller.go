// Package volumeimport creates and moves the objects of logical volumes for LVMRecoveries with the action
// ImportVolumes. The node agent makes the plan. When it is approved, the operator creates the claim, the LogicalVolume
// and the PersistentVolume of each volume, or moves them to the node that has the disks now. The agent then makes the
// existing logical volume the one of the LogicalVolume. No logical volume is created or changed, apart from its tags.
//
// It also recreates PersistentVolumes of TopoLVM before 0.15 for this driver, on request: see migrations. Before that,
// it lets node agents serve them, and is their CSI controller: see legacyVolumes.
//
// Each step can be repeated, so that an operator that was killed continues.
package volumeimport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
)

// Delays before the next attempt.
const (
	// whileWaiting is the delay while a node agent must act.
	whileWaiting = 2 * time.Second
	// whileBlocked is the delay while an administrator must act.
	whileBlocked = 10 * time.Second
)

// Controller performs approved imports.
type Controller struct {
	client    client.Client
	live      client.Reader
	recorder  events.EventRecorder
	namespace string
	now       func() time.Time
	// LegacyServed, if set, is called once: when a volume of the earlier driver is served and the controller of
	// TopoLVM does not run, so that this process has to expand these volumes.
	LegacyServed func()

	mu sync.Mutex
	// done has the volumes of each plan whose objects exist, so that they are not read again while others wait.
	done map[types.UID]progress
}

// progress is what is complete of a plan.
type progress struct {
	plan    string
	volumes map[string]bool
}

// New returns a Controller. The client may read from a cache; live must not.
func New(c client.Client, live client.Reader, recorder events.EventRecorder, namespace string) *Controller {
	return &Controller{client: c, live: live, recorder: recorder, namespace: namespace, now: time.Now,
		done: map[types.UID]progress{}}
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmrecoveries,namespace=openshift-lvm-storage,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmrecoveries/status,namespace=openshift-lvm-storage,verbs=patch

// Reconcile performs the next steps of an approved import, and reports them in the condition ObjectsCreated.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	recovery := &v1alpha1.LVMRecovery{}
	if err := c.client.Get(ctx, request.NamespacedName, recovery); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !isDue(recovery) {
		c.forget(recovery.UID)
		return reconcile.Result{}, nil
	}
	// The cache may have an older plan or approval.
	if err := c.live.Get(ctx, request.NamespacedName, recovery); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !isDue(recovery) {
		return reconcile.Result{}, nil
	}
	r := forged
	var err error
	if recoveryplan.IsApproved(recovery) {
		r, err = c.importAll(ctx, recovery)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := c.report(ctx, recovery, r); err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case r.blocked > 0:
		return reconcile.Result{RequeueAfter: whileBlocked}, nil
	case r.waiting > 0:
		return reconcile.Result{RequeueAfter: whileWaiting}, nil
	}
	return reconcile.Result{}, nil
}

// isDue reports whether the plan of an import is approved, and the node agent has accepted the approval.
func isDue(r *v1alpha1.LVMRecovery) bool {
	created := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionObjectsCreated)
	ended := created != nil && created.Status == metav1.ConditionTrue && created.ObservedGeneration == r.Generation
	return r.Spec.Action == v1alpha1.RecoveryImportVolumes && r.DeletionTimestamp.IsZero() && !ended &&
		r.Status.Phase == v1alpha1.RecoveryRunning && r.Status.Plan != nil && r.Spec.ApprovedPlan == r.Status.Plan.ID
}

// forged is a plan with the approved ID and another content than the one that was approved.
var forged = result{blocked: 1, messages: []string{"the plan in the status is not the one that was approved, " +
	"although it has its ID: nothing of it is done; look at the node agent that wrote it, delete this LVMRecovery, " +
	"and create another one"}}

// result counts the volumes of a plan by their state. messages says why volumes are blocked or what they wait for, at
// most maxMessages.
type result struct {
	complete, waiting, blocked int
	messages                   []string
}

// maxMessages is the maximum number of volumes that the condition describes.
const maxMessages = 5

// importAll performs the next step for each volume that is not complete. A failed request ends it; the next attempt
// continues.
func (c *Controller) importAll(ctx context.Context, recovery *v1alpha1.LVMRecovery) (result, error) {
	var r result
	done := c.progressOf(recovery)
	job := &job{Controller: c, node: recovery.Spec.NodeName, class: recovery.Spec.DeviceClassName,
		group: recovery.Status.Plan.VolumeGroupUUID}
	for _, v := range recovery.Status.Plan.ImportedVolumes {
		if done[v.Name] {
			r.complete++
			continue
		}
		err := job.volume(ctx, v)
		var blocked blockedError
		var waiting waitingError
		switch {
		case err == nil:
			done[v.Name] = true
			r.complete++
			log.FromContext(ctx).Info("imported a volume", "node", job.node, "lv", v.Name, "claim", v.Claim)
		case errors.As(err, &blocked):
			r.blocked++
			r.add(blocked.Error())
		case errors.As(err, &waiting):
			r.waiting++
			r.add(waiting.Error())
		default:
			return r, fmt.Errorf("LVMRecovery %s: volume %s: %w", recovery.Name, v.Name, err)
		}
	}
	return r, nil
}

func (r *result) add(message string) {
	if len(r.messages) < maxMessages {
		r.messages = append(r.messages, message)
	}
}

func (c *Controller) progressOf(recovery *v1alpha1.LVMRecovery) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done[recovery.UID].plan != recovery.Status.Plan.ID {
		c.done[recovery.UID] = progress{plan: recovery.Status.Plan.ID, volumes: map[string]bool{}}
	}
	return c.done[recovery.UID].volumes
}

func (c *Controller) forget(recovery types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.done, recovery)
}

// report writes the condition ObjectsCreated, if it changed. It writes nothing else of the status.
func (c *Controller) report(ctx context.Context, recovery *v1alpha1.LVMRecovery, r result) error {
	condition := metav1.Condition{Type: v1alpha1.ConditionObjectsCreated, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonCreatingObjects, ObservedGeneration: recovery.Generation}
	total := len(recovery.Status.Plan.ImportedVolumes)
	condition.Message = fmt.Sprintf("volumes with all objects: %d of %d", r.complete, total)
	for _, message := range r.messages {
		condition.Message += "; " + message
	}
	switch {
	case r.blocked > 0:
		condition.Reason = v1alpha1.ReasonObjectsBlocked
	case r.complete == total:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonObjectsCreated
	}
	condition.Message = text.Truncate(condition.Message, maxMessage)
	after := recovery.DeepCopy()
	meta.SetStatusCondition(&after.Status.Conditions, condition)
	if equality.Semantic.DeepEqual(recovery.Status, after.Status) {
		return nil
	}
	// The list of conditions is replaced as a whole, and the agent writes another one.
	err := c.client.Status().Patch(ctx, after,
		client.MergeFromWithOptions(recovery, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("LVMRecovery %s: write the condition %s: %w", recovery.Name, condition.Type, err)
	}
	before := meta.FindStatusCondition(recovery.Status.Conditions, condition.Type)
	if err == nil && condition.Reason == v1alpha1.ReasonObjectsBlocked &&
		(before == nil || before.Message != condition.Message) {
		c.recorder.Eventf(after, nil, corev1.EventTypeWarning, condition.Reason, "Import", "%s",
			text.Truncate(condition.Message, maxNote))
	}
	return nil
}

const (
	// maxMessage limits the message of the condition, and maxNote that of an event (1,024 bytes in events.k8s.io/v1).
	maxMessage = 4096
	maxNote    = 1000
)

// CacheByObject limits the manager's cache to the operator's namespace.
func CacheByObject(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&v1alpha1.LVMRecovery{}: {Namespaces: map[string]cache.Config{namespace: {}}},
	}
}

// SetupWithManager starts the controllers with the manager: that of imports, and that of moves that have begun.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	imports := predicate.NewPredicateFuncs(func(object client.Object) bool {
		recovery, is := object.(*v1alpha1.LVMRecovery)
		return is && recovery.Spec.Action == v1alpha1.RecoveryImportVolumes
	})
	if err := (restores{c}).setupWithManager(mgr); err != nil {
		return err
	}
	if err := (moves{c}).setupWithManager(mgr); err != nil {
		return err
	}
	if err := (migrations{c}).setupWithManager(mgr); err != nil {
		return err
	}
	if err := mgr.Add(newLegacyVolumes(c, mgr.GetCache())); err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		Named("volumeimport").
		Watches(&v1alpha1.LVMRecovery{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(imports)).
		Complete(adapt.Reconciler(c))
}

// blockedError is why an administrator must act before the objects of a volume can be created.
type blockedError string

func (e blockedError) Error() string { return string(e) }

func blocked(format string, args ...any) error { return blockedError(fmt.Sprintf(format, args...)) }

// waitingError is what the objects of a volume wait for.
type waitingError string

func (e waitingError) Error() string { return string(e) }

func waiting(format string, args ...any) error { return waitingError(fmt.Sprintf(format, args...)) }
