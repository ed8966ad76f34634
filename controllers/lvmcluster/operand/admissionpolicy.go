package operand

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
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

// admissionPolicies keeps the policies that restrict node agents to their own nodes, that restrict the operator to one
// annotation of Pods, and that refuse deletions that would destroy volumes. OLM does not install such objects, and they
// contain the operator's namespace. They are therefore operands, which exist from before the first agent until after
// the last one.
type admissionPolicies struct{}

//go:embed agentpolicies.yaml
var agentPolicyFile []byte

//go:embed operatorpolicies.yaml
var operatorPolicyFile []byte

//go:embed deletionpolicies.yaml
var deletionPolicyFile []byte

// suggestedNamespace is the namespace in the files.
const suggestedNamespace = "openshift-lvm-storage"

// GetName names the manager.
func (admissionPolicies) GetName() string { return "admissionPolicies" }

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=lvms-operator-pods;lvms-logicalvolume-deletion;lvms-installation-deletion;lvms-vg-manager-logicalvolumes;lvms-vg-manager-nodestatuses;lvms-vg-manager-recoveries;lvms-vg-manager-nodes,verbs=get;create;patch;delete

// EnsureCreated applies the policies and their bindings.
func (admissionPolicies) EnsureCreated(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	objects, err := newAdmissionPolicies(cluster, agentPolicyFile, operatorPolicyFile, deletionPolicyFile)
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range objects {
		errs = append(errs, r.Applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(object)))
	}
	return errors.Join(errs...)
}

// EnsureDeleted deletes the bindings and the policies.
func (admissionPolicies) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	return deletePolicies(r, ctx, cluster, agentPolicyFile, operatorPolicyFile, deletionPolicyFile)
}

// deletionPolicies is the step that deletes those admissionPolicies that refuse the deletion of CRDs and of the
// namespace. It deletes them as soon as nothing uses the storage: the API server needs a moment to notice, and must not
// refuse users who wait for the LVMCluster and then delete the CRDs.
type deletionPolicies struct{}

// GetName names the step.
func (deletionPolicies) GetName() string { return "deletionPolicies" }

// EnsureDeleted deletes the bindings and the policies.
func (deletionPolicies) EnsureDeleted(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster) error {
	return deletePolicies(r, ctx, cluster, deletionPolicyFile)
}

func deletePolicies(r Reconciler, ctx context.Context, cluster *lvmv1alpha1.LVMCluster, files ...[]byte) error {
	objects, err := newAdmissionPolicies(cluster, files...)
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range objects {
		metadata := metadataOf(object.GroupVersionKind())
		metadata.ObjectMeta = metav1.ObjectMeta{Name: object.GetName()}
		errs = append(errs, r.Applier.Delete(ctx, r.Live, metadata))
	}
	return errors.Join(errs...)
}

// newAdmissionPolicies builds the policies in files for the operator's namespace.
func newAdmissionPolicies(cluster *lvmv1alpha1.LVMCluster, files ...[]byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, file := range files {
		decoded, err := decodeAll(bytes.ReplaceAll(file, []byte(suggestedNamespace), []byte(cluster.Namespace)))
		if err != nil {
			return nil, fmt.Errorf("admission policies: %w", err)
		}
		objects = append(objects, decoded...)
	}
	for _, object := range objects {
		object.SetLabels(labels(cluster, "admission-policy"))
	}
	return objects, nil
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
