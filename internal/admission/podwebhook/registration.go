package podwebhook

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyadmissionv1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/apply"
	"github.com/lvm-storage/lvm-operator/internal/kube/periodic"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
)

const (
	// ConfigurationName is the name of the MutatingWebhookConfiguration.
	ConfigurationName = "lvms-pod-webhook"
	// RoleName is the name of the ClusterRole with permission to register the webhook, config/pod-webhook. It owns
	// the MutatingWebhookConfiguration, which Kubernetes deletes with it.
	RoleName = "lvms-operator-pod-webhook"
	// webhookName is the name that TopoLVM's webhook has.
	webhookName = "pod-hook." + wellknown.DriverName
	// optOutLabel is the label of a Namespace without the webhook, if its value is ignore.
	optOutLabel = wellknown.DriverName + "/webhook"

	fieldOwner = "lvms-operator-pod-webhook"
	// callTimeout is the time that the API server waits for the webhook, in seconds.
	callTimeout = 10
)

// hasClaims is the condition for which the API server calls the webhook, in CEL: a Pod without claims never waits for
// the operator.
const hasClaims = "has(object.spec.volumes) && " +
	"object.spec.volumes.exists(v, has(v.persistentVolumeClaim) || has(v.ephemeral))"

// Options configure the registration.
type Options struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Namespace is the namespace of the operator and of the webhook's Service.
	Namespace string
	// Certificate is the certificate of the webhook server.
	Certificate servingcert.Source
	// Enabled registers the webhook. Otherwise, an earlier registration is deleted.
	Enabled bool
}

// Registration keeps the MutatingWebhookConfiguration while the webhook is on, and deletes it while it is off. It is a
// Runnable of the leader.
type Registration struct {
	options Options
	applier *apply.Applier
	now     func() time.Time
}

// NewRegistration returns the registration. It must be started.
func NewRegistration(options Options) *Registration {
	return &Registration{options: options, applier: apply.New(options.Client, fieldOwner), now: time.Now}
}

// Start maintains the registration until the context ends: the certificate may be renewed. If the webhook is off, it
// returns when there is none.
func (r *Registration) Start(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	periodic.Run(ctx, "registration of the webhook for Pods", func(ctx context.Context) error {
		err := r.ensure(ctx)
		if err == nil && !r.options.Enabled {
			end()
		}
		return err
	}, func(err error) {
		log.FromContext(ctx).Error(err, "cannot register the Pod webhook", "object", ConfigurationName)
	})
	return nil
}

// ensure registers the webhook, or deletes an earlier registration.
func (r *Registration) ensure(ctx context.Context) error {
	role, err := r.role(ctx)
	if err != nil {
		return err
	}
	if !r.options.Enabled {
		if role == nil {
			return nil // Without the role, its dependents are deleted.
		}
		return r.remove(ctx)
	}
	if role == nil {
		return fmt.Errorf("ClusterRole %s does not exist: apply config/pod-webhook, which permits the operator to "+
			"register the webhook, or turn the Pod webhook off", RoleName)
	}
	configuration, err := r.configuration(ctx, role)
	if err != nil {
		return err
	}
	return r.applier.Apply(ctx, configuration)
}

// role returns the ClusterRole that permits the registration, or nil if it does not exist or is being deleted. The
// operator may always list ClusterRoles.
func (r *Registration) role(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(),
		Kind: "ClusterRoleList"}}
	err := r.options.Client.List(ctx, list, client.MatchingFields{"metadata.name": RoleName}, client.Limit(1))
	if err != nil {
		return nil, fmt.Errorf("list ClusterRole %s: %w", RoleName, err)
	}
	if len(list.Items) == 0 || !list.Items[0].DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return &list.Items[0], nil
}

// remove deletes the registration.
func (r *Registration) remove(ctx context.Context) error {
	object := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}}
	if err := r.options.Client.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	return nil
}

// configuration returns the registration, which is owned by the ClusterRole.
func (r *Registration) configuration(ctx context.Context,
	role *metav1.PartialObjectMetadata) (*applyadmissionv1.MutatingWebhookConfigurationApplyConfiguration, error) {
	certificate, err := r.options.Certificate.Current()
	if err != nil {
		return nil, err
	}
	service, err := servingcert.ServiceOf(certificate, r.options.Namespace)
	if err != nil {
		return nil, err
	}
	before, err := r.bundle(ctx)
	if err != nil {
		return nil, err
	}
	owner := applymetav1.OwnerReference().WithAPIVersion(rbacv1.SchemeGroupVersion.String()).WithKind("ClusterRole").
		WithName(role.Name).WithUID(role.UID)
	return applyadmissionv1.MutatingWebhookConfiguration(ConfigurationName).
		WithLabels(map[string]string{"app.kubernetes.io/part-of": "lvms"}).
		WithOwnerReferences(owner).
		WithWebhooks(webhook(r.options.Namespace, service, servingcert.Trusted(certificate, before, r.now()))), nil
}

// bundle returns the certificates that the API server trusts now, or nil if the webhook is not registered.
func (r *Registration) bundle(ctx context.Context) ([]byte, error) {
	object := &admissionv1.MutatingWebhookConfiguration{}
	err := r.options.Client.Get(ctx, client.ObjectKey{Name: ConfigurationName}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read MutatingWebhookConfiguration %s: %w", ConfigurationName, err)
	}
	for i := range object.Webhooks {
		if object.Webhooks[i].Name == webhookName {
			return object.Webhooks[i].ClientConfig.CABundle, nil
		}
	}
	return nil, nil
}

// webhook returns the entry of the configuration. An operator that does not answer must not prevent Pods, so it is
// ignored; TopoLVM has Fail here. It is not called for Pods of the operator and of the control plane.
func webhook(namespace, service string, authorities []byte) *applyadmissionv1.MutatingWebhookApplyConfiguration {
	return applyadmissionv1.MutatingWebhook().
		WithName(webhookName).
		WithAdmissionReviewVersions("v1").
		WithFailurePolicy(admissionv1.Ignore).
		WithMatchPolicy(admissionv1.Equivalent).
		WithSideEffects(admissionv1.SideEffectClassNone).
		WithTimeoutSeconds(callTimeout).
		WithNamespaceSelector(applymetav1.LabelSelector().WithMatchExpressions(
			applymetav1.LabelSelectorRequirement().WithKey(optOutLabel).WithOperator(metav1.LabelSelectorOpNotIn).
				WithValues("ignore"),
			applymetav1.LabelSelectorRequirement().WithKey(corev1.LabelMetadataName).
				WithOperator(metav1.LabelSelectorOpNotIn).WithValues(metav1.NamespaceSystem, namespace))).
		WithMatchConditions(applyadmissionv1.MatchCondition().WithName("claims").WithExpression(hasClaims)).
		WithRules(applyadmissionv1.RuleWithOperations().WithOperations(admissionv1.Create).WithAPIGroups("").
			WithAPIVersions("v1").WithResources("pods").WithScope(admissionv1.NamespacedScope)).
		WithClientConfig(applyadmissionv1.WebhookClientConfig().WithCABundle(authorities...).
			WithService(applyadmissionv1.ServiceReference().WithNamespace(namespace).WithName(service).WithPath(Path)))
}
