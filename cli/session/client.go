package session

import (
	"context"
	"errors"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// fieldManager is the owner of the fields that the commands write.
const fieldManager = "kubectl-lvms"

// Scheme has the kinds that the commands read and write.
var Scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(v1alpha1.AddToScheme(Scheme))
	utilruntime.Must(topolvmv1.AddToScheme(Scheme))
	utilruntime.Must(appsv1.AddToScheme(Scheme))
	utilruntime.Must(corev1.AddToScheme(Scheme))
	utilruntime.Must(authenticationv1.AddToScheme(Scheme))
}

// NewClient returns a client for the kinds of the product, Deployments, PersistentVolumes and Pods. It knows their
// resources and so does not discover APIs.
func NewClient(config *rest.Config) (client.Client, error) {
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
	c, err := client.New(config, client.Options{Scheme: Scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	// An operator that is older than the plugin must not drop a field that it does not know.
	return client.WithFieldValidation(client.WithFieldOwner(c, fieldManager), metav1.FieldValidationStrict), nil
}

// WhoAmI returns the name of the user, as the API server knows it.
func WhoAmI(ctx context.Context, c client.Client) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("cannot read your user name, which is recorded: %w", err)
	}
	if review.Status.UserInfo.Username == "" {
		return "", errors.New("cannot read your user name, which is recorded: the API server did not return one")
	}
	return review.Status.UserInfo.Username, nil
}
