//go:build env

package cluster

import (
	"flag"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/must-gather/archive"
	"github.com/lvm-storage/lvm-operator/must-gather/redact"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

var (
	server *env.Env
	update = flag.Bool("update", false, "write the golden files")
)

func TestMain(m *testing.M) {
	flag.Parse()
	folder, err := os.MkdirTemp("", "crds-")
	utilruntime.Must(err)
	crds := slices.Concat(env.OptionalCRDs(), env.OLMCRDs(), []string{env.InfrastructureCRD(folder)})
	env.Main(m, func(e *env.Env) {
		server = e
		utilruntime.Must(os.RemoveAll(folder))
	}, crds...)
}

// planted is a secret that must not be in the archive.
const planted = "UGxhbnRlZFNlY3JldA"

// world creates the objects of testdata/objects.yaml with their status. It does not delete them, because the API server
// is temporary.
func world(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{Object: object}
		status, has := object["status"]
		if err := client.IgnoreAlreadyExists(server.Client.Create(t.Context(), o)); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if !has {
			continue
		}
		if err := server.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		o.Object["status"] = status
		if err := server.Client.Status().Update(t.Context(), o); err != nil {
			t.Fatalf("status of %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func collect(t *testing.T, config *rest.Config) (string, Inventory, archive.Failures) {
	t.Helper()
	out, err := archive.New(filepath.Join(t.TempDir(), "must-gather"), 64<<20, redact.Text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(config, out, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	c.backoff = wait.Backoff{Steps: tries}
	seen := c.Objects(t.Context())
	c.Logs(t.Context(), seen.Pods, sets.New[string]())
	return out.Root(), seen, out.Failures()
}

func tree(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestTreeIsThatOfInspect compares the files with a list of those that `oc adm inspect` writes for such objects.
func TestTreeIsThatOfInspect(t *testing.T) {
	world(t)
	root, seen, failures := collect(t, server.Config)
	const golden = "testdata/tree.txt"
	got := strings.Join(tree(t, root), "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the tree (-want +got; -update writes it):\n%s", diff)
	}
	expect.Equal(t, "len(seen.Pods)", len(seen.Pods), 1)
	expect.Equal(t, "len(seen.NodeStatuses)", len(seen.NodeStatuses), 1)
	expect.Equal(t, "len(seen.LogicalVolumes)", len(seen.LogicalVolumes), 1)
	expect.Equal(t, "len(seen.Nodes)", len(seen.Nodes), 1)
	expect.Slice(t, "Namespaces", seen.Namespaces, []string{env.Namespace})
	// There is no kubelet, so only the log could not be read.
	for _, f := range failures.Failures {
		if !strings.HasPrefix(f.What,
			"log of container vg-manager of pod openshift-lvm-storage/vg-manager-x on node node1") {
			t.Errorf("%s: %s", f.What, f.Error)
		}
	}
	if len(failures.Failures) != 1 {
		t.Errorf("%d failures, want 1", len(failures.Failures))
	}
	for _, name := range tree(t, root) {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), planted) || strings.Contains(string(content), "managedFields") {
			t.Errorf("%s has a secret, or managed fields:\n%s", name, content)
		}
	}
	secrets, err := os.ReadFile(filepath.Join(root, "namespaces", env.Namespace, "core", "secrets.yaml"))
	if err != nil || !strings.Contains(string(secrets), "password: \"\"") ||
		!strings.Contains(string(secrets), "tls.crt: Q0VSVA==") {
		t.Errorf("secrets: %s, %v", secrets, err)
	}
	groups, err := os.ReadFile(filepath.Join(root, "namespaces", "user", "groupsnapshot.storage.k8s.io",
		"volumegroupsnapshots.yaml"))
	if err != nil || !strings.Contains(string(groups), "name: before") || strings.Contains(string(groups), "ebs") {
		t.Errorf("group snapshots: %s, %v", groups, err)
	}
	var table []byte
	if table, err = os.ReadFile(filepath.Join(root, "namespaces", env.Namespace, "oc_output",
		"lvmcluster")); err != nil || !strings.HasPrefix(string(table), "NAME") ||
		!strings.Contains(string(table), "my-lvmcluster") {
		t.Errorf("table: %s, %v", table, err)
	}
}

// TestOmcFindsKinds looks up kinds as `omc get` does: it knows the kinds of Kubernetes itself, and any other kind only by
// the names in a CRD of the archive.
func TestOmcFindsKinds(t *testing.T) {
	world(t)
	root, _, _ := collect(t, server.Config)
	tests := map[string]string{
		"csv":            "namespaces/openshift-lvm-storage/operators.coreos.com/clusterserviceversions/lvms.v1.yaml",
		"infrastructure": "cluster-scoped-resources/config.openshift.io/infrastructures/cluster.yaml",
		"lvmcluster":     "namespaces/openshift-lvm-storage/lvm.topolvm.io/lvmclusters/my-lvmcluster.yaml",
		"logicalvolumes": "cluster-scoped-resources/topolvm.io/logicalvolumes/pvc-1.yaml",
	}
	for alias, want := range tests {
		t.Run(alias, func(t *testing.T) {
			definition := definitionByAlias(t, root, alias)
			if definition == nil {
				t.Fatalf("no CRD in the archive has the name %s", alias)
			}
			folder := "cluster-scoped-resources"
			if definition.Spec.Scope == apiextensionsv1.NamespaceScoped {
				folder = "namespaces/openshift-lvm-storage"
			}
			found, err := filepath.Glob(filepath.Join(root, folder, definition.Spec.Group,
				definition.Spec.Names.Plural, "*.yaml"))
			if err != nil || !slices.Contains(found, filepath.Join(root, want)) {
				t.Errorf("got %v, %v, want %s", found, err, want)
			}
		})
	}
}

// definitionByAlias returns the CRD of the archive whose kind has this plural, singular or short name, or nil.
func definitionByAlias(t *testing.T, root, alias string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root,
		"cluster-scoped-resources/apiextensions.k8s.io/customresourcedefinitions/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var d apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		names := append(slices.Clone(d.Spec.Names.ShortNames), d.Spec.Names.Plural, d.Spec.Names.Singular)
		if slices.Contains(names, alias) {
			return &d
		}
	}
	return nil
}

// TestEveryCustomResourceHasItsDefinition compares the definitions in the archive with the custom resources in it.
func TestEveryCustomResourceHasItsDefinition(t *testing.T) {
	var all apiextensionsv1.CustomResourceDefinitionList
	if err := server.Client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	served := sets.New[string]()
	for i := range all.Items {
		served.Insert(all.Items[i].Name)
	}
	world(t)
	root, _, _ := collect(t, server.Config)
	files := tree(t, root)
	for _, name := range files {
		parts := strings.Split(name, "/")
		if parts[0] == "namespaces" {
			parts = parts[1:]
		}
		if len(parts) < 3 || !served.Has(strings.TrimSuffix(parts[2], ".yaml")+"."+parts[1]) {
			continue
		}
		kind := strings.TrimSuffix(parts[2], ".yaml") + "." + parts[1]
		want := "cluster-scoped-resources/apiextensions.k8s.io/customresourcedefinitions/" + kind + ".yaml"
		if !slices.Contains(files, want) {
			t.Errorf("%s is in the archive without its definition %s", name, want)
		}
	}
}

// refusing answers some requests with an error.
type refusing struct {
	http.RoundTripper
	refuse func(*http.Request) int
}

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if code := r.refuse(request); code != 0 {
		return &http.Response{StatusCode: code, Status: http.StatusText(code),
			Body: io.NopCloser(strings.NewReader("no")), Request: request, Header: http.Header{}}, nil
	}
	return r.RoundTripper.RoundTrip(request)
}

func refused(refuse func(*http.Request) int) *rest.Config {
	config := rest.CopyConfig(server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{next, refuse} })
	return config
}

