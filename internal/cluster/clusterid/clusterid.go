// Package clusterid determines the identity of a cluster, with which its volume groups and logical volumes are tagged.
package clusterid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Identity is the identity of a cluster.
type Identity struct {
	// ID is on OpenShift the cluster ID, which survives an image-based upgrade. On other clusters, it is the identity
	// that the administrator declares, or the UID of the namespace kube-system.
	ID string
	// Former is the UID of the namespace kube-system if it is not the ID. Earlier versions, and clusters without a
	// declared identity, tag with it.
	Former string
}

// Variable is an environment variable of `lvms operator`, `lvms vgmanager`: the declared identity of a cluster that is
// not OpenShift, 1 to 63 letters, digits, dots, dashes and underscores, with a letter or digit at both ends. For the
// operator, it overrides `--cluster-id`, and the operator sets it for the node agents.
const Variable = "CLUSTER_ID"

// pattern matches a declared identity. LVM allows these characters in a tag.
var pattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// Declared returns the identity that the environment, or else a flag, declares, and "" if none does. It returns an
// error if it is not valid.
func Declared(flag string, getenv func(string) string) (string, error) {
	id := cmp.Or(getenv(Variable), flag)
	if id != "" && !pattern.MatchString(id) {
		return "", fmt.Errorf("invalid cluster ID %q (--cluster-id, %s): must be 1 to 63 letters, digits, dots, "+
			"dashes and underscores, with a letter or digit at both ends", id, Variable)
	}
	return id, nil
}

// versionName is the name of the only ClusterVersion.
const versionName = "version"

// Read reads the identity from the API server. declared is the one of Declared. It returns an error if the identity
// cannot be read: another identity would make all volume groups those of another cluster. It also returns an error if
// an identity is declared on OpenShift, which has its own.
func Read(ctx context.Context, reader client.Reader, declared string) (Identity, error) {
	namespace := &corev1.Namespace{}
	if err := reader.Get(ctx, client.ObjectKey{Name: wellknown.ClusterIDNamespace}, namespace); err != nil {
		return Identity{}, fmt.Errorf("read the UID of namespace %s, which identifies the cluster: %w",
			wellknown.ClusterIDNamespace, err)
	}
	if namespace.UID == "" {
		return Identity{}, fmt.Errorf("namespace %s, which identifies the cluster, has no UID",
			wellknown.ClusterIDNamespace)
	}
	version := &configv1.ClusterVersion{}
	err := reader.Get(ctx, client.ObjectKey{Name: versionName}, version)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return identityOf(string(namespace.UID), declared), nil
	case err != nil:
		return Identity{}, fmt.Errorf("read ClusterVersion %s, which identifies the cluster: %w", versionName, err)
	case declared != "":
		return Identity{}, fmt.Errorf("cluster ID %q (--cluster-id, %s): OpenShift has an identity of its own, the "+
			"clusterID of ClusterVersion %s: remove the setting", declared, Variable, versionName)
	case version.Spec.ClusterID == "":
		return Identity{}, errors.New("ClusterVersion version has no clusterID, which identifies the cluster")
	}
	return Identity{ID: string(version.Spec.ClusterID), Former: string(namespace.UID)}, nil
}

// identityOf returns the identity of a cluster that is not OpenShift.
func identityOf(namespace, declared string) Identity {
	if declared == "" || declared == namespace {
		return Identity{ID: namespace}
	}
	return Identity{ID: declared, Former: namespace}
}
