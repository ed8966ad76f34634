// Package installed inspects the operator's installation, whatever the installer. From the operator's Deployment it
// derives on which nodes other Pods of the product can run, and which objects are deleted with the operator.
package installed

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// Name is the name of the operator's Deployment. It is also the name of its ClusterRole, unless the Operator Lifecycle
// Manager creates it.
const Name = "lvms-operator"

// nodePrefix is the prefix of the taints for node conditions. Kubernetes adds and removes them, so Places ignores them.
const nodePrefix = "node.kubernetes.io/"

// Deployment returns the operator's Deployment. It returns nil if the Deployment does not exist or is being deleted:
// its dependents are deleted with it.
func Deployment(ctx context.Context, reader client.Reader, namespace string) (*appsv1.Deployment, error) {
	found := &appsv1.Deployment{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: Name}, found)
	if apierrors.IsNotFound(err) || err == nil && !found.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Deployment %s/%s: %w", namespace, Name, err)
	}
	return found, nil
}

// Owner returns an owner reference to the Deployment, for objects in the same namespace.
func Owner(deployment *appsv1.Deployment) *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().WithAPIVersion(appsv1.SchemeGroupVersion.String()).WithKind("Deployment").
		WithName(deployment.Name).WithUID(deployment.UID).WithController(true)
}

// installers are the sets of labels with which an installer marks the objects of one installation: the Operator
// Lifecycle Manager (operator-lifecycle-manager, pkg/lib/ownerutil), and its version 1 (operator-controller,
// internal/operator-controller/labels).
var installers = [][]string{
	{"olm.owner", "olm.owner.namespace", "olm.owner.kind"},
	{"olm.operatorframework.io/owner-kind", "olm.operatorframework.io/owner-name"},
}

// mostRoles is greater than the number of ClusterRoles in an installation.
const mostRoles = 100

// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=list
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=lvms-operator,verbs=get

// ClusterOwner returns an owner reference for cluster-scoped objects, so that they are deleted with the operator. A
// Deployment cannot own them, but a ClusterRole of the installation can: every installer deletes that ClusterRole, and
// deletes the previous one in an upgrade. live must not read from a cache.
func ClusterOwner(ctx context.Context, live client.Reader,
	deployment *appsv1.Deployment) (*applymetav1.OwnerReferenceApplyConfiguration, error) {
	role := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1",
		Kind: "ClusterRole"}}
	selector := marks(deployment)
	if selector == nil {
		if err := live.Get(ctx, client.ObjectKey{Name: Name}, role); err != nil {
			return nil,
				fmt.Errorf("read ClusterRole %s, the owner of cluster-scoped objects: %w", Name, err)
		}
		return clusterOwner(role), nil
	}
	roles := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1",
		Kind: "ClusterRoleList"}}
	if err := live.List(ctx, roles, selector, client.Limit(mostRoles)); err != nil {
		return nil,
			fmt.Errorf("list ClusterRoles with labels %v, one of which is the owner of cluster-scoped objects: %w",
				selector, err)
	}
	role = nil
	for i := range roles.Items {
		if found := &roles.Items[i]; found.DeletionTimestamp.IsZero() && (role == nil || found.Name < role.Name) {
			role = found
		}
	}
	if role == nil {
		return nil, fmt.Errorf("no ClusterRole has the labels %v of Deployment %s/%s: cluster-scoped objects are "+
			"not created, because they would not be deleted with the operator; reinstall the operator",
			selector, deployment.Namespace, deployment.Name)
	}
	return clusterOwner(role), nil
}

func clusterOwner(role *metav1.PartialObjectMetadata) *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().WithAPIVersion("rbac.authorization.k8s.io/v1").WithKind("ClusterRole").WithName(
		role.Name).WithUID(role.UID)
}

// marks returns the labels with which the installer marks the Deployment, or nil if there are none.
func marks(deployment *appsv1.Deployment) client.MatchingLabels {
	for _, keys := range installers {
		found := client.MatchingLabels{}
		for _, key := range keys {
			if value := deployment.Labels[key]; value != "" {
				found[key] = value
			}
		}
		if len(found) == len(keys) {
			return found
		}
	}
	return nil
}

// Labels returns the Deployment's labels with the prefix app.kubernetes.io/. It omits OLM's labels: OLM deletes objects
// that have them and are not in a ClusterServiceVersion.
func Labels(deployment *appsv1.Deployment) map[string]string {
	labels := maps.Clone(deployment.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return !strings.HasPrefix(key, "app.kubernetes.io/") })
	return labels
}

// Places returns the number of nodes on which a Pod can run, regardless of taints for node conditions.
func Places(template *corev1.PodTemplateSpec, nodes []corev1.Node) (int, error) {
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
	count := 0
	for i := range nodes {
		node := &nodes[i]
		matches, err := affinity.Match(node)
		if err != nil {
			return 0, fmt.Errorf("node affinity of Deployment %s: %w", Name, err)
		}
		_, tainted := helpers.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, template.Spec.Tolerations,
			keepsAway, false)
		if matches && !tainted {
			count++
		}
	}
	return count, nil
}

func keepsAway(taint *corev1.Taint) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(taint.Key, nodePrefix)
}

// PlaceChanged returns a predicate for changes of labels or taints, which decide whether a Pod can run on a node.
func PlaceChanged() predicate.Predicate {
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
