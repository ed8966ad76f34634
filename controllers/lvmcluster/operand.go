package lvmcluster

import (
	"encoding/json"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Names of operands and of their labels.
const (
	fieldOwner     = "lvms-operator"
	predecessor    = "lvms" // the field manager of versions that wrote operands by updates
	partOf         = "lvms-provisioner"
	vgManagerName  = "vg-manager"
	sccName        = "lvms-vgmanager"
	kindLVMCluster = "LVMCluster"

	labelName      = "app.kubernetes.io/name"
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelPartOf    = "app.kubernetes.io/part-of"
	labelComponent = "app.kubernetes.io/component"
)

// ownerLabels mark operands with the LVMCluster they belong to. They select what is pruned, so they hold for one
// LVMCluster by name: a cluster that was deleted by force and made again takes its operands over.
func ownerLabels(cluster *lvmv1alpha1.LVMCluster) client.MatchingLabels {
	return client.MatchingLabels{
		lvmv1alpha1.OwnerNameLabel:      labelValue(cluster.Name),
		lvmv1alpha1.OwnerNamespaceLabel: cluster.Namespace,
	}
}

// labels are those of every operand.
func labels(cluster *lvmv1alpha1.LVMCluster, component string) map[string]string {
	all := map[string]string{
		lvmv1alpha1.OwnerUIDLabel:     string(cluster.UID),
		lvmv1alpha1.OwnerGroupLabel:   lvmv1alpha1.GroupVersion.Group,
		lvmv1alpha1.OwnerVersionLabel: lvmv1alpha1.GroupVersion.Version,
		lvmv1alpha1.OwnerKindLabel:    kindLVMCluster,
		labelManagedBy:                fieldOwner,
		labelPartOf:                   partOf,
		labelComponent:                component,
	}
	maps.Copy(all, ownerLabels(cluster))
	return all
}

// labelValue cuts a name to what a label can hold.
func labelValue(name string) string {
	const limit = 63
	if len(name) <= limit {
		return name
	}
	return strings.TrimRight(name[:limit], "-.")
}

// ownerReference makes a namespaced operand belong to the LVMCluster.
func ownerReference(cluster *lvmv1alpha1.LVMCluster) *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().
		WithAPIVersion(lvmv1alpha1.GroupVersion.String()).
		WithKind(kindLVMCluster).
		WithName(cluster.Name).
		WithUID(cluster.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}

// typed applies an object of a kind that has no apply configuration, with every field that its type does not omit.
type typed struct{ client.Object }

// IsApplyConfiguration marks it as one.
func (typed) IsApplyConfiguration() {}

// MarshalJSON returns the object as it goes over the wire.
func (t typed) MarshalJSON() ([]byte, error) { return json.Marshal(t.Object) }

func typeMeta(kind schema.GroupVersionKind) metav1.TypeMeta {
	apiVersion, name := kind.ToAPIVersionAndKind()
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: name}
}

// ownedOperand begins a namespaced operand of our own kinds.
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

// belongs reports whether a namespaced object is an operand: an LVMVolumeGroup that somebody made by hand is not.
func belongs(object client.Object, cluster *lvmv1alpha1.LVMCluster) bool {
	return metav1.IsControlledBy(object, cluster) ||
		object.GetLabels()[lvmv1alpha1.OwnerNameLabel] == labelValue(cluster.Name)
}
