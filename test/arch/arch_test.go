// Package arch checks which packages may import which. docs/explanation/architecture.md explains the rules.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lvm-storage/lvm-operator/"

// rule lists which of our packages those below a directory may import directly, and which they must not depend on.
type rule struct {
	folder string
	ours   []string // directories relative to the module; a package may always import packages below its own directory
	never  []string // prefixes of import paths, including indirect imports
	starts []string // packages of starters that it may import directly
	// standard are the packages of the standard library that may be imported directly. If it is nil, all may.
	standard []string
}

// starters are packages that start processes. Others need them too, client-go for example, so only direct imports are
// checked.
var starters = []string{"os/exec", "k8s.io/mount-utils", "k8s.io/utils/exec"}

var (
	kubernetes = []string{"k8s.io/", "sigs.k8s.io/"}
	clients    = []string{"k8s.io/client-go/", "sigs.k8s.io/controller-runtime"}
	// operatorCSI are the packages of CSI that run in the operator. internal/csi/service is for both sides.
	operatorCSI = []string{module + "internal/csi/capacity", module + "internal/csi/driver",
		module + "internal/csi/sidecar", module + "internal/csi/unclaimed"}
)

// The most specific directory applies.
var rules = []rule{
	{folder: "api", never: append([]string{module}, clients...)},
	{folder: "vgmanager", never: []string{module}}, // the directory itself: permissions only
	{folder: "vgmanager/host", never: kubernetes, starts: []string{"os/exec"}},
	{folder: "vgmanager/lvm", ours: []string{"internal/bounded", "vgmanager/host", "vgmanager/lvm/ondisk"},
		never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/lvmarchive", ours: []string{"vgmanager/lvm"},
		never: []string{module + "api", module + "controllers", module + "internal/csi"}},
	{folder: "vgmanager/host/lvmsource", ours: []string{"vgmanager/host"},
		never: append([]string{module + "api"}, kubernetes...)},
	{folder: "vgmanager/lvm/ondisk", never: append([]string{module}, kubernetes...)},
	{folder: "vgmanager/device", ours: []string{"internal/bounded", "vgmanager/host", "vgmanager/lvm/ondisk",
		"vgmanager/stack"},
		never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/lvm/lvmtest", ours: []string{"vgmanager/lvm", "vgmanager/thinmeta"},
		never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/thinmeta", ours: []string{"internal/bounded", "vgmanager/host"},
		never: append([]string{module + "api"}, kubernetes...)},
	{folder: "vgmanager/changedblocks", ours: []string{"api", "vgmanager/devicemapper", "vgmanager/lvm",
		"vgmanager/thinmeta"}, never: append([]string{module + "controllers"}, clients...)},
	{folder: "vgmanager/copies", ours: []string{"api", "internal/agentpod", "internal/bounded", "internal/httpserver",
		"internal/limit", "internal/mutualtls", "vgmanager/blockdevice", "vgmanager/changedblocks", "vgmanager/lvm",
		"vgmanager/lvmd"},
		never: []string{module + "controllers", module + "internal/csi"}},
	{folder: "vgmanager/blockdevice", never: append([]string{module}, kubernetes...)},
	{folder: "vgmanager/agentcert", ours: []string{"api", "internal/mutualtls", "internal/pki"},
		never: []string{module + "controllers", module + "internal/csi"}},
	{folder: "vgmanager/agentserver", ours: []string{"internal/mutualtls", "internal/streamserver",
		"vgmanager/changedblocks", "vgmanager/lvm", "vgmanager/lvmd"},
		never: []string{module + "controllers", module + "internal/csi"}},
	{folder: "vgmanager/groupsnapshot", ours: []string{"internal/groupprotocol", "vgmanager/devicemapper",
		"vgmanager/host", "vgmanager/lvm"},
		never: append([]string{module + "api"}, kubernetes...)},
	{folder: "vgmanager/fsck", never: append([]string{module}, kubernetes...)},
	{folder: "vgmanager/lvmd/deviceclass", never: append([]string{module}, kubernetes...)},
	{folder: "vgmanager/lvmd", ours: []string{"vgmanager/lvm", "vgmanager/devicemapper", "vgmanager/erase",
		"vgmanager/groupsnapshot"},
		never: []string{module + "api"}},
	{folder: "vgmanager/volumegroup",
		ours: []string{"api", "internal/condition", "internal/earlier", "internal/event", "internal/paging",
			"internal/taint", "internal/text", "vgmanager/fsck", "vgmanager/lvm", "vgmanager/device", "vgmanager/lvmd",
			"vgmanager/lvmd/deviceclass", "vgmanager/thinmeta"},
		never: []string{module + "controllers", module + "internal/csi"}},
	// The planner is pure: a plan depends only on its arguments. It has no context, files, processes, goroutines or
	// random numbers; TestThePlannerHasNoClock restricts the package time. vgmanager/lvm and vgmanager/device are for
	// their types. They run programs and so depend on os/exec, but only with a context.
	{folder: "vgmanager/volumegroup/plan",
		ours: []string{"api", "internal/taint", "internal/text", "internal/wwn", "vgmanager/fsck", "vgmanager/lvm",
			"vgmanager/device", "vgmanager/lvmd/deviceclass", "vgmanager/thinmeta"},
		never: append([]string{module + "controllers", module + "internal/csi"}, clients...),
		standard: []string{"cmp", "crypto/sha256", "encoding/hex", "errors", "fmt", "maps", "math", "path", "reflect",
			"slices", "strings", "time"}},
	{folder: "vgmanager/logicalvolume",
		ours: []string{"api", "internal/csi/service", "internal/earlier", "internal/event",
			"internal/groupprotocol", "internal/metric", "internal/paging", "vgmanager/blockdevice",
			"vgmanager/copies", "vgmanager/devicemapper", "vgmanager/erase", "vgmanager/groupsnapshot",
			"vgmanager/lvm", "vgmanager/lvmd"},
		never: append([]string{module + "controllers"}, operatorCSI...)},
	{folder: "vgmanager/erase", ours: []string{"internal/bounded", "vgmanager/blockdevice"},
		never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/fstrim", ours: []string{"api", "internal/event", "internal/metric", "internal/text",
		"vgmanager/lvmd"},
		never: []string{module + "controllers", module + "internal/csi"}},
	{folder: "vgmanager/capacity", ours: []string{"api", "internal/metric", "vgmanager/lvmd"},
		never: []string{module + "controllers", module + "internal/csi"}},
	// It takes only the mount table and the arguments of mount(8) from mount-utils.
	{folder: "vgmanager/cgroup", ours: []string{"api"}, never: clients},
	{folder: "vgmanager/csinode", ours: []string{"api", "internal/bounded", "internal/csi/service", "vgmanager/cgroup",
		"vgmanager/devicemapper", "vgmanager/fsck", "vgmanager/host", "vgmanager/luks", "vgmanager/stack"},
		never:  append([]string{module + "controllers"}, operatorCSI...),
		starts: []string{"k8s.io/mount-utils"}},
	{folder: "vgmanager/stack", ours: []string{"internal/bounded"},
		never: append([]string{module + "api", module + "vgmanager/host"}, kubernetes...)},
	{folder: "vgmanager/uevent", never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/devicemapper", ours: []string{"internal/bounded"},
		never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/luks", ours: []string{"vgmanager/devicemapper", "vgmanager/host"},
		never: append([]string{module + "api"}, kubernetes...)},
	{folder: "vgmanager/health", ours: []string{"vgmanager/devicemapper"},
		never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/metrics", ours: []string{"api", "internal/metric", "vgmanager/host"},
		never: []string{module + "controllers", module + "internal/csi"}},
	{folder: "vgmanager/smart", ours: []string{"api", "internal/bounded", "internal/metric"},
		never: []string{module + "controllers", module + "internal/csi"}},
	{folder: "vgmanager/collect", ours: []string{"internal/collected", "internal/nodelayout", "vgmanager/host",
		"vgmanager/host/lvmsource"},
		never: append([]string{module + "api"}, kubernetes...)},
	// It must not start programs or ask the API server: it runs when both may be unavailable.
	{folder: "vgmanager/rescue", ours: []string{"internal/bounded"},
		never: append([]string{module + "api", module + "vgmanager/host"}, kubernetes...)},
	{folder: "vgmanager/inventory",
		ours: []string{"api", "internal/bounded", "vgmanager/lvm", "vgmanager/host/lvmsource", "vgmanager/device",
			"vgmanager/volumegroup/plan"},
		never: []string{module + "controllers", module + "internal/csi"}},
	{folder: "internal/csi",
		ours: []string{"api", "internal/bounded", "internal/event", "internal/fence", "internal/groupprotocol",
			"internal/paging", "internal/relocate", "internal/room", "internal/snapshotref"},
		never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "internal/agentca", ours: []string{"internal/mutualtls", "internal/pki", "internal/servingcert",
		"internal/upkeep"},
		never: []string{module + "api"}},
	{folder: "internal/csi/snapshotmetadata", ours: []string{"api", "internal/agentpod", "internal/apply",
		"internal/limit", "internal/mutualtls", "internal/streamserver", "internal/upkeep"},
		never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "internal/agentpod", never: []string{module + "api"}},
	{folder: "internal/httpserver", ours: []string{"internal/limit"}, never: []string{module + "api"}},
	{folder: "internal/limit", never: append([]string{module}, clients...)},
	{folder: "internal/webhookserver", ours: []string{"internal/httpserver", "internal/limit"},
		never: []string{module + "api"}},
	{folder: "internal/apply", never: []string{module + "api"}},
	{folder: "internal/bounded", never: kubernetes},
	{folder: "internal/condition", never: []string{module + "api"}},
	{folder: "internal/taint", never: []string{module + "api"}},
	{folder: "internal/event", ours: []string{"internal/text"}, never: []string{module + "api"}},
	// It has only what the scheduler sends, and no access to the API server.
	{folder: "internal/earlier", ours: []string{"internal/paging"}, never: []string{module + "api"}},
	{folder: "internal/extender", ours: []string{"api", "internal/limit", "internal/servingcert",
		"internal/tlsprofile"},
		never: append([]string{module + "vgmanager", module + "controllers"}, clients...)},
	{folder: "internal/footprint", never: []string{module + "api"}},
	{folder: "internal/metric", never: kubernetes},
	// It is pure, so that a test can visit every order of events.
	{folder: "internal/groupprotocol", never: append([]string{module}, kubernetes...),
		standard: []string{"time"}},
	{folder: "internal/collected", never: append([]string{module}, kubernetes...)},
	{folder: "internal/mutualtls", never: append([]string{module + "api"}, kubernetes...)},
	{folder: "internal/nodelayout", never: append([]string{module}, kubernetes...)},
	{folder: "internal/nodemarks", never: []string{module + "api"}},
	{folder: "internal/olm", never: []string{module + "api"}},
	{folder: "internal/paging", never: []string{module + "api"}},
	{folder: "internal/pki", never: append([]string{module}, kubernetes...)},
	{folder: "internal/clusterid", ours: []string{"api"},
		never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "internal/fence", ours: []string{"api", "internal/csi/service"},
		never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "internal/platform", never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "internal/reference", never: append([]string{module + "api", "k8s.io/"}, clients...)},
	{folder: "internal/podwebhook", ours: []string{"api", "internal/apply", "internal/servingcert", "internal/upkeep"},
		never: []string{module + "vgmanager", module + "controllers", module + "internal/csi"}},
	{folder: "internal/deletionwebhook", ours: []string{"api", "internal/apply", "internal/paging",
		"internal/servingcert", "internal/snapshotref", "internal/upkeep"},
		never: []string{module + "vgmanager", module + "controllers", module + "internal/csi"}},
	{folder: "internal/relocate", ours: []string{"api"}, never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "internal/room", ours: []string{"api"}, never: append([]string{module + "vgmanager",
		module + "controllers"}, clients...)},
	{folder: "internal/rights", never: []string{module + "api"}},
	{folder: "internal/scrape", ours: []string{"internal/httpserver", "internal/limit", "internal/metric",
		"internal/version"}, never: []string{module + "api"}},
	{folder: "internal/servingcert", ours: []string{"internal/pki"}, never: kubernetes},
	{folder: "internal/servingcert/secretcert", ours: []string{"internal/pki", "internal/servingcert",
		"internal/upkeep"},
		never: []string{module + "api"}},
	{folder: "internal/streamserver", ours: []string{"internal/limit"}, never: []string{module + "api"}},
	{folder: "internal/text", never: append([]string{module}, kubernetes...)},
	{folder: "internal/tlsprofile", never: append([]string{module + "api"}, clients...)},
	{folder: "internal/tlsprofile/profilewatch", ours: []string{"internal/tlsprofile"},
		never: []string{module + "api"}},
	{folder: "internal/trim", ours: []string{"api"}, never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "internal/snapshotref", ours: []string{"internal/paging"}, never: []string{module + "api"}},
	{folder: "internal/webhook", ours: []string{"api", "internal/csi/service", "internal/paging", "internal/wwn"},
		never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "internal/upkeep", never: append([]string{module}, kubernetes...)},
	{folder: "internal/version", never: kubernetes},
	{folder: "internal/wwn", never: append([]string{module}, kubernetes...), standard: []string{"strings"}},
	{folder: "controllers", ours: []string{"api", "internal", "monitoring/access", "monitoring/dashboards",
		"monitoring/prometheusrule", "monitoring/rules"}, never: []string{module + "vgmanager"}},
	// What reads the state, what applies operands and what computes the status are independent of the reconciler that
	// calls them. The status depends only on the state and on the errors of the operands, not on how these are built or
	// applied.
	{folder: "controllers/lvmcluster/observe",
		ours:  []string{"api", "internal/paging", "internal/snapshotref", "internal/text"},
		never: []string{module + "vgmanager", module + "internal/apply", module + "internal/csi"}},
	{folder: "controllers/lvmcluster/operand",
		ours: []string{"api", "controllers/installed", "controllers/lvmcluster/observe", "internal/apply",
			"internal/clusterid", "internal/nodelayout", "internal/nodemarks", "internal/paging", "internal/platform",
			"internal/text", "monitoring/dashboards"},
		never: []string{module + "vgmanager", module + "controllers/lvmcluster/status", module + "internal/csi"}},
	{folder: "controllers/lvmcluster/status",
		ours: []string{"api", "controllers/lvmcluster/observe", "internal/condition", "internal/taint",
			"internal/text"},
		never: []string{module + "vgmanager", module + "controllers/lvmcluster/operand", module + "internal/apply",
			module + "internal/csi"}},
	{folder: "controllers/lvmcluster/internal/fixture", ours: []string{"api"},
		never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "cmd/lvms", ours: []string{"api", "config/pod-webhook", "config/rbac", "controllers", "internal",
		"vgmanager"}},
	// The plugin of kubectl uses the API only, and is small and independent of the programs of the cluster.
	{folder: "cli", ours: []string{"api", "internal/paging", "internal/room", "internal/version", "must-gather/analyze"},
		never: []string{module + "controllers", module + "vgmanager", module + "internal/csi"}},
	{folder: "cmd/kubectl-lvms", ours: []string{"cli"},
		never: []string{module + "controllers", module + "vgmanager", module + "internal/csi"}},
	{folder: "config/pod-webhook", never: append([]string{module}, kubernetes...)},
	{folder: "config/rbac", never: append([]string{module}, kubernetes...)},
	// The server for the console must be small and independent of the rest.
	{folder: "console-plugin", ours: []string{"internal/limit", "internal/servingcert", "internal/tlsprofile"},
		never: append([]string{module + "api", module + "controllers", module + "vgmanager"}, clients...)},
	{folder: "console-plugin/bridge", ours: []string{"api", "internal/pki", "internal/webhook", "test/env", "test/lab"},
		starts: []string{"os/exec"}},
	// It reads what the operator wrote, and runs nothing: vgmanager/collect reads nodes.
	{folder: "must-gather", ours: []string{"api", "docs", "internal/collected", "internal/nodelayout",
		"internal/version", "monitoring/runbooks", "vgmanager/collect"}, never: []string{module + "controllers",
		module + "internal/csi",
		module + "vgmanager/lvm"}},
	{folder: "docs", never: append([]string{module}, kubernetes...)},
	{folder: "hack", ours: []string{"test/env/envtests", "test/lane"}, starts: []string{"os/exec"}},
	{folder: "monitoring", ours: []string{"monitoring"}, never: clients},
	{folder: "test", ours: []string{"api", "controllers", "hack/debian", "internal", "vgmanager"},
		starts: []string{"os/exec"}},
}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, p := range list(t) {
		relative := strings.TrimPrefix(p.ImportPath, module)
		r, found := ruleOf(relative)
		if !found {
			t.Errorf("%s: no rule covers this package: add its folder to the table", relative)
			continue
		}
		for _, violation := range r.violations(relative, p) {
			t.Error(violation)
		}
	}
}

