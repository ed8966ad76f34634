// Package webhook validates LVMClusters with rules that the schema of the CRD cannot express. Each rule is a function,
// and a response has all violations.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
)

// +kubebuilder:webhookconfiguration:mutating=false,name=lvms-operator-webhook
// +kubebuilder:webhook:path=/validate-lvm-topolvm-io-v1alpha1-lvmcluster,mutating=false,failurePolicy=fail,sideEffects=None,groups=lvm.topolvm.io,resources=lvmclusters,verbs=create;update,versions=v1alpha1,name=vlvmcluster.kb.io,admissionReviewVersions=v1,serviceName=lvms-operator-webhook-service,serviceNamespace=openshift-lvm-storage
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmclusters,namespace=openshift-lvm-storage,verbs=list;watch

// Validator validates LVMClusters.
type Validator struct {
	// Live reads LVMClusters and StorageClasses from the API server: a cache could miss an LVMCluster that was created
	// a moment ago.
	Live client.Reader
	// Cached reads nodes. Their devices are not in a cache.
	Cached client.Reader
	// Namespace is the namespace of the operator.
	Namespace string
}

var _ admission.Validator[*lvmv1alpha1.LVMCluster] = &Validator{}

// Setup registers the validators of LVMClusters, LVMDeviceApprovals and LVMRecoveries with the manager's webhook
// server, for an operator in a namespace.
func Setup(mgr manager.Manager, namespace string) error {
	validator := &Validator{Live: mgr.GetAPIReader(), Cached: mgr.GetClient(), Namespace: namespace}
	approvals := &ApprovalValidator{Namespace: namespace}
	return errors.Join(validator.SetupWithManager(mgr), approvals.SetupWithManager(mgr),
		RecoveryValidator{}.SetupWithManager(mgr))
}

// SetupWithManager registers the validator with the manager's webhook server.
func (v *Validator) SetupWithManager(mgr manager.Manager) error {
	return builder.WebhookManagedBy(mgr, &lvmv1alpha1.LVMCluster{}).WithValidator(v).Complete()
}

// ValidateCreate validates a new LVMCluster.
func (v *Validator) ValidateCreate(ctx context.Context, cluster *lvmv1alpha1.LVMCluster) (admission.Warnings, error) {
	violations := field.ErrorList{}
	if violation := inNamespace(cluster, v.Namespace); violation != nil {
		violations = append(violations, violation)
	}
	others := &lvmv1alpha1.LVMClusterList{}
	if err := v.Live.List(ctx, others, client.InNamespace(v.Namespace)); err != nil {
		return nil, apierrors.NewInternalError(
			fmt.Errorf("list LVMClusters in namespace %s: %w", v.Namespace, err))
	}
	if violation := validateSingleton(cluster, others.Items); violation != nil {
		violations = append(violations, violation)
	}
	violations = append(violations, validateSpec(cluster.Spec)...)
	known, err := v.inventory(ctx)
	if err != nil {
		return nil, err
	}
	classes := cluster.Spec.Storage.DeviceClasses
	violations = append(violations, sizesUsed(nil, classes)...)
	violations = append(violations, known.validateUniqueDevices(nil, classes)...)
	shared, attached := known.sharedDisks(nil, classes)
	violations = append(violations, shared...)
	return slices.Concat(warnings(cluster.Spec), deviceWarnings(nil, classes, known), attached),
		refuse(cluster, violations)
}

// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroups,namespace=openshift-lvm-storage,verbs=list
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=list
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch

// inventory reads the nodes and their node statuses.
func (v *Validator) inventory(ctx context.Context) (inventory, error) {
	nodes := &corev1.NodeList{}
	if err := v.Cached.List(ctx, nodes); err != nil {
		return inventory{}, apierrors.NewInternalError(
			fmt.Errorf("list Nodes: %w", err))
	}
	known := inventory{nodes: nodes.Items, statuses: map[string]lvmv1alpha1.LVMVolumeGroupNodeStatus{}}
	err := paging.Each(ctx, v.Live, &lvmv1alpha1.LVMVolumeGroupNodeStatusList{},
		func(list *lvmv1alpha1.LVMVolumeGroupNodeStatusList) {
			for i := range list.Items {
				status := list.Items[i]
				status.ManagedFields, status.Status.Devices = nil, identities(status.Status.Devices)
				known.statuses[status.Name] = status
			}
		}, client.InNamespace(v.Namespace))
	if err != nil {
		return inventory{}, apierrors.NewInternalError(
			fmt.Errorf("read the devices of the nodes: %w", err))
	}
	return known, nil
}

// ValidateUpdate validates what a change of the spec introduces. It allows all other updates: an LVMCluster that
// violates newer rules must still accept labels, and above all its deletion, which updates finalizers.
func (v *Validator) ValidateUpdate(ctx context.Context,
	before, after *lvmv1alpha1.LVMCluster) (admission.Warnings, error) {
	if !after.DeletionTimestamp.IsZero() || reflect.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	known, err := v.inventory(ctx)
	if err != nil {
		return nil, err
	}
	begun := &lvmv1alpha1.LVMVolumeGroupList{}
	if err := v.Live.List(ctx, begun, client.InNamespace(v.Namespace)); err != nil {
		return nil, apierrors.NewInternalError(
			fmt.Errorf("list LVMVolumeGroups: %w", err))
	}
	present := &storagev1.StorageClassList{}
	if err := v.Live.List(ctx, present); err != nil {
		return nil, apierrors.NewInternalError(
			fmt.Errorf("list StorageClasses: %w", err))
	}
	old := before.Spec.Storage.DeviceClasses
	classes := after.Spec.Storage.DeviceClasses
	shared, attached := known.sharedDisks(old, classes)
	violations := slices.Concat(introduced(before.Spec, after.Spec), classesKept(old, classes),
		optionsKept(old, classes, present.Items), metadataKept(old, classes), sizesUsed(old, classes),
		known.chunksKept(old, classes), wipesNew(old, classes, begun.Items, known),
		wipesByLinks(old, classes, begun.Items, known),
		known.validateUniqueDevices(old, classes), shared)
	return slices.Concat(warnings(after.Spec), deviceWarnings(old, classes, known), attached),
		refuse(after, violations)
}

// ValidateDelete allows every deletion. The deletion then waits until no volume exists, and the status shows what it
// waits for.
func (v *Validator) ValidateDelete(context.Context, *lvmv1alpha1.LVMCluster) (admission.Warnings, error) {
	return nil, nil
}

// refuse returns one error for all violations, or nil if there are none.
func refuse(cluster *lvmv1alpha1.LVMCluster, violations field.ErrorList) error {
	if len(violations) == 0 {
		return nil
	}
	return apierrors.NewInvalid(lvmv1alpha1.GroupVersion.WithKind("LVMCluster").GroupKind(), cluster.Name, violations)
}
