package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/wire"
)

// bootLimit is the timeout for the boot of an idle node, which takes 3 seconds.
const bootLimit = 5 * time.Minute

// TryBoot boots a bare node with one disk and creates a physical volume on it, as all tests on nodes do. Its error
// contains the end of the node's console. If the kernel of nodes does not exist, it is built first, which takes
// minutes; progress gets a line for each.
func TryBoot(ctx context.Context, progress io.Writer) error {
	if _, err := (builtKernel{}).ensure(ctx, progress); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	o := Options{Name: fmt.Sprintf("boot-%d", os.Getpid()), Disks: []DiskSpec{{Size: 64 * MiB}}}
	var output bytes.Buffer
	code, err := RunTestBinary(ctx, o, &output, &output, "/usr/sbin/lvm", "pvcreate", "--quiet", "/dev/ubdb")
	if err == nil && code != 0 {
		err = fmt.Errorf("pvcreate on the node ended with %d: %s", code, output.Bytes())
	}
	if err != nil {
		return fmt.Errorf("this machine cannot boot a node of the lab, so neither demo nor tests can run; see \"A "+
			"node does not boot\" in test/lab/README.md: %w", err)
	}
	return nil
}

// RunTestBinary boots a bare node, runs a program of this machine on it as root, and removes the node. It returns the
// program's exit code, or an error if the node or the program could not be run.
//
// The program runs in its own directory, like with "go test". It can read this machine's files. Its writes are only on
// the node, except for its output. The disks are in LAB_DISKS, "/dev/ubdb /dev/ubdc …", and in LVMS_TEST_DISKS,
// "/dev/ubdb,/dev/ubdc,…", without the disks that the flavor adds. LVMS_LAB_FLAVOR is the name of the flavor. Tests
// that the flavor excludes are skipped, with the reason on stderr.
func RunTestBinary(ctx context.Context, o Options, stdout, stderr io.Writer, program string,
	args ...string) (code int, err error) {
	program, err = filepath.Abs(program)
	if err != nil {
		return -1, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return -1, err
	}
	flavor, err := FindFlavor(o.Flavor)
	if err != nil {
		return -1, err
	}
	o.Bare = true
	o.Nodes = 1
	o.Detached = false
	o.folders = []string{dir, filepath.Dir(program)}
	l, err := Up(ctx, o)
	if err != nil {
		return -1, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, l.Down(end))
	}()
	n := l.Nodes()[0]
	disks, err := n.Disks(ctx)
	if err != nil {
		return -1, err
	}
	devices := flavor.dataDisks(disks)
	env := []string{"LAB_DISKS=" + strings.Join(devices, " "), "LVMS_TEST_DISKS=" + strings.Join(devices, ","),
		"LVMS_LAB_FLAVOR=" + flavor.Name, "LVMS_LAB_NODE_TEST=1"}
	if isTest(args) {
		for _, e := range flavor.Excluded {
			fmt.Fprintf(stderr, "flavor %s excludes %s: %s\n", flavor.Name, e.Test, e.Reason)
		}
	}
	args = flavor.testArgs(args)
	code, err = n.Run(ctx, Command{Args: append([]string{program}, args...), Env: env, Dir: dir, Stdout: stdout,
		Stderr: stderr})
	if errors.Is(err, wire.ErrLost) {
		err = fmt.Errorf("%w\n--- end of the node's console\n%s", err, n.endOfConsole())
	}
	if err != nil {
		return code, fmt.Errorf("run %s: %w", program, err)
	}
	return code, nil
}

// consoleTail is the printed length of a console, in bytes: enough for a kernel panic with registers and stack.
const consoleTail = 6000

// Panic returns the end of the console of a node from the last panic of its kernel on, or "" if there was none. After a
// panic, the node is lost until it is started again.
func (n *Node) Panic() (string, error) {
	logs, err := n.Logs()
	if err != nil {
		return "", err
	}
	at := strings.LastIndex(logs["console"], "Kernel panic")
	if at < 0 {
		return "", nil
	}
	text := strings.TrimSpace(logs["console"][at:])
	return text[:min(len(text), consoleTail)], nil
}

// endOfConsole returns the end of the console with the reason why a node's kernel ended, or why it is not available.
func (n *Node) endOfConsole() string {
	logs, err := n.Logs()
	if err != nil {
		return err.Error()
	}
	text := strings.TrimSpace(logs["console"])
	return text[max(0, len(text)-consoleTail):]
}
