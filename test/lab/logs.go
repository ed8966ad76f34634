package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// CollectLogs copies all logs of the lab to a directory: of the control plane, of every node's kernel, kubelet and
// containerd, and of the Pods on the running nodes.
func (l *Lab) CollectLogs(ctx context.Context, dir string) error {
	errs := []error{copyLogs(l.spec.State, dir)}
	for _, n := range l.Nodes() {
		errs = append(errs, n.collect(ctx, filepath.Join(dir, n.Name())))
	}
	return errors.Join(errs...)
}

// collect adds the information that only the running node has.
func (n *Node) collect(ctx context.Context, dir string) error {
	if up, err := n.Running(ctx); err != nil || !up {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for file, command := range map[string]string{
		"dmesg.log": "dmesg", "lvm.log": "lsblk; pvs -a; vgs; lvs -a -o +devices", "mounts.log": "cat /proc/mounts",
	} {
		if err := n.save(ctx, filepath.Join(dir, file), "sh", "-c", command+" 2>&1"); err != nil {
			return err
		}
	}
	if n.lab.spec.Bare {
		return nil
	}
	return n.save(ctx, filepath.Join(dir, "pods.tar"), "sh", "-c", "mkdir -p /var/log/pods; tar -C /var/log -cf - pods")
}

func (n *Node) save(ctx context.Context, file string, args ...string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = n.Run(ctx, Command{Args: args, Stdout: out})
	return errors.Join(err, out.Close())
}

// Logs returns the node's logs by name: console, udevd and, in a cluster, containerd, kubelet and kube-proxy.
func (n *Node) Logs() (map[string]string, error) {
	logs := map[string]string{}
	files, err := filepath.Glob(filepath.Join(n.lab.spec.State, spec.NodeLogDir(n.spec.Name), "*.log"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(file)
		logs[name[:len(name)-len(".log")]] = string(text)
	}
	return logs, nil
}

// copyLogs copies the logs from the state directory of a lab, which need not be running.
func copyLogs(state, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := copyInto(filepath.Join(state, "supervisor.log"),
		filepath.Join(dir, "supervisor.log")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	from := filepath.Join(state, spec.LogDir)
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(dir, rel), 0o755)
		}
		return copyInto(path, filepath.Join(dir, rel))
	})
}

func copyInto(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// keepLogs saves the logs of a lab that failed to start, and prints where they are.
func keepLogs(o Options) error {
	dir := o.State + "-logs"
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := copyLogs(o.State, dir); err != nil {
		return fmt.Errorf("its logs could not be kept: %w", err)
	}
	return fmt.Errorf("its logs are in %s", dir)
}
