package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/must-gather/cluster"
	"github.com/lvm-storage/lvm-operator/must-gather/nodes"
)

func TestSince(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		duration, moment string
		want             time.Time
		fails            bool
	}{
		"nothing":       {},
		"a duration":    {duration: "2h0m0s", want: now.Add(-2 * time.Hour)},
		"a moment":      {moment: "2026-02-28T00:00:00Z", want: time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)},
		"no duration":   {duration: "yesterday", fails: true},
		"of the future": {duration: "-2h", fails: true},
		"no moment":     {moment: "2026-02-28", fails: true},
		"both: a moment": {duration: "2h", moment: "2026-02-28T00:00:00Z",
			want: time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := since(test.duration, test.moment, now)
			if !got.Equal(test.want) || (err != nil) != test.fails {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// Without a cluster, or after a signal, there is still an archive with a summary that says so.
func TestWhateverFailsThereIsASummary(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, kubeconfig := range map[string]string{
		"no access": "",
		"nobody answers": "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: " +
			"\"http://127.0.0.1:1\"}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBECONFIG", file)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			folder := filepath.Join(t.TempDir(), "must-gather")
			for range 2 {
				if err := runGather(ctx, &bytes.Buffer{},
					options{folder: folder, bytes: 100 << 20, limit: time.Minute}); err != nil {
					t.Fatal(err)
				}
			}
			for file, want := range map[string]string{"version": "lvm-operator/must-gather\n",
				"summary.md": "# LVM Storage: unknown", "summary.json": `"verdict": "unknown"`,
				"errors.json": "what the API server has", "timings.json": "interrupted"} {
				content, err := os.ReadFile(filepath.Join(folder, file))
				if err != nil || !strings.Contains(string(content), want) {
					t.Errorf("%s: %s, %v: want %q", file, content, err, want)
				}
			}
		})
	}
}

// linkOf matches the target of a Markdown link, without its anchor.
var linkOf = regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)

// An archive is read without network access: it contains the runbooks and the pages to which they link.
func TestTheArchiveHasTheRunbooks(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	folder := t.TempDir()
	if err := runGather(t.Context(), &bytes.Buffer{},
		options{folder: folder, bytes: 100 << 20, limit: time.Minute}); err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("../monitoring/runbooks/*.md")
	if err != nil || len(sources) < 30 {
		t.Fatal(sources, err)
	}
	for _, source := range sources {
		want, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join("monitoring", "runbooks", filepath.Base(source))
		got, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not as in the sources: %v", name, err)
		}
		for _, link := range linkOf.FindAllStringSubmatch(string(got), -1) {
			if _, err := os.Stat(filepath.Join(folder, filepath.Dir(name), link[1])); err != nil {
				t.Errorf("%s leads to nothing: %v", name, err)
			}
		}
	}
}

// gather check prints a summary and leaves no archive, so it does not write runbooks.
func TestACheckWritesNoRunbooks(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "absent"))
	folder := t.TempDir()
	if err := runGather(t.Context(), &bytes.Buffer{},
		options{folder: folder, bytes: 100 << 20, limit: time.Minute, objectsOnly: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "monitoring", "runbooks")); err == nil {
		t.Error("it wrote runbooks")
	}
}

func TestAFolderThatCannotBeWrittenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := runGather(t.Context(), &bytes.Buffer{},
		options{folder: file + "/x", bytes: 100 << 20, limit: time.Minute}); err == nil {
		t.Error("no error")
	}
}

func object[T any](text string) T {
	var o T
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	return o
}

func TestWantedNodes(t *testing.T) {
	seen := cluster.Inventory{
		Nodes: []corev1.Node{
			object[corev1.Node](`{"metadata":{"name":"agent"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`),
			object[corev1.Node](`{"metadata":{"name":"away"},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`),
			object[corev1.Node](`{"metadata":{"name":"other"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`),
			object[corev1.Node](`{"metadata":{"name":"troubled"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`),
			object[corev1.Node](`{"metadata":{"name":"volume"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`),
		},
		NodeStatuses: []v1alpha1.LVMVolumeGroupNodeStatus{
			object[v1alpha1.LVMVolumeGroupNodeStatus](`{"metadata":{"name":"away"}}`),
			object[v1alpha1.LVMVolumeGroupNodeStatus](`{"metadata":{"name":"troubled"},"status":{"nodeStatus":[{"name":"vg1","status":"Degraded"}]}}`),
		},
		LogicalVolumes: []topolvmv1.LogicalVolume{
			object[topolvmv1.LogicalVolume](`{"metadata":{"name":"v"},"spec":{"nodeName":"volume"}}`)},
	}
	agents := map[string]nodes.Agent{"agent": {}}
	wanted, away := (&gathering{}).wanted(seen, agents)
	if diff := cmp.Diff([][]string{{"troubled", "agent", "volume"}, {"away"}}, [][]string{wanted, away}); diff != "" {
		t.Error(diff)
	}
	wanted, _ = (&gathering{options: options{allNodes: true}}).wanted(seen, agents)
	if diff := cmp.Diff([]string{"troubled", "agent", "other", "volume"}, wanted); diff != "" {
		t.Error(diff)
	}
}

