package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/uml"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/wire"
)

// Errors of nodes.
var (
	// ErrDiskBusy means that a plain disk is in use, so it cannot be removed or grown.
	ErrDiskBusy = uml.ErrBusy
	// ErrConnectionLost means that a node ended or was restarted while a command ran on it.
	ErrConnectionLost = wire.ErrLost
)

func failureOf(text string) error {
	if strings.Contains(text, ErrDiskBusy.Error()) {
		return fmt.Errorf("%s%w", strings.TrimSuffix(text, ErrDiskBusy.Error()), ErrDiskBusy)
	}
	return errors.New(text)
}

// Node is a machine of a lab.
type Node struct {
	lab  *Lab
	spec spec.Node
}

// Nodes returns the lab's nodes, in order.
func (l *Lab) Nodes() []*Node {
	var nodes []*Node
	for _, n := range l.spec.Nodes {
		nodes = append(nodes, &Node{lab: l, spec: n})
	}
	return nodes
}

// Node returns the node with a name: node1, node2, …
func (l *Lab) Node(name string) (*Node, error) {
	for _, n := range l.Nodes() {
		if n.spec.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("lab %s has no node %q", l.spec.Name, name)
}

// Name returns the node's name, which is also that of the Kubernetes Node.
func (n *Node) Name() string { return n.spec.Name }

// IP returns the node's address in the lab's network.
func (n *Node) IP() string { return n.spec.IP() }

// NodeIP returns the address of the node with a number, from 1 on, in every lab's network.
func NodeIP(number int) string { return spec.Node{Num: number}.IP() }

// Command is a command to run on a node, as root, in the node's own namespaces.
type Command struct {
	// Args are the program, which is searched in the node's PATH, and its arguments. There is no implicit shell.
	Args []string
	// Env is added to the node's environment. Dir is /root by default.
	Env []string
	Dir string
	// Stdin may be nil. Stdout and Stderr may be nil to discard the output.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY requests a terminal with Rows and Cols. Standard error is then part of standard output.
	TTY        bool
	Rows, Cols uint16
}

// Run runs a command on the node and returns its exit code, which is 128 plus the signal's number if it was killed. It
// returns an error if the command could not be started or its end is unknown. The command is killed when ctx ends.
func (n *Node) Run(ctx context.Context, c Command) (int, error) {
	config, err := pki.TLS(filepath.Join(n.lab.spec.State, spec.CertDir), "admin")
	if err != nil {
		return -1, err
	}
	raw, err := n.lab.Dial(ctx, "tcp", n.spec.Agent())
	if err != nil {
		return -1, fmt.Errorf("node %s: %w", n.spec.Name, err)
	}
	config.ServerName = n.spec.IP()
	conn := tls.Client(raw, config)
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	if err := conn.HandshakeContext(ctx); err != nil {
		return -1, fmt.Errorf("node %s: %w", n.spec.Name, err)
	}
	req := wire.Request{Op: wire.OpExec, Args: c.Args, Env: c.Env, Dir: c.Dir, TTY: c.TTY,
		Size: wire.Winsize{Rows: c.Rows, Cols: c.Cols}}
	exit, err := wire.Call(conn, req, c.Stdin, orDiscard(c.Stdout), orDiscard(c.Stderr))
	switch {
	case err != nil && ctx.Err() != nil:
		return -1, ctx.Err()
	case err != nil:
		return -1, fmt.Errorf("node %s: %w", n.spec.Name, err)
	case exit.Error != "":
		return exit.Code, fmt.Errorf("node %s: %s", n.spec.Name, exit.Error)
	}
	return exit.Code, nil
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// Result is the output and the exit code of a command.
type Result struct {
	Stdout, Stderr string
	ExitCode       int
}

// Exec runs a command on the node and returns its output. If the exit code is not 0, it returns both a Result and an
// *ExitError.
func (n *Node) Exec(ctx context.Context, args ...string) (Result, error) {
	var stdout, stderr bytes.Buffer
	code, err := n.Run(ctx, Command{Args: args, Stdout: &stdout, Stderr: &stderr})
	result := Result{Stdout: stdout.String(), Stderr: stderr.String(), ExitCode: code}
	if err == nil && code != 0 {
		err = &ExitError{Node: n.spec.Name, Args: args, Result: result}
	}
	return result, err
}

// ExitError means that the exit code of a command on a node is not 0.
type ExitError struct {
	Node   string
	Args   []string
	Result Result
}

// Error returns the command, its exit code and its output.
func (e *ExitError) Error() string {
	return fmt.Sprintf("%s on %s: exit code %d: %s", strings.Join(e.Args, " "), e.Node, e.Result.ExitCode,
		strings.TrimSpace(e.Result.Stderr+e.Result.Stdout))
}

// Restart shuts the node down and boots it again. As on a real machine, its root disk and data disks keep their
// content. In a cluster it returns when the Node is Ready after the new boot.
func (n *Node) Restart(ctx context.Context) error { return n.act(ctx, spec.ActionRestart) }

// PowerOff shuts the node down: processes receive a signal, and data disks are unmounted.
func (n *Node) PowerOff(ctx context.Context) error { return n.act(ctx, spec.ActionPowerOff) }

// PowerCut ends the node immediately. After Start, flushed data is on the disks; other data may be lost.
func (n *Node) PowerCut(ctx context.Context) error { return n.act(ctx, spec.ActionPowerCut) }

// Start boots a node that is off. In a cluster it returns when the Node is Ready after this boot.
func (n *Node) Start(ctx context.Context) error { return n.act(ctx, spec.ActionStart) }

// Reinstall shuts the node down and boots it with a new root file system, as after a new installation: its
// configuration, the state of kubelet and containerd, and all other files are lost. The node has the same name and
// address, and its data disks keep their content. A node with SCSI disks cannot be reinstalled, because their content
// is on its root disk. In a cluster it returns when the Node is Ready after the new boot.
func (n *Node) Reinstall(ctx context.Context) error { return n.act(ctx, spec.ActionReinstall) }

func (n *Node) act(ctx context.Context, action string) error {
	return n.lab.ask(ctx, http.MethodPost, "/nodes/"+n.spec.Name+"/"+action, nil, &struct{}{})
}

// Running reports whether the node is running.
func (n *Node) Running(ctx context.Context) (bool, error) {
	status, err := n.statusOf(ctx)
	return status.State == spec.NodeRunning, err
}

func (n *Node) statusOf(ctx context.Context) (spec.NodeStatus, error) {
	status, err := n.lab.status(ctx)
	if err != nil {
		return spec.NodeStatus{}, err
	}
	i := slices.IndexFunc(status.Nodes, func(s spec.NodeStatus) bool { return s.Name == n.spec.Name })
	if i < 0 {
		return spec.NodeStatus{}, fmt.Errorf("lab %s has no node %q", n.lab.spec.Name, n.spec.Name)
	}
	return status.Nodes[i], nil
}
