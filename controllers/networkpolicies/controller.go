// Package networkpolicies keeps the NetworkPolicies of the product's Pods. The bundle does not contain them: OLM of
// older OpenShift versions refuses a bundle that does, and in a namespace that is shared with other operators they must
// be deleted with the operator.
package networkpolicies

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
)

const fieldOwner = "lvms-operator-network"

// Controller reconciles the NetworkPolicies.
type Controller struct {
	client    client.Client
	applier   *apply.Applier
	namespace string
}

// New returns a Controller for the operator's namespace. The client may read from a cache.
func New(c client.Client, namespace string) *Controller {
	return &Controller{client: c, applier: apply.New(c, fieldOwner), namespace: namespace}
}

// A change of the owner reference, after the operator's Deployment was created again, requires permission to delete the
// object (admission plugin OwnerReferencesPermissionEnforcement). Red Hat's release policy requires the verb as well
// (Conforma, olm.required_network_policy_rbac_for_operands).
// +kubebuilder:rbac:groups=networking.k8s.io,namespace=openshift-lvm-storage,resources=networkpolicies,verbs=list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,namespace=openshift-lvm-storage,resources=networkpolicies,resourceNames=lvms-default-deny;lvms-operator-allow;lvms-vg-manager-allow,verbs=create;patch;delete

// Reconcile applies the NetworkPolicies. The request is ignored.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	operator, err := installed.Deployment(ctx, c.client, c.namespace)
	if operator == nil || err != nil {
		return reconcile.Result{}, err
	}
	policies, err := installed.Objects(policyFile, operator)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("NetworkPolicies: %w", err)
	}
	var errs []error
	for _, policy := range policies {
		errs = append(errs, c.applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(policy)))
	}
	return reconcile.Result{}, errors.Join(errs...)
}

// policyFile has the policies that allow traffic before the policy that denies the rest, so that no traffic of the
// product is interrupted while they are applied.
//
//go:embed policies.yaml
var policyFile []byte

// CacheByObject limits the manager's cache to the operator's namespace.
func CacheByObject(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&networkingv1.NetworkPolicy{}: {Namespaces: map[string]cache.Config{namespace: {}}},
	}
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	wake := installed.EnqueueOne()
	primary := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == installed.Name })
	return builder.ControllerManagedBy(mgr).
		Named("networkpolicies").
		Watches(&appsv1.Deployment{}, wake, builder.WithPredicates(primary)).
		Watches(&networkingv1.NetworkPolicy{}, wake).
		Complete(adapt.Reconciler(c))
}
