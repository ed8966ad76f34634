package lab

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/hack/debian"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/uml"
)

// kernelConfig has the options of the nodes' kernel; all others are off.
//
//go:embed kernel.config
var kernelConfig string

const (
	// kernelRelease is the release of Debian whose Linux the nodes run. User Mode Linux has been two to three times as
	// fast since 6.16: processes of a node are controlled by seccomp and not by ptrace.
	kernelRelease = "forky"
	// kernelPackage has the source.
	kernelPackage = "linux-source"
	// kernelVersion is incremented when the same options result in a different kernel.
	kernelVersion = "1"
	// kernelLimit is the time limit of each command.
	kernelLimit = time.Hour
)

// builtKernel is a User Mode Linux with the options of the lab. Debian's own, in the package user-mode-linux, lacks the
// tables of iptables since 7.2, and is 6.1 in Debian 12.
type builtKernel struct{}

func (builtKernel) called() string { return "kernel" }

// ensure returns the kernel's directory, and builds it if it does not exist. This takes minutes, so that all checkouts
// of this user share it, as they share what Go has compiled.
func (k builtKernel) ensure(ctx context.Context, w io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	parent := filepath.Join(cache, "lvms-lab")
	if err := uml.CheckPath(parent); err != nil {
		return "", fmt.Errorf("cache of this user (XDG_CACHE_HOME): %w", err)
	}
	sum := sha256.Sum256([]byte(kernelRelease + kernelVersion + kernelConfig))
	return ensureDir(parent, k.called(), hex.EncodeToString(sum[:8]), func(dir string) error {
		begin := time.Now()
		fmt.Fprintf(w, "        building the kernel of the nodes, from the Linux of Debian's release %s …\n",
			kernelRelease)
		if err := k.build(ctx, w, dir); err != nil {
			return fmt.Errorf("kernel of the nodes: %w", err)
		}
		fmt.Fprintf(w, "        built the kernel (%.0fs)\n", time.Since(begin).Seconds())
		return nil
	})
}

// kernelIn returns the kernel in the directory of builtKernel.
func kernelIn(dir string) spec.Kernel {
	return spec.Kernel{Program: filepath.Join(dir, "linux"), Modules: filepath.Join(dir, "lib", "modules")}
}

// build fills the directory from the newest source package.
func (builtKernel) build(ctx context.Context, w io.Writer, dir string) error {
	work, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	archive := debian.Archive{Run: debian.RunCommand, Folder: filepath.Join(work, "debian"), Arch: "amd64",
		Release: kernelRelease}
	debs, err := archive.Fetch(ctx, []string{kernelPackage}, false)
	if err != nil {
		return err
	}
	source, err := unpackSource(ctx, debs, work)
	if err != nil {
		return err
	}
	out := filepath.Join(work, "out")
	options := filepath.Join(work, "options")
	if err := errors.Join(os.Mkdir(out, 0o755), os.WriteFile(options, []byte(kernelConfig), 0o644)); err != nil {
		return err
	}
	run := func(args ...string) error {
		return runIn(ctx, source, "make", append([]string{"--silent", "ARCH=um", "O=" + out,
			"--jobs", strconv.Itoa(runtime.NumCPU())}, args...)...)
	}
	defer reportObjects(w, out)()
	if err := run("KCONFIG_ALLCONFIG="+options, "allnoconfig"); err != nil {
		return err
	}
	if err := checkConfig(filepath.Join(out, ".config")); err != nil {
		return err
	}
	if err := run("linux", "modules"); err != nil {
		return err
	}
	if err := run("INSTALL_MOD_PATH="+dir, "INSTALL_MOD_STRIP=1", "modules_install"); err != nil {
		return err
	}
	return runIn(ctx, out, "strip", "-o", filepath.Join(dir, "linux"), "linux")
}

// reportObjects prints every minute how many files are compiled, until the returned function is called.
func reportObjects(w io.Writer, out string) (stop func()) {
	stopped := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Minute)
		defer ticker.Stop()
		for {
			select {
			case <-stopped:
				return
			case <-ticker.C:
				fmt.Fprintf(w, "        %d of about 1600 files of the kernel are compiled\n", countObjects(out))
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}

func countObjects(dir string) int {
	n := 0
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		if strings.HasSuffix(path, ".o") {
			n++
		}
		return nil // Files of the compiler disappear meanwhile.
	})
	return n
}

// unpackSource returns the directory of the source in the packages.
func unpackSource(ctx context.Context, debs []debian.Deb, work string) (string, error) {
	for _, d := range debs {
		if !strings.HasPrefix(filepath.Base(d.Path), kernelPackage+"-") {
			continue
		}
		if err := unpackDeb(ctx, d, work); err != nil {
			return "", fmt.Errorf("unpack %s: %w", filepath.Base(d.Path), err)
		}
	}
	found, err := filepath.Glob(filepath.Join(work, "usr", "src", kernelPackage+"-*.tar.xz"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("package %s of Debian's release %s: it has %d archives of Linux, one is expected",
			kernelPackage, kernelRelease, len(found))
	}
	if err := runIn(ctx, work, "tar", "--extract", "--xz", "--file", found[0]); err != nil {
		return "", err
	}
	return filepath.Join(work, strings.TrimSuffix(filepath.Base(found[0]), ".tar.xz")), nil
}

// checkConfig returns an error that names the options that this version of Linux does not have, or that need another
// one.
func checkConfig(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		have[strings.TrimSpace(line)] = true
	}
	var missing []string
	lines := bufio.NewScanner(strings.NewReader(kernelConfig))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "CONFIG_") && !have[lines.Text()] {
			missing = append(missing, lines.Text())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("test/lab/kernel.config has options that this version of Linux does not accept: %s",
			strings.Join(missing, ", "))
	}
	return nil
}

// runIn runs a command in a directory. The error has the end of its output.
func runIn(ctx context.Context, dir, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, kernelLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		const most = 4000
		return fmt.Errorf("%s: %w: %s", name, err, out[max(0, len(out)-most):])
	}
	return nil
}
