package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// program is one thing to build: a package of a Go module in the repository.
type program struct {
	name, pkg string
}

// set is a group of programs that are built together, and again only when something changes that they are made of.
type set struct {
	name string
	// module is the folder, in the repository, of the module that pins the programs' versions.
	module   string
	programs []program
	// versioned programs have the version of this module stamped in, as Kubernetes's own build does.
	versionOf string
	// tags are build tags.
	tags string
	// key adds to what the cache's key is made of. By default that is go.mod and go.sum of the module.
	key func(ctx context.Context, root string, s set) (string, error)
}

const kubernetesModule = "k8s.io/kubernetes"

func kubernetesSet() set {
	s := set{name: "kubernetes", module: "test/lab/programs/kubernetes", versionOf: kubernetesModule}
	s.programs = append(s.programs, program{"etcd", "go.etcd.io/etcd/server/v3"})
	for _, p := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy",
		"kubelet", "kubectl"} {
		s.programs = append(s.programs, program{p, kubernetesModule + "/cmd/" + p})
	}
	return s
}

// oldestSet is the API server of the oldest Kubernetes that the bundle admits, with an etcd of its time. No lab runs
// it: tests of controllers and admission do.
func oldestSet() set {
	return set{
		name: "kubernetes-oldest", module: "test/lab/programs/kubernetes-oldest", versionOf: kubernetesModule,
		programs: []program{{"etcd", "go.etcd.io/etcd/server/v3"},
			{"kube-apiserver", kubernetesModule + "/cmd/kube-apiserver"}},
	}
}

func containerdSet() set {
	s := set{name: "containerd", module: "test/lab/programs/containerd"}
	for _, p := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		s.programs = append(s.programs, program{p, "github.com/containerd/containerd/v2/cmd/" + p})
	}
	return s
}

// containerSet is the lab's own: what a pod's sandbox runs, what starts containers, and what asks a catalog whether it
// serves.
func containerSet() set {
	s := set{name: "container", module: ".", key: sourceKey}
	for _, p := range []string{"pause", "ocirun", "grpc_health_probe"} {
		s.programs = append(s.programs, program{p, modulePath + "/test/lab/programs/" + p})
	}
	return s
}

func snapshotSet() set {
	const pkg = "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller"
	return set{name: "snapshot-controller", module: ".",
		programs: []program{{"snapshot-controller", pkg}}, key: sourceKey}
}

// olmSet leaves out what opm links C libraries for: it reads no images of container engines.
func olmSet() set {
	const manager = "github.com/operator-framework/operator-lifecycle-manager/"
	return set{
		name: "olm", module: "test/lab/programs/olm",
		tags: "containers_image_openpgp,json1,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper",
		programs: []program{
			{"olm", manager + "cmd/olm"}, {"catalog", manager + "cmd/catalog"},
			{"copy-content", manager + "cmd/copy-content"}, {"cpb", manager + "util/cpb"},
			{"opm", "github.com/operator-framework/operator-registry/cmd/opm"},
		},
	}
}

// olmV1Set has the programs of OLM v1 with the build tag of its own Makefile: nothing here has the C library of GPG.
func olmV1Set() set {
	s := set{name: "olm-v1", module: "test/lab/programs/olmv1", tags: "containers_image_openpgp"}
	for _, p := range []string{"catalogd", "operator-controller"} {
		s.programs = append(s.programs, program{p, operatorController + "/cmd/" + p})
	}
	return s
}

// serviceCASet is the lab's own: the module of OpenShift's is not available.
func serviceCASet() set {
	return set{name: "service-ca", module: ".", key: sourceKey,
		programs: []program{{"serviceca", modulePath + "/test/lab/programs/serviceca"}}}
}

