package supervisor

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/uml"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/wire"
)

const (
	rootDiskBytes = 40 << 30 // sparse
	bootLimit     = 5 * time.Minute
	powerOffLimit = 60 * time.Second
	cutLimit      = 2 * time.Minute
	// callLimit is for calls of a node's agent that do not wait.
	callLimit = 30 * time.Second
)

// node is one machine. Operations on a node run one after another. Its state can be read at any time.
type node struct {
	lab *supervisor
	op  sync.Mutex

	mu    sync.Mutex
	spec  spec.Node
	state string
	proc  *process
}

func newNode(s *supervisor, n spec.Node) *node {
	return &node{lab: s, spec: n, state: spec.NodeOff}
}

func (n *node) status() spec.NodeStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := spec.NodeStatus{Node: n.spec, State: n.state}
	st.Disks = append([]spec.Disk(nil), n.spec.Disks...)
	if n.proc != nil && n.proc.Running() {
		st.PID = n.proc.PID
	} else {
		st.State = spec.NodeOff
	}
	return st
}

func (n *node) set(state string, proc *process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state = state
	if proc != nil {
		n.proc = proc
	}
}

// kernel returns the process of the node's last boot, or nil before the first boot.
func (n *node) kernel() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

// dir returns the node's folder as an absolute path, which User Mode Linux and the node itself need.
func (n *node) dir() string { return filepath.Join(n.lab.State, spec.NodeDir(n.spec.Name)) }

func (n *node) rootDiskFile() string { return filepath.Join(n.dir(), "root.img") }

// diskFile is the file of a plain or shared disk.
func (n *node) diskFile(d spec.Disk) string {
	if d.Kind == spec.KindShared {
		return filepath.Join(n.lab.State, "shared-"+d.Name+".img")
	}
	return filepath.Join(n.dir(), "disk-"+d.Name+".img")
}