// TestTheTableCatchesAViolation tests the check itself.
func TestTheTableCatchesAViolation(t *testing.T) {
	tests := map[string]pkg{
		"host imports Kubernetes": {ImportPath: module + "vgmanager/host", Deps: []string{"k8s.io/api/core/v1"}},
		"controllers import vgmanager": {ImportPath: module + "controllers/node",
			Imports: []string{module + "vgmanager/lvm"}, Deps: []string{module + "vgmanager/lvm"}},
		"lvm imports the API through another": {ImportPath: module + "vgmanager/lvm",
			Deps: []string{module + "api/v1alpha1"}},
		"the status imports operands": {ImportPath: module + "controllers/lvmcluster/status",
			Imports: []string{module + "controllers/lvmcluster/operand"}},
		"an operand imports the reconciler": {ImportPath: module + "controllers/lvmcluster/operand",
			Imports: []string{module + "controllers/lvmcluster"}},
		"condition imports a sibling": {ImportPath: module + "internal/condition",
			Imports: []string{module + "internal/apply"}},
		"the CSI controller starts a program": {ImportPath: module + "internal/csi/driver",
			Imports: []string{"os/exec"}},
		"the node service starts a program itself": {ImportPath: module + "vgmanager/csinode",
			Imports: []string{"k8s.io/utils/exec"}},
		"the planner has a context": {ImportPath: module + "vgmanager/volumegroup/plan",
			Imports: []string{"context"}, Deps: []string{"context"}},
		"the planner imports its reconciler": {ImportPath: module + "vgmanager/volumegroup/plan",
			Imports: []string{module + "vgmanager/volumegroup"}},
		"the planner logs": {ImportPath: module + "vgmanager/volumegroup/plan",
			Deps: []string{"sigs.k8s.io/controller-runtime/pkg/log"}},
		"the list of devices imports the reconciler of volume groups": {ImportPath: module + "vgmanager/inventory",
			Imports: []string{module + "vgmanager/volumegroup"}},
	}
	for name, p := range tests {
		t.Run(name, func(t *testing.T) {
			relative := strings.TrimPrefix(p.ImportPath, module)
			r, _ := ruleOf(relative)
			if len(r.violations(relative, p)) == 0 {
				t.Error("not caught")
			}
		})
	}
}

