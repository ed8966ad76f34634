// Package permissions checks whether the operator has the permissions of its installation. Without permission to watch
// a kind, an operator starts, waits for the cache of that kind forever, and does nothing. Without permission to change
// a kind, it fails only when it does so. The permissions are therefore checked before the start, and while the operator
// runs.
package permissions

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clusterWide is a namespace in which the operator has only its cluster-wide permissions.
const clusterWide = "default"

// Right is one verb on one resource. An empty Name means all objects, and an empty Namespace all namespaces.
type Right struct{ Verb, Group, Resource, Name, Namespace string }

// String returns the permission in the syntax of `kubectl auth can-i`.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		// A subresource follows the group.
		resource, sub, isSub := strings.Cut(r.Resource, "/")
		text = r.Verb + " " + resource + "." + r.Group
		if isSub {
			text += "/" + sub
		}
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		return text + " in namespace " + r.Namespace
	}
	return text + " in all namespaces"
}

// Of returns the permissions in Roles and ClusterRoles, without those for API groups that the cluster lacks. The Roles
// are for the namespace from; Of returns their permissions for the given namespace.
func Of(roles []byte, from, namespace string, absent ...string) ([]Right, error) {
	var all []Right
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(roles), len(roles)); ; {
		role := rbacv1.Role{}
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return slices.Compact(sorted(all)), nil
		} else if err != nil {
			return nil, fmt.Errorf("permissions of the operator: %w", err)
		}
		if role.Namespace == from {
			role.Namespace = namespace
		}
		for _, rule := range role.Rules {
			all = append(all, of(rule, role.Namespace, absent)...)
		}
	}
}

func of(rule rbacv1.PolicyRule, namespace string, absent []string) []Right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []Right
	for _, group := range rule.APIGroups {
		if slices.Contains(absent, group) {
			continue
		}
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					all = append(all, Right{verb, group, resource, name, namespace})
				}
			}
		}
	}
	return all
}

func sorted(all []Right) []Right {
	slices.SortFunc(all, func(a, b Right) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource),
			strings.Compare(a.Verb, b.Verb), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all
}

// Missing returns which of the permissions the client's user lacks. Every user may query this for itself (ClusterRole
// system:basic-user). The list of permissions that the API server returns may be incomplete if it has several
// authorizers, so permissions that are not in the list are checked one by one.
func Missing(ctx context.Context, c client.Writer, needed []Right) ([]Right, error) {
	given := map[string][]authorizationv1.ResourceRule{}
	var missing []Right
	for _, right := range needed {
		namespace := cmp.Or(right.Namespace, clusterWide)
		if _, asked := given[namespace]; !asked {
			review := &authorizationv1.SelfSubjectRulesReview{
				Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
			if err := c.Create(ctx, review); err != nil {
				return nil,
					fmt.Errorf("list the permissions of the operator in namespace %s: %w", namespace, err)
			}
			given[namespace] = review.Status.ResourceRules
		}
		if slices.ContainsFunc(given[namespace], right.isIn) {
			continue
		}
		allowed, err := right.allowed(ctx, c)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, right)
		}
	}
	return missing, nil
}

func (r Right) isIn(rule authorizationv1.ResourceRule) bool {
	has := func(values []string, value string) bool {
		return slices.Contains(values, value) || slices.Contains(values, "*")
	}
	return has(rule.Verbs, r.Verb) && has(rule.APIGroups, r.Group) && has(rule.Resources, r.Resource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, r.Name))
}

func (r Right) allowed(ctx context.Context, c client.Writer) (bool, error) {
	resource, sub, _ := strings.Cut(r.Resource, "/")
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Group, Resource: resource, Subresource: sub, Name: r.Name, Namespace: r.Namespace,
		}}}
	if err := c.Create(ctx, review); err != nil {
		return false, fmt.Errorf("check whether the operator has permission to %s: %w", r, err)
	}
	return review.Status.Allowed, nil
}

// watching returns the permissions without which the operator cannot start, because its caches would not sync.
func watching(all []Right) []Right {
	return slices.DeleteFunc(slices.Clone(all), func(r Right) bool { return r.Verb != "list" && r.Verb != "watch" })
}

// shown is the number of permissions that an Error lists. It counts the others.
const shown = 5

// Error lists missing permissions and says what to do.
type Error struct {
	// Account is the namespace and name of the operator's ServiceAccount.
	Account string
	Missing []Right
}

func (e *Error) Error() string {
	var names []string
	for _, right := range e.Missing[:min(shown, len(e.Missing))] {
		names = append(names, right.String())
	}
	text := strings.Join(names, ", ")
	if more := len(e.Missing) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("ServiceAccount %s does not have permission to %s: its Role or ClusterRole is missing or was "+
		"changed after the installation; restore the permissions, or reinstall this version", e.Account, text)
}
