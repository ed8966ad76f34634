// Package hostpaths describes where a node has the directory of its kubelet and its programs. Distributions differ in
// both. The operator is configured with the layout, which is the same for all nodes, and passes it to the node agents.
package hostpaths

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

const (
	// DefaultKubeletDir is the default of the kubelet's --root-dir.
	DefaultKubeletDir = "/var/lib/kubelet"
	// DefaultHostPath is the default for the directories with the node's programs. It suits distributions that follow
	// the Filesystem Hierarchy Standard, with and without a merged /usr.
	DefaultHostPath = "/usr/sbin:/usr/bin:/sbin:/bin"
	// DefaultStateDir is the directory with the device classes (lvmd.yaml) and the records of the node agent.
	DefaultStateDir = "/etc/topolvm"

	// KubeletDirVariable is an environment variable of `lvms operator`, `lvms vgmanager`, `lvms collect`: the
	// kubelet's directory on the nodes, which is its `--root-dir`. For the operator, it overrides `--kubelet-root-dir`,
	// and the operator sets it for the node agents.
	KubeletDirVariable = "KUBELET_ROOT_DIR"
	// HostPathVariable is an environment variable of `lvms operator`, `lvms vgmanager`, `lvms collect`, `lvms lvmd`:
	// the directories with the programs of the nodes, separated by colons, in the order of the search. For the
	// operator, it overrides `--host-path`, and the operator sets it for the node agents.
	HostPathVariable = "HOST_PATH"
	// StateDirVariable is an environment variable of `lvms vgmanager`, `lvms collect`: the directory of the node with
	// the device classes and the records of the node agent. The operator sets it.
	StateDirVariable = "STATE_DIR"
)

// Layout is the layout of a node. The zero value has the defaults.
type Layout struct {
	kubeletDir string
	hostPath   string
	stateDir   string
}

// Parse returns the layout with a kubelet directory and a list of directories with programs, separated by colons. Both
// have a default if they are empty. The environment variables, if getenv returns a value for them, override the
// arguments.
func Parse(kubeletDir, hostPath string, getenv func(string) string) (Layout, error) {
	l := Layout{
		kubeletDir: cmp.Or(getenv(KubeletDirVariable), kubeletDir),
		hostPath:   cmp.Or(getenv(HostPathVariable), hostPath),
	}
	if err := validate(l.KubeletDir()); err != nil {
		return Layout{}, fmt.Errorf("invalid kubelet directory %q (--kubelet-root-dir, %s): %w", l.kubeletDir,
			KubeletDirVariable, err)
	}
	for _, directory := range l.HostPath() {
		if err := validate(directory); err != nil {
			return Layout{}, fmt.Errorf("invalid directory %q in %q (--host-path, %s): %w", directory, l.hostPath,
				HostPathVariable, err)
		}
	}
	return l, nil
}

// FromEnvironment returns the layout with which the operator configured this program.
func FromEnvironment(getenv func(string) string) (Layout, error) {
	l, err := Parse("", "", getenv)
	l.stateDir = getenv(StateDirVariable)
	if err == nil {
		err = validate(l.StateDir())
	}
	if err != nil {
		return Layout{}, err
	}
	return l, nil
}

// WithStateDir returns the layout of a platform that has the device classes in a directory of its own.
func (l Layout) WithStateDir(directory string) Layout {
	l.stateDir = directory
	return l
}

// StateDir returns the directory with the device classes and the records of the node agent. It has the same path on the
// node and in the agent's container, because LVM of the node reads and writes files there that the agent names.
func (l Layout) StateDir() string { return cmp.Or(l.stateDir, DefaultStateDir) }

// validate checks the path of a directory. An API server accepts neither ".." in a hostPath nor ":" in a mountPath, and
// a relative directory among those with programs would depend on the working directory.
func validate(directory string) error {
	switch {
	case !filepath.IsAbs(directory):
		return errors.New("must be an absolute path")
	case directory == "/":
		return errors.New("must not be the root directory")
	case filepath.Clean(directory) != directory:
		return fmt.Errorf("must be %q", filepath.Clean(directory))
	case strings.ContainsAny(directory, ":\n"):
		return errors.New("must not contain a colon or a line break")
	}
	return nil
}

// HostPath returns the directories with the node's programs, in the order of the search.
func (l Layout) HostPath() []string { return strings.Split(cmp.Or(l.hostPath, DefaultHostPath), ":") }

// KubeletDir returns the kubelet's directory.
func (l Layout) KubeletDir() string { return cmp.Or(l.kubeletDir, DefaultKubeletDir) }

// RegistryDir returns the directory in which the kubelet looks for sockets of plugins.
func (l Layout) RegistryDir() string { return l.KubeletDir() + "/plugins_registry" }

// DriverDir returns the directory with the sockets of the CSI driver.
func (l Layout) DriverDir() string { return l.KubeletDir() + "/plugins/topolvm.io" }

// NodeSocketDir returns the directory with the socket of the CSI node service.
func (l Layout) NodeSocketDir() string { return l.DriverDir() + "/node" }

// CSIPluginsDir returns the directory in which the kubelet has volumes staged, and block volumes published.
func (l Layout) CSIPluginsDir() string { return l.KubeletDir() + "/plugins/kubernetes.io/csi" }

// PodsDir returns the directory in which the kubelet has file systems published.
func (l Layout) PodsDir() string { return l.KubeletDir() + "/pods" }

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// Environment returns the variables from which FromEnvironment reads the layout, without those that have the default.
func (l Layout) Environment() []Variable {
	var variables []Variable
	if directory := l.KubeletDir(); directory != DefaultKubeletDir {
		variables = append(variables, Variable{KubeletDirVariable, directory})
	}
	if l.hostPath != "" && l.hostPath != DefaultHostPath {
		variables = append(variables, Variable{HostPathVariable, l.hostPath})
	}
	if directory := l.StateDir(); directory != DefaultStateDir {
		variables = append(variables, Variable{StateDirVariable, directory})
	}
	return variables
}
