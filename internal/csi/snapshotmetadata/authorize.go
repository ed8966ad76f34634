package snapshotmetadata

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// serviceKind is the kind in which a CSI driver publishes its service. Its object has the name of the driver.
var serviceKind = schema.GroupVersionKind{Group: "cbt.storage.k8s.io", Version: "v1alpha1",
	Kind: "SnapshotMetadataService"}

// authorize returns an error if the token is not valid for the audience of the service, or if its user has no
// permission to get the VolumeSnapshot. The error never has the token.
func (s *Server) authorize(ctx context.Context, c caller) error {
	audience, err := s.audience(ctx)
	if err != nil {
		return err
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: c.token,
		Audiences: []string{audience}}}
	if err := s.Client.Create(ctx, review); err != nil {
		return status.Errorf(codes.Unavailable, "authenticate the token: %v", err)
	}
	// A server that does not know audiences returns none, and accepts the token of any audience.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, audience) {
		return status.Errorf(codes.Unauthenticated, "the token is not valid for the audience %q, which "+
			"SnapshotMetadataService %s names", audience, lvmv1alpha1.DriverName)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: review.Status.User.Username, UID: review.Status.User.UID, Groups: review.Status.User.Groups,
		Extra: extraOf(review.Status.User.Extra),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: "snapshot.storage.k8s.io",
			Version: "v1", Resource: "volumesnapshots", Namespace: c.namespace, Name: c.snapshot},
	}}
	if err := s.Client.Create(ctx, access); err != nil {
		return status.Errorf(codes.Unavailable, "authorize %s: %v", review.Status.User.Username, err)
	}
	if !access.Status.Allowed || access.Status.Denied {
		return status.Errorf(codes.PermissionDenied, "%s has no permission to get VolumeSnapshot %s/%s",
			review.Status.User.Username, c.namespace, c.snapshot)
	}
	return nil
}

func extraOf(extra map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	converted := map[string]authorizationv1.ExtraValue{}
	for key, value := range extra {
		converted[key] = authorizationv1.ExtraValue(value)
	}
	return converted
}

// audience returns the audience of the tokens of clients.
func (s *Server) audience(ctx context.Context) (string, error) {
	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(serviceKind)
	err := s.Live.Get(ctx, client.ObjectKey{Name: lvmv1alpha1.DriverName}, service)
	if apierrors.IsNotFound(err) {
		return "", status.Errorf(codes.Unavailable, "SnapshotMetadataService %s does not exist: the audience of "+
			"tokens is not known", lvmv1alpha1.DriverName)
	}
	if err != nil {
		return "", status.Errorf(codes.Unavailable, "read SnapshotMetadataService %s: %v", lvmv1alpha1.DriverName, err)
	}
	audience, _, err := unstructured.NestedString(service.Object, "spec", "audience")
	if err != nil || audience == "" {
		return "", status.Errorf(codes.Unavailable, "SnapshotMetadataService %s has no spec.audience",
			lvmv1alpha1.DriverName)
	}
	return audience, nil
}
