// Package metricsaccess keeps the Role with which OpenShift's Prometheus discovers the metrics endpoints. The Operator
// Lifecycle Manager does not delete Roles of a bundle, so the operator creates the Role itself, and it is deleted with
// the operator.
package metricsaccess

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/monitoring/access"
)

const (
	// Name is the name of the Role and of the RoleBinding.
	Name       = "lvms-metrics"
	fieldOwner = "lvms-operator-metrics"
)

// eventIncomplete is a Warning event on the Deployment of the operator: the Role or the RoleBinding that allows
// OpenShift's Prometheus to discover the metrics could not be applied.
// What to do: see the error in the note; the operator tries again.
var eventIncomplete = event.Warning("MetricsAccessIncomplete", "Reconcile",
	"OpenShift's Prometheus may not be able to discover the metrics: %s")

// Controller reconciles the Role and its RoleBinding.
type Controller struct {
	client    client.Client
	applier   *apply.Applier
	emitter   *event.Emitter
	namespace string
}

// New returns a Controller for the operator's namespace. The client may read from a cache.
func New(c client.Client, recorder event.Recorder, namespace string) *Controller {
	return &Controller{client: c, applier: apply.New(c, fieldOwner), emitter: event.NewEmitter(recorder),
		namespace: namespace}
}

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,namespace=openshift-lvm-storage,resources=roles;rolebindings,resourceNames=lvms-metrics,verbs=list;watch;create;patch
// The operator cannot grant permissions that it does not have. These are the permissions of Prometheus:
// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=services;endpoints;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=openshift-lvm-storage,resources=endpointslices,verbs=get;list;watch

// Reconcile applies the Role and the RoleBinding. The request is ignored.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	operator, err := installed.Deployment(ctx, c.client, c.namespace)
	if operator == nil || err != nil {
		return reconcile.Result{}, err
	}
	manifest := bytes.ReplaceAll(access.Prometheus, []byte(access.Namespace), []byte(operator.Namespace))
	objects, err := installed.Objects(manifest, operator)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("permissions of Prometheus: %w", err)
	}
	var errs []error
	for _, object := range objects {
		errs = append(errs, c.applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(object)))
	}
	if err := errors.Join(errs...); err != nil {
		c.emitter.Emit(operator, eventIncomplete, err)
		return reconcile.Result{}, err
	}
	c.emitter.Clear(operator, eventIncomplete.Reason)
	return reconcile.Result{}, nil
}

// CacheByObject limits the manager's cache to the Role and the RoleBinding.
func CacheByObject(namespace string) map[client.Object]cache.ByObject {
	here := cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", Name),
		Namespaces: map[string]cache.Config{namespace: {}}}
	return map[client.Object]cache.ByObject{&rbacv1.Role{}: here, &rbacv1.RoleBinding{}: here}
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	wake := installed.EnqueueOne()
	primary := builder.WithPredicates(predicate.NewPredicateFuncs(
		func(o client.Object) bool { return o.GetName() == installed.Name }))
	return builder.ControllerManagedBy(mgr).
		Named("metricsaccess").
		Watches(&appsv1.Deployment{}, wake, primary).
		Watches(&rbacv1.Role{}, wake).
		Watches(&rbacv1.RoleBinding{}, wake).
		Complete(c)
}
