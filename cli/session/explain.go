package session

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrNotInstalled means that the API server does not have the APIs of the product.
var ErrNotInstalled = errors.New("LVM Storage is not installed in this cluster: the API server does not have its " +
	"APIs. To install it, see https://github.com/lvm-storage/lvm-operator/blob/main/docs/how-to/install.md")

// ExplainList returns an error with the resource that could not be read, and what to do.
func ExplainList(err error, resource, where string) error {
	group := schema.ParseGroupResource(resource)
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return ErrNotInstalled
	case apierrors.IsForbidden(err):
		return fmt.Errorf("cannot list %s %s: you need the permission for the verb list on the resource %s of the "+
			"API group %s. Ask an administrator of the cluster for it: %w", resource, where, group.Resource,
			nameOfGroup(group), CauseOf(err))
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("cannot list %s: the API server does not accept your credentials. Log in again: %w", resource,
			CauseOf(err))
	}
	return fmt.Errorf("cannot list %s %s: %w", resource, where, CauseOf(err))
}

// ExplainGet returns an error with the object that could not be read, and what to do.
func ExplainGet(err error, resource, object string) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("cannot get %s: you need the permission for the verb get on the resource %s: %w", object,
			resource, err)
	}
	return fmt.Errorf("cannot get %s: %w", object, err)
}

// ExplainWrite returns the error of a write, with the permission that is missing. What the API server says about an
// object that is not valid stays as it is.
func ExplainWrite(err error, verb, resource, object string) error {
	group := schema.ParseGroupResource(resource)
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err) && !isDenial(err):
		return fmt.Errorf("cannot %s %s: you need the permission for the verb %s on the resource %s of the API group "+
			"%s. Ask an administrator of the cluster for it: %w", verb, object, verb, group.Resource,
			nameOfGroup(group), err)
	case apierrors.IsInvalid(err), apierrors.IsConflict(err):
		return fmt.Errorf("cannot %s %s: %w", verb, object, err)
	case isRefusal(err):
		return fmt.Errorf("cannot %s %s, the API server refused it: %w", verb, object, err)
	}
	return fmt.Errorf("cannot %s %s. If the API server did not respond, it is unknown whether the change was saved: "+
		"check it before you try again: %w", verb, object, err)
}

// isDenial returns true if admission refused a request, and not a missing permission.
func isDenial(err error) bool {
	return strings.Contains(err.Error(), "admission webhook") || strings.Contains(err.Error(), "denied request")
}

// isRefusal returns true if the API server or a webhook answered that it did not do what was requested.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500
}

// nameOfGroup returns the API group as a Role has it. The core group is "".
func nameOfGroup(resource schema.GroupResource) string { return cmp.Or(resource.Group, `""`) }

// CauseOf returns an error without the prefix of package paging, which has the type of the list.
func CauseOf(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}
