package webhook

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// +kubebuilder:webhook:path=/validate-lvm-topolvm-io-v1alpha1-lvmdeviceapproval,mutating=false,failurePolicy=fail,sideEffects=None,groups=lvm.topolvm.io,resources=lvmdeviceapprovals,verbs=create,versions=v1alpha1,name=vlvmdeviceapproval.kb.io,admissionReviewVersions=v1,serviceName=lvms-operator-webhook-service,serviceNamespace=openshift-lvm-storage

// ApprovalValidator validates new LVMDeviceApprovals: an approval has the name of the user who creates it. The schema
// makes it immutable, and the API server sets the time.
type ApprovalValidator struct {
	// Namespace is the namespace of the operator.
	Namespace string
}

var _ admission.Validator[*lvmv1alpha1.LVMDeviceApproval] = &ApprovalValidator{}

// SetupWithManager registers the validator with the manager's webhook server.
func (v *ApprovalValidator) SetupWithManager(mgr manager.Manager) error {
	return builder.WebhookManagedBy(mgr, &lvmv1alpha1.LVMDeviceApproval{}).WithValidator(v).Complete()
}

// ValidateCreate validates a new LVMDeviceApproval.
func (v *ApprovalValidator) ValidateCreate(ctx context.Context,
	approval *lvmv1alpha1.LVMDeviceApproval) (admission.Warnings, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("read who creates an LVMDeviceApproval: %w", err))
	}
	var violations field.ErrorList
	if approval.Namespace != v.Namespace {
		violations = append(violations, field.Invalid(field.NewPath("metadata", "namespace"), approval.Namespace,
			fmt.Sprintf("an LVMDeviceApproval must be created in namespace %q, where the operator runs", v.Namespace)))
	}
	if user := request.UserInfo.Username; approval.Spec.ApprovedBy != user {
		violations = append(violations, field.Invalid(field.NewPath("spec", "approvedBy"), approval.Spec.ApprovedBy,
			fmt.Sprintf("it must be the user who creates the LVMDeviceApproval, which is %q", user)))
	}
	if len(violations) == 0 {
		return nil, nil
	}
	return nil, apierrors.NewInvalid(lvmv1alpha1.GroupVersion.WithKind("LVMDeviceApproval").GroupKind(), approval.Name,
		violations)
}

// ValidateUpdate allows every update: the schema refuses changes of the spec.
func (v *ApprovalValidator) ValidateUpdate(context.Context, *lvmv1alpha1.LVMDeviceApproval,
	*lvmv1alpha1.LVMDeviceApproval) (admission.Warnings, error) {
	return nil, nil
}

// ValidateDelete allows every deletion, which withdraws the approval.
func (v *ApprovalValidator) ValidateDelete(context.Context,
	*lvmv1alpha1.LVMDeviceApproval) (admission.Warnings, error) {
	return nil, nil
}