// prepareAndStart creates the certificates and disks of a new node, and boots it.
func (n *node) prepareAndStart(ctx context.Context) error {
	n.op.Lock()
	defer n.op.Unlock()
	if err := n.lab.nodeCertificates(n.spec); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(n.lab.State, spec.NodeLogDir(n.spec.Name)), 0o755); err != nil {
		return err
	}
	if err := n.makeRootDisk(); err != nil {
		return err
	}
	disks := n.spec.Disks
	n.spec.Disks = nil
	for _, d := range disks {
		if d.IsFile() {
			if err := n.addFile(d); err != nil {
				return err
			}
		}
	}
	if err := n.boot(ctx); err != nil {
		return err
	}
	for _, d := range disks {
		if d.Kind == spec.KindSCSI {
			if _, err := n.addSCSI(ctx, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeRootDisk formats the root disk outside the node, which takes a fraction of the time. The root disk stays small
// because it has few inodes and none are initialized later.
func (n *node) makeRootDisk() error {
	file := n.rootDiskFile()
	if err := sparse(file, rootDiskBytes); err != nil {
		return err
	}
	cmd := exec.Command("/usr/sbin/mkfs.ext4", "-q", "-F", "-m", "0", "-i", "65536", "-E",
		"lazy_itable_init=1,lazy_journal_init=1,nodiscard", file)
	log := filepath.Join(spec.NodeLogDir(n.spec.Name), "mkfs.log")
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout = out
	cmd.Stderr = out
	child, err := n.lab.reaper.Start(cmd)
	if err != nil {
		return err
	}
	<-child.Done()
	if child.ExitCode() != 0 {
		return fmt.Errorf("mkfs.ext4 of the root disk: %s", tail(log))
	}
	return nil
}

// boot starts the node's kernel and waits for its agent.
func (n *node) boot(ctx context.Context) error {
	if st := n.status(); st.State != spec.NodeOff {
		return fmt.Errorf("node %s is %s", n.spec.Name, st.State)
	}
	guest := spec.Guest{
		Lab: n.lab.Name, Node: n.spec, Bare: n.lab.Bare, MaxRestartPeriod: n.lab.MaxRestartPeriod, Flavor: n.lab.Flavor,
		VolumeStatistics: n.lab.VolumeStatistics, AlphaFeatures: n.lab.AlphaFeatures,
		KubeletDir: n.lab.KubeletDir, Modules: n.lab.Kernel.Modules, Path: n.lab.Path,
		Dir: filepath.Join(n.dir(), spec.CertDir), LogDir: filepath.Join(n.lab.State, spec.NodeLogDir(n.spec.Name)),
	}
	file := filepath.Join(n.dir(), "guest.json")
	if err := spec.Save(file, guest); err != nil {
		return err
	}
	_ = os.RemoveAll(filepath.Join(spec.RunDir, n.spec.Name))
	machine := uml.Machine{
		Name: n.spec.Name, Dir: spec.RunDir + "/", MemoryMB: n.lab.MemoryMB, Tap: tapName(n.spec), Init: n.lab.Binary,
		Disks: n.diskFiles(), Shared: n.sharedDisks(), Env: []string{spec.GuestEnv + "=" + file},
	}
	env := []string{"TMPDIR=" + filepath.Join(n.lab.State, spec.RunDir)}
	args := slices.Concat([]string{"-c", n.cpu(), "/usr/bin/env"}, n.kernelEnv(),
		[]string{n.lab.Kernel.Program}, machine.Args())
	proc, err := n.lab.launch(filepath.Join(n.spec.Name, "console"), "/usr/bin/taskset", args, env)
	if err != nil {
		return err
	}
	n.set(spec.NodeBooting, proc)
	if err := proc.await(ctx, "boot", bootLimit, n.answers); err != nil {
		_ = n.kill()
		return err
	}
	kernel, err := os.FindProcess(proc.PID)
	if err != nil {
		return err
	}
	go wake(kernel, proc.Done()) // A kernel that is booting has no signal handler yet: the signal would end it.
	n.set(spec.NodeRunning, nil)
	return n.nameSCSI(ctx)
}

// kernelEnv returns the environment of the kernel's own program. The programs that start it do not get this
// environment, because the libraries that it names may not fit them.
func (n *node) kernelEnv() []string {
	if n.lab.Preload == "" {
		return n.lab.Kernel.Env
	}
	return append(slices.Clone(n.lab.Kernel.Env), "LD_PRELOAD="+n.lab.Preload)
}

// cpu returns the one processor that the node may use. The node's kernel has one processor and traces its processes. If
// tracer and traced process ran on different processors, every system call would wake the other processor, and
// everything would be four times as slow.
func (n *node) cpu() string {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return "0"
	}
	nth := (n.lab.FirstCPU + n.spec.Num) % max(set.Count(), 1)
	for cpu := 0; ; cpu++ {
		if !set.IsSet(cpu) {
			continue
		}
		if nth == 0 {
			return strconv.Itoa(cpu)
		}
		nth--
	}
}

func (n *node) diskFiles() map[string]string {
	files := map[string]string{"a": n.rootDiskFile()}
	for _, d := range n.spec.Disks {
		if d.IsFile() {
			files[d.Letter] = n.diskFile(d)
		}
	}
	return files
}

// sharedDisks returns the letters of the shared disks.
func (n *node) sharedDisks() map[string]bool {
	letters := map[string]bool{}
	for _, d := range n.spec.Disks {
		letters[d.Letter] = d.Kind == spec.KindShared
	}
	return letters
}

// call sends the node's agent a request other than running a command.
func (n *node) call(ctx context.Context, req wire.Request) (string, error) {
	config, err := pki.TLS(spec.CertDir, "admin")
	if err != nil {
		return "", err
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: callLimit}, Config: config}
	conn, err := dialer.DialContext(ctx, "tcp", n.spec.Agent())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var out bytes.Buffer
	exit, err := wire.Call(conn, req, nil, &out, &out)
	if err != nil {
		return "", err
	}
	if exit.Error != "" {
		return "", errors.New(exit.Error)
	}
	return strings.TrimSpace(out.String()), nil
}

func (n *node) bootID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return n.call(ctx, wire.Request{Op: wire.OpBootID})
}

