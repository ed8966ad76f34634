package env

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/yaml"
)

// openShiftCRDs returns the directory of OpenShift's CRDs for a group, version v1.
func openShiftCRDs(group string) string {
	return filepath.Join(folder("github.com/openshift/api"), group, "v1", "zz_generated.crd-manifests")
}

// ConsoleCRDs returns the CRD files of the OpenShift console.
func ConsoleCRDs() []string {
	return []string{filepath.Join(openShiftCRDs("console"), "90_consoleplugins.crd.yaml"),
		filepath.Join(openShiftCRDs("console"), "00_consolequickstarts.crd.yaml")}
}

// APIServerCRD returns the CRD file of OpenShift's APIServer, which has the TLS profile.
func APIServerCRD() string {
	return filepath.Join(openShiftCRDs("config"), "0000_10_config-operator_01_apiservers-Default.crd.yaml")
}

// SnapshotMetadataCRD returns the CRD file of SnapshotMetadataServices, version v1beta1.
func SnapshotMetadataCRD() string {
	return filepath.Join(folder("github.com/kubernetes-csi/external-snapshot-metadata/client"), "config", "crd",
		"cbt.storage.k8s.io_snapshotmetadataservices.yaml")
}

// EarlierCRD returns the CRD file of LogicalVolumes of TopoLVM before 0.15.
func EarlierCRD() string {
	return filepath.Join(folder("github.com/topolvm/topolvm"), "config", "crd", "bases",
		"topolvm.cybozu.com_logicalvolumes.yaml")
}

// InfrastructureCRD writes the CRD of OpenShift's Infrastructure to a file in a folder, without its rules: the oldest
// Kubernetes that is supported lacks functions that they use. It returns the path of the file.
func InfrastructureCRD(folder string) string {
	return configCRD(folder, "0000_10_config-operator_01_infrastructures-Default.crd.yaml")
}

// ClusterVersionCRD writes the CRD of OpenShift's ClusterVersion to a file in a folder, without its rules: the oldest
// Kubernetes that is supported lacks functions that they use. It returns the path of the file.
func ClusterVersionCRD(folder string) string {
	return configCRD(folder, "0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml")
}

// configCRD writes a CRD of config.openshift.io to a file in a folder, without its rules, and returns the path.
func configCRD(folder, name string) string {
	content, err := os.ReadFile(filepath.Join(openShiftCRDs("config"), name))
	utilruntime.Must(err)
	crd := map[string]any{}
	utilruntime.Must(yaml.Unmarshal(content, &crd))
	removeRules(crd)
	content, err = yaml.Marshal(crd)
	utilruntime.Must(err)
	path := filepath.Join(folder, name)
	utilruntime.Must(os.WriteFile(path, content, 0o600))
	return path
}

// removeRules removes the validation rules of a schema.
func removeRules(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		delete(s, "x-kubernetes-validations")
		for _, value := range s {
			removeRules(value)
		}
	case []any:
		for _, value := range s {
			removeRules(value)
		}
	}
}

// OLMCRDs returns CRD files of the Operator Lifecycle Manager.
func OLMCRDs() []string {
	files := filepath.Join(folder("github.com/operator-framework/api"), "crds")
	return []string{filepath.Join(files, "operators.coreos.com_clusterserviceversions.yaml"),
		filepath.Join(files, "operators.coreos.com_operatorgroups.yaml")}
}

// MonitoringCRDs returns the CRD files of the Prometheus Operator. The lab's Go module for it pins the version.
func MonitoringCRDs() []string {
	module, err := root()
	utilruntime.Must(err)
	out, err := exec.Command("go", "-C", filepath.Join(module, "test", "lab", "programs", "monitoring"),
		"mod", "download", "-json", "github.com/prometheus-operator/prometheus-operator").Output()
	utilruntime.Must(err)
	var downloaded struct{ Dir string }
	utilruntime.Must(json.Unmarshal(out, &downloaded))
	folder := filepath.Join(downloaded.Dir, "example", "prometheus-operator-crd")
	return []string{
		filepath.Join(folder, "monitoring.coreos.com_prometheusrules.yaml"),
		filepath.Join(folder, "monitoring.coreos.com_servicemonitors.yaml"),
	}
}

// OptionalCRDs returns the CRD files that only some clusters have: SecurityContextConstraints and snapshots.
func OptionalCRDs() []string {
	security := "security/v1/zz_generated.crd-manifests/0000_03_config-operator_01_securitycontextconstraints.crd.yaml"
	files := []string{filepath.Join(folder("github.com/openshift/api"), security)}
	snapshots := filepath.Join(folder("github.com/kubernetes-csi/external-snapshotter/client/v8"), "config", "crd")
	for _, plural := range []string{"volumesnapshotclasses", "volumesnapshotcontents", "volumesnapshots"} {
		group := strings.Replace(plural, "volume", "volumegroup", 1)
		files = append(files, filepath.Join(snapshots, "snapshot.storage.k8s.io_"+plural+".yaml"),
			filepath.Join(snapshots, "groupsnapshot.storage.k8s.io_"+group+".yaml"))
	}
	return files
}

// folder returns the directory of a Go module.
func folder(module string) string {
	// A module from which nothing is built may not have been downloaded yet.
	utilruntime.Must(exec.Command("go", "mod", "download", module).Run())
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	utilruntime.Must(err)
	return strings.TrimSpace(string(out))
}