// prometheusOperatorSet has the Prometheus that the operator starts too: Debian's cannot discover targets in
// Kubernetes.
func prometheusOperatorSet() set {
	return set{
		name: "prometheus-operator", module: "test/lab/programs/monitoring", tags: "remove_all_sd,enable_kubernetes_sd",
		programs: []program{
			{"prometheus-operator", prometheusOperator + "/cmd/operator"},
			{"prometheus-config-reloader", prometheusOperator + "/cmd/prometheus-config-reloader"},
			{"prometheus", "github.com/prometheus/prometheus/cmd/prometheus"},
		},
	}
}

// networkPoliciesSet names the program as its image does.
func networkPoliciesSet() set {
	return set{name: "network-policies", module: "test/lab/programs/networkpolicies",
		programs: []program{{"netpol", networkPolicies + "/cmd"}}}
}

// OLMPrograms builds the programs of the Operator Lifecycle Manager that are not in the cache yet and returns their
// folder, opm among them.
func OLMPrograms(ctx context.Context, w io.Writer) (string, error) {
	return olmSet().ensure(ctx, w)
}

// Programs builds the programs that are not in the cache yet and returns the folder with etcd, kube-apiserver and
// kubectl, which can be the BinaryAssetsDirectory of an envtest environment. It prints a line for each program that it
// builds, with the time it took.
//
// The cache is keyed by the versions of everything the programs are made of and by Go's version. A cold build takes ten
// minutes or more on two cores. Builds of several processes wait for each other.
func Programs(ctx context.Context, w io.Writer) (string, error) {
	return kubernetesSet().ensure(ctx, w)
}

// AllPrograms builds everything that a lab can run, or the sets of some names (kubernetes, containerd, container,
// snapshot-controller, olm, olm-v1, service-ca, prometheus-operator, network-policies, and kubernetes-oldest, which no
// lab runs), and returns the folders.
func AllPrograms(ctx context.Context, w io.Writer, names ...string) ([]string, error) {
	sets := []set{
		kubernetesSet(), containerdSet(), containerSet(), snapshotSet(), olmSet(), olmV1Set(), serviceCASet(),
		prometheusOperatorSet(),
		networkPoliciesSet(),
	}
	if len(names) == 0 {
		return ensureAll(ctx, w, sets...)
	}
	sets = append(sets, oldestSet())
	var chosen []set
	for _, name := range names {
		at := slices.IndexFunc(sets, func(s set) bool { return s.name == name })
		if at < 0 {
			return nil, fmt.Errorf("no programs are called %s", name)
		}
		chosen = append(chosen, sets[at])
	}
	return ensureAll(ctx, w, chosen...)
}

func clusterPrograms(ctx context.Context, o Options) ([]string, error) {
	sets := []set{kubernetesSet(), containerdSet(), containerSet()}
	if o.Snapshots {
		sets = append(sets, snapshotSet())
	}
	if o.OLM {
		sets = append(sets, olmSet())
	}
	if o.OLMv1 {
		sets = append(sets, olmV1Set())
	}
	if o.ServiceCA {
		sets = append(sets, serviceCASet())
	}
	if o.PrometheusOperator {
		sets = append(sets, prometheusOperatorSet())
	}
	if o.NetworkPolicies {
		sets = append(sets, networkPoliciesSet())
	}
	return ensureAll(ctx, o.Progress, sets...)
}

