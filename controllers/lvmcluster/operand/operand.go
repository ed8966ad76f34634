// Package operand keeps the objects that an LVMCluster needs. Each kind has a manager, which builds the desired object
// with a pure function, applies it, waits until it is ready, and deletes it. Package observe reads the state of the
// cluster on which a manager decides, once for each reconcile.
package operand

import (
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
)

const (
	// FieldOwner is the operator's field manager.
	FieldOwner = "lvms-operator"
	// AgentName is the name of the DaemonSet of the node agent and of its ServiceAccount.
	AgentName = "vg-manager"
)

// Names of operands and of their labels.
const (
	predecessor    = "lvms" // field manager of older versions, which wrote operands with updates
	partOf         = "lvms-provisioner"
	sccName        = "lvms-vgmanager"
	kindLVMCluster = "LVMCluster"

	labelName      = "app.kubernetes.io/name"
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelPartOf    = "app.kubernetes.io/part-of"
	labelComponent = "app.kubernetes.io/component"
)

// NewApplier returns the Applier of operands.
func NewApplier(c client.Client) *apply.Applier { return apply.New(c, FieldOwner, predecessor) }

// ownerLabels returns the labels that mark the operands of an LVMCluster and select what Prune deletes. They identify
// the LVMCluster by name: an LVMCluster that is recreated after a forced deletion takes over its operands.
func ownerLabels(cluster *lvmv1alpha1.LVMCluster) client.MatchingLabels {
	return client.MatchingLabels{
		wellknown.OwnerNameLabel:      observe.OwnerName(cluster),
		wellknown.OwnerNamespaceLabel: cluster.Namespace,
	}
}

// labels returns the labels of every operand.
func labels(cluster *lvmv1alpha1.LVMCluster, component string) map[string]string {
	all := map[string]string{
		wellknown.OwnerUIDLabel:     string(cluster.UID),
		wellknown.OwnerGroupLabel:   lvmv1alpha1.GroupVersion.Group,
		wellknown.OwnerVersionLabel: lvmv1alpha1.GroupVersion.Version,
		wellknown.OwnerKindLabel:    kindLVMCluster,
		labelManagedBy:              FieldOwner,
		labelPartOf:                 partOf,
		labelComponent:              component,
	}
	maps.Copy(all, ownerLabels(cluster))
	return all
}

// ownerReference returns a controller owner reference to the LVMCluster, for namespaced operands.
func ownerReference(cluster *lvmv1alpha1.LVMCluster) *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().
		WithAPIVersion(lvmv1alpha1.GroupVersion.String()).
		WithKind(kindLVMCluster).
		WithName(cluster.Name).
		WithUID(cluster.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}

// typed is an apply configuration for a kind that has none. It sends every field that the type does not omit.
type typed struct{ client.Object }

// IsApplyConfiguration implements runtime.ApplyConfiguration.
func (typed) IsApplyConfiguration() {}

// MarshalJSON returns the JSON of the object.
func (t typed) MarshalJSON() ([]byte, error) { return json.Marshal(t.Object) }

// metadataOf returns an empty PartialObjectMetadata of a kind: the client reads and caches only metadata.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: typeMeta(kind)}
}

func typeMeta(kind schema.GroupVersionKind) metav1.TypeMeta {
	apiVersion, name := kind.ToAPIVersionAndKind()
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: name}
}

// ownedOperand returns a new namespaced operand of one of the product's own kinds, with labels and owner reference.
func ownedOperand(cluster *lvmv1alpha1.LVMCluster, kind, name, component string) *unstructured.Unstructured {
	operand := &unstructured.Unstructured{}
	operand.SetGroupVersionKind(lvmv1alpha1.GroupVersion.WithKind(kind))
	operand.SetName(name)
	operand.SetLabels(labels(cluster, component))
	operand.SetNamespace(cluster.Namespace)
	yes := true
	operand.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: lvmv1alpha1.GroupVersion.String(), Kind: kindLVMCluster, Name: cluster.Name, UID: cluster.UID,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}})
	return operand
}
