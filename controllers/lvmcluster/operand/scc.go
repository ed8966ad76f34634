package operand

import (
	"context"
	"fmt"

	securityv1 "github.com/openshift/api/security/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

var sccKind = securityv1.GroupVersion.WithKind("SecurityContextConstraints")

// openshiftSccs keeps the SecurityContextConstraints that allow the node agent to run privileged on OpenShift.
type openshiftSccs struct{}

// GetName names the manager.
func (openshiftSccs) GetName() string { return "openshiftSccs" }

// +kubebuilder:rbac:groups=security.openshift.io,resources=securitycontextconstraints,verbs=list;watch
// +kubebuilder:rbac:groups=security.openshift.io,resources=securitycontextconstraints,resourceNames=lvms-vgmanager,verbs=get;create;patch;delete

// EnsureCreated applies the SecurityContextConstraints.
func (openshiftSccs) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Apply(ctx, typed{newSCC(cluster)})
}

// EnsureDeleted deletes the SecurityContextConstraints.
func (openshiftSccs) EnsureDeleted(r Reconciler, ctx context.Context, _ *lvmv1alpha1.LVMCluster) error {
	scc := metadataOf(sccKind)
	scc.Name = sccName
	return r.Applier.Delete(ctx, r.Live, scc)
}

// newSCC builds the SecurityContextConstraints. They allow only what the DaemonSet needs, and only to its
// ServiceAccount. The result is not an apply configuration, which omits null and empty lists: the CRD requires some of
// the fields that are null here.
func newSCC(cluster *lvmv1alpha1.LVMCluster) *securityv1.SecurityContextConstraints {
	privilegeEscalation := true
	return &securityv1.SecurityContextConstraints{
		TypeMeta:                 typeMeta(sccKind),
		ObjectMeta:               metav1.ObjectMeta{Name: sccName, Labels: labels(cluster, AgentName)},
		AllowHostDirVolumePlugin: true,
		AllowHostPID:             true,
		AllowPrivilegedContainer: true,
		AllowPrivilegeEscalation: &privilegeEscalation,
		ReadOnlyRootFilesystem:   true,
		RunAsUser:                securityv1.RunAsUserStrategyOptions{Type: securityv1.RunAsUserStrategyRunAsAny},
		SELinuxContext:           securityv1.SELinuxContextStrategyOptions{Type: securityv1.SELinuxStrategyMustRunAs},
		FSGroup:                  securityv1.FSGroupStrategyOptions{Type: securityv1.FSGroupStrategyMustRunAs},
		SupplementalGroups: securityv1.SupplementalGroupsStrategyOptions{
			Type: securityv1.SupplementalGroupsStrategyRunAsAny},
		Volumes: []securityv1.FSType{
			securityv1.FSTypeConfigMap, securityv1.FSTypeEmptyDir, securityv1.FSTypeHostPath, securityv1.FSProjected,
			securityv1.FSTypeSecret,
		},
		Users:  []string{fmt.Sprintf("system:serviceaccount:%s:%s", cluster.Namespace, AgentName)},
		Groups: []string{},
	}
}
