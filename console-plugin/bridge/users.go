package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The users of tests: one with all permissions, one with read permissions, and one without any.
const (
	adminUser  = "admin"
	viewerUser = "viewer"
	nobodyUser = "nobody"

	usersNamespace = "console-users"
	tokenSeconds   = 24 * 60 * 60
)

var viewerRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"lvm.topolvm.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"metrics.k8s.io"}, Resources: []string{"pods"}, Verbs: []string{"get"}},
	{APIGroups: []string{"topolvm.io"}, Resources: []string{"logicalvolumes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"", "storage.k8s.io"},
		Resources: []string{"nodes", "events", "storageclasses", "persistentvolumes", "persistentvolumeclaims"},
		Verbs:     []string{"get", "list", "watch"}},
}

// reviewTimeout is the timeout of an access review.
const reviewTimeout = 10 * time.Second

// allowed returns a function that asks the API server whether the user of a request has a permission.
func allowed(config *rest.Config, tokens map[string]string) func(*http.Request, map[string]string) (bool, error) {
	return func(r *http.Request, right map[string]string) (bool, error) {
		ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
		defer cancel()
		own := rest.AnonymousClientConfig(config)
		own.Dial, own.BearerToken = config.Dial, tokens[user(r)]
		c, err := client.New(own, client.Options{Scheme: clientgoscheme.Scheme})
		if err != nil {
			return false, err
		}
		review := &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: right["group"], Resource: right["resource"], Subresource: right["subresource"],
				Namespace: right["namespace"], Verb: right["verb"]}}}
		err = c.Create(ctx, review)
		return review.Status.Allowed, err
	}
}

// makeUsers creates the users and returns their tokens.
func makeUsers(ctx context.Context, c client.Client) (map[string]string, error) {
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: usersNamespace}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "console-viewer"}, Rules: viewerRules},
		binding(adminUser, "cluster-admin"), binding(viewerUser, "console-viewer"),
	}
	for _, name := range []string{adminUser, viewerUser, nobodyUser} {
		objects = append(objects, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name,
			Namespace: usersNamespace}})
	}
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create the test users: %w", err)
		}
	}
	tokens := map[string]string{}
	for _, name := range []string{adminUser, viewerUser, nobodyUser} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: usersNamespace}}
		request := &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)}}
		if err := c.SubResource("token").Create(ctx, account, request); err != nil {
			return nil, fmt.Errorf("token of user %s: %w", name, err)
		}
		tokens[name] = request.Status.Token
	}
	return tokens, nil
}

func binding(user, role string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "console-" + user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: user, Namespace: usersNamespace}},
	}
}