func (r rule) violations(relative string, p pkg) []string {
	var found []string
	allowed := append([]string{r.folder}, r.ours...)
	for _, imported := range p.Imports {
		ours, isOurs := strings.CutPrefix(imported, module)
		if isOurs && !slices.ContainsFunc(allowed, func(folder string) bool { return within(ours, folder) }) {
			found = append(found, relative+" imports "+ours+", which its folder may not")
		}
		if slices.Contains(starters, imported) && !slices.Contains(r.starts, imported) {
			found = append(found, relative+" imports "+imported+": of the product, only vgmanager/host starts programs")
		}
		if r.standard != nil && isStandard(imported) && !slices.Contains(r.standard, imported) {
			found = append(found, relative+" imports "+imported+", which its folder may not")
		}
	}
	for _, dep := range p.Deps {
		if within(strings.TrimPrefix(dep, module), r.folder) {
			continue
		}
		if slices.ContainsFunc(r.never, func(prefix string) bool { return strings.HasPrefix(dep, prefix) }) {
			found = append(found, relative+" needs "+dep+", directly or through others, which its folder may never")
		}
	}
	return found
}

// isStandard returns true for a package of the standard library. The first element of other import paths is a domain.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func ruleOf(relative string) (rule, bool) {
	var best rule
	for _, r := range rules {
		if within(relative, r.folder) && len(r.folder) > len(best.folder) {
			best = r
		}
	}
	return best, best.folder != ""
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}

func list(t *testing.T) []pkg {
	t.Helper()
	command := exec.Command("go", "list", "-deps=false", "-tags=lab,env,e2e", "-json=ImportPath,Imports,Deps", "./...")
	command.Dir = "../.."
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
