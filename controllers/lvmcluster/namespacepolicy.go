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

// NamespacePolicy keeps LVMClusters out of namespaces where nobody looks after them. The webhook refuses them too, but of an operator that is
// installed for its own namespace the Operator Lifecycle Manager lets the webhook see that namespace only. OLM installs no such
// policies: so the operator makes it when it starts. It goes with the kind that it is about.
type NamespacePolicy struct {
	live      client.Reader
	applier   *apply.Applier
	namespace string
}

//go:embed namespacepolicy.yaml
var namespacePolicyFile []byte

// policyRetryMin and policyRetryMax bound the time between two attempts.
const policyRetryMin, policyRetryMax = time.Second, time.Minute

// clusterCRD is the kind of LVMClusters.
const clusterCRD = "lvmclusters.lvm.topolvm.io"

// NewNamespacePolicy returns the policy for a namespace. live must not read from a cache.
func NewNamespacePolicy(c client.Client, live client.Reader, namespace string) *NamespacePolicy {
	return &NamespacePolicy{live: live, applier: apply.New(c, fieldOwner), namespace: namespace}
}

// Start applies the policy, and tries again as long as that fails.
func (p *NamespacePolicy) Start(ctx context.Context) error {
	for wait := policyRetryMin; ; wait = min(2*wait, policyRetryMax) {
		err := p.apply(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "An LVMCluster in another namespace than the operator's may be accepted, and nobody looks after it")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=lvms-lvmcluster-namespace,verbs=create;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=lvmclusters.lvm.topolvm.io,verbs=get

func (p *NamespacePolicy) apply(ctx context.Context) error {
	crd := metadataOf(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := p.live.Get(ctx, client.ObjectKey{Name: clusterCRD}, crd); err != nil {
		return fmt.Errorf("CustomResourceDefinition %s: read: %w", clusterCRD, err)
	}
	objects, err := decodeAll(bytes.ReplaceAll(namespacePolicyFile, []byte(suggestedNamespace), []byte(p.namespace)))
	if err != nil {
		return fmt.Errorf("policy about the namespace of LVMClusters: %w", err)
	}
	for _, object := range objects {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: crd.APIVersion, Kind: crd.Kind, Name: crd.Name, UID: crd.UID}})
		if err := p.applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(object)); err != nil {
			return err
		}
	}
	return nil
}
