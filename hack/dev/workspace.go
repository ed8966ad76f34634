package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// workspace is the checkout, with the directory of built programs.
type workspace struct {
	root, cache string
	// vars are replaced in the commands of items and artifacts, and are in their environment.
	vars map[string]string

	mutex sync.Mutex
	built map[string]*building
}

// openWorkspace returns the workspace of the working directory, which is the root of the repository.
func openWorkspace(context.Context) (*workspace, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "test/lane/items.go")); err != nil {
		return nil, fmt.Errorf("run this in the root of the repository: %w", err)
	}
	cache := os.Getenv("LVMS_CACHE")
	if cache == "" {
		cache = filepath.Join(root, ".cache")
	}
	dev, err := os.Executable()
	if err != nil {
		return nil, err
	}
	version, err := versionOf(root)
	if err != nil {
		return nil, err
	}
	w := &workspace{root: root, cache: cache, built: map[string]*building{},
		vars: variables(root, cache, dev, version)}
	for _, dir := range []string{"bin", "bare", "image", "lane"} {
		dir = filepath.Join(cache, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// variables returns the variables of the commands. dev is the path of this program.
func variables(root, cache, dev, version string) map[string]string {
	in := func(elements ...string) string { return filepath.Join(append([]string{cache}, elements...)...) }
	image := func(name string) string { return in("image", name+".tar") }
	release := func(variable, name string) string {
		return getenv(variable, "quay.io/lvm-storage/"+name+":v"+version)
	}
	return map[string]string{
		"ROOT": root, "CACHE": cache, "LVMS_CACHE": cache, "BIN": in("bin"), "DEV": dev, "VERSION": version,
		"LAB": in("bin", "lab"), "BARE": in("bare"), "ROOTFS": in("rootfs-amd64"),
		"GATHER_ROOTFS": in("rootfs-must-gather-amd64"), "CONSOLE_PARTS": in("console"),
		"TOPOLVM_FILES": in("topolvm"), "GOLANGCI_LINT_CACHE": in("golangci-lint"),
		"LVMS_GATHER": in("bin", "gather"), "LVMS_HELM": in("bin", "helm"), "LVMS_PLUGIN": in("bin", "kubectl-lvms"),
		"LVMS_PREVIOUS": in("previous", previousCommit),

		"IMAGE": image("lvms-operator"), "IMAGE_FIPS": image("lvms-operator-fips"),
		"GATHER_IMAGE_FIPS": image("lvms-must-gather-fips"), "LVMS_IMAGE": image("lvms-operator"),
		"LVMS_GATHER_IMAGE": image("lvms-must-gather"), "LVMS_UPSTREAM_IMAGE": image("upstream"),
		"LVMS_FREEZE_IMAGE": image("freeze"), "LVMS_NEXT_IMAGE": image("next"), "LVMS_TOPOLVM_IMAGE": image("topolvm"),

		"BUNDLE_IMAGE":   release("BUNDLE_IMAGE", "lvms-operator"),
		"GATHER_NAME":    release("MUST_GATHER_IMAGE", "lvms-must-gather"),
		"CATALOG_BUNDLE": release("CATALOG_BUNDLE_IMAGE", "lvms-operator-bundle"),

		"BUNDLE_FIPS_MODULE": getenv("BUNDLE_FIPS_MODULE", "off"), "LVMS_FIPS_MODULE": "off",
		"DEBIAN_UPDATE": getenv("DEBIAN_UPDATE", "false"), "PERMISSIONS": getenv("LVMS_PERMISSIONS", "check"),
		"KUBEBUILDER_CONTROLPLANE_START_TIMEOUT": "5m", "KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT": "5m",
		"CGO_ENABLED": "0", "GOFLAGS": getenv("GOFLAGS", "-buildvcs=false -gcflags=all=-dwarf=false -trimpath"),
		"LDFLAGS": ldflags(version),
	}
}

// versionOf returns VERSION, or the version in the Makefile.
func versionOf(root string) (string, error) {
	if version := os.Getenv("VERSION"); version != "" {
		return version, nil
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^export VERSION \?= (\S+)$`).FindSubmatch(makefile)
	if found == nil {
		return "", errors.New("the Makefile has no VERSION")
	}
	return string(found[1]), nil
}

func ldflags(version string) string {
	return "-s -w -X github.com/lvm-storage/lvm-operator/internal/version.Version=" + version
}

func getenv(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// expand replaces ${NAME} by a variable of the workspace.
func (w *workspace) expand(text string) string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return os.Expand(text, func(name string) string {
		value, known := w.vars[name]
		if !known {
			return "${" + name + "}" // a variable of a shell in the command
		}
		return value
	})
}

// set sets a variable.
func (w *workspace) set(name, value string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.vars[name] = value
}

// process is a command that the workspace runs.
type process struct {
	// dir is relative to the root of the repository.
	dir  string
	env  []string
	args []string
}

// stopTime is how long a process has to end after SIGTERM.
const stopTime = time.Minute

// run runs a process, and writes its output to out. If the context ends, the process and those that it started get
// SIGTERM, and after a minute SIGKILL.
func (w *workspace) run(ctx context.Context, p process, out io.Writer) error {
	args := make([]string, 0, len(p.args))
	for _, arg := range p.args {
		args = append(args, w.expand(arg))
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(w.root, p.dir)
	if strings.HasPrefix(args[0], "hack/") {
		cmd.Path = filepath.Join(w.root, args[0])
		cmd.Err = nil
	}
	cmd.Env = w.environment(p.env)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	err := cmd.Run()
	if err != nil && ctx.Err() != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what is left of the group
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(args[:min(len(args), 4)], " "), err)
	}
	return nil
}

// exported are the variables that tests and the go command read.
var exported = regexp.MustCompile(`^(LVMS_|KUBEBUILDER_|CGO_|GOFLAGS$|GOLANGCI_LINT_CACHE$|TOPOLVM_FILES$)`)

// environment returns the environment of this process, with the variables of the workspace and others.
func (w *workspace) environment(more []string) []string {
	w.mutex.Lock()
	env := os.Environ()
	for name, value := range w.vars {
		if exported.MatchString(name) {
			env = append(env, name+"="+value)
		}
	}
	w.mutex.Unlock()
	for _, variable := range more {
		env = append(env, w.expand(variable))
	}
	return env
}

// output runs a process and returns its output without surrounding space.
func (w *workspace) output(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, w.expand(args[0]), args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.root, w.environment(nil), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(out.String()), nil
}
