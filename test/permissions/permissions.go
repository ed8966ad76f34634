// Package permissions records what uses each permission that config/rbac grants: an unused permission helps only an
// intruder. A unit test compares config/rbac with the record, and each end-to-end suite compares the record with its
// requests.
package permissions

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// right is one verb on one resource, for one name or for all.
type right struct{ User, Scope, Group, Resource, Name, Verb string }

func (r right) String() string {
	text := fmt.Sprintf("%s may %s %s", r.User, r.Verb, r.Resource)
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Scope == "" {
		return text + " in all namespaces"
	}
	return text + " in " + r.Scope
}

// Mode is the environment variable that says what happens with the requests of the product. If it is empty, they are
// not read: a part of a suite does not use all permissions.
const Mode = "LVMS_RIGHTS"

// The values of Mode.
const (
	// check fails if a permission was not used that no other suite uses according to used.tsv.
	check = "check"
	// update writes to used.tsv which permissions were used.
	update = "update"
)

// Record compares the requests of the product to the API server of a lab with used.tsv, in which the lab's name is that
// of the suite. Call it at the end of the suite, before the lab is removed.
func Record(l *lab.Lab) error {
	mode := os.Getenv(Mode)
	if mode == "" {
		return nil
	}
	used, err := requested(l.AuditLog())
	if err != nil {
		return err
	}
	u, err := readUsed()
	if err != nil {
		return err
	}
	switch mode {
	case check:
		return failure(l.Name(), u.unused(l.Name(), used))
	case update:
		all, err := granted()
		if err != nil {
			return err
		}
		u.update(l.Name(), used, all)
		return writeUsed(u)
	}
	return fmt.Errorf("%s is %q, want %s or %s", Mode, mode, check, update)
}

// failure is the error for the permissions that a suite should have used.
func failure(suite string, unused []string) error {
	if len(unused) == 0 {
		return nil
	}
	return fmt.Errorf("%s: suite %s has not used these permissions: %s. If another suite or test uses them, name it "+
		"there; if none does, remove them from config/rbac. %s=%s removes the lines", usedFile, suite,
		strings.Join(unused, "; "), Mode, update)
}

// requested returns the permissions that granted the requests in an audit log.
func requested(path string) (map[string]bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	used := map[string]bool{}
	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return used, nil
		}
		if err == nil {
			err = add(used, line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}

// event has the relevant fields of a line of the audit log.
type event struct {
	Verb           string
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Subresource, APIGroup, Namespace, Name string }
	ResponseStatus struct{ Code int }
}

// installedIn are the namespaces in which the tests install the operator while requests are recorded. It has the same
// Roles in each.
var installedIn = []string{story.OperatorNamespace, "openshift-storage"}

// asInstalled returns the namespace that the rendered Roles have for one of these namespaces.
func asInstalled(namespace string) string {
	if slices.Contains(installedIn, namespace) {
		return story.OperatorNamespace
	}
	return namespace
}

// add adds the permissions that granted a request of the product.
func add(used map[string]bool, line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	account, ours := strings.CutPrefix(e.User.Username, "system:serviceaccount:")
	namespace, user, _ := strings.Cut(account, ":")
	if !ours || !slices.Contains(installedIn, namespace) || e.ResponseStatus.Code == http.StatusForbidden {
		return nil
	}
	ref := e.ObjectRef
	resource := ref.Resource
	if ref.Subresource != "" {
		resource += "/" + ref.Subresource
	}
	verbs := []string{e.Verb}
	switch {
	case e.Verb == "patch" && e.ResponseStatus.Code == http.StatusCreated:
		verbs = append(verbs, "create") // for server-side apply
	case e.Verb == "watch":
		verbs = append(verbs, "list") // a reflector may need only one or both
	}
	for _, verb := range verbs {
		for _, scope := range []string{"", asInstalled(ref.Namespace)} {
			for _, name := range []string{"", ref.Name} {
				used[right{user, scope, ref.APIGroup, resource, name, verb}.String()] = true
			}
		}
	}
	return nil
}