func ensureAll(ctx context.Context, w io.Writer, sets ...set) ([]string, error) {
	var dirs []string
	for _, s := range sets {
		dir, err := s.ensure(ctx, w)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

// ensure returns the set's folder in the cache, and builds it first if it is not there. A folder that is there is
// complete.
func (s set) ensure(ctx context.Context, w io.Writer) (string, error) {
	dir, root, err := s.cached(ctx)
	if err != nil {
		return "", fmt.Errorf("programs of %s: %w", s.name, err)
	}
	if isDir(dir) {
		return dir, nil
	}
	unlock, err := lockFile(filepath.Join(filepath.Dir(dir), s.name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(dir) {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), s.name+".build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	for _, p := range s.programs {
		if err := s.build(ctx, w, root, tmp, p); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

// cached is where the set is in the cache, or would be.
func (s set) cached(ctx context.Context) (dir, root string, err error) {
	if root, err = Root(); err != nil {
		return "", "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", "", err
	}
	key := s.key
	if key == nil {
		key = moduleKey
	}
	text, err := key(ctx, root, s)
	if err != nil {
		return "", "", err
	}
	version, err := goCommand(ctx, root, "env", "GOVERSION")
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%v\n%s", text, version, s.programs, s.buildFlags("")))
	parent := filepath.Join(cache, "lab", "programs")
	return filepath.Join(parent, s.name+"-"+hex.EncodeToString(sum[:8])), root, os.MkdirAll(parent, 0o755)
}

// moduleKey is for a module that exists only to pin versions.
func moduleKey(_ context.Context, root string, s set) (string, error) {
	gomod, err := os.ReadFile(filepath.Join(root, s.module, "go.mod"))
	if err != nil {
		return "", err
	}
	gosum, err := os.ReadFile(filepath.Join(root, s.module, "go.sum"))
	return string(gomod) + string(gosum), err
}

// sourceKey is for packages that depend on the operator's own go.mod, which changes more often than what they use of
// it.
func sourceKey(ctx context.Context, root string, s set) (string, error) {
	args := []string{"list", "-deps", "-f",
		`{{with .Module}}{{.Path}} {{.Version}} {{if .Main}}{{$.Dir}}{{end}}{{end}}`}
	for _, p := range s.programs {
		args = append(args, p.pkg)
	}
	out, err := goCommand(ctx, filepath.Join(root, s.module), args...)
	if err != nil {
		return "", err
	}
	seen := map[string]bool{}
	var lines []string
	for _, line := range strings.Split(out, "\n") {
		if seen[line] {
			continue
		}
		seen[line] = true
		if dir, ok := strings.CutPrefix(line, modulePath+"  "); ok {
			if line, err = sourceOf(dir); err != nil {
				return "", err
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}

// sourceOf is the text of a package of the repository itself, which has no version.
func sourceOf(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text.Write(data)
	}
	return text.String(), nil
}

func (s set) buildFlags(version string) []string {
	ldflags := "-s -w"
	if parts := strings.Split(strings.TrimPrefix(version, "v"), "."); len(parts) == 3 {
		const v = "k8s.io/component-base/version."
		ldflags += fmt.Sprintf(" -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s", v, version, v,
			parts[0], v, parts[1])
	}
	flags := []string{"build", "-buildvcs=false", "-ldflags", ldflags}
	if s.tags != "" {
		flags = append(flags, "-tags", s.tags)
	}
	return flags
}

func (s set) build(ctx context.Context, w io.Writer, root, dir string, p program) error {
	begin := time.Now()
	version, err := s.version(root)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "        building %s …\n", p.name)
	if _, err := goCommand(ctx, filepath.Join(root, s.module),
		append(s.buildFlags(version), "-o", filepath.Join(dir, p.name), p.pkg)...); err != nil {
		return fmt.Errorf("build %s: %w", p.name, err)
	}
	fmt.Fprintf(w, "        built %s (%.0fs)\n", p.name, time.Since(begin).Seconds())
	return nil
}

// version is what go.mod pins the module to whose version the programs show.
func (s set) version(root string) (string, error) {
	if s.versionOf == "" {
		return "", nil
	}
	gomod, err := os.ReadFile(filepath.Join(root, s.module, "go.mod"))
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(regexp.QuoteMeta(s.versionOf) + ` (v\S+)`).FindSubmatch(gomod)
	if m == nil {
		return "", fmt.Errorf("%s/go.mod does not require %s", s.module, s.versionOf)
	}
	return string(m[1]), nil
}

// goCommand runs the go command in a folder and returns its output.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// as in the Makefile: what both build is compiled once
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// lockFile waits for a lock between processes.
func lockFile(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, err
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
