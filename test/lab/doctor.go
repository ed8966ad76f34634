package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/xstate"
)

// requirement is a file of a Debian package that the lab needs.
type requirement struct {
	path, pkg string
	where     need
}

// need says where a requirement is needed.
type need int

const (
	// everyNode means that every node and this machine need it.
	everyNode need = iota
	// clusterNode means that nodes of clusters need it, but not bare ones.
	clusterNode
	// thisMachineOnly means that this machine needs it for every lab, but not nodes.
	thisMachineOnly
	// clusterMachineOnly means that this machine needs it for clusters.
	clusterMachineOnly
)

// ofBare reports whether bare labs need it.
func (r requirement) ofBare() bool { return r.where == everyNode || r.where == thisMachineOnly }

// onNodes reports whether nodes need it.
func (r requirement) onNodes() bool { return r.where == everyNode || r.where == clusterNode }

var requirements = []requirement{
	{"/usr/bin/linux.uml", "user-mode-linux", everyNode},
	{"/usr/sbin/lvm", "lvm2", everyNode},
	{"/usr/sbin/thin_check", "thin-provisioning-tools", everyNode},
	{"/usr/sbin/mkfs.xfs", "xfsprogs", everyNode},
	{"/usr/sbin/mkfs.ext4", "e2fsprogs", everyNode},
	{"/usr/bin/udevadm", "udev", everyNode},
	{"/usr/sbin/modprobe", "kmod", everyNode},
	{"/usr/bin/nsenter", "util-linux", everyNode},
	// For the race detector, and for the library that User Mode Linux needs on some processors.
	{xstate.Compiler, "gcc", thisMachineOnly},
	{"/usr/include/stdio.h", "libc6-dev", thisMachineOnly},
	// For the kernel of the nodes.
	{"/usr/bin/bc", "bc", thisMachineOnly},
	{"/usr/bin/bison", "bison", thisMachineOnly},
	{"/usr/bin/flex", "flex", thisMachineOnly},
	{"/usr/bin/make", "make", thisMachineOnly},
	{"/usr/bin/strip", "binutils", thisMachineOnly},
	{"/usr/bin/xz", "xz-utils", thisMachineOnly},
	{"/usr/sbin/xtables-legacy-multi", "iptables", clusterNode},
	{"/usr/bin/crun", "crun", clusterNode},
	{"/usr/lib/cni/bridge", "containernetworking-plugins", clusterNode},
	{"/usr/bin/busybox", "busybox-static", clusterNode},
	{"/usr/sbin/conntrack", "conntrack", clusterNode},
	{"/usr/sbin/ip", "iproute2", clusterNode},
	// Not for the lab itself: tests evaluate the product's rules with it.
	{"/usr/bin/prometheus", "prometheus", clusterMachineOnly},
}

// testRequirements are what tests need in addition to a lab.
var testRequirements = []requirement{
	{"/usr/bin/chromium", "chromium", clusterMachineOnly},
	// Without a font for Chinese, Japanese and Korean, tables in these languages are measured with placeholders.
	{"/usr/share/fonts/truetype/wqy/wqy-microhei.ttc", "fonts-wqy-microhei", clusterMachineOnly},
	// Commands in the documentation that tests run need it.
	{"/usr/bin/jq", "jq", clusterMachineOnly},
	// For hack/test-arches.
	{"/usr/bin/qemu-s390x-static", "qemu-user-static", clusterMachineOnly},
}

// MissingPackages returns the Debian packages that this machine lacks for a lab and, if tests is true, for all tests.
func MissingPackages(tests bool) ([]string, error) {
	problems, err := Doctor(Options{})
	if err != nil {
		return nil, err
	}
	if tests {
		problems = append(problems, lacking(exists, testRequirements...)...)
	}
	return Packages(problems), nil
}

