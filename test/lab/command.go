package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

func (l *Lab) dialRegistry(ctx context.Context, network, _ string) (net.Conn, error) {
	return l.Dial(ctx, network, spec.HostIP+":5000")
}

// Command returns a command that runs in the lab's network, with KUBECONFIG and with the lab's programs (kubectl, etcd,
// …) in its PATH. It runs on this machine; to run a command on a node, use [Node.Run].
func (l *Lab) Command(ctx context.Context, program string, args ...string) (*exec.Cmd, error) {
	pid, err := supervisorPID(l.spec.State)
	if err != nil {
		return nil, err
	}
	program = findProgram(l.spec.Path, program)
	cmd := exec.CommandContext(ctx, "/usr/bin/nsenter",
		append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", pid), "--", program}, args...)...)
	path := strings.Join(append(l.spec.Path[:len(l.spec.Path):len(l.spec.Path)], os.Getenv("PATH")), ":")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+l.Kubeconfig(), "PATH="+path, "LAB="+l.spec.Name)
	return cmd, nil
}

// Kubectl runs kubectl as the lab's administrator and returns its output.
func (l *Lab) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd, err := l.Command(ctx, "kubectl", args...)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// findProgram searches the directories first, and then PATH.
func findProgram(folders []string, program string) string {
	for _, dir := range folders {
		if path := filepath.Join(dir, program); exists(path) {
			return path
		}
	}
	return program
}
