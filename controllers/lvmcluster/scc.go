package lvmcluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

const (
	sccAPIVersion = "security.openshift.io/v1"
	sccKind       = "SecurityContextConstraints"
)

// openshiftSccs keeps the SecurityContextConstraints that let the node agent run privileged on OpenShift.
type openshiftSccs struct{}

// GetName names the manager.
func (openshiftSccs) GetName() string { return "openshiftSccs" }

// +kubebuilder:rbac:groups=security.openshift.io,resources=securitycontextconstraints,verbs=get;list;watch;create;patch;delete

// EnsureCreated applies the SecurityContextConstraints.
func (openshiftSccs) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(newSCC(cluster)))
}

// EnsureDeleted deletes the SecurityContextConstraints.
func (openshiftSccs) EnsureDeleted(r Reconciler, ctx context.Context, _ *lvmv1alpha1.LVMCluster) error {
	scc := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: sccAPIVersion, Kind: sccKind},
		ObjectMeta: metav1.ObjectMeta{Name: sccName},
	}
	return r.Applier.Delete(ctx, r.Live, scc)
}

// newSCC builds the SecurityContextConstraints: what the DaemonSet needs and its ServiceAccount, nothing and nobody else.
func newSCC(cluster *lvmv1alpha1.LVMCluster) *unstructured.Unstructured {
	scc := unstructuredOperand(sccAPIVersion, sccKind, sccName, labels(cluster, vgManagerName))
	for field, value := range map[string]any{
		"allowHostDirVolumePlugin": true,
		"allowHostIPC":             false,
		"allowHostNetwork":         false,
		"allowHostPID":             true,
		"allowHostPorts":           false,
		"allowPrivilegedContainer": true,
		"readOnlyRootFilesystem":   true,
		"allowPrivilegeEscalation": true,
		"allowedCapabilities":      nil,
		"defaultAddCapabilities":   nil,
		"requiredDropCapabilities": nil,
		"priority":                 nil,
		"runAsUser":                strategy("RunAsAny"),
		"seLinuxContext":           strategy("MustRunAs"),
		"fsGroup":                  strategy("MustRunAs"),
		"supplementalGroups":       strategy("RunAsAny"),
		"volumes":                  []any{"configMap", "emptyDir", "hostPath", "projected", "secret"},
		"users":                    []any{fmt.Sprintf("system:serviceaccount:%s:%s", cluster.Namespace, vgManagerName)},
		"groups":                   []any{},
	} {
		scc.Object[field] = value
	}
	return scc
}

func strategy(name string) map[string]any {
	return map[string]any{"type": name}
}
