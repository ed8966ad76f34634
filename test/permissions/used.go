package permissions

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

// usedFile has a line for each permission of config/rbac, sorted: the permission, a tab, and what uses it. That is
// an end-to-end suite, by the name of its cluster; several with " or " between them as long as it is not known which of
// them does; the folder and the name of another test; or a key of reasons.
const usedFile = "test/permissions/used.tsv"

// alternative separates the suites of which one uses a permission.
const alternative = " or "

// reasons are what no test can show.
var reasons = map[string]string{
	"repeated events":  "client-go patches an event that repeats",
	"owner references": "the API server of OpenShift checks it (OwnerReferencesPermissionEnforcement)",
}

// users has what uses each permission.
type users map[string]string

func parse(text string) (users, error) {
	u := users{}
	last := ""
	for line := range strings.Lines(text) {
		permission, user, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !found || user == "" || permission <= last {
			return nil, fmt.Errorf("%s: the line %q is not a permission and what uses it, in order", usedFile, line)
		}
		u[permission] = user
		last = permission
	}
	return u, nil
}

func (u users) String() string {
	var text strings.Builder
	for _, permission := range slices.Sorted(maps.Keys(u)) {
		fmt.Fprintf(&text, "%s\t%s\n", permission, u[permission])
	}
	return text.String()
}

// suites returns the end-to-end suites of which one uses a permission; none if something else does.
func (u users) suites(permission string) []string {
	user := u[permission]
	if reasons[user] != "" || !strings.Contains(user, alternative) && strings.Contains(user, " ") {
		return nil
	}
	return strings.Split(user, alternative)
}

// unused returns the permissions that only a suite uses according to its line, and that it has not used.
func (u users) unused(suite string, used map[string]bool) []string {
	var all []string
	for _, permission := range slices.Sorted(maps.Keys(u)) {
		if slices.Equal(u.suites(permission), []string{suite}) && !used[permission] {
			all = append(all, permission)
		}
	}
	return all
}

// update sets what a complete run of a suite has shown. granted are the permissions of config/rbac: those that the
// suite has used and that have no line get one, and lines of others are removed.
func (u users) update(suite string, used map[string]bool, granted []string) {
	for _, permission := range granted {
		suites := u.suites(permission)
		switch {
		case used[permission] && (u[permission] == "" || slices.Contains(suites, suite)):
			u[permission] = suite
		case slices.Equal(suites, []string{suite}):
			delete(u, permission)
		case slices.Contains(suites, suite):
			u[permission] = strings.Join(
				slices.DeleteFunc(suites, func(s string) bool { return s == suite }),
				alternative,
			)
		}
	}
	maps.DeleteFunc(u, func(permission, _ string) bool { return !slices.Contains(granted, permission) })
}

func readUsed() (users, error) {
	root, err := lab.Root()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(root, usedFile))
	if err != nil {
		return nil, err
	}
	return parse(string(data))
}

func writeUsed(u users) error {
	root, err := lab.Root()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, usedFile), []byte(u.String()), 0o600)
}
