package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// userRoles returns the ClusterRoles for people by their names.
func userRoles(t *testing.T) map[string]*rbacv1.ClusterRole {
	t.Helper()
	data, err := os.ReadFile("../config/rbac/user_roles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]*rbacv1.ClusterRole{}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict([]byte(document), role); err != nil {
			t.Fatal(err)
		}
		roles[role.Name] = role
	}
	return roles
}

// verbsOf returns the verbs of a role for each resource.
func verbsOf(role *rbacv1.ClusterRole) map[string]string {
	verbs := map[string]string{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			name := strings.TrimSuffix(resource+"."+rule.APIGroups[0], ".") // the core group has no name
			verbs[name] = strings.Join(slices.Sorted(slices.Values(rule.Verbs)), " ")
		}
	}
	return verbs
}

func TestTheRolesForPeopleHaveNoMorePermissionsThanDocumented(t *testing.T) {
	const read = "get list watch"
	roles := userRoles(t)
	view := map[string]string{clustersResource: read, nodeStatusesResource: read, recoveriesResource: read,
		volumesResource: read, approvalsResource: read, deploymentsResource: "get", persistentVolumesResource: read,
		movesResource: read}
	if diff := cmp.Diff(view, verbsOf(roles["lvms-view"])); diff != "" {
		t.Error(diff)
	}
	edit := map[string]string{clustersResource: "create get list patch update watch",
		nodeStatusesResource: "get list patch watch", recoveriesResource: "create delete get list patch watch",
		approvalsResource: read, volumesResource: "get list patch watch", deploymentsResource: "get",
		persistentVolumesResource: read, movesResource: "create delete get list patch watch"}
	if diff := cmp.Diff(edit, verbsOf(roles["lvms-edit"])); diff != "" {
		t.Error(diff)
	}
	approve := map[string]string{clustersResource: read, nodeStatusesResource: read,
		approvalsResource: "create delete get list watch"}
	if diff := cmp.Diff(approve, verbsOf(roles["lvms-approve"])); diff != "" {
		t.Error(diff)
	}
	migrate := map[string]string{persistentVolumesResource: "get list patch watch"}
	if diff := cmp.Diff(migrate, verbsOf(roles["lvms-migrate"])); diff != "" {
		t.Error(diff)
	}
	for name, role := range roles {
		if len(role.Labels) > 0 {
			t.Errorf("%s is aggregated to another role: %v", name, role.Labels)
		}
	}
}
