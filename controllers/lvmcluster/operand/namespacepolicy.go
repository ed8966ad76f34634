package operand

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/internal/apply"
)

// NamespacePolicy refuses LVMClusters in namespaces that no operator manages. The webhook refuses them too, but if the
// operator is installed for its own namespace only, the Operator Lifecycle Manager restricts the webhook to that
// namespace. OLM does not install admission policies, so the operator creates this one when it starts. The policy is
// deleted with the operator: it must not refuse LVMClusters of an operator that is installed in another namespace
// later.
type NamespacePolicy struct {
	live      client.Reader
	applier   *apply.Applier
	namespace string
}

//go:embed namespacepolicy.yaml
var namespacePolicyFile []byte

// policyRetryMin and policyRetryMax limit the time between two attempts.
const (
	policyRetryMin = time.Second
	policyRetryMax = time.Minute
)

// NewNamespacePolicy returns the policy for a namespace. live must not read from a cache.
func NewNamespacePolicy(c client.Client, live client.Reader, namespace string) *NamespacePolicy {
	return &NamespacePolicy{live: live, applier: apply.New(c, FieldOwner), namespace: namespace}
}

// Start applies the policy and retries until it succeeds.
func (p *NamespacePolicy) Start(ctx context.Context) error {
	for wait := policyRetryMin; ; wait = min(2*wait, policyRetryMax) {
		err := p.Apply(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err,
				"cannot install the namespace policy: an LVMCluster may be created in a namespace without an operator")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// A change of the owner reference, as in an upgrade, requires permission to delete the object (admission plugin
// OwnerReferencesPermissionEnforcement).
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=lvms-lvmcluster-namespace,verbs=get;create;patch;delete

// Apply applies the policy. It returns an error if the operator is not installed with a Deployment, because nothing
// would delete the policy.
func (p *NamespacePolicy) Apply(ctx context.Context) error {
	deployment, err := installed.Deployment(ctx, p.live, p.namespace)
	if err != nil {
		return err
	}
	if deployment == nil {
		return fmt.Errorf("the Deployment %s/%s does not exist or is being deleted: the policy is not created, "+
			"because nothing would delete it",
			p.namespace, installed.Name)
	}
	owner, err := installed.ClusterOwner(ctx, p.live, deployment)
	if err != nil {
		return err
	}
	objects, err := decodeAll(bytes.ReplaceAll(namespacePolicyFile, []byte(suggestedNamespace), []byte(p.namespace)))
	if err != nil {
		return fmt.Errorf("policy for the namespace of LVMClusters: %w", err)
	}
	for _, object := range objects {
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: *owner.APIVersion, Kind: *owner.Kind,
			Name: *owner.Name, UID: *owner.UID}})
		if err := p.applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(object)); err != nil {
			return err
		}
	}
	return nil
}
