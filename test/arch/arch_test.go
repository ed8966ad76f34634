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
	// product are the programs, which packages for all of them must not need. agent are what the agent must not need.
	product = []string{module + "vgmanager", module + "controllers"}
	agent   = []string{module + "controllers", module + "internal/csi"}
	// programs are those of the cluster, of which the plugin of kubectl is independent. command is what a group of its
	// commands may import.
	programs = []string{module + "controllers", module + "vgmanager", module + "internal/csi"}
	command  = []string{"api", "cli/objects", "cli/output", "cli/session", "internal/verdict", "internal/volume"}
)

// names is the package with the names that the product writes and reads, and waits the one by which work says that it
// waits. They import nothing of ours, so that every package can import them.
const (
	names = "api/wellknown"
	waits = "internal/liveness"
)

// The most specific directory applies. The groups of packages in internal and in vgmanager are in the order of their
// layers: TestGroupsAreLayers checks that each imports only groups before it.
var rules = []rule{
	{folder: "api", never: append([]string{module}, clients...)},
	{folder: names, never: append([]string{module}, kubernetes...)},

	{folder: waits, never: append([]string{module}, kubernetes...)},
	{folder: "internal/liveness/adapt", never: append([]string{module + "api"}, product...)},
	{folder: "internal/kube", never: []string{module + "api"}},
	{folder: "internal/cluster", never: []string{module + "api"}},
	{folder: "internal/cluster/clusterid", ours: []string{"api"}, never: product},
	{folder: "internal/cluster/wwn", never: append([]string{module}, kubernetes...), standard: []string{"strings"}},
	{folder: "internal/version", never: append([]string{module}, kubernetes...)},
	{folder: "internal/tls", ours: []string{"internal/kube", "internal/liveness"}, never: []string{module + "api"}},
	{folder: "internal/tls/pki", never: append([]string{module}, kubernetes...)},
	{folder: "internal/metrics", ours: []string{"internal/liveness", "internal/tls", "internal/version"}, never: []string{module + "api"}},
	{folder: "internal/volume", ours: []string{"api", "internal/kube"}, never: product},
	// It is pure, so that a test can visit every order of events.
	{folder: "internal/volume/groupprotocol", never: append([]string{module}, kubernetes...),
		standard: []string{"time"}},
	// It is pure: problems depend only on the objects and the time that it is given. The types of TopoLVM need the
	// scheme of controller-runtime.
	{folder: "internal/verdict", ours: []string{"api"},
		never:    append([]string{"k8s.io/client-go/", "sigs.k8s.io/controller-runtime/pkg/client"}, product...),
		standard: []string{"cmp", "fmt", "maps", "regexp", "slices", "strings", "time"}},
	{folder: "internal/csi", ours: []string{"api", "internal/cluster", "internal/kube", "internal/liveness",
		"internal/tls", "internal/version", "internal/volume"}, never: product},
	{folder: "internal/topolvm", ours: []string{"api", "internal/kube", "internal/tls"}, never: product},
	// It has only what the scheduler sends, and no access to the API server.
	{folder: "internal/topolvm/extender", ours: []string{"api", "internal/tls"},
		never: append(clients, product...)},
	{folder: "internal/admission", ours: []string{"api", "internal/kube", "internal/cluster", "internal/tls",
		"internal/volume"}, never: product},
	{folder: "test/reference", never: append([]string{module + "api", "k8s.io/"}, clients...)},

	{folder: "vgmanager", never: []string{module}}, // the directory itself: permissions only
	{folder: "vgmanager/machine", never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/machine/host", never: kubernetes, starts: []string{"os/exec"}},
	{folder: "vgmanager/machine/cgroup", ours: []string{"internal/volume/iolimits"}, never: clients},
	{folder: "vgmanager/lvm", ours: []string{"vgmanager/machine"},
		never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/lvm/lvmarchive", ours: []string{"internal/liveness", "vgmanager/lvm"}, never: append([]string{module + "api"}, agent...)},
	{folder: "vgmanager/lvm/ondisk", never: append([]string{module}, kubernetes...)},
	{folder: "vgmanager/lvm/changedblocks", ours: []string{"api", "vgmanager/lvm", "vgmanager/machine"},
		never: clients},
	{folder: "vgmanager/disk", ours: []string{"vgmanager/lvm/ondisk", "vgmanager/machine"},
		never: append([]string{module + "api"}, clients...)},
	{folder: "vgmanager/disk/smart", ours: []string{"api", "internal/metrics", "vgmanager/machine"}, never: agent},
	// It must not start programs or ask the API server: it runs when both may be unavailable.
	{folder: "vgmanager/rescue", ours: []string{"vgmanager/machine/blockdevice", "vgmanager/machine/bounded"},
		never: append([]string{module + "api", module + "vgmanager/machine/host"}, kubernetes...)},
	// It takes only the mount table and the arguments of mount(8) from mount-utils.
	{folder: "vgmanager/csinode", ours: []string{"api", "internal/liveness", "internal/volume", "vgmanager/lvm",
		"vgmanager/machine"},
		never:  agent,
		starts: []string{"k8s.io/mount-utils"}},
	{folder: "vgmanager/volume", ours: []string{"api", "internal/cluster", "internal/kube", "internal/liveness",
		"internal/metrics",
		"internal/tls", "internal/topolvm", "internal/volume", "vgmanager/lvm", "vgmanager/machine"}, never: agent},
	// It has its own types for requests and errors: only lvmd has those of TopoLVM's protocol.
	{folder: "vgmanager/volume/engine", ours: []string{"internal/volume/health", "vgmanager/lvm", "vgmanager/machine",
		"vgmanager/volume/groupsnapshot"},
		never: []string{module + "api", "github.com/topolvm/topolvm/pkg/lvmd/proto"}},
	{folder: "vgmanager/volume/lvmd", ours: []string{"vgmanager/lvm", "vgmanager/volume/engine"},
		never: []string{module + "api"}},
	{folder: "vgmanager/volume/engine/deviceclass", never: append([]string{module}, kubernetes...)},
	{folder: "vgmanager/volume/groupsnapshot", ours: []string{"internal/volume/groupprotocol", "vgmanager/lvm",
		"vgmanager/machine"}, never: append([]string{module + "api"}, kubernetes...)},
	{folder: "vgmanager/group", ours: []string{"api", "internal/cluster", "internal/kube", "internal/liveness",
		"internal/topolvm", "internal/volume", "vgmanager/disk", "vgmanager/lvm", "vgmanager/machine", "vgmanager/volume"}, never: agent},
	// The planner is pure: a plan depends only on its arguments. It has no context, files, processes, goroutines or
	// random numbers; TestThePlannerHasNoClock restricts the package time. Packages of LVM and of devices are for
	// their types. They run programs and so depend on os/exec, but only with a context.
	{folder: "vgmanager/group/volumegroup/plan",
		ours: []string{"api", "internal/cluster/removednode", "internal/cluster/wwn", "internal/kube/taint",
			"internal/kube/text", "internal/volume/classspec", "internal/volume/recoveryplan", "vgmanager/disk/device",
			"vgmanager/lvm", "vgmanager/machine/fsck", "vgmanager/volume/engine/deviceclass"},
		never: append(clients, agent...),
		standard: []string{"cmp", "crypto/sha256", "encoding/hex", "errors", "fmt", "maps", "math", "path", "reflect",
			"slices", "strings", "time"}},
	{folder: "vgmanager/group/inventory", ours: []string{"api", "internal/liveness/adapt", "vgmanager/disk",
		"vgmanager/group/volumegroup/plan", "vgmanager/lvm", "vgmanager/machine"}, never: agent},
	{folder: "vgmanager/outside", ours: []string{"api", "internal/cluster", "internal/liveness", "internal/metrics",
		"internal/tls",
		"vgmanager/lvm", "vgmanager/machine", "vgmanager/volume"}, never: agent},
	{folder: "vgmanager/outside/collect", ours: []string{"internal/cluster", "vgmanager/machine"},
		never: append([]string{module + "api"}, kubernetes...)},

	{folder: "controllers", ours: []string{"api", "internal", "monitoring/access", "monitoring/dashboards",
		"monitoring/prometheusrule", "monitoring/rules"}, never: []string{module + "vgmanager"}},
	// The decisions of a move are pure: a step depends only on the objects and the time that it is given.
	{folder: "controllers/volumemove/plan", ours: []string{"api", "internal/csi/supply", "internal/kube/text",
		"internal/volume"}, never: []string{module + "vgmanager"},
		standard: []string{"cmp", "fmt", "math", "slices", "strconv", "strings", "time"}},
	// What reads the state, what applies operands and what computes the status are independent of the reconciler that
	// calls them. The status depends only on the state and on the errors of the operands, not on how these are built or
	// applied.
	{folder: "controllers/lvmcluster/observe",
		ours:  []string{"api", "internal/kube/paging", "internal/kube/taint", "internal/kube/text", "internal/volume"},
		never: []string{module + "vgmanager", module + "internal/kube/apply", module + "internal/csi"}},
	{folder: "controllers/lvmcluster/operand",
		ours: []string{"api", "controllers/installed", "controllers/lvmcluster/observe", "internal/kube/apply",
			"internal/cluster/clusterid", "internal/cluster/hostpaths", "internal/cluster/removednode",
			"internal/kube/nodeannotations", "internal/kube/paging", "internal/cluster/platform",
			"internal/kube/text", "internal/volume/classspec", "monitoring/dashboards"},
		never: []string{module + "vgmanager", module + "controllers/lvmcluster/status", module + "internal/csi"}},
	{folder: "controllers/lvmcluster/status",
		ours: []string{"api", "controllers/lvmcluster/observe", "internal/kube/condition", "internal/kube/taint",
			"internal/kube/text"},
		never: []string{module + "vgmanager", module + "controllers/lvmcluster/operand", module + "internal/kube/apply",
			module + "internal/csi"}},
	{folder: "controllers/lvmcluster/internal/fixture", ours: []string{"api"},
		never: []string{module + "vgmanager", module + "controllers"}},
	{folder: "cmd/lvms", ours: []string{"api", "config/pod-webhook", "config/rbac", "controllers", "internal",
		"vgmanager"}},
	// The plugin of kubectl uses the API only, and is small and independent of the programs of the cluster. Its
	// packages are in the order of their layers.
	{folder: "cli/output", ours: []string{"api"}, never: programs},
	{folder: "cli/objects", ours: []string{"api", "cli/output", "internal/verdict"}, never: programs},
	{folder: "cli/session", ours: []string{"api", "cli/objects", "cli/output", "internal/kube/paging",
		"internal/verdict", "internal/version", "internal/volume/view"}, never: programs},
	{folder: "cli/clitest", ours: append(command, "test/limit"), never: programs},
	{folder: "cli/device", ours: command, never: programs},
	{folder: "cli/label", ours: command, never: programs},
	{folder: "cli/move", ours: command, never: programs},
	{folder: "cli/recovery", ours: command, never: programs},
	{folder: "cli/setup", ours: command, never: programs},
	{folder: "cli/view", ours: append(command, "must-gather/analyze"), never: programs},
	{folder: "cli", never: programs},
	{folder: "cmd/kubectl-lvms", ours: []string{"cli"}, never: programs},
	{folder: "config/pod-webhook", never: append([]string{module}, kubernetes...)},
	{folder: "config/rbac", never: append([]string{module}, kubernetes...)},
	// The server for the console must be small and independent of the rest.
	{folder: "console-plugin", ours: []string{"internal/tls/limit", "internal/tls/servingcert", "internal/tls/tlsprofile"},
		never: append([]string{module + "api", module + "controllers", module + "vgmanager"}, clients...)},
	{folder: "console-plugin/bridge", ours: []string{"api", "internal/tls/pki", "internal/admission/webhook", "test/env", "test/lab"},
		starts: []string{"os/exec"}},
	// It reads what the operator wrote, and runs nothing: vgmanager/outside/collect reads nodes.
	{folder: "must-gather", ours: []string{"api", "docs", "internal/cluster/gatherindex", "internal/cluster/hostpaths",
		"internal/verdict", "internal/version", "internal/volume/view", "monitoring/runbooks",
		"vgmanager/outside/collect"},
		never: []string{module + "controllers", module + "internal/csi", module + "vgmanager/lvm"}},
	{folder: "docs", never: append([]string{module}, kubernetes...)},
	{folder: "hack", ours: []string{"test/env/envtests", "test/lane"}, starts: []string{"os/exec"}},
	{folder: "monitoring", ours: []string{"monitoring"}, never: clients},
	{folder: "test", ours: []string{"api", "controllers", "hack/debian", "internal", "monitoring/access", "vgmanager"},
		starts: []string{"os/exec"}},
}

type pkg struct {
	ImportPath string
	Doc        string
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

// TestGroupsAreLayers: the directories directly in internal and vgmanager have a rule, and import only those before
// them in the table.
func TestGroupsAreLayers(t *testing.T) {
	before := map[string]bool{"api": true}
	for _, r := range rules {
		group := groupOf(r.folder)
		if group == "" {
			continue
		}
		if r.folder != group && !before[group] {
			t.Errorf("%s is before its group", r.folder)
		}
		for _, o := range r.ours {
			if g := groupOf(o); g != "" && g != group && !before[g] {
				t.Errorf("%s imports %s, which is not before it", r.folder, o)
			}
		}
		before[group] = true
	}
	for _, p := range list(t) {
		if g := groupOf(strings.TrimPrefix(p.ImportPath, module)); g != "" && !before[g] {
			t.Errorf("%s is in no group", p.ImportPath)
		}
	}
}

// groupOf returns the directory directly in internal or vgmanager that has a package, or "".
func groupOf(relative string) string {
	parts := strings.SplitN(relative, "/", 3)
	if len(parts) < 2 || parts[0] != "internal" && parts[0] != "vgmanager" {
		return ""
	}
	return parts[0] + "/" + parts[1]
}

// TestTheTableCatchesAViolation tests the check itself.
func TestTheTableCatchesAViolation(t *testing.T) {
	tests := map[string]pkg{
		"host imports Kubernetes": {ImportPath: module + "vgmanager/machine/host", Deps: []string{"k8s.io/api/core/v1"}},
		"controllers import vgmanager": {ImportPath: module + "controllers/node",
			Imports: []string{module + "vgmanager/lvm"}, Deps: []string{module + "vgmanager/lvm"}},
		"lvm imports the API through another": {ImportPath: module + "vgmanager/lvm",
			Deps: []string{module + "api/v1alpha1"}},
		"the status imports operands": {ImportPath: module + "controllers/lvmcluster/status",
			Imports: []string{module + "controllers/lvmcluster/operand"}},
		"an operand imports the reconciler": {ImportPath: module + "controllers/lvmcluster/operand",
			Imports: []string{module + "controllers/lvmcluster"}},
		"condition imports another group": {ImportPath: module + "internal/kube/condition",
			Imports: []string{module + "internal/tls/pki"}},
		"the CSI controller starts a program": {ImportPath: module + "internal/csi/driver",
			Imports: []string{"os/exec"}},
		"the node service starts a program itself": {ImportPath: module + "vgmanager/csinode",
			Imports: []string{"k8s.io/utils/exec"}},
		"the planner has a context": {ImportPath: module + "vgmanager/group/volumegroup/plan",
			Imports: []string{"context"}, Deps: []string{"context"}},
		"the planner imports its reconciler": {ImportPath: module + "vgmanager/group/volumegroup/plan",
			Imports: []string{module + "vgmanager/group/volumegroup"}},
		"the planner logs": {ImportPath: module + "vgmanager/group/volumegroup/plan",
			Deps: []string{"sigs.k8s.io/controller-runtime/pkg/log"}},
		"the list of devices imports the reconciler of volume groups": {ImportPath: module + "vgmanager/group/inventory",
			Imports: []string{module + "vgmanager/group/volumegroup"}},
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
		if isOurs && ours != names && ours != waits &&
			!slices.ContainsFunc(allowed, func(folder string) bool { return within(ours, folder) }) {
			found = append(found, relative+" imports "+ours+", which its folder may not")
		}
		if slices.Contains(starters, imported) && !slices.Contains(r.starts, imported) {
			found = append(found, relative+" imports "+imported+": of the product, only vgmanager/machine/host starts programs")
		}
		if r.standard != nil && isStandard(imported) && !slices.Contains(r.standard, imported) {
			found = append(found, relative+" imports "+imported+", which its folder may not")
		}
	}
	for _, dep := range p.Deps {
		if relative := strings.TrimPrefix(dep, module); within(relative, r.folder) || relative == names ||
			relative == waits {
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
	command := exec.Command("go", "list", "-deps=false", "-tags=lab,env,e2e", "-json=ImportPath,Doc,Imports,Deps", "./...")
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