// answers returns an error unless the agent of a booting node accepts a connection. The timeout is short: packets that
// are sent before the node's network is up are lost, and TCP sends them again only after seconds.
func (n *node) answers(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", n.spec.Agent())
	if err != nil {
		return err
	}
	_ = conn.Close()
	_, err = n.bootID(ctx)
	return err
}

// awaitReady waits until Kubernetes reports that the node is Ready in this boot.
func (n *node) awaitReady(ctx context.Context, limit time.Duration) error {
	err := poll(ctx, limit, 250*time.Millisecond, func(ctx context.Context) error {
		id, err := n.bootID(ctx)
		if err != nil {
			return err
		}
		return n.lab.kube.nodeReady(ctx, n.spec.Name, id)
	})
	if err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, n.tail("console"), n.tail("kubelet"))
	}
	return nil
}

func (n *node) tail(log string) string {
	return tail(filepath.Join(spec.NodeLogDir(n.spec.Name), log+".log"))
}

// act runs an action on a node.
func (n *node) act(ctx context.Context, action string) error {
	n.op.Lock()
	defer n.op.Unlock()
	switch action {
	case spec.ActionPowerCut:
		return n.kill()
	case spec.ActionPowerOff:
		return n.powerOff(ctx)
	case spec.ActionRestart:
		if err := n.powerOff(ctx); err != nil {
			return err
		}
		return n.bootToReady(ctx)
	case spec.ActionStart:
		return n.bootToReady(ctx)
	case spec.ActionReinstall:
		return n.reinstall(ctx)
	}
	return fmt.Errorf("no action %q", action)
}

// reinstall boots the node with a new root disk. Its data disks keep their content, except the disk with the volume
// group of the host, which an installer would create again.
func (n *node) reinstall(ctx context.Context) error {
	for _, d := range n.spec.Disks {
		if d.Kind == spec.KindSCSI {
			return fmt.Errorf("node %s has the SCSI disk %s: its content is on the root disk, and would be lost",
				n.spec.Name, d.Name)
		}
	}
	if err := n.powerOff(ctx); err != nil {
		return err
	}
	for _, d := range n.spec.Disks {
		if d.Name != n.lab.Flavor.HostVG {
			continue
		}
		if err := errors.Join(os.Remove(n.diskFile(d)), sparse(n.diskFile(d), d.Size)); err != nil {
			return err
		}
	}
	if err := os.Remove(n.rootDiskFile()); err != nil {
		return err
	}
	if err := n.makeRootDisk(); err != nil {
		return err
	}
	return n.bootToReady(ctx)
}

func (n *node) bootToReady(ctx context.Context) error {
	if err := n.boot(ctx); err != nil || n.lab.Bare {
		return err
	}
	return n.awaitReady(ctx, nodeReadyLimit)
}

// powerOff shuts the node down cleanly.
func (n *node) powerOff(ctx context.Context) error {
	if n.status().State == spec.NodeOff {
		return nil
	}
	if _, err := n.call(ctx, wire.Request{Op: wire.OpPowerOff}); err != nil && !errors.Is(err, wire.ErrLost) {
		return err
	}
	select {
	case <-n.proc.Done():
		return nil
	case <-time.After(powerOffLimit):
		return fmt.Errorf("node %s did not power off in %s\n%s", n.spec.Name, powerOffLimit, n.tail("console"))
	}
}

// kill simulates a power cut: the node's kernel and the processes that run in it end immediately.
func (n *node) kill() error {
	if n.proc == nil || n.status().PID == 0 {
		return nil
	}
	_ = unix.Kill(n.proc.PID, unix.SIGKILL)
	_ = unix.Kill(-n.proc.PID, unix.SIGKILL)
	select {
	case <-n.proc.Done():
		return nil
	case <-time.After(cutLimit):
		return fmt.Errorf("node %s still runs after %s\n%s", n.spec.Name, cutLimit, threadsOf("/proc", n.proc.PID))
	}
}

func sparse(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Truncate(size)
}
