package lvmcluster

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/apply"
)

// InstallationPolicy is a ValidatingAdmissionPolicy of the installation. OLM installs no such policies, so the operator
// creates it when it starts. It is deleted with the kind LVMCluster.
type InstallationPolicy struct {
	live      client.Reader
	applier   *apply.Applier
	namespace string
	file      []byte
	// missing is what may happen without the policy.
	missing string
}

//go:embed namespacepolicy.yaml
var namespacePolicyFile []byte

//go:embed kindpolicy.yaml
var kindPolicyFile []byte

// policyRetryMin and policyRetryMax bound the time between two attempts.
const policyRetryMin, policyRetryMax = time.Second, time.Minute

// clusterCRD is the kind of LVMClusters.
const clusterCRD = "lvmclusters.lvm.topolvm.io"

// NewNamespacePolicy returns the policy that refuses LVMClusters outside of the operator's namespace. The webhook refuses
// them too, but if the operator is installed for its own namespace, the Operator Lifecycle Manager lets the webhook see that
// namespace only. live must not read from a cache.
func NewNamespacePolicy(c client.Client, live client.Reader, namespace string) *InstallationPolicy {
	return &InstallationPolicy{
		live: live, applier: apply.New(c, fieldOwner), namespace: namespace, file: namespacePolicyFile,
		missing: "An LVMCluster in another namespace than the operator's may be accepted, and nobody looks after it",
	}
}

// NewKindPolicy returns the policy that refuses the deletion of the custom resource definitions while there is an
// LVMCluster. live must not read from a cache.
func NewKindPolicy(c client.Client, live client.Reader, namespace string) *InstallationPolicy {
	return &InstallationPolicy{
		live: live, applier: apply.New(c, fieldOwner), namespace: namespace, file: kindPolicyFile,
		missing: "The custom resource definitions can be deleted while there is an LVMCluster, and all volumes with them",
	}
}

// Start applies the policy, and tries again as long as that fails.
func (p *InstallationPolicy) Start(ctx context.Context) error {
	for wait := policyRetryMin; ; wait = min(2*wait, policyRetryMax) {
		err := p.apply(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, p.missing)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=lvms-lvmcluster-namespace;lvms-kinds-in-use,verbs=create;patch
// Who creates a policy needs permission to read its parameters, in all namespaces.
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=lvmclusters.lvm.topolvm.io,verbs=get

func (p *InstallationPolicy) apply(ctx context.Context) error {
	crd := metadataOf(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := p.live.Get(ctx, client.ObjectKey{Name: clusterCRD}, crd); err != nil {
		return fmt.Errorf("CustomResourceDefinition %s: read: %w", clusterCRD, err)
	}
	objects, err := decodeAll(bytes.ReplaceAll(p.file, []byte(suggestedNamespace), []byte(p.namespace)))
	if err != nil {
		return fmt.Errorf("policy of the installation: %w", err)
	}
	for _, object := range objects {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: crd.APIVersion, Kind: crd.Kind, Name: crd.Name, UID: crd.UID}})
		if err := p.applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(object)); err != nil {
			return err
		}
	}
	return nil
}
