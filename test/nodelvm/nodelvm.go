// Package nodelvm gives tests on a bare node of the lab the LVM that a node agent uses there: that of the node or, on
// the flavor no-lvm, that of the image.
//
// LVM of the image runs with the files of LVMS_TEST_ROOTFS as its read-only root, and with /dev, /sys, /proc, /etc/lvm
// and /run of the node. The agent's container has of /run only some directories, but the files of tests are there too.
package nodelvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host/lvmsource"
)

// flavor is the flavor of the lab whose nodes have no LVM.
const flavor = "no-lvm"

// root is where the files of the image are mounted.
const root = "/run/lvms-image"

// Absent returns true if the node has no LVM.
func Absent() bool { return os.Getenv("LVMS_LAB_FLAVOR") == flavor }

// Runner runs programs on the node. Programs of LVM are those of the image if the node has none.
type Runner struct {
	*host.Local
	programs host.Streamer
	counters []*host.Counter
	source   func(ctx context.Context) (lvmsource.Source, error)
}

// New returns a Runner. It panics if the node has no LVM and the files of the image cannot be mounted.
func New() *Runner {
	local := host.NewLocal()
	r := &Runner{Local: local, programs: local, counters: []*host.Counter{local.Started()}}
	if Absent() {
		mount()
		node, image := host.NewNamespace(strings.Split(hostpaths.DefaultHostPath, ":")), host.NewImageIn(root)
		source := lvmsource.New(node, image, logr.Discard())
		r.programs = source
		r.source = source.Source
		r.counters = append(r.counters, node.Started(), image.Started())
	}
	return r
}

// Run implements host.Runner.
func (r *Runner) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	return r.programs.Run(ctx, name, args...)
}

// Stream implements host.Streamer.
func (r *Runner) Stream(ctx context.Context, out io.Writer, name string, args ...string) error {
	return r.programs.Stream(ctx, out, name, args...)
}

// RunWithInput runs a program of the image, which is cryptsetup: few nodes of the lab have it.
func (r *Runner) RunWithInput(ctx context.Context, inputs [][]byte, accepted func(code int) bool, name string,
	args ...string) ([]byte, int, error) {
	return r.Local.RunWithInput(ctx, inputs, accepted, "/usr/sbin/chroot", InImage(name, args...)...)
}

// InImage returns the arguments of chroot(8) for a program of the image. It panics if the files of the image cannot be
// mounted.
func InImage(name string, args ...string) []string {
	mount()
	return append([]string{root, name}, args...)
}

// Source returns whose LVM is used. The node must have none.
func (r *Runner) Source(ctx context.Context) (lvmsource.Source, error) { return r.source(ctx) }

// ByCommand returns how many processes were started, by command.
func (r *Runner) ByCommand() map[string]uint64 {
	all := map[string]uint64{}
	for _, counter := range r.counters {
		for command, n := range counter.ByCommand() {
			all[command] += n
		}
	}
	return all
}

// programs are the programs that the image has for nodes without LVM. commands are the commands of LVM that are links
// to lvm.
var (
	programs = []string{"lvm", "dmsetup", "thin_check", "thin_dump", "thin_repair", "thin_restore"}
	commands = regexp.MustCompile(`^(lv|pv|vg)[a-z]+$`)
)

// Command is exec.Command for a program of the node, with LVM of the image if the node has none.
func Command(name string, args ...string) *exec.Cmd {
	base := filepath.Base(name)
	words := []string{root, "/usr/sbin/" + base}
	switch {
	case !Absent():
		return exec.Command(name, args...)
	case slices.Contains(programs, base):
	case commands.MatchString(base):
		words = []string{root, "/usr/sbin/lvm", base}
	default:
		return exec.Command(name, args...)
	}
	mount()
	cmd := exec.Command("/usr/sbin/chroot", append(words, args...)...)
	cmd.Env = append(os.Environ(), "DM_DISABLE_UDEV=1")
	return cmd
}

var mount = sync.OnceFunc(func() {
	if err := mountImage(os.Getenv("LVMS_TEST_ROOTFS")); err != nil {
		panic(fmt.Errorf("LVMS_TEST_ROOTFS must be the folder of the image's files, which make image writes: %w", err))
	}
})

func mountImage(files string) error {
	// The mounts are private: a mount below /run must not appear below root and files, too.
	if err := errors.Join(os.MkdirAll(root, 0o755), unix.Mount(files, root, "", unix.MS_BIND, ""),
		unix.Mount("", root, "", unix.MS_PRIVATE, ""),
		unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")); err != nil {
		return fmt.Errorf("mount %s: %w", files, err)
	}
	for _, dir := range []string{"/dev", "/sys", "/proc", "/etc/lvm", "/run"} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), unix.Mount(dir, root+dir, "", unix.MS_BIND, ""),
			unix.Mount("", root+dir, "", unix.MS_PRIVATE, "")); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return nil
}