func TestAgentsAreThoseThatRun(t *testing.T) {
	pod := func(name, label, node, state string) corev1.Pod {
		return object[corev1.Pod](`{"metadata":{"name":"` + name + `","namespace":"ns","labels":{"app.kubernetes.io/name":"` +
			label + `"}},"spec":{"nodeName":"` + node +
			`"},"status":{"containerStatuses":[{"name":"vg-manager","state":{"` + state + `":{}}}]}}`)
	}
	got := agentsOf([]corev1.Pod{pod("a", "vg-manager", "node1", "running"),
		pod("b", "vg-manager", "node2", "waiting"), pod("c", "lvms-operator", "node3", "running")})
	if diff := cmp.Diff(map[string]nodes.Agent{"node1": {Namespace: "ns", Pod: "a", Container: "vg-manager"}},
		got); diff != "" {
		t.Error(diff)
	}
}

func TestTheHelperHasTheProductsImageOutsideOfTheCluster(t *testing.T) {
	seen := cluster.Inventory{Pods: []corev1.Pod{
		object[corev1.Pod](
			`{"metadata":{"namespace":"ns","labels":{"app.kubernetes.io/name":"lvms-operator"}},"spec":{"containers":[{"image":"example.com/lvms:1"}]}}`)}}
	got, err := (&gathering{}).helper(t.Context(), seen)
	if diff := cmp.Diff(&nodes.Helper{Namespace: "ns", Image: "example.com/lvms:1",
		Command: []string{"/lvms", "collect"}}, got, cmp.AllowUnexported(hostpaths.Layout{})); diff != "" ||
		err != nil {
		t.Error(diff, err)
	}
	if _, err := (&gathering{}).helper(t.Context(), cluster.Inventory{}); err == nil {
		t.Error("an image came from nowhere")
	}
}

func TestTheHelperReadsNodesWithTheLayoutOfTheProduct(t *testing.T) {
	pod := func(name, env string) corev1.Pod {
		return object[corev1.Pod](`{"metadata":{"namespace":"ns","labels":{"app.kubernetes.io/name":"` + name +
			`"}},"spec":{"containers":[{"image":"example.com/a:1","env":[` + env + `]}]}}`)
	}
	const k0s = `{"name":"KUBELET_ROOT_DIR","value":"/var/lib/k0s/kubelet"}`
	for name, test := range map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"of the agents": {[]corev1.Pod{pod("lvms-operator", ""), pod("vg-manager", k0s)},
			"/var/lib/k0s/kubelet"},
		"of the operator": {[]corev1.Pod{pod("lvms-operator", k0s)}, "/var/lib/k0s/kubelet"},
		"of another": {[]corev1.Pod{pod("vg-manager", ""), pod("x", k0s)},
			hostpaths.DefaultKubeletDir},
	} {
		t.Run(name, func(t *testing.T) {
			helper, err := (&gathering{}).helper(t.Context(), cluster.Inventory{Pods: test.pods})
			if err != nil {
				t.Fatal(err)
			}
			if got := helper.Layout.KubeletDir(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := command()
	c.SetArgs(args)
	c.SetOut(&out)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestAnalyzeFindsTheArchiveAndTellsByItsExitCode(t *testing.T) {
	folder := t.TempDir()
	if _, err := run(t, "analyze", folder); err == nil || !strings.Contains(err.Error(), "0 archives") {
		t.Errorf("got %v", err)
	}
	node := filepath.Join(folder, "quay-io-x", "cluster-scoped-resources", "core", "nodes")
	if err := os.MkdirAll(node, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := run(t, "analyze", folder)
	var verdict notHealthy
	if !errors.As(err, &verdict) || !strings.HasPrefix(text, "# LVM Storage: unknown") {
		t.Errorf("got %q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(node, "node1.yaml"), []byte("metadata: {name: node1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err = run(t, "analyze", "--json", folder); err != nil || !strings.Contains(text, `"verdict": "healthy"`) {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := run(t, "analyze", filepath.Join(folder, "nowhere")); err == nil {
		t.Error("a folder that is not there was read")
	}
}
