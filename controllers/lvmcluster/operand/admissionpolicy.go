package operand

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

var (
	policyKind        = admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy")
	policyBindingKind = admissionv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicyBinding")
)

// admissionPolicies keeps the policies and the webhook that refuse deletions that would destroy volumes, which exist as
// long as the LVMCluster, and the policies of the installation. OLM does not install such objects, and they contain the
// operator's namespace.
type admissionPolicies struct{}

// DeletionWebhook registers the webhook that refuses to delete LogicalVolumes to which something refers. No admission
// policy can look that up.
type DeletionWebhook interface {
	Ensure(ctx context.Context) error
	Remove(ctx context.Context) error
}

//go:embed deletionpolicies.yaml
var deletionPolicyFile []byte

// suggestedNamespace is the namespace in the files.
const suggestedNamespace = "openshift-lvm-storage"

// GetName names the manager.
func (admissionPolicies) GetName() string { return "admissionPolicies" }

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=lvms-installation-deletion,verbs=get;create;patch;delete

// EnsureCreated applies the policies and their bindings.
func (admissionPolicies) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	errs := []error{r.keepInstallationPolicies(ctx, cluster.Namespace), r.Options.DeletionWebhook.Ensure(ctx)}
	objects, err := newDeletionPolicies(cluster)
	if err != nil {
		return err
	}
	for _, object := range objects {
		errs = append(errs, r.Applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(object)))
	}
	return errors.Join(errs...)
}

// EnsureDeleted deletes the webhook, and the bindings and policies that refuse the deletion of CRDs and of the
// namespace. The API server needs a moment to notice, and must not refuse users who wait for the LVMCluster and then
// delete the CRDs: the step is as early as possible.
func (admissionPolicies) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	objects, err := newDeletionPolicies(cluster)
	if err != nil {
		return err
	}
	errs := []error{r.Options.DeletionWebhook.Remove(ctx)}
	for _, object := range objects {
		metadata := metadataOf(object.GroupVersionKind())
		metadata.ObjectMeta = metav1.ObjectMeta{Name: object.GetName()}
		errs = append(errs, r.Applier.Delete(ctx, r.Live, metadata))
	}
	return errors.Join(errs...)
}

// newDeletionPolicies builds the policies that refuse deletions.
func newDeletionPolicies(cluster *lvmv1alpha1.LVMCluster) ([]*unstructured.Unstructured, error) {
	objects, err := policiesOf(cluster.Namespace, deletionPolicyFile)
	for _, object := range objects {
		object.SetLabels(labels(cluster, "admission-policy"))
	}
	return objects, err
}

// decodeAll returns the objects of a file.
func decodeAll(file []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file), len(file)); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}
