// Package standby keeps additional operators ready on other nodes if a cluster has several. They serve admission, and
// one of them becomes the leader when the current leader is lost. OLM sets the replicas of the Deployment that it
// installs, so the additional operators are a separate Deployment: a copy of the operator's Deployment, which is
// deleted with it.
package standby

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applypolicyv1 "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
)

const (
	// Name is the name of the copy.
	Name = "lvms-operator-standby"
	// Label distinguishes the Pods of the copy from the others.
	Label = "lvm.topolvm.io/standby"

	fieldOwner = "lvms-operator-standby"
	// olmPrefix is the prefix of the labels of the Operator Lifecycle Manager.
	olmPrefix = "olm."
)

// Controller reconciles the copy.
type Controller struct {
	client    client.Client
	live      client.Reader
	applier   *apply.Applier
	namespace string
	most      int
}

// New returns a Controller that keeps up to most additional operators, at most one for each other node. The client may
// read from a cache with the Deployments and PodDisruptionBudgets of the namespace, and the Nodes; live must not.
func New(c client.Client, live client.Reader, namespace string, most int) *Controller {
	return &Controller{client: c, live: live, applier: apply.New(c, fieldOwner), namespace: namespace, most: most}
}

// +kubebuilder:rbac:groups=apps,namespace=openshift-lvm-storage,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,namespace=openshift-lvm-storage,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Reconcile applies or deletes the copy. The request is ignored.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	primary, err := installed.Deployment(ctx, c.client, c.namespace)
	if primary == nil || err != nil {
		return reconcile.Result{}, err
	}
	nodes := &corev1.NodeList{}
	if err := c.client.List(ctx, nodes); err != nil {
		return reconcile.Result{}, fmt.Errorf("list nodes: %w", err)
	}
	fitting, err := installed.Places(&primary.Spec.Template, nodes.Items)
	if err != nil {
		return reconcile.Result{}, err
	}
	replicas := min(c.most, fitting-1)
	if replicas < 1 {
		meta := metav1.ObjectMeta{Namespace: c.namespace, Name: Name}
		return reconcile.Result{}, errors.Join(
			apply.IgnoreRemaining(c.applier.Delete(ctx, c.live, &appsv1.Deployment{ObjectMeta: meta})),
			apply.IgnoreRemaining(c.applier.Delete(ctx, c.live, &policyv1.PodDisruptionBudget{ObjectMeta: meta})))
	}
	deployment, err := copyOf(primary, int32(replicas), fitting)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, errors.Join(c.applier.Apply(ctx, deployment), c.applier.Apply(ctx, budgetFor(primary)))
}

// enoughNodes is the number of nodes from which each operator must run on a node of its own. If one of two nodes is
// drained, only the node of the other operator remains: with required anti-affinity the primary would stay Pending.
const enoughNodes = 3

// copyOf returns a Deployment with the Pods of the primary Deployment. If there are enough nodes, each Pod requires a
// node without another operator. The Service of admission selects these Pods too, because they have the labels of the
// primary ones and one more.
func copyOf(primary *appsv1.Deployment, replicas int32, nodes int) (*applyappsv1.DeploymentApplyConfiguration, error) {
	data, err := json.Marshal(primary.Spec.Template)
	if err != nil {
		return nil, fmt.Errorf("copy the Pod template of Deployment %s: %w", installed.Name, err)
	}
	template := &applycorev1.PodTemplateSpecApplyConfiguration{}
	if err := json.Unmarshal(data, template); err != nil {
		return nil, fmt.Errorf("copy the Pod template of Deployment %s: %w", installed.Name, err)
	}
	selector := maps.Clone(primary.Spec.Selector.MatchLabels)
	if selector == nil {
		selector = map[string]string{}
	}
	apart := applycorev1.PodAffinityTerm().WithTopologyKey(corev1.LabelHostname).
		WithLabelSelector(applymetav1.LabelSelector().WithMatchLabels(primary.Spec.Selector.MatchLabels))
	affinity := template.Spec.Affinity
	if affinity == nil {
		affinity = applycorev1.Affinity()
	}
	antiAffinity := applycorev1.PodAntiAffinity()
	if nodes >= enoughNodes {
		antiAffinity.WithRequiredDuringSchedulingIgnoredDuringExecution(apart)
	} else {
		const most = 100
		antiAffinity.WithPreferredDuringSchedulingIgnoredDuringExecution(
			applycorev1.WeightedPodAffinityTerm().WithWeight(most).WithPodAffinityTerm(apart))
	}
	template.Spec.WithAffinity(affinity.WithPodAntiAffinity(antiAffinity))
	selector[Label] = "true"
	template.WithLabels(map[string]string{Label: "true"})
	maps.DeleteFunc(template.Labels, func(key, _ string) bool { return strings.HasPrefix(key, olmPrefix) })
	return applyappsv1.Deployment(Name, primary.Namespace).
		WithLabels(installed.Labels(primary)).
		WithOwnerReferences(installed.Owner(primary)).
		WithSpec(applyappsv1.DeploymentSpec().
			WithReplicas(replicas).
			// With required anti-affinity, a surplus Pod has no free node during an update.
			WithStrategy(applyappsv1.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType).
				WithRollingUpdate(applyappsv1.RollingUpdateDeployment().WithMaxSurge(intstr.FromInt32(0)).
					WithMaxUnavailable(intstr.FromInt32(1)))).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(selector)).
			WithTemplate(template)), nil
}

// budgetFor returns a PodDisruptionBudget that allows the eviction of one operator at a time.
func budgetFor(primary *appsv1.Deployment) *applypolicyv1.PodDisruptionBudgetApplyConfiguration {
	return applypolicyv1.PodDisruptionBudget(Name, primary.Namespace).
		WithLabels(installed.Labels(primary)).
		WithOwnerReferences(installed.Owner(primary)).
		WithSpec(applypolicyv1.PodDisruptionBudgetSpec().WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(primary.Spec.Selector.MatchLabels)))
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	wake := installed.EnqueueOne()
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetName() == installed.Name ||
			o.GetName() == Name
	})
	return builder.ControllerManagedBy(mgr).
		Named("standby").
		Watches(&appsv1.Deployment{}, wake, builder.WithPredicates(ours)).
		Watches(&policyv1.PodDisruptionBudget{}, wake, builder.WithPredicates(ours)).
		Watches(&corev1.Node{}, wake, builder.WithPredicates(installed.PlaceChanged())).
		Complete(adapt.Reconciler(c))
}
