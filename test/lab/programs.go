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

// program is a program to build: a package of a Go module in the repository.
type program struct {
	name, pkg string
}

// set is a group of programs that are built together, and rebuilt only when their sources change.
type set struct {
	name string
	// module is the directory, in the repository, of the module that pins the versions of the programs.
	module   string
	programs []program
	// versionOf is the module whose version is stamped into the programs, as in Kubernetes' own build.
	versionOf string
	// tags are build tags.
	tags string
	// key returns a part of the cache key. By default that is go.mod and go.sum of the module.
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

// EarlierReleases are the supported releases of Kubernetes before that of the lab, from the oldest one that the bundle
// supports. Each has a module with the API server, the controller manager and a matching etcd. No lab runs them: they
// are for tests of controllers and admission.
var EarlierReleases = []string{"1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"}

func earlierSet(release string) set {
	name := "kubernetes-" + release
	return set{
		name: name, module: "test/lab/programs/" + name, versionOf: kubernetesModule,
		programs: []program{{"etcd", "go.etcd.io/etcd/server/v3"},
			{"kube-apiserver", kubernetesModule + "/cmd/kube-apiserver"},
			{"kube-controller-manager", kubernetesModule + "/cmd/kube-controller-manager"}},
	}
}

func containerdSet() set {
	s := set{name: "containerd", module: "test/lab/programs/containerd"}
	for _, p := range []string{"containerd", "containerd-shim-runc-v2", "ctr"} {
		s.programs = append(s.programs, program{p, "github.com/containerd/containerd/v2/cmd/" + p})
	}
	return s
}

// containerSet has the lab's own programs: the process of a Pod sandbox, the container runtime, and the health probe
// for catalogs.
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

const olmModule = "test/lab/programs/olm"

// olmTags omit the parts of opm that need C libraries: it reads no images of container engines. All programs of the
// module have them, so that they share packages.
const olmTags = "containers_image_openpgp,json1,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper"

// olmSet has the programs of the Operator Lifecycle Manager. Catalogs also need opm.
func olmSet() set {
	const manager = "github.com/operator-framework/operator-lifecycle-manager/"
	return set{name: "olm", module: olmModule, tags: olmTags, programs: []program{
		{"olm", manager + "cmd/olm"}, {"catalog", manager + "cmd/catalog"},
		{"copy-content", manager + "cmd/copy-content"}, {"cpb", manager + "util/cpb"},
	}}
}

func opmSet() set {
	return set{name: "opm", module: olmModule, tags: olmTags,
		programs: []program{{"opm", "github.com/operator-framework/operator-registry/cmd/opm"}}}
}

// olmV1Set has the programs of OLM v1 with the build tag of its own Makefile, because there is no GPG C library.
func olmV1Set() set {
	s := set{name: "olm-v1", module: "test/lab/programs/olmv1", tags: "containers_image_openpgp"}
	for _, p := range []string{"catalogd", "operator-controller"} {
		s.programs = append(s.programs, program{p, operatorController + "/cmd/" + p})
	}
	return s
}

// serviceCASet has the lab's own signer, because OpenShift's module is not available.
func serviceCASet() set {
	return set{name: "service-ca", module: ".", key: sourceKey,
		programs: []program{{"serviceca", modulePath + "/test/lab/programs/serviceca"}}}
}

// prometheusOperatorSet includes the Prometheus that the operator starts, because Debian's has no Kubernetes discovery.
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

// networkPoliciesSet has the program under the name that it has in its image.
func networkPoliciesSet() set {
	return set{name: "network-policies", module: "test/lab/programs/networkpolicies",
		programs: []program{{"netpol", networkPolicies + "/cmd"}}}
}

// storageTestsSet has Kubernetes' own tests of storage drivers, and the program of the Pods of these tests.
func storageTestsSet() set {
	return set{
		name: "storage-tests", module: "test/lab/programs/storagetests", versionOf: kubernetesModule, key: ownCodeKey,
		programs: []program{{"storagetests", "."}, {"agnhost", kubernetesModule + "/test/images/agnhost"}},
	}
}

// OPM builds opm, which creates catalogs of OLM, if it is not in the cache, and returns its path.
func OPM(ctx context.Context, w io.Writer) (string, error) {
	dir, err := opmSet().ensure(ctx, w)
	return filepath.Join(dir, "opm"), err
}

// artifact is something that the lab builds into a directory of the cache.
type artifact interface {
	called() string
	// ensure returns the directory, and builds it if it does not exist. An existing directory is complete.
	ensure(ctx context.Context, w io.Writer) (string, error)
}

func (s set) called() string { return s.name }

// AllPrograms builds everything that a lab can run, or only the sets with the given names (kernel, kubernetes,
// containerd, container, snapshot-controller, olm, opm, olm-v1, service-ca, prometheus-operator, network-policies, and
// storage-tests and kubernetes-RELEASE of [EarlierReleases], which no lab runs), and returns the directories. It prints
// a line with the duration for each built program.
//
// The cache key consists of the versions of all dependencies and of Go. A cold build takes ten minutes or more on two
// cores. Builds of several processes wait for each other.
func AllPrograms(ctx context.Context, w io.Writer, names ...string) ([]string, error) {
	all := []artifact{
		builtKernel{}, kubernetesSet(), containerdSet(), containerSet(), snapshotSet(), olmSet(), opmSet(), olmV1Set(),
		serviceCASet(), prometheusOperatorSet(), networkPoliciesSet(),
	}
	if len(names) == 0 {
		return ensureAll(ctx, w, all...)
	}
	all = append(all, storageTestsSet())
	for _, release := range EarlierReleases {
		all = append(all, earlierSet(release))
	}
	var chosen []artifact
	for _, name := range names {
		at := slices.IndexFunc(all, func(a artifact) bool { return a.called() == name })
		if at < 0 {
			return nil, fmt.Errorf("no programs are called %s", name)
		}
		chosen = append(chosen, all[at])
	}
	return ensureAll(ctx, w, chosen...)
}

func clusterPrograms(ctx context.Context, o Options) ([]string, error) {
	sets := []artifact{kubernetesSet(), containerdSet(), containerSet()}
	if o.Snapshots {
		sets = append(sets, snapshotSet())
	}
	if o.OLM {
		sets = append(sets, olmSet(), opmSet())
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

func ensureAll(ctx context.Context, w io.Writer, all ...artifact) ([]string, error) {
	var dirs []string
	for _, a := range all {
		dir, err := a.ensure(ctx, w)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

func (s set) ensure(ctx context.Context, w io.Writer) (string, error) {
	key, root, err := s.cacheKey(ctx)
	if err != nil {
		return "", fmt.Errorf("programs of %s: %w", s.name, err)
	}
	parent, err := programsDir()
	if err != nil {
		return "", err
	}
	return ensureDir(parent, s.name, key, func(dir string) error {
		for _, p := range s.programs {
			if err := s.build(ctx, w, root, dir, p); err != nil {
				return err
			}
		}
		return nil
	})
}

func programsDir() (string, error) {
	cache, err := CacheDir()
	return filepath.Join(cache, "lab", "programs"), err
}

// ensureDir returns the directory NAME-KEY, and builds it next to its final path if it does not exist. Processes wait
// for each other.
func ensureDir(parent, name, key string, build func(dir string) error) (string, error) {
	dir := filepath.Join(parent, name+"-"+key)
	if isDir(dir) {
		return dir, nil
	}
	unlock, err := lockFile(filepath.Join(parent, name+".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(dir) {
		return dir, nil
	}
	// The lock is held, so these are of builds that were killed.
	left, err := filepath.Glob(filepath.Join(parent, name+".build-*"))
	if err != nil {
		return "", err
	}
	for _, old := range left {
		if err := os.RemoveAll(old); err != nil {
			return "", err
		}
	}
	tmp, err := os.MkdirTemp(parent, name+".build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := errors.Join(os.Chmod(tmp, 0o755), build(tmp)); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

// cacheKey returns what the set's directory in the cache depends on, and the repository's root.
func (s set) cacheKey(ctx context.Context) (key, root string, err error) {
	if root, err = Root(); err != nil {
		return "", "", err
	}
	text := s.key
	if text == nil {
		text = moduleKey
	}
	sources, err := text(ctx, root, s)
	if err != nil {
		return "", "", err
	}
	version, err := goCommand(ctx, root, "env", "GOVERSION")
	if err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%v\n%s", sources, version, s.programs, s.buildFlags("")))
	return hex.EncodeToString(sum[:8]), root, nil
}

// moduleKey returns the key for a module that only pins versions.
func moduleKey(_ context.Context, root string, s set) (string, error) {
	gomod, err := os.ReadFile(filepath.Join(root, s.module, "go.mod"))
	if err != nil {
		return "", err
	}
	gosum, err := os.ReadFile(filepath.Join(root, s.module, "go.sum"))
	return string(gomod) + string(gosum), err
}

// ownCodeKey returns the key for a module that pins versions and has a program of its own.
func ownCodeKey(ctx context.Context, root string, s set) (string, error) {
	pins, err := moduleKey(ctx, root, s)
	if err != nil {
		return "", err
	}
	source, err := sourceOf(filepath.Join(root, s.module))
	return pins + source, err
}

// sourceKey returns the key for packages that depend on the operator's own go.mod, which changes more often than the
// parts that they use.
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

// sourceOf returns the source of a package in the repository itself, which has no version.
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

// version returns the version of the module versionOf in go.mod.
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

// goCommand runs the go command in a directory and returns its output.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// the same flags as in the Makefile, so that the build cache is shared
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath")
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
