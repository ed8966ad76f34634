package env

import (
	"os/exec"
	"path/filepath"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// OptionalCRDs returns the files of the CRDs that some clusters have: SecurityContextConstraints and snapshots.
func OptionalCRDs() []string {
	security := "security/v1/zz_generated.crd-manifests/0000_03_config-operator_01_securitycontextconstraints.crd.yaml"
	files := []string{filepath.Join(folder("github.com/openshift/api"), security)}
	snapshots := filepath.Join(folder("github.com/kubernetes-csi/external-snapshotter/client/v8"), "config", "crd")
	for _, plural := range []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"} {
		files = append(files, filepath.Join(snapshots, "snapshot.storage.k8s.io_"+plural+".yaml"))
	}
	return files
}

// folder returns the folder of a module.
func folder(module string) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	utilruntime.Must(err)
	return strings.TrimSpace(string(out))
}
