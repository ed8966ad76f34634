// Package standby keeps further operators ready on other nodes, where a cluster has several. They serve admission, and one of them acts
// when the acting one is lost. OLM fixes the replicas of the Deployment that it installs, so they are a Deployment of their own, which is
// that one's copy and goes with it.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applypolicyv1 "k8s.io/client-go/applyconfigurations/policy/v1"
	helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/go-logr/logr"

	"github.com/lvm-storage/lvm-operator/internal/apply"
)

const (
	// Primary is the name of the Deployment that is installed, Name that of its copy.
	Primary = "lvms-operator"
	Name    = "lvms-operator-standby"
	// Label tells the Pods of the copy from the others.
	Label = "lvm.topolvm.io/standby"

	fieldOwner = "lvms-operator-standby"
	// nodePrefix begins the taints by which Kubernetes says what a node suffers. They come and go, and so count for nothing here.
	nodePrefix = "node.kubernetes.io/"
	// olmPrefix begins the labels of the Operator Lifecycle Manager.
	olmPrefix = "olm."
)

// Controller keeps the copy.
type Controller struct {
	client    client.Client
	live      client.Reader
	applier   *apply.Applier
	namespace string
	most      int
}

// New returns a Controller that keeps up to so many further operators: as many as there are other nodes, if these are fewer. The client
// may read from a cache with the Deployments and PodDisruptionBudgets of the namespace, and the Nodes; live must not.
func New(c client.Client, live client.Reader, namespace string, most int) *Controller {
	return &Controller{client: c, live: live, applier: apply.New(c, fieldOwner), namespace: namespace, most: most}
}

// +kubebuilder:rbac:groups=apps,namespace=openshift-lvm-storage,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,namespace=openshift-lvm-storage,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// Reconcile makes the copy what it should be. The request says nothing.
func (c *Controller) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	primary := &appsv1.Deployment{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: Primary}, primary)
	if apierrors.IsNotFound(err) || err == nil && !primary.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil // What it owns goes with it.
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("read Deployment %s/%s: %w", c.namespace, Primary, err)
	}
	nodes := &corev1.NodeList{}
	if err := c.client.List(ctx, nodes); err != nil {
		return reconcile.Result{}, fmt.Errorf("list nodes: %w", err)
	}
	fitting, err := placesFor(&primary.Spec.Template, nodes.Items)
	if err != nil {
		return reconcile.Result{}, err
	}
	replicas := min(c.most, fitting-1)
	if replicas < 1 {
		meta := metav1.ObjectMeta{Namespace: c.namespace, Name: Name}
		return reconcile.Result{}, errors.Join(
			remaining(c.applier.Delete(ctx, c.live, &appsv1.Deployment{ObjectMeta: meta})),
			remaining(c.applier.Delete(ctx, c.live, &policyv1.PodDisruptionBudget{ObjectMeta: meta})))
	}
	deployment, err := copyOf(primary, int32(replicas))
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, errors.Join(c.applier.Apply(ctx, deployment), c.applier.Apply(ctx, budgetFor(primary)))
}

// remaining overlooks that a deletion takes its time: nobody waits for it.
func remaining(err error) error {
	var waits *apply.RemainingError
	if errors.As(err, &waits) {
		return nil
	}
	return err
}

// placesFor counts the nodes on which a Pod can run, whatever the nodes suffer at the moment.
func placesFor(template *corev1.PodTemplateSpec, nodes []corev1.Node) (int, error) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
	count := 0
	for i := range nodes {
		node := &nodes[i]
		matches, err := affinity.Match(node)
		if err != nil {
			return 0, fmt.Errorf("node affinity of Deployment %s: %w", Primary, err)
		}
		_, tainted := helpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, template.Spec.Tolerations, keepsAway, false)
		if matches && !tainted {
			count++
		}
	}
	return count, nil
}

func keepsAway(taint *corev1.Taint) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(taint.Key, nodePrefix)
}

// copyOf is a Deployment with the Pods of the primary one, each on a node without another operator. The Service of admission has them
// too, since their labels are those of the primary one and one more.
func copyOf(primary *appsv1.Deployment, replicas int32) (*applyappsv1.DeploymentApplyConfiguration, error) {
	data, err := json.Marshal(primary.Spec.Template)
	if err != nil {
		return nil, fmt.Errorf("pods of Deployment %s: %w", Primary, err)
	}
	template := &applycorev1.PodTemplateSpecApplyConfiguration{}
	if err := json.Unmarshal(data, template); err != nil {
		return nil, fmt.Errorf("pods of Deployment %s: %w", Primary, err)
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
	template.Spec.WithAffinity(affinity.WithPodAntiAffinity(applycorev1.PodAntiAffinity().WithRequiredDuringSchedulingIgnoredDuringExecution(apart)))
	selector[Label] = "true"
	template.WithLabels(map[string]string{Label: "true"})
	maps.DeleteFunc(template.Labels, func(key, _ string) bool { return strings.HasPrefix(key, olmPrefix) })
	return applyappsv1.Deployment(Name, primary.Namespace).
		WithLabels(labelsOf(primary)).
		WithOwnerReferences(owner(primary)).
		WithSpec(applyappsv1.DeploymentSpec().
			WithReplicas(replicas).
			// A new Pod finds no node while the old ones have them.
			WithStrategy(applyappsv1.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType).
				WithRollingUpdate(applyappsv1.RollingUpdateDeployment().WithMaxSurge(intstr.FromInt32(0)).WithMaxUnavailable(intstr.FromInt32(1)))).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(selector)).
			WithTemplate(template)), nil
}

// budgetFor lets one operator at a time be evicted.
func budgetFor(primary *appsv1.Deployment) *applypolicyv1.PodDisruptionBudgetApplyConfiguration {
	return applypolicyv1.PodDisruptionBudget(Name, primary.Namespace).
		WithLabels(labelsOf(primary)).
		WithOwnerReferences(owner(primary)).
		WithSpec(applypolicyv1.PodDisruptionBudgetSpec().WithMaxUnavailable(intstr.FromInt32(1)).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(primary.Spec.Selector.MatchLabels)))
}

// labelsOf are the labels that say what the primary Deployment is part of. Those of OLM say whose it is: OLM deletes what has them and is
// in no ClusterServiceVersion.
func labelsOf(primary *appsv1.Deployment) map[string]string {
	labels := maps.Clone(primary.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return !strings.HasPrefix(key, "app.kubernetes.io/") })
	return labels
}

func owner(primary *appsv1.Deployment) *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().WithAPIVersion(appsv1.SchemeGroupVersion.String()).WithKind("Deployment").
		WithName(primary.Name).WithUID(primary.UID).WithController(true)
}

// SetupWithManager starts the controller with the manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	wake := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{}}
	})
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetName() == Primary || o.GetName() == Name })
	return builder.ControllerManagedBy(mgr).
		Named("standby").
		Watches(&appsv1.Deployment{}, wake, builder.WithPredicates(ours)).
		Watches(&policyv1.PodDisruptionBudget{}, wake, builder.WithPredicates(ours)).
		Watches(&corev1.Node{}, wake, builder.WithPredicates(placeChanged())).
		Complete(c)
}

// placeChanged passes what makes a node one on which an operator can run, or not.
func placeChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, same := e.ObjectNew.(*corev1.Node)
		return ok && same && (!maps.Equal(before.Labels, after.Labels) || taints(before) != taints(after))
	}}
}

func taints(node *corev1.Node) string {
	var all []string
	for _, taint := range node.Spec.Taints {
		all = append(all, taint.ToString())
	}
	return strings.Join(all, " ")
}
