package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Annotations of a Service, and of its Secret. Each also has an older name that is still supported.
const (
	prefix      = "service.beta.openshift.io/"
	alphaPrefix = "service.alpha.openshift.io/"

	secretName    = "serving-cert-secret-name"
	signedBy      = "serving-cert-signed-by"
	failure       = "serving-cert-generation-error"
	failureNumber = "serving-cert-generation-error-num"
	originUID     = "originating-service-uid"
	originName    = "originating-service-name"
	expiresAt     = "expiry"
)

// maxFailures is the number of failures after which a Service is ignored, until its failure annotations are removed.
const maxFailures = 10

// servingCertificates creates the Secrets that Services request.
type servingCertificates struct {
	client client.Client
	// reader reads from the API server, because a cache may not have the Secret yet.
	reader client.Reader
	ca     *authority
}

func (s *servingCertificates) addTo(manager ctrl.Manager) error {
	owner := handler.EnqueueRequestForOwner(manager.GetScheme(), manager.GetRESTMapper(), &corev1.Service{})
	return ctrl.NewControllerManagedBy(manager).Named("serving-certificates").For(&corev1.Service{}).
		// A deleted or changed Secret is recreated.
		WatchesMetadata(&corev1.Secret{}, owner).Complete(s)
}

// Reconcile creates the Secret of a Service, unless it has one that this authority signed.
func (s *servingCertificates) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	service := &corev1.Service{}
	if err := s.client.Get(ctx, request.NamespacedName, service); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	name := annotation(service, secretName)
	if name == "" || !service.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	found := &corev1.Secret{}
	err := s.reader.Get(ctx, client.ObjectKey{Namespace: service.Namespace, Name: name}, found)
	switch {
	case apierrors.IsNotFound(err):
		found = nil
	case err != nil:
		return ctrl.Result{}, err
	case s.ca.hasIssued(found.Data[corev1.TLSCertKey]):
		return ctrl.Result{}, nil
	}
	if found != nil && failures(service) >= maxFailures {
		return ctrl.Result{}, nil
	}
	if err := s.make(ctx, service, name, found); err != nil {
		return ctrl.Result{}, s.fail(ctx, service, err)
	}
	return ctrl.Result{}, s.succeed(ctx, service)
}

// make creates the Secret, or replaces an earlier one for the same Service.
func (s *servingCertificates) make(ctx context.Context, service *corev1.Service, name string,
	found *corev1.Secret) error {
	chain, key, expiry, err := s.ca.issue(service)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: name,
			Annotations: map[string]string{
				prefix + originUID: string(service.UID), prefix + originName: service.Name,
				prefix + expiresAt: expiry.Format(time.RFC3339), alphaPrefix + expiresAt: expiry.Format(time.RFC3339),
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: service.Name,
				UID: service.UID}},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key},
	}
	if found == nil {
		return s.client.Create(ctx, secret)
	}
	if annotation(found, originUID) != string(service.UID) {
		return fmt.Errorf("secret %s/%s does not have corresponding service UID %v", found.Namespace,
			found.Name, service.UID)
	}
	secret.ResourceVersion = found.ResourceVersion
	return s.client.Update(ctx, secret)
}

// fail records the error in annotations of the Service, and returns it.
func (s *servingCertificates) fail(ctx context.Context, service *corev1.Service, cause error) error {
	changed := service.DeepCopy()
	number := strconv.Itoa(failures(service) + 1)
	for _, p := range []string{prefix, alphaPrefix} {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, p+failure, cause.Error())
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, p+failureNumber, number)
	}
	if err := s.client.Patch(ctx, changed, client.MergeFrom(service)); err != nil {
		return fmt.Errorf("%w; it could not be noted: %w", cause, err)
	}
	return cause
}

// succeed records the signer in annotations of the Service, and removes the failure annotations.
func (s *servingCertificates) succeed(ctx context.Context, service *corev1.Service) error {
	changed := service.DeepCopy()
	for _, p := range []string{prefix, alphaPrefix} {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, p+signedBy, s.ca.name())
		delete(changed.Annotations, p+failure)
		delete(changed.Annotations, p+failureNumber)
	}
	return s.client.Patch(ctx, changed, client.MergeFrom(service))
}

func failures(service *corev1.Service) int {
	number, err := strconv.Atoi(annotation(service, failureNumber))
	if err != nil {
		return 0 // like the service CA
	}
	return number
}

// annotation returns the value of an annotation with its current or its older name.
func annotation(object client.Object, name string) string {
	if value := object.GetAnnotations()[prefix+name]; value != "" {
		return value
	}
	return object.GetAnnotations()[alphaPrefix+name]
}
