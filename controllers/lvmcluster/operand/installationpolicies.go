package operand

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// InstallationPolicies are the admission policies that belong to the installation and not to an LVMCluster: those that
// restrict the permissions of node agents, of the operator and of users, because these permissions exist without an
// LVMCluster; and the one that refuses LVMClusters in namespaces that no operator manages. The webhook refuses them
// too, but if the operator is installed for its own namespace only, the Operator Lifecycle Manager restricts the
// webhook to that namespace. OLM does not install admission policies, so the operator creates them when it starts. They
// are deleted with the operator: they must not refuse LVMClusters of an operator that is installed in another namespace
// later.
type InstallationPolicies struct {
	live      client.Reader
	applier   *apply.Applier
	namespace string
}

//go:embed namespacepolicy.yaml
var namespacePolicyFile []byte

//go:embed agentpolicies.yaml
var agentPolicyFile []byte

//go:embed operatorpolicies.yaml
var operatorPolicyFile []byte

//go:embed userpolicies.yaml
var userPolicyFile []byte

// policyRetryMin and policyRetryMax limit the time between two attempts.
const (
	policyRetryMin = time.Second
	policyRetryMax = time.Minute
)

// NewInstallationPolicies returns the policies for a namespace. live must not read from a cache.
func NewInstallationPolicies(c client.Client, live client.Reader, namespace string) *InstallationPolicies {
	return &InstallationPolicies{live: live, applier: NewApplier(c), namespace: namespace}
}

// Start applies the policies and retries until it succeeds.
func (p *InstallationPolicies) Start(ctx context.Context) error {
	for wait := policyRetryMin; ; wait = min(2*wait, policyRetryMax) {
		err := p.Apply(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot install the admission policies: node agents are not started, and "+
				"an LVMCluster may be created in a namespace without an operator")
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
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=lvms-lvmcluster-namespace;lvms-logicalvolume-users;lvms-operator-pods;lvms-vg-manager-logicalvolumes;lvms-vg-manager-nodestatuses;lvms-vg-manager-recoveries;lvms-vg-manager-nodes,verbs=get;create;patch;delete

// Apply applies the policies. It returns an error if the operator is not installed with a Deployment, because nothing
// would delete the policies.
func (p *InstallationPolicies) Apply(ctx context.Context) error {
	ctx, end := liveness.Begin(ctx, "admission policies of the installation")
	defer end()
	owners, err := policyOwners(ctx, p.live, p.namespace)
	if err != nil {
		return err
	}
	objects, err := policiesOf(p.namespace, namespacePolicyFile, agentPolicyFile, operatorPolicyFile, userPolicyFile)
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range objects {
		object.SetOwnerReferences(owners)
		errs = append(errs, p.applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(object)))
	}
	return errors.Join(errs...)
}

// policyOwners returns the owner of the policies: a ClusterRole of the installation.
func policyOwners(ctx context.Context, live client.Reader, namespace string) ([]metav1.OwnerReference, error) {
	deployment, err := installed.Deployment(ctx, live, namespace)
	if err != nil {
		return nil, err
	}
	if deployment == nil {
		return nil, fmt.Errorf("the Deployment %s/%s does not exist or is being deleted: the admission policies are "+
			"not created, because nothing would delete them", namespace, installed.Name)
	}
	owner, err := installed.ClusterOwner(ctx, live, deployment)
	if err != nil {
		return nil, err
	}
	return []metav1.OwnerReference{{APIVersion: *owner.APIVersion, Kind: *owner.Kind, Name: *owner.Name,
		UID: *owner.UID}}, nil
}

// policiesOf returns the objects in files for the operator's namespace.
func policiesOf(namespace string, files ...[]byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, file := range files {
		decoded, err := decodeAll(bytes.ReplaceAll(file, []byte(suggestedNamespace), []byte(namespace)))
		if err != nil {
			return nil, fmt.Errorf("admission policies: %w", err)
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

// IsInstallationPolicy reports whether an object is a policy, or the binding of a policy, that restricts permissions.
func IsInstallationPolicy(object client.Object) bool {
	name := object.GetName()
	return strings.HasPrefix(name, "lvms-vg-manager-") || name == "lvms-operator-pods" ||
		name == "lvms-logicalvolume-users"
}

// keepInstallationPolicies applies the policies that restrict permissions again if somebody has changed or deleted one.
// Their owner is looked up only if one has none.
func (r Reconciler) keepInstallationPolicies(ctx context.Context, namespace string) error {
	objects, err := policiesOf(namespace, agentPolicyFile, operatorPolicyFile, userPolicyFile)
	if err != nil {
		return err
	}
	var errs []error
	var owners []metav1.OwnerReference
	for _, object := range objects {
		present := metadataOf(object.GroupVersionKind())
		err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), present)
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("%s %s: read: %w", object.GetKind(), object.GetName(), err))
			continue
		}
		if len(present.OwnerReferences) > 0 {
			object.SetOwnerReferences(present.OwnerReferences)
		} else {
			if owners == nil {
				if owners, err = policyOwners(ctx, r.Live, namespace); err != nil {
					return errors.Join(append(errs, err)...)
				}
			}
			object.SetOwnerReferences(owners)
		}
		errs = append(errs, r.Applier.Apply(ctx, client.ApplyConfigurationFromUnstructured(object)))
	}
	return errors.Join(errs...)
}
