package session

import (
	"context"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
)

// DefaultNamespace is the namespace of the operator that is read if the user may not list in all namespaces.
const DefaultNamespace = "openshift-lvm-storage"

// The resources that the commands read.
const (
	ClustersResource     = "lvmclusters.lvm.topolvm.io"
	NodeStatusesResource = "lvmvolumegroupnodestatuses.lvm.topolvm.io"
	RecoveriesResource   = "lvmrecoveries.lvm.topolvm.io"
	ApprovalsResource    = "lvmdeviceapprovals.lvm.topolvm.io"
	MovesResource        = "volumemoves.lvm.topolvm.io"
	VolumesResource      = "logicalvolumes.topolvm.io"
	DeploymentsResource  = "deployments.apps"
	// PersistentVolumesResource is in the core API group.
	PersistentVolumesResource = "persistentvolumes"
)

// Source reads the objects of the product.
type Source struct {
	Client client.Client
	// Namespace is the namespace of the operator, or "" for all namespaces.
	Namespace string
	// Notes say what was not read.
	Notes []string
}

// Clusters returns the LVMClusters.
func (s *Source) Clusters(ctx context.Context) ([]v1alpha1.LVMCluster, error) {
	return listNamespaced(ctx, s, ClustersResource, &v1alpha1.LVMClusterList{},
		func(page *v1alpha1.LVMClusterList) []v1alpha1.LVMCluster { return page.Items })
}

// NodeStatuses returns the node statuses.
func (s *Source) NodeStatuses(ctx context.Context) ([]v1alpha1.LVMVolumeGroupNodeStatus, error) {
	return listNamespaced(ctx, s, NodeStatusesResource, &v1alpha1.LVMVolumeGroupNodeStatusList{},
		func(page *v1alpha1.LVMVolumeGroupNodeStatusList) []v1alpha1.LVMVolumeGroupNodeStatus {
			return page.Items
		})
}

// Recoveries returns the LVMRecoveries.
func (s *Source) Recoveries(ctx context.Context) ([]v1alpha1.LVMRecovery, error) {
	return listNamespaced(ctx, s, RecoveriesResource, &v1alpha1.LVMRecoveryList{},
		func(page *v1alpha1.LVMRecoveryList) []v1alpha1.LVMRecovery { return page.Items })
}

// Volumes returns the LogicalVolumes of the cluster.
func (s *Source) Volumes(ctx context.Context) ([]topolvmv1.LogicalVolume, error) {
	volumes, err := List(ctx, s.Client, &topolvmv1.LogicalVolumeList{},
		func(page *topolvmv1.LogicalVolumeList) []topolvmv1.LogicalVolume { return page.Items })
	return volumes, ExplainList(err, VolumesResource, "in the cluster")
}

// listNamespaced lists the objects in the namespace of the operator or, if it is not given, in all namespaces. If the
// user may not list in all namespaces, it lists in the default namespace, and notes that.
func listNamespaced[L client.ObjectList, T any](ctx context.Context, s *Source, resource string, empty L,
	items func(L) []T) ([]T, error) {
	found, err := List(ctx, s.Client, empty, items, client.InNamespace(s.Namespace))
	if s.Namespace != "" {
		return found, ExplainList(err, resource, "in the namespace "+s.Namespace)
	}
	if !apierrors.IsForbidden(err) {
		return found, ExplainList(err, resource, "in all namespaces")
	}
	found, err = List(ctx, s.Client, empty, items, client.InNamespace(DefaultNamespace))
	if err != nil {
		return nil, ExplainList(err, resource, "in all namespaces or in the namespace "+DefaultNamespace)
	}
	s.Notes = append(s.Notes, fmt.Sprintf("You may not list %s in all namespaces, so only those in the namespace %s "+
		"were read.", resource, DefaultNamespace))
	return found, nil
}

// List returns the objects of all pages.
func List[L client.ObjectList, T any](ctx context.Context, reader client.Reader, empty L, items func(L) []T,
	options ...client.ListOption) ([]T, error) {
	var all []T
	err := paging.Each(ctx, reader, empty, func(page L) { all = append(all, items(page)...) }, options...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Moves returns the VolumeMoves.
func (s *Source) Moves(ctx context.Context) ([]v1alpha1.VolumeMove, error) {
	return listNamespaced(ctx, s, MovesResource, &v1alpha1.VolumeMoveList{},
		func(page *v1alpha1.VolumeMoveList) []v1alpha1.VolumeMove { return page.Items })
}

// PersistentVolumes returns all PersistentVolumes.
func (s *Source) PersistentVolumes(ctx context.Context) ([]corev1.PersistentVolume, error) {
	pvs, err := List(ctx, s.Client, &corev1.PersistentVolumeList{},
		func(page *corev1.PersistentVolumeList) []corev1.PersistentVolume { return page.Items })
	return pvs, ExplainList(err, PersistentVolumesResource, "in the cluster")
}

// Source returns the source of objects in the namespace of the operator, or in all namespaces if it is "".
func (e *Environment) Source(namespace string) (*Source, error) {
	c, err := e.Connect()
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the cluster: %w", err)
	}
	return &Source{Client: c, Namespace: namespace}, nil
}

// ReadNodes returns the status of one node, or of all nodes if the name is empty. A node without a status is an error.
func (e *Environment) ReadNodes(ctx context.Context, o *output.Options,
	name string) ([]v1alpha1.LVMVolumeGroupNodeStatus, *Source, error) {
	if err := o.Validate(); err != nil {
		return nil, nil, err
	}
	s, err := e.Source(e.Namespace())
	if err != nil {
		return nil, nil, err
	}
	nodes, err := s.NodeStatuses(ctx)
	if err != nil {
		return nil, nil, err
	}
	nodes, err = objects.OnNode(nodes, name)
	return nodes, s, err
}
