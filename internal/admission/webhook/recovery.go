package webhook

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
)

// The configuration in config/webhook has conditions, so that the API server calls the webhook for imports only, and
// it fails then. The Operator Lifecycle Manager has no conditions for webhooks, so its webhook is for all recoveries
// and is ignored if the operator does not answer: a recovery that does not need the operator can always be approved.
// +kubebuilder:webhook:path=/validate-lvm-topolvm-io-v1alpha1-lvmrecovery,mutating=false,failurePolicy=ignore,sideEffects=None,groups=lvm.topolvm.io,resources=lvmrecoveries;lvmrecoveries/status,verbs=create;update,versions=v1alpha1,name=vlvmrecovery.kb.io,admissionReviewVersions=v1,serviceName=lvms-operator-webhook-service,serviceNamespace=openshift-lvm-storage

// RecoveryValidator validates the plans of imports. The operator acts on such a plan, and the node agent writes it. Of
// the ID of a plan, which is approved, only the product knows the content that it is for: without this check, an agent
// could show one plan with the ID of another one.
type RecoveryValidator struct{}

var _ admission.Validator[*lvmv1alpha1.LVMRecovery] = RecoveryValidator{}

// SetupWithManager registers the validator with the manager's webhook server.
func (v RecoveryValidator) SetupWithManager(mgr manager.Manager) error {
	return builder.WebhookManagedBy(mgr, &lvmv1alpha1.LVMRecovery{}).WithValidator(v).Complete()
}

// ValidateCreate refuses a new import that is already approved: it has no plan.
func (v RecoveryValidator) ValidateCreate(ctx context.Context,
	recovery *lvmv1alpha1.LVMRecovery) (admission.Warnings, error) {
	without := recovery.DeepCopy()
	without.Spec.ApprovedPlan = ""
	without.Status = lvmv1alpha1.LVMRecoveryStatus{}
	created := recovery.DeepCopy()
	created.Status = lvmv1alpha1.LVMRecoveryStatus{}
	return v.ValidateUpdate(ctx, without, created)
}

// ValidateUpdate refuses the approval of an import for another plan than the status shows, and a plan of an import
// whose ID is not that of its content. It allows all other updates.
func (v RecoveryValidator) ValidateUpdate(_ context.Context,
	before, after *lvmv1alpha1.LVMRecovery) (admission.Warnings, error) {
	if after.Spec.Action != lvmv1alpha1.RecoveryImportVolumes {
		return nil, nil
	}
	var violations field.ErrorList
	if after.Spec.ApprovedPlan != "" && after.Spec.ApprovedPlan != before.Spec.ApprovedPlan {
		violations = append(violations, approvalOfPlan(after)...)
	}
	if after.Status.Plan != nil && !equality.Semantic.DeepEqual(before.Status.Plan, after.Status.Plan) &&
		!recoveryplan.IsGenuine(after) {
		violations = append(violations, field.Invalid(field.NewPath("status", "plan", "id"), after.Status.Plan.ID,
			"it is not the ID of the content of the plan: only the node agent writes the plan of an import, with the "+
				"version of LVM Storage that the operator has"))
	}
	if len(violations) == 0 {
		return nil, nil
	}
	return nil, apierrors.NewInvalid(lvmv1alpha1.GroupVersion.WithKind("LVMRecovery").GroupKind(), after.Name,
		violations)
}

// approvalOfPlan returns why the plan of an import in the status is not what spec.approvedPlan approves, or nil.
func approvalOfPlan(recovery *lvmv1alpha1.LVMRecovery) field.ErrorList {
	problem := ""
	switch plan := recovery.Status.Plan; {
	case recoveryplan.IsApproved(recovery):
		return nil
	case plan == nil:
		problem = "the LVMRecovery has no plan yet: wait for the phase AwaitingApproval, read status.plan, and " +
			"approve its ID"
	case plan.ID != recovery.Spec.ApprovedPlan:
		problem = fmt.Sprintf("the plan in the status is another one, with the ID %q: read status.plan again before "+
			"you approve its ID", plan.ID)
	default:
		problem = fmt.Sprintf("it is not the ID of the plan that the status shows, so something else would be "+
			"approved: delete the LVMRecovery, and find out who changed its status; if the node agent of node %q "+
			"has an older version than the operator, wait for its update, and create the LVMRecovery again",
			recovery.Spec.NodeName)
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "approvedPlan"), recovery.Spec.ApprovedPlan, problem)}
}

// ValidateDelete allows every deletion.
func (v RecoveryValidator) ValidateDelete(context.Context, *lvmv1alpha1.LVMRecovery) (admission.Warnings, error) {
	return nil, nil
}
