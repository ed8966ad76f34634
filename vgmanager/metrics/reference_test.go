package metrics

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

const (
	referenceFile = "../../docs/reference/metrics.md"
	// before and after are the parts of the page that are not of this package.
	before = `# Metrics

The operator and each node agent serve metrics at ` + "`/metrics`" + ` on port 8443, with TLS, to whoever may ` + "`get`" + ` the path (TokenReview, SubjectAccessReview). To read them starts no program on the node and waits for no LVM. A value that is not known has no series: absent is not zero.

## Capacity, of each node agent

Names and labels are TopoLVM's.

| metric | labels | meaning |
|---|---|---|
| ` + "`topolvm_volumegroup_size_bytes`" + ` | node, device_class | size of the volume group |
| ` + "`topolvm_volumegroup_available_bytes`" + ` | node, device_class | thin: free space of the volume group; thick: what new volumes can have |
| ` + "`topolvm_thinpool_size_bytes`" + ` | node, device_class | size of the thin pool's data |
| ` + "`topolvm_thinpool_data_percent`" + `, ` + "`topolvm_thinpool_metadata_percent`" + ` | node, device_class | how full they are; none while the pool is not active |
| ` + "`topolvm_thinpool_overprovisioned_available`" + ` | node, device_class | what new volumes can have together, in bytes |
| ` + "`lvms_orphan_logical_volumes`" + ` | node, device_class, kind | number of [orphans](../how-to/orphans.md) |

## Volume groups, devices and commands, of each node agent

| metric | labels | meaning |
|---|---|---|
`
	after = `
The operator has those of controller-runtime and of its CSI side-cars (` + "`csi_sidecar_operations_seconds`" + `), and both those of Go and of client-go.
`
)

// The page is written with: go test ./vgmanager/metrics -update
func TestReferenceHasEveryMetric(t *testing.T) {
	var page strings.Builder
	page.WriteString(before)
	for _, f := range append(append([]family{}, families...), commandsStarted, commandsFailed, commandsTook) {
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", f.name, strings.Join(f.labels, ", "), f.help)
	}
	page.WriteString(after)
	if *update {
		if err := os.WriteFile(referenceFile, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != page.String() {
		t.Errorf("%s is stale: run go test ./vgmanager/metrics -update", referenceFile)
	}
}
