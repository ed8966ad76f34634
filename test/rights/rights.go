// Package rights compares the permissions that config/rbac grants with those that the end-to-end tests used: an unused
// permission helps only an intruder.
package rights

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
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

// Dir is the environment variable with the directory of the records. Without it nothing is recorded.
const Dir = "LVMS_RIGHTS"

// Record writes the requests of the product to the API server of a lab to a file with the lab's name. Call it before
// the lab is removed.
func Record(l *lab.Lab) error {
	dir := os.Getenv(Dir)
	if dir == "" {
		return nil
	}
	file, err := os.Open(l.AuditLog())
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	used := map[right]bool{}
	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = add(used, line)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.AuditLog(), err)
		}
	}
	data, err := json.Marshal(slices.Collect(maps.Keys(used)))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, l.Name()+".json"), data, 0o600)
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
func add(used map[right]bool, line []byte) error {
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
				used[right{user, scope, ref.APIGroup, resource, name, verb}] = true
			}
		}
	}
	return nil
}
