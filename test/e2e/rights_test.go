//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
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

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// right is one verb on one resource, of one name or of all.
type right struct{ user, scope, group, resource, name, verb string }

func (r right) String() string {
	text := fmt.Sprintf("%s may %s %s", r.user, r.verb, r.resource)
	if r.group != "" {
		text += "." + r.group
	}
	if r.name != "" {
		text += " " + r.name
	}
	if r.scope == "" {
		return text + " in all namespaces"
	}
	return text + " in " + r.scope
}

// exercised are the rights that the stories used, on any cluster.
var exercised = map[right]bool{}

// elsewhere are rights for what no story here comes to, or not each time, with who does.
var elsewhere = with(map[string]string{
	"lvms-operator may get lvmclusters.lvm.topolvm.io in all namespaces":                                    parameters,
	"lvms-operator may create configmaps in openshift-lvm-storage":                                          wipesAreSaved,
	"lvms-operator may update configmaps lvms-wiped-devices in openshift-lvm-storage":                       wipesAreSaved,
	"lvms-operator may delete configmaps lvms-wiped-devices in openshift-lvm-storage":                       wipesAreSaved,
	"lvms-operator may delete persistentvolumeclaims in all namespaces":                                     "controllers/node, claims of a Node that asks for it",
	"lvms-operator may patch events.events.k8s.io in all namespaces":                                        repeats,
	"lvms-operator may patch events in all namespaces":                                                      repeats,
	"vg-manager may patch events.events.k8s.io in openshift-lvm-storage":                                    repeats,
	"vg-manager may patch events.events.k8s.io in all namespaces":                                           repeats,
	"lvms-operator may patch nodes in all namespaces":                                                       "controllers/node, claims of a Node that asks for it",
	"lvms-operator may update secrets lvms-operator-webhook-server-cert in openshift-lvm-storage":           "internal/webhook, a certificate that is about to end",
	"vg-manager may get configmaps lvms-wiped-devices in openshift-lvm-storage":                             "vgmanager/volumegroup, wipes on nodes that are gone",
	"lvms-operator may update lvmclusters/finalizers.lvm.topolvm.io in openshift-lvm-storage":               ownersAreChecked,
	"lvms-operator may delete consoleplugins.console.openshift.io lvms-console in all namespaces":           ownersAreChecked,
	"lvms-operator may delete consolequickstarts.console.openshift.io lvms-local-volumes in all namespaces": ownersAreChecked,
}, "lvms-operator may %s in openshift-lvm-storage", "controllers/metricsaccess gives it to Prometheus, and can give only what the operator has",
	"get services", "watch pods", "get endpoints", "list endpoints", "watch endpoints",
	"get endpointslices.discovery.k8s.io", "list endpointslices.discovery.k8s.io", "watch endpointslices.discovery.k8s.io")

// with adds rights that have one reason.
func with(all map[string]string, format, reason string, rights ...string) map[string]string {
	for _, r := range rights {
		all[fmt.Sprintf(format, r)] = reason
	}
	return all
}

const (
	wipesAreSaved = "controllers/node, TestWipesAreSavedBeforeTheNodeStatusGoes"
	// parameters are those of the policy lvms-kinds-in-use.
	parameters = "the API server, which lets only those make a policy who may read its parameters"
	repeats    = "client-go patches an event that repeats"
	// ownersAreChecked: to give an object another owner takes the right to delete it.
	ownersAreChecked = "the API server of OpenShift (OwnerReferencesPermissionEnforcement)"
)

// noteRights reads what the product asked the API server of a lab for. Call it before the lab is taken down.
func noteRights(l *lab.Lab) {
	GinkgoHelper()
	file, err := os.Open(l.AuditLog())
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	const prefix = "system:serviceaccount:" + story.OperatorNamespace + ":"
	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		var event struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, Subresource, APIGroup, Namespace, Name string }
			ResponseStatus struct{ Code int }
		}
		Expect(json.Unmarshal(line, &event)).To(Succeed())
		user, ours := strings.CutPrefix(event.User.Username, prefix)
		if !ours || event.ResponseStatus.Code == 403 {
			continue
		}
		ref := event.ObjectRef
		resource := ref.Resource
		if ref.Subresource != "" {
			resource += "/" + ref.Subresource
		}
		verbs := []string{event.Verb}
		switch {
		case event.Verb == "patch" && event.ResponseStatus.Code == http.StatusCreated:
			verbs = append(verbs, "create") // by server-side apply
		case event.Verb == "watch":
			verbs = append(verbs, "list") // a reflector may do with the one or need both
		}
		for _, verb := range verbs {
			for _, scope := range []string{"", ref.Namespace} {
				for _, name := range []string{"", ref.Name} {
					exercised[right{user, scope, ref.APIGroup, resource, name, verb}] = true
				}
			}
		}
	}
}

// rightsOf are those that a file of config/rbac gives to a user.
func rightsOf(user, file string) []right {
	GinkgoHelper()
	root, err := lab.Root()
	Expect(err).NotTo(HaveOccurred())
	data, err := os.ReadFile(filepath.Join(root, "config", "rbac", file))
	Expect(err).NotTo(HaveOccurred())
	var all []right
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else {
			Expect(err).NotTo(HaveOccurred())
		}
		role := &rbacv1.Role{}
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role)).To(Succeed())
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						for _, verb := range rule.Verbs {
							all = append(all, right{user, role.Namespace, group, resource, name, verb})
						}
					}
				}
			}
		}
	}
}

// A right that nothing uses is one that only who breaks in has a use for.
var _ = AfterSuite(func() {
	config, _ := GinkgoConfiguration()
	if len(config.FocusStrings)+len(config.SkipStrings) > 0 {
		return // some of the stories were not told
	}
	noteRights(suiteLab)
	given := append(rightsOf("lvms-operator", "operator_role.yaml"), rightsOf("vg-manager", "vg_manager_role.yaml")...)
	Expect(len(given)).To(BeNumerically(">", 50))
	unused, excused := map[string]bool{}, maps.Clone(elsewhere)
	for _, r := range given {
		delete(excused, r.String())
		if !exercised[r] && elsewhere[r.String()] == "" {
			unused[r.String()] = true
		}
	}
	Expect(strings.Join(slices.Sorted(maps.Keys(unused)), "\n")).To(BeEmpty(), "rights in config/rbac that nothing used: take them out, or name the test that uses them")
	Expect(strings.Join(slices.Sorted(maps.Keys(excused)), "\n")).To(BeEmpty(), "rights that are said to be used elsewhere, and nobody has")
})
