// Package metricsaccess keeps what OpenShift's Prometheus needs to read the metrics: the ServiceMonitor, and the Role
// with which it discovers the endpoints. The operator creates them itself: the names of the servers in the
// ServiceMonitor contain the operator's namespace, and the Operator Lifecycle Manager does not delete Roles of a
// bundle. They are deleted with the operator.
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

	"github.com/lvm-storage/lvm-operator/controllers/alertrules"
	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/monitoring/access"
)

const (
	// Name is the name of the Role and of the RoleBinding. The ServiceMonitor has the name [access.MonitorName].
	Name       = "lvms-metrics"
	fieldOwner = "lvms-operator-metrics"
)

// eventIncomplete is a Warning event on the Deployment of the operator: the ServiceMonitor, the Role or the RoleBinding
// with which OpenShift's Prometheus reads the metrics could not be applied.
// What to do: see the error in the note; the operator tries again.
var eventIncomplete = event.Warning("MetricsAccessIncomplete", "Reconcile",
	"OpenShift's Prometheus may not be able to read the metrics: %s")

// Controller reconciles the ServiceMonitor, the Role and its RoleBinding.
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
// An upgrade from a bundle with the ServiceMonitor changes its owner reference, which requires permission to delete it.
// +kubebuilder:rbac:groups=monitoring.coreos.com,namespace=openshift-lvm-storage,resources=servicemonitors,resourceNames=lvms-operator-metrics-monitor,verbs=list;watch;create;patch;delete
// The operator cannot grant permissions that it does not have. These are the permissions of Prometheus:
// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=services;endpoints;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,namespace=openshift-lvm-storage,resources=endpointslices,verbs=get;list;watch

// Reconcile applies the ServiceMonitor, the Role and the RoleBinding. The request is ignored.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	operator, err := installed.Deployment(ctx, c.client, c.namespace)
	if operator == nil || err != nil {
		return reconcile.Result{}, err
	}
	var errs []error
	for _, manifest := range [][]byte{access.Prometheus, access.Monitor} {
		manifest = bytes.ReplaceAll(manifest, []byte(access.Namespace), []byte(operator.Namespace))
		objects, err := installed.Objects(manifest, operator)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("objects for Prometheus: %w", err)
		}
		for _, object := range objects {
			errs = append(errs, c.applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(object)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		c.emitter.Emit(operator, eventIncomplete, err)
		return reconcile.Result{}, err
	}
	c.emitter.Clear(operator, eventIncomplete.Reason)
	return reconcile.Result{}, nil
}

// CacheByObject limits the manager's cache to the Role and the RoleBinding. That of the ServiceMonitor is
// alertrules.CacheByObject.
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
		Watches(alertrules.Monitor(), wake).
		Complete(adapt.Reconciler(c))
}
