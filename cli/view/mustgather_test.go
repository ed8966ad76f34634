package view

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// archiveOf writes an archive of must-gather with LVMClusters and node statuses, and returns its directory.
func archiveOf(t *testing.T, cluster *v1alpha1.LVMCluster, nodes ...*v1alpha1.LVMVolumeGroupNodeStatus) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "must-gather.local.1", "image")
	write := func(resource, name string, object any) {
		data, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(folder, "namespaces", "storage", "lvm.topolvm.io", resource)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, name+".yaml"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("lvmclusters", cluster.Name, cluster)
	for _, node := range nodes {
		write("lvmvolumegroupnodestatuses", node.Name, node)
	}
	return filepath.Dir(folder)
}

// TestAnArchiveIsAnalyzed: without a cluster.
func TestAnArchiveIsAnalyzed(t *testing.T) {
	folder := archiveOf(t, clitest.BrokenCluster("storage"), clitest.HealthyNode("storage"), clitest.BrokenNode("storage"))
	for args, want := range map[string]string{
		"":        "# LVM Storage: not healthy",
		"-o json": `"verdict": "not healthy"`,
		"-o yaml": "verdict: not healthy",
	} {
		got := plugin.Run(t, nil, append([]string{"must-gather", "analyze", folder}, strings.Fields(args)...)...)
		if got.Code != session.ExitProblems || !strings.Contains(got.Out, want) || !strings.Contains(got.Out, "worker-2") ||
			got.Err != "" {
			t.Errorf("%q: got %+v, want %q", args, got, want)
		}
	}
	// What the archive does not have is not known to be healthy.
	folder = archiveOf(t, clitest.HealthyCluster("storage"), clitest.HealthyNode("storage"))
	failed := filepath.Join(folder, "image", "errors.json")
	if err := os.WriteFile(failed, []byte(`[{"what":"nodes","error":"timeout"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := plugin.Run(t, nil, "must-gather", "analyze", folder); got.Code == 0 {
		t.Errorf("an incomplete archive: got %+v", got)
	}
}

func TestWhatIsNoArchive(t *testing.T) {
	empty := t.TempDir()
	for args, want := range map[string]string{
		empty:              "contains 0 archives: specify the directory",
		"/nosuch":          "no such file",
		empty + " -o wide": `unknown output format "wide": use json or yaml`,
		"":                 "accepts 1 arg",
	} {
		got := plugin.Run(t, nil, append([]string{"must-gather", "analyze"}, strings.Fields(args)...)...)
		if got.Code != session.ExitError || !strings.Contains(got.Err, want) || got.Out != "" {
			t.Errorf("%q: got %+v, want %q", args, got, want)
		}
	}
}
