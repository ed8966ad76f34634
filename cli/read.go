package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
)

// defaultNamespace is the namespace of the operator that is read if the user may not list in all namespaces.
const defaultNamespace = "openshift-lvm-storage"

// The resources that the commands read.
const (
	clustersResource     = "lvmclusters.lvm.topolvm.io"
	nodeStatusesResource = "lvmvolumegroupnodestatuses.lvm.topolvm.io"
	recoveriesResource   = "lvmrecoveries.lvm.topolvm.io"
	approvalsResource    = "lvmdeviceapprovals.lvm.topolvm.io"
	movesResource        = "volumemoves.lvm.topolvm.io"
	volumesResource      = "logicalvolumes.topolvm.io"
	deploymentsResource  = "deployments.apps"
	// persistentVolumesResource is in the core API group.
	persistentVolumesResource = "persistentvolumes"
)

var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(topolvmv1.AddToScheme(scheme))
	utilruntime.Must(appsv1.AddToScheme(scheme))
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(authenticationv1.AddToScheme(scheme))
}

// newClient returns a client for the kinds of the product, Deployments, PersistentVolumes and Pods. It knows their
// resources and so does not discover APIs.
func newClient(config *rest.Config) (client.Client, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"LVMCluster", "LVMVolumeGroupNodeStatus", "LVMRecovery", "LVMDeviceApproval",
		"VolumeMove"} {
		mapper.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolume"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(topolvmv1.GroupVersion.WithKind("LogicalVolume"), meta.RESTScopeRoot)
	mapper.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	// An operator that is older than the plugin must not drop a field that it does not know.
	return client.WithFieldValidation(client.WithFieldOwner(c, fieldManager), metav1.FieldValidationStrict), nil
}

// source reads the objects of the product.
type source struct {
	client client.Client
	// namespace is the namespace of the operator, or "" for all namespaces.
	namespace string
	// notes say what was not read.
	notes []string
}

var errNotInstalled = errors.New("LVM Storage is not installed in this cluster: the API server does not have its " +
	"APIs. To install it, see https://github.com/lvm-storage/lvm-operator/blob/main/docs/how-to/install.md")

// clusters returns the LVMClusters.
func (s *source) clusters(ctx context.Context) ([]v1alpha1.LVMCluster, error) {
	return listNamespaced(ctx, s, clustersResource, &v1alpha1.LVMClusterList{},
		func(page *v1alpha1.LVMClusterList) []v1alpha1.LVMCluster { return page.Items })
}

// nodeStatuses returns the node statuses.
func (s *source) nodeStatuses(ctx context.Context) ([]v1alpha1.LVMVolumeGroupNodeStatus, error) {
	return listNamespaced(ctx, s, nodeStatusesResource, &v1alpha1.LVMVolumeGroupNodeStatusList{},
		func(page *v1alpha1.LVMVolumeGroupNodeStatusList) []v1alpha1.LVMVolumeGroupNodeStatus {
			return page.Items
		})
}

// recoveries returns the LVMRecoveries.
func (s *source) recoveries(ctx context.Context) ([]v1alpha1.LVMRecovery, error) {
	return listNamespaced(ctx, s, recoveriesResource, &v1alpha1.LVMRecoveryList{},
		func(page *v1alpha1.LVMRecoveryList) []v1alpha1.LVMRecovery { return page.Items })
}

// volumes returns the LogicalVolumes of the cluster.
func (s *source) volumes(ctx context.Context) ([]topolvmv1.LogicalVolume, error) {
	volumes, err := list(ctx, s.client, &topolvmv1.LogicalVolumeList{},
		func(page *topolvmv1.LogicalVolumeList) []topolvmv1.LogicalVolume { return page.Items })
	return volumes, explain(err, volumesResource, "in the cluster")
}

// listNamespaced lists the objects in the namespace of the operator or, if it is not given, in all namespaces. If the
// user may not list in all namespaces, it lists in the default namespace, and notes that.
func listNamespaced[L client.ObjectList, T any](ctx context.Context, s *source, resource string, empty L,
	items func(L) []T) ([]T, error) {
	found, err := list(ctx, s.client, empty, items, client.InNamespace(s.namespace))
	if s.namespace != "" {
		return found, explain(err, resource, "in the namespace "+s.namespace)
	}
	if !apierrors.IsForbidden(err) {
		return found, explain(err, resource, "in all namespaces")
	}
	found, err = list(ctx, s.client, empty, items, client.InNamespace(defaultNamespace))
	if err != nil {
		return nil, explain(err, resource, "in all namespaces or in the namespace "+defaultNamespace)
	}
	s.notes = append(s.notes, fmt.Sprintf("You may not list %s in all namespaces, so only those in the namespace %s "+
		"were read.", resource, defaultNamespace))
	return found, nil
}

// list returns the objects of all pages.
func list[L client.ObjectList, T any](ctx context.Context, reader client.Reader, empty L, items func(L) []T,
	options ...client.ListOption) ([]T, error) {
	var all []T
	err := paging.Each(ctx, reader, empty, func(page L) { all = append(all, items(page)...) }, options...)
	if err != nil {
		return nil, err
	}
	return all, nil
}

// explain returns an error with the resource that could not be read, and what to do.
func explain(err error, resource, where string) error {
	group := schema.ParseGroupResource(resource)
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return errNotInstalled
	case apierrors.IsForbidden(err):
		return fmt.Errorf("cannot list %s %s: you need the permission for the verb list on the resource %s of the "+
			"API group %s. Ask an administrator of the cluster for it: %w", resource, where, group.Resource,
			nameOfGroup(group), causeOf(err))
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("cannot list %s: the API server does not accept your credentials. Log in again: %w", resource,
			causeOf(err))
	}
	return fmt.Errorf("cannot list %s %s: %w", resource, where, causeOf(err))
}

// nameOfGroup returns the API group as a Role has it. The core group is "".
func nameOfGroup(resource schema.GroupResource) string { return cmp.Or(resource.Group, `""`) }

// causeOf returns an error without the prefix of package paging, which has the type of the list.
func causeOf(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

// single returns a message as one line.
func single(message string) string { return strings.Join(strings.Fields(message), " ") }