func TestAListThatFailedIsSaidAndCostsNothingElse(t *testing.T) {
	world(t)
	asked := 0
	root, _, failures := collect(t, refused(func(r *http.Request) int {
		switch {
		case strings.HasSuffix(r.URL.Path, "/logicalvolumes"):
			asked++
			return http.StatusServiceUnavailable
		case strings.HasSuffix(r.URL.Path, "/secrets"):
			return http.StatusForbidden
		}
		return 0
	}))
	said := map[string]bool{}
	for _, f := range failures.Failures {
		said[f.What] = true
	}
	if !said["logicalvolumes.topolvm.io"] || !said["secrets of namespace "+env.Namespace] {
		t.Errorf("got %+v", failures)
	}
	// The list and its table are both retried.
	if asked != 2*tries {
		t.Errorf("asked %d times for the volumes, want %d", asked, 2*tries)
	}
	if _, err := os.Stat(filepath.Join(root, "namespaces", env.Namespace, "lvm.topolvm.io", "lvmclusters",
		"my-lvmcluster.yaml")); err != nil {
		t.Error(err)
	}
}

func TestTheKubeletOfANodeThatIsAwayIsNotAsked(t *testing.T) {
	world(t)
	out, err := archive.New(t.TempDir(), 64<<20, redact.Text)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	c, err := New(refused(func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/log") {
			asked++
		}
		return 0
	}), out, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	c.Logs(t.Context(), c.Objects(t.Context()).Pods, sets.New("node1"))
	if f := out.Failures().Failures; asked != 0 || len(f) != 1 ||
		!strings.Contains(f[0].Error, "node node1 is not ready") {
		t.Errorf("asked %d times, %+v", asked, f)
	}
}

func TestAnAPIServerThatIsDownIsSaid(t *testing.T) {
	root, _, failures := collect(t, refused(func(*http.Request) int { return http.StatusServiceUnavailable }))
	if len(failures.Failures) != 1 || failures.Failures[0].What != "what the API server has" ||
		len(tree(t, root)) != 0 {
		t.Errorf("got %+v, %v", failures, tree(t, root))
	}
}

func TestLongListsAreReadPageByPage(t *testing.T) {
	world(t)
	pages := 0
	config := refused(func(r *http.Request) int {
		if strings.HasSuffix(r.URL.Path, "/configmaps") && r.URL.Query().Get("limit") != "" {
			pages++
		}
		return 0
	})
	for i := range pageSize + 10 {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "user", GenerateName: "many-"}}
		if err := server.Client.Create(t.Context(), o); err != nil {
			t.Fatal(i, err)
		}
	}
	out, err := archive.New(t.TempDir(), 64<<20, redact.Text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(config, out, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.discover(); err != nil {
		t.Fatal(err)
	}
	if items := c.all(t.Context(), target{resource: "configmaps", list: true}, "user"); len(items) < pageSize+
		10 || pages < 2 {
		t.Errorf("%d objects in %d pages", len(items), pages)
	}
}
