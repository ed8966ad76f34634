package operand

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/monitoring/dashboards"
)

// The OpenShift console shows the dashboards in all ConfigMaps with a given label in one namespace (openshift/console,
// pkg/server).
const (
	DashboardName      = "lvms-dashboard"
	DashboardNamespace = "openshift-config-managed"
	dashboardLabel     = "console.openshift.io/dashboard"
	dashboardFile      = "lvms-dashboard.json"
)

// consoleDashboard keeps the dashboard for the OpenShift console.
type consoleDashboard struct{}

// GetName names the manager.
func (consoleDashboard) GetName() string { return "consoleDashboard" }

// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=lvms-dashboard,verbs=get;list;watch;create;patch;delete

// EnsureCreated applies the dashboard. If the namespace does not exist, the cluster has no console.
func (consoleDashboard) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	err := r.Applier.Apply(ctx, newDashboard(cluster))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// EnsureDeleted deletes the dashboard.
func (consoleDashboard) EnsureDeleted(r Reconciler, ctx context.Context, _ *lvmv1alpha1.LVMCluster) error {
	return r.Applier.Delete(ctx, r.Live, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: DashboardNamespace,
		Name: DashboardName}})
}

// newDashboard builds the ConfigMap. It has no owner reference, because the LVMCluster is in a different namespace.
func newDashboard(cluster *lvmv1alpha1.LVMCluster) *applycorev1.ConfigMapApplyConfiguration {
	all := labels(cluster, "monitoring")
	all[dashboardLabel] = "true"
	return applycorev1.ConfigMap(DashboardName, DashboardNamespace).
		WithLabels(all).
		WithData(map[string]string{dashboardFile: string(dashboards.Console)})
}
