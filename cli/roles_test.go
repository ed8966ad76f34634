package cli

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/cli/session"
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
	view := map[string]string{session.ClustersResource: read, session.NodeStatusesResource: read,
		session.RecoveriesResource: read,
		session.VolumesResource:    read, session.ApprovalsResource: read, session.DeploymentsResource: "get", session.PersistentVolumesResource: read,
		session.MovesResource: read}
	if diff := cmp.Diff(view, verbsOf(roles["lvms-view"])); diff != "" {
		t.Error(diff)
	}
	edit := map[string]string{session.ClustersResource: "create get list patch update watch",
		session.NodeStatusesResource: "get list patch watch", session.RecoveriesResource: "create delete get list patch watch",
		session.ApprovalsResource: read, session.VolumesResource: "get list patch watch", session.DeploymentsResource: "get",
		session.PersistentVolumesResource: read, session.MovesResource: "create delete get list patch watch"}
	if diff := cmp.Diff(edit, verbsOf(roles["lvms-edit"])); diff != "" {
		t.Error(diff)
	}
	approve := map[string]string{session.ClustersResource: read, session.NodeStatusesResource: read,
		session.ApprovalsResource: "create delete get list watch"}
	if diff := cmp.Diff(approve, verbsOf(roles["lvms-approve"])); diff != "" {
		t.Error(diff)
	}
	migrate := map[string]string{session.PersistentVolumesResource: "get list patch watch"}
	if diff := cmp.Diff(migrate, verbsOf(roles["lvms-migrate"])); diff != "" {
		t.Error(diff)
	}
	for name, role := range roles {
		if len(role.Labels) > 0 {
			t.Errorf("%s is aggregated to another role: %v", name, role.Labels)
		}
	}
}
