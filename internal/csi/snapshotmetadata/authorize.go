package snapshotmetadata

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/tls/limit"
)

// reviewTime is the time limit of an authorization, without the time in which it waits.
const reviewTime = 30 * time.Second

// reviews limit the authorizations: anybody in the cluster can send tokens, and the API server must not be busy with
// them. Backup software begins several calls at the same time, so calls wait.
var reviews = limit.ReviewOptions{
	Strangers: limit.Rate{Interval: 100 * time.Millisecond, Burst: 20},
	Stranger:  limit.Rate{Interval: time.Second, Burst: 5},
	Known:     limit.Rate{Interval: 100 * time.Millisecond, Burst: 20},
	Wait:      20 * time.Second,
}

// authorize returns the user of the token. It returns an error if the token is not valid for the audience of the
// service, or if its user has no permission to get the VolumeSnapshot. The error never has the token.
func (s *Server) authorize(ctx context.Context, c caller) (user string, err error) {
	end, err := s.reviews.Begin(ctx, c.peer, limit.Hash([]byte(c.token)))
	if err != nil {
		return "", status.Error(codes.ResourceExhausted, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	user, err = s.review(ctx, c)
	end(err == nil)
	return user, err
}

// review asks the API server.
func (s *Server) review(ctx context.Context, c caller) (user string, err error) {
	const audience = wellknown.SnapshotMetadataAudience
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: c.token,
		Audiences: []string{audience}}}
	if err := s.Client.Create(ctx, review); err != nil {
		return "", status.Errorf(codes.Unavailable, "authenticate the token: %v", err)
	}
	// A server that does not know audiences returns none, and accepts the token of any audience.
	if !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, audience) {
		return "", status.Errorf(codes.Unauthenticated, "the token is not valid for the audience %q, which "+
			"SnapshotMetadataService %s names", audience, wellknown.DriverName)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: review.Status.User.Username, UID: review.Status.User.UID, Groups: review.Status.User.Groups,
		Extra: extraOf(review.Status.User.Extra),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Group: "snapshot.storage.k8s.io",
			Version: "v1", Resource: "volumesnapshots", Namespace: c.namespace, Name: c.snapshot},
	}}
	if err := s.Client.Create(ctx, access); err != nil {
		return "", status.Errorf(codes.Unavailable, "authorize %s: %v", review.Status.User.Username, err)
	}
	if !access.Status.Allowed || access.Status.Denied {
		return "", status.Errorf(codes.PermissionDenied, "%s has no permission to get VolumeSnapshot %s/%s",
			review.Status.User.Username, c.namespace, c.snapshot)
	}
	return review.Status.User.Username, nil
}

func extraOf(extra map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	converted := map[string]authorizationv1.ExtraValue{}
	for key, value := range extra {
		converted[key] = authorizationv1.ExtraValue(value)
	}
	return converted
}
