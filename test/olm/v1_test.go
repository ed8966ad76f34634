package olm

import (
	"slices"
	"strings"
	"testing"
)

func TestTheDocumentedManifestForOLMv1HasWhatAnInstallationNeeds(t *testing.T) {
	manifest, err := DocumentedV1("quay.io/x@sha256:1")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, object := range manifest {
		kinds = append(kinds, object.GetKind())
	}
	want := []string{
		"ClusterCatalog", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ClusterExtension",
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("got %q, want %q", kinds, want)
	}
	if rest := manifest.Without("ClusterRoleBinding", "ClusterExtension"); len(rest) != 4 || len(manifest) != 6 {
		t.Errorf("without two kinds: %d of %d", len(rest), len(manifest))
	}
	const page = "docs/how-to/remove.md"
	if command, err := DocumentedCommand(page, "kubectl patch crd "); err != nil || !strings.HasSuffix(command, "'") {
		t.Errorf("got %q, %v", command, err)
	}
	if command, err := DocumentedCommand(page, "kubectl nosuch"); err == nil {
		t.Errorf("a command that is not there is %q", command)
	}
	if conditions := conditionsOf(manifest[0]); conditions != "" {
		t.Errorf("an object without a status has %q", conditions)
	}
}
