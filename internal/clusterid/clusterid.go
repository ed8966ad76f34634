// Package clusterid determines the identity of a cluster, with which its volume groups and logical volumes are tagged.
package clusterid

import (
	"context"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Identity is the identity of a cluster.
type Identity struct {
	// ID is on OpenShift the cluster ID, which survives an image-based upgrade. On other clusters, it is the UID of the
	// namespace kube-system.
	ID string
	// Former is the UID of the namespace kube-system on OpenShift, with which earlier versions tagged. It is "" on
	// other clusters.
	Former string
}

// versionName is the name of the only ClusterVersion.
const versionName = "version"

// Read reads the identity from the API server. It returns an error if it cannot be read: another identity would make
// all volume groups those of another cluster.
func Read(ctx context.Context, reader client.Reader) (Identity, error) {
	namespace := &corev1.Namespace{}
	if err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterIDNamespace}, namespace); err != nil {
		return Identity{}, fmt.Errorf("read the UID of namespace %s, which identifies the cluster: %w",
			v1alpha1.ClusterIDNamespace, err)
	}
	if namespace.UID == "" {
		return Identity{}, fmt.Errorf("namespace %s, which identifies the cluster, has no UID",
			v1alpha1.ClusterIDNamespace)
	}
	version := &configv1.ClusterVersion{}
	err := reader.Get(ctx, client.ObjectKey{Name: versionName}, version)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return Identity{ID: string(namespace.UID)}, nil
	case err != nil:
		return Identity{}, fmt.Errorf("read ClusterVersion %s, which identifies the cluster: %w", versionName, err)
	case version.Spec.ClusterID == "":
		return Identity{}, errors.New("ClusterVersion version has no clusterID, which identifies the cluster")
	}
	return Identity{ID: string(version.Spec.ClusterID), Former: string(namespace.UID)}, nil
}