// lacking returns a problem for each requirement whose file does not exist.
func lacking(has func(path string) bool, all ...requirement) []Problem {
	var problems []Problem
	for _, r := range all {
		if !has(r.path) {
			problems = append(problems, Problem{Text: "no " + r.path, Package: r.pkg})
		}
	}
	return problems
}

// machine has the properties of this machine that the lab depends on.
type machine struct {
	root     bool
	tun      bool
	has      func(path string) bool
	diskFree int64
	memory   int64
	stateDir string
}

// The minimum resources of a lab, in addition to the data on its disks.
const (
	diskBase          = 1 * GiB
	diskPerNode       = 1 * GiB
	memoryBase        = 1 * GiB
	memoryPerNode     = 640 * MiB
	memoryPerBareNode = 192 * MiB
)

// Problem is something that prevents a lab from running on this machine.
type Problem struct {
	// Text says what is missing.
	Text string
	// Package is the Debian package that solves the problem, if any.
	Package string
}

// Doctor returns the problems that prevent a lab with these options from running on this machine. It changes nothing.
func Doctor(o Options) ([]Problem, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	m, err := thisMachine(o)
	if err != nil {
		return nil, err
	}
	return diagnose(m, o), nil
}

func diagnose(m machine, o Options) []Problem {
	var problems []Problem
	add := func(format string, args ...any) {
		problems = append(problems, Problem{Text: fmt.Sprintf(format, args...)})
	}
	if !m.root {
		add("not root: a lab makes namespaces, and its nodes read the machine's whole root file system")
	}
	if !m.tun {
		add("no /dev/net/tun: the nodes' network cards are taps")
	}
	for _, r := range requirements {
		if r.ofBare() || !o.Bare {
			problems = append(problems, lacking(m.has, r)...)
		}
	}
	nodes := int64(o.Nodes)
	if need := diskBase + nodes*diskPerNode; m.diskFree < need {
		add("%d MiB free in %s: %d nodes take at least %d", m.diskFree/MiB, m.stateDir, nodes, need/MiB)
	}
	need := memoryBase + nodes*memoryPerNode
	if o.Bare {
		need = nodes * memoryPerBareNode
	}
	if m.memory < need {
		add("%d MiB of memory available: %d nodes take at least %d", m.memory/MiB, nodes, need/MiB)
	}
	return problems
}

// check returns the problems of Doctor as one error, with the command that solves them.
func check(o Options) error {
	problems, err := Doctor(o)
	if err != nil || len(problems) == 0 {
		return err
	}
	return errors.New(Report(problems))
}

// Report returns the problems as text.
func Report(problems []Problem) string {
	var b strings.Builder
	b.WriteString("this machine cannot run the lab:\n")
	for _, p := range problems {
		fmt.Fprintf(&b, "  - %s\n", p.Text)
	}
	if packages := Packages(problems); len(packages) > 0 {
		fmt.Fprintf(&b, "to install what is missing: apt-get install --no-install-recommends %s\n",
			strings.Join(packages, " "))
	}
	return b.String()
}

// Packages returns the Debian packages that solve the problems.
func Packages(problems []Problem) []string {
	var packages []string
	for _, p := range problems {
		if p.Package != "" && !slices.Contains(packages, p.Package) {
			packages = append(packages, p.Package)
		}
	}
	return packages
}

func thisMachine(o Options) (machine, error) {
	m := machine{root: os.Geteuid() == 0, has: exists, stateDir: o.State}
	m.tun = exists("/dev/net/tun")
	dir := o.State
	for !isDir(dir) {
		dir = filepath.Dir(dir)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return m, fmt.Errorf("%s: %w", dir, err)
	}
	m.diskFree = int64(fs.Bavail) * fs.Bsize
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, err
	}
	m.memory = memoryAvailable(string(info))
	return m, nil
}

// memoryAvailable parses the kernel's estimate of the available memory.
func memoryAvailable(meminfo string) int64 {
	for _, line := range strings.Split(meminfo, "\n") {
		var kb int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	return 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
