// Package alertrules reconciles the PrometheusRule with the recording rules and alerts of the product. The bundle does
// not contain it, because each alert names the address of its runbook, and that address is an option of the
// installation.
package alertrules

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/monitoring/access"
	"github.com/lvm-storage/lvm-operator/monitoring/prometheusrule"
)

const (
	// Name is the name of the PrometheusRule.
	Name       = prometheusrule.Name
	fieldOwner = "lvms-operator-alerts"
)

// The kinds of the Prometheus Operator.
var (
	monitoringGroup = schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}
	monitorKind     = monitoringGroup.WithKind("ServiceMonitor")
	ruleKind        = monitoringGroup.WithKind("PrometheusRule")
)

// Controller reconciles the PrometheusRule.
type Controller struct {
	client              client.Client
	applier             *apply.Applier
	namespace, runbooks string
}

// New returns a Controller for the operator's namespace. runbooks is the result of [Runbooks]. The client may read from
// a cache.
func New(c client.Client, namespace, runbooks string) *Controller {
	return &Controller{client: c, applier: apply.New(c, fieldOwner), namespace: namespace, runbooks: runbooks}
}

// A change of the owner reference, as in an upgrade from 0.1.0, requires permission to delete the object (admission
// plugin OwnerReferencesPermissionEnforcement).
// +kubebuilder:rbac:groups=monitoring.coreos.com,namespace=openshift-lvm-storage,resources=prometheusrules,resourceNames=prometheus-lvmo-rules,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,namespace=openshift-lvm-storage,resources=servicemonitors,resourceNames=lvms-operator-metrics-monitor,verbs=list;watch

// Reconcile applies the PrometheusRule if the ServiceMonitor exists. The ServiceMonitor owns the PrometheusRule, so the
// garbage collector deletes both: without metrics, the alert for an operator that does not answer would fire. The
// request is ignored.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	monitor := Monitor()
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: access.MonitorName}, monitor)
	if apierrors.IsNotFound(err) || err == nil && !monitor.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read ServiceMonitor %s/%s, which must exist before the alerts are "+
			"created: %w", c.namespace, access.MonitorName, err)
	}
	rule, err := c.desired(monitor)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(rule))
}

// desired returns the PrometheusRule with an owner reference to the ServiceMonitor.
func (c *Controller) desired(monitor *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	rule := prometheusrule.New(c.namespace, c.runbooks)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rule)
	if err != nil {
		return nil, fmt.Errorf("PrometheusRule %s/%s: %w", c.namespace, Name, err)
	}
	object := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(object.Object, "status")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: monitoringGroup.String(), Kind: monitorKind.Kind, Name: monitor.Name, UID: monitor.UID,
	}})
	return object, nil
}

// Monitor returns an empty ServiceMonitor with only the metadata, as the cache has it.
func Monitor() *metav1.PartialObjectMetadata { return metadata(monitorKind) }

// metadata returns an empty PartialObjectMetadata of a kind.
func metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// CacheByObject limits the manager's cache to the ServiceMonitor and the PrometheusRule.
func CacheByObject(namespace string) map[client.Object]cache.ByObject {
	one := func(name string) cache.ByObject {
		return cache.ByObject{
			Field:      fields.OneTermEqualSelector("metadata.name", name),
			Namespaces: map[string]cache.Config{namespace: {}},
		}
	}
	return map[client.Object]cache.ByObject{Monitor(): one(access.MonitorName), metadata(ruleKind): one(Name)}
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	wake := installed.EnqueueOne()
	return builder.ControllerManagedBy(mgr).
		Named("alertrules").
		Watches(Monitor(), wake).
		Watches(metadata(ruleKind), wake).
		Complete(adapt.Reconciler(c))
}
