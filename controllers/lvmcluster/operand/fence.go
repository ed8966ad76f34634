package operand

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fence checks whether the admission policies that restrict the node agents are in force. It reads a policy from the
// API server until it is, and then only its metadata from the cache, until that changes.
type fence struct {
	// confirmed has the versions of the policies and bindings that were found in force.
	confirmed map[string]string
}

// check returns nil if all policies are in force, a WaitError if the API server has not checked one yet, and another
// error if one does not exist or cannot be read.
func (f *fence) check(ctx context.Context, r Reconciler, namespace string) error {
	objects, err := policiesOf(namespace, agentPolicyFile, userPolicyFile)
	if err != nil {
		return err
	}
	confirmed := map[string]string{}
	var errs []error
	var waits []string
	for _, object := range objects {
		name := object.GetKind() + " " + object.GetName()
		version, err := cachedVersion(ctx, r.Client, object)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case version != "" && f.confirmed[name] == version:
			confirmed[name] = version
			continue
		}
		wait, err := inForce(ctx, r.Live, object)
		switch {
		case err != nil:
			errs = append(errs, err)
		case wait != "":
			waits = append(waits, wait)
		case version != "":
			confirmed[name] = version
		}
	}
	f.confirmed = confirmed
	if len(waits) > 0 {
		errs = append(errs, waitFor([]string{"node agents are started only when the admission policies that restrict " +
			"them are in force: " + strings.Join(waits, "; ")}))
	}
	return errors.Join(errs...)
}

// cachedVersion returns a value that changes with the spec of an object, or "" if the object does not exist.
func cachedVersion(ctx context.Context, cached client.Reader, object *unstructured.Unstructured) (string, error) {
	present := metadataOf(object.GroupVersionKind())
	err := cached.Get(ctx, client.ObjectKeyFromObject(object), present)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: read: %w", object.GetKind(), object.GetName(), err)
	}
	return fmt.Sprintf("%s/%d", present.UID, present.Generation), nil
}

// inForce returns "" if a policy or binding exists, and kube-controller-manager has checked the expressions of the
// policy, or what to wait for.
func inForce(ctx context.Context, live client.Reader, object *unstructured.Unstructured) (wait string, err error) {
	present := &unstructured.Unstructured{}
	present.SetGroupVersionKind(object.GroupVersionKind())
	err = live.Get(ctx, client.ObjectKeyFromObject(object), present)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("%s %s does not exist, so node agents are not restricted: the operator creates it "+
			"again; if this does not change, resolve the error with which this fails", object.GetKind(),
			object.GetName())
	case err != nil:
		return "", fmt.Errorf("%s %s: read: %w", object.GetKind(), object.GetName(), err)
	case object.GetKind() == policyBindingKind.Kind:
		return "", nil
	}
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(present.Object, policy); err != nil {
		return "", fmt.Errorf("%s %s: decode: %w", object.GetKind(), object.GetName(), err)
	}
	// Warnings about types do not matter: an expression that fails refuses the request (failurePolicy).
	if policy.Status.ObservedGeneration < policy.Generation || policy.Status.TypeChecking == nil {
		return fmt.Sprintf("kube-controller-manager has not checked %s %s yet", object.GetKind(), object.GetName()), nil
	}
	return "", nil
}
