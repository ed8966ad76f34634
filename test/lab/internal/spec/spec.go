// Package spec holds what the parts of a lab tell each other: the command and the Go API outside, the supervisor in
// its namespaces, and the first process of every node. It is plain data, so that each of them can be read alone.
package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Addresses inside a lab. Every lab has a network namespace of its own, so all labs use the same ones.
const (
	HostIP       = "192.168.77.1"
	APIServer    = HostIP + ":6443"
	RegistryHost = "registry.lab"
	Registry     = RegistryHost + ":5000"
	// Mirrored is the public registry that the lab's own stands for.
	Mirrored      = "quay.io"
	AgentPort     = "7070"
	ServiceCIDR   = "10.96.0.0/16"
	ServiceIP     = "10.96.0.1"
	PodCIDR       = "10.244.0.0/16"
	ClusterDomain = "cluster.local"
)

// PolicyQueue is the netfilter queue of kube-network-policies, as in its manifest.
const PolicyQueue = 98

// MaxNodes and MaxDisks are what addresses and User Mode Linux (16 ubd devices, the first is the root disk) allow.
const (
	MaxNodes = 9
	MaxDisks = 15
)

// Kinds of data disks.
const (
	// KindPlain is a file of the machine, seen as /dev/ubdX. It can be added and, when nothing uses it, removed.
	KindPlain = "plain"
	// KindSCSI is a SCSI disk /dev/sdX with vendor, model, serial and WWN. It can be pulled, failed and grown in use.
	KindSCSI = "scsi"
)

// Disk is one data disk of a node.
type Disk struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Size int64  `json:"size"`
	// Letter of a plain disk: "b" is /dev/ubdb.
	Letter string `json:"letter,omitempty"`
	// Device is the disk's path on the node, for example /dev/ubdb or /dev/sda. A SCSI disk may get another one after a
	// restart.
	Device string `json:"device,omitempty"`
	// Serial is what udev says of it; for a SCSI disk the kernel says the same.
	Serial string `json:"serial,omitempty"`
}

// Node is one machine of a lab.
type Node struct {
	Name  string `json:"name"`
	Num   int    `json:"num"`
	Disks []Disk `json:"disks,omitempty"`
}

// IP is the node's address in the lab's network.
func (n Node) IP() string { return fmt.Sprintf("192.168.77.%d", n.Num+1) }

// Agent is where the node's agent listens.
func (n Node) Agent() string { return n.IP() + ":" + AgentPort }

// PodCIDR is the range of the node's pods.
func (n Node) PodCIDR() string { return fmt.Sprintf("10.244.%d.0/24", n.Num) }

// Lab is all that a supervisor needs to know.
type Lab struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Binary is the lab command inside the state folder: supervisor, first process of a node, and agent.
	Binary string `json:"binary"`
	// Preload is a library that User Mode Linux needs on this machine, inside the state folder; empty if it needs none.
	Preload string `json:"preload,omitempty"`
	// Path has the folders with etcd, kubelet, containerd and so on.
	Path     []string `json:"path,omitempty"`
	Nodes    []Node   `json:"nodes"`
	MemoryMB int      `json:"memoryMB"`
	Flavor   Flavor   `json:"flavor"`
	Bare     bool     `json:"bare,omitempty"`
	// MaxRestartPeriod is the kubelet's crashLoopBackOff.maxContainerRestartPeriod.
	MaxRestartPeriod time.Duration `json:"maxRestartPeriod"`
	OpenShift        bool          `json:"openShift,omitempty"`
	Snapshots        bool          `json:"snapshots,omitempty"`
	OLM              bool          `json:"olm,omitempty"`
	ServiceCA        bool          `json:"serviceCA,omitempty"`
	// OLMv1 is the manifest of OLM v1; empty if it does not run.
	OLMv1 string `json:"olmV1,omitempty"`
	// PrometheusOperator is run, and its images are in the registry.
	PrometheusOperator bool `json:"prometheusOperator,omitempty"`
	// NetworkPolicies is the manifest of what enforces them; empty if nothing does.
	NetworkPolicies string `json:"networkPolicies,omitempty"`
	// Kernel is what the nodes run on.
	Kernel Kernel `json:"kernel"`
	// FirstCPU is where the nodes begin to be given processors, so that labs do not all begin with the same one.
	FirstCPU int `json:"firstCPU"`
	// CRDs are files that are applied, and waited for, before the lab is up.
	CRDs []string `json:"crds,omitempty"`
	// Busybox are the commands that the machine's busybox has.
	Busybox []string `json:"busybox,omitempty"`
	// Owned labs end when their standard input does.
	Owned bool `json:"owned,omitempty"`
}

// Files of a lab's state folder, relative to it.
const (
	File       = "lab.json"
	LockFile   = "lock"
	PidFile    = "pid"
	Socket     = "control.sock"
	Kubeconfig = "admin.kubeconfig"
	LogDir     = "log"
	CertDir    = "certs"
	// AuditLog has what Pods asked the API server for.
	AuditLog    = "audit.log"
	BinaryFile  = "lab"
	PreloadFile = "xstate.so"
	KernelFile  = "linux"
	RunDir      = "run"
	RegistryDir = "registry"
)

// NodeDir is a node's folder, relative to the state folder.
func NodeDir(node string) string { return filepath.Join("nodes", node) }

// NodeLogDir is where a node writes its logs, relative to the state folder.
func NodeLogDir(node string) string { return filepath.Join(LogDir, node) }

// Guest is what the first process of a node is told.
type Guest struct {
	Lab  string `json:"lab"`
	Node Node   `json:"node"`
	Bare bool   `json:"bare"`
	// MaxRestartPeriod is the lab's.
	MaxRestartPeriod time.Duration `json:"maxRestartPeriod"`
	// Flavor is the kind of host that the node is.
	Flavor Flavor `json:"flavor"`
	// Policies says that NetworkPolicies are enforced.
	Policies bool `json:"policies,omitempty"`
	// Path has the folders with containerd, kubelet and kube-proxy.
	Path []string `json:"path,omitempty"`
	// Dir holds the node's certificates and kubeconfigs, LogDir takes its logs; both are paths of the machine.
	Dir    string `json:"dir"`
	LogDir string `json:"logDir"`
}

// Kernel is a User Mode Linux program and how it is started.
type Kernel struct {
	// Program is the path of the program.
	Program string `json:"program"`
	// Env is added to the environment of the program itself.
	Env []string `json:"env,omitempty"`
}

// GuestEnv names the environment variable, set on the node's kernel command line, with the path of the Guest file.
const GuestEnv = "LVMS_LAB_NODE"

// Save writes v as JSON to a file that only root can read. After a power cut the file has either the old or the new
// content.
func Save(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// Load reads what Save wrote.
func Load(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// PathEnv is a PATH of the folders followed by the machine's own.
func PathEnv(folders []string) string {
	return "PATH=" + strings.Join(append(folders[:len(folders):len(folders)], "/usr/sbin", "/usr/bin",
		"/sbin", "/bin"), ":")
}
