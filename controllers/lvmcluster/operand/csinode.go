package operand

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/observe"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
)

// csiNode has no operand. It waits for the kubelets to register and unregister the CSI driver.
type csiNode struct{}

// GetName names the manager.
func (csiNode) GetName() string { return "csiNode" }

// +kubebuilder:rbac:groups=storage.k8s.io,resources=csinodes,verbs=list;watch

// EnsureCreated waits until the driver is registered on every node with a node agent.
func (csiNode) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	csiNodes := &storagev1.CSINodeList{}
	if err := r.Client.List(ctx, csiNodes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list CSINodes: %w", err)
	}
	nodes, err := r.Current.AgentNodes(cluster)
	if err != nil {
		return err
	}
	registered := registeredNodes(csiNodes.Items)
	var missing []string
	for _, node := range nodes {
		if !slices.Contains(registered, node.Name) {
			missing = append(missing, node.Name)
		}
	}
	return notRegistered(missing)
}

func notRegistered(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return waitFor([]string{fmt.Sprintf("CSI driver %s is not yet registered on %s: check the vg-manager Pods "+
		"there",
		wellknown.DriverName, text.List("node", missing))})
}

// EnsureDeleted waits until no kubelet of a ready node has the driver. Other nodes are ignored: their kubelets
// unregister the driver when they return and find no socket.
func (csiNode) EnsureDeleted(r Reconciler, ctx context.Context, _ *lvmv1alpha1.LVMCluster) error {
	csiNodes := &storagev1.CSINodeList{}
	if err := r.Live.List(ctx, csiNodes); err != nil {
		return fmt.Errorf("list CSINodes: %w", err)
	}
	ready, err := r.readyNodes(ctx)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(registeredNodes(csiNodes.Items),
		func(node string) bool { return !slices.Contains(ready, node) })
	if len(left) == 0 {
		return nil
	}
	return waitFor([]string{fmt.Sprintf("CSI driver %s is still registered on %s", wellknown.DriverName,
		text.List("node", left))})
}

// readyNodes returns the names of the nodes that are ready.
func (r Reconciler) readyNodes(ctx context.Context) ([]string, error) {
	nodes := &corev1.NodeList{}
	if err := r.Live.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var names []string
	for _, node := range nodes.Items {
		if observe.NotReady(&node) == "" {
			names = append(names, node.Name)
		}
	}
	return names, nil
}

// registeredNodes returns the sorted names of the nodes on which the driver is registered.
func registeredNodes(csiNodes []storagev1.CSINode) []string {
	var names []string
	for _, csiNode := range csiNodes {
		if HasDriver(&csiNode) {
			names = append(names, csiNode.Name)
		}
	}
	slices.Sort(names)
	return names
}

// HasDriver reports whether the driver is registered on the node of a CSINode.
func HasDriver(csiNode *storagev1.CSINode) bool {
	return slices.ContainsFunc(csiNode.Spec.Drivers,
		func(driver storagev1.CSINodeDriver) bool { return driver.Name == wellknown.DriverName })
}
