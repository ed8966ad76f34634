package deletionwebhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	applyadmissionv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/kube/periodic"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
)

const (
	// ConfigurationName is the name of the ValidatingWebhookConfiguration.
	ConfigurationName = "lvms-logicalvolume-deletion"
	// webhookName is in the message of the API server if it cannot call the webhook.
	webhookName = "logicalvolume-deletion.lvm.topolvm.io"

	fieldOwner = "lvms-operator-deletion-webhook"
	// callTimeout is the time that the API server waits for the webhook, in seconds. The webhook reads all
	// PersistentVolumes, claims and snapshots.
	callTimeout = 20
)

// Conditions in CEL for which the API server calls the webhook. It decides without the operator, so that these
// deletions do not depend on it.
const (
	// hasVolume is false for a LogicalVolume that was never created on its node.
	hasVolume = "oldObject.?status.?volumeID.orValue('') != ''"
	// notAllowed is false if an administrator has allowed the deletion.
	notAllowed = "oldObject.metadata.?annotations[?'" + wellknown.AllowDeletionAnnotation + "'].orValue('') != 'true'"
)

// Options configure the registration.
type Options struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Namespace is the namespace of the operator and of the webhook's Service.
	Namespace string
	// Certificate is the certificate of the webhook server.
	Certificate servingcert.Source
}

// Registration keeps the ValidatingWebhookConfiguration, which exists as long as the LVMCluster. The operator creates
// it and not the installation, because the Operator Lifecycle Manager has no conditions for webhooks. It is a Runnable
// of the leader.
type Registration struct {
	options Options
	applier *apply.Applier
	now     func() time.Time

	// mu guards wanted, and keeps Start from creating what Remove deletes at the same time.
	mu sync.Mutex
	// wanted is whether Ensure was called after the last Remove.
	wanted bool
}

// NewRegistration returns the registration.
func NewRegistration(options Options) *Registration {
	return &Registration{options: options, applier: apply.New(options.Client, fieldOwner), now: time.Now}
}

// Start keeps a webhook that Ensure has registered until the context ends: the certificate may be renewed, and somebody
// may delete the registration.
func (r *Registration) Start(ctx context.Context) error {
	periodic.Run(ctx, "registration of the webhook for deletions", r.refresh, func(err error) {
		log.FromContext(ctx).Error(err, "cannot update the webhook for deletions of LogicalVolumes", "object",
			ConfigurationName)
	})
	return nil
}

func (r *Registration) refresh(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.wanted {
		return nil
	}
	return r.apply(ctx)
}

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=lvms-logicalvolume-deletion,verbs=get;create;patch;delete

// Ensure registers the webhook. It returns an error if the webhook server has no certificate yet.
func (r *Registration) Ensure(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = true
	return r.apply(ctx)
}

// Remove deletes the registration. It returns nil if there is none.
func (r *Registration) Remove(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = false
	object, err := r.read(ctx)
	if object == nil || err != nil {
		return err
	}
	if err := r.options.Client.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}

// read returns the registration, or nil if there is none.
func (r *Registration) read(ctx context.Context) (*admissionv1.ValidatingWebhookConfiguration, error) {
	object := &admissionv1.ValidatingWebhookConfiguration{}
	err := r.options.Client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return object, nil
}

// apply registers the webhook with the present certificate. The one before it stays trusted, because another replica
// may still serve it.
func (r *Registration) apply(ctx context.Context) error {
	certificate, err := r.options.Certificate.Current()
	if err != nil {
		return fmt.Errorf("register the webhook for deletions of LogicalVolumes: %w", err)
	}
	service, err := servingcert.ServiceOf(certificate, r.options.Namespace)
	if err != nil {
		return fmt.Errorf("register the webhook for deletions of LogicalVolumes: %w", err)
	}
	before, err := r.read(ctx)
	if err != nil {
		return err
	}
	authorities := servingcert.Trusted(certificate, bundleOf(before), r.now())
	return r.applier.Apply(ctx, applyadmissionv1.ValidatingWebhookConfiguration(ConfigurationName).
		WithLabels(map[string]string{"app.kubernetes.io/part-of": "lvms"}).
		WithWebhooks(newWebhook(r.options.Namespace, service, authorities)))
}

// bundleOf returns the certificates that the API server trusts now, or nil if the webhook is not registered.
func bundleOf(registered *admissionv1.ValidatingWebhookConfiguration) []byte {
	if registered == nil || len(registered.Webhooks) == 0 {
		return nil
	}
	return registered.Webhooks[0].ClientConfig.CABundle
}

// newWebhook returns the entry of the configuration. If the operator does not answer, the deletion is refused. The
// operator's own deletions, for claims and snapshots that were deleted, do not depend on the webhook.
func newWebhook(namespace, service string, authorities []byte) *applyadmissionv1.ValidatingWebhookApplyConfiguration {
	notOperator := fmt.Sprintf("request.userInfo.username != 'system:serviceaccount:%s:lvms-operator'", namespace)
	condition := func(name, expression string) *applyadmissionv1.MatchConditionApplyConfiguration {
		return applyadmissionv1.MatchCondition().WithName(name).WithExpression(expression)
	}
	return applyadmissionv1.ValidatingWebhook().
		WithName(webhookName).
		WithAdmissionReviewVersions("v1").
		WithFailurePolicy(admissionv1.Fail).
		WithMatchPolicy(admissionv1.Equivalent).
		WithSideEffects(admissionv1.SideEffectClassNone).
		WithTimeoutSeconds(callTimeout).
		WithMatchConditions(condition("not-from-the-operator", notOperator), condition("has-a-volume", hasVolume),
			condition("not-allowed", notAllowed)).
		WithRules(applyadmissionv1.RuleWithOperations().WithOperations(admissionv1.Delete).
			WithAPIGroups("topolvm.io").WithAPIVersions("*").WithResources("logicalvolumes").
			WithScope(admissionv1.ClusterScope)).
		WithClientConfig(applyadmissionv1.WebhookClientConfig().WithCABundle(authorities...).
			WithService(applyadmissionv1.ServiceReference().WithNamespace(namespace).WithName(service).WithPath(path)))
}
