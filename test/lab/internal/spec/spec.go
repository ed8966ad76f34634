// Package spec holds the data that the parts of a lab exchange: the command and the Go API outside, the supervisor in
// its namespaces, and the first process of every node. It is plain data, so that each part can be read alone.
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

// Addresses inside a lab. Every lab has its own network namespace, so all labs use the same addresses.
const (
	HostIP       = "192.168.77.1"
	APIServer    = HostIP + ":6443"
	RegistryHost = "registry.lab"
	Registry     = RegistryHost + ":5000"
	// Mirrored is the public registry that the lab's own registry replaces.
	Mirrored      = "quay.io"
	AgentPort     = "7070"
	ServiceCIDR   = "10.96.0.0/16"
	ServiceIP     = "10.96.0.1"
	PodCIDR       = "10.244.0.0/16"
	ClusterDomain = "cluster.local"
)

// MaxNodes and MaxDisks are the limits of the addresses and of User Mode Linux (16 ubd devices, the first is the root
// disk).
const (
	MaxNodes = 9
	MaxDisks = 15
)

// Kinds of data disks.
const (
	// KindPlain is a file of the machine, seen as /dev/ubdX. It can be added, and removed when it is not in use.
	KindPlain = "plain"
	// KindShared is a plain disk that several nodes see: each node that has a disk of this kind and name has the same
	// one. It has a WWN.
	KindShared = "shared"
	// KindSCSI is a SCSI disk /dev/sdX with vendor, model, serial and WWN. It can be pulled, made to fail, and expanded
	// in use.
	KindSCSI = "scsi"
)

// Disk is one data disk of a node.
type Disk struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	Size int64  `json:"size"`
	// Letter is the letter of a plain disk: "b" is /dev/ubdb.
	Letter string `json:"letter,omitempty"`
	// Device is the disk's path on the node, for example /dev/ubdb or /dev/sda. The path of a SCSI disk may change
	// after a restart.
	Device string `json:"device,omitempty"`
	// Serial is the serial number that udev reports. For a SCSI disk the kernel reports the same one.
	Serial string `json:"serial,omitempty"`
}

// IsFile returns true for a disk that is a file of the machine, seen as /dev/ubdX.
func (d Disk) IsFile() bool { return d.Kind == KindPlain || d.Kind == KindShared }

// WWN is the World Wide Name of a shared disk in udev: an NAA identifier with the digits of the serial number. A plain
// disk has none, and that of a SCSI disk is from the kernel.
func (d Disk) WWN() string {
	if d.Kind != KindShared || d.Serial == "" {
		return ""
	}
	return "0x5" + d.Serial[1:]
}

// Node is one machine of a lab.
type Node struct {
	Name  string `json:"name"`
	Num   int    `json:"num"`
	Disks []Disk `json:"disks,omitempty"`
}

// IP is the node's address in the lab's network.
func (n Node) IP() string { return fmt.Sprintf("192.168.77.%d", n.Num+1) }

// Agent is the address on which the node's agent listens.
func (n Node) Agent() string { return n.IP() + ":" + AgentPort }

// PodCIDR is the IP range of the node's Pods.
func (n Node) PodCIDR() string { return fmt.Sprintf("10.244.%d.0/24", n.Num) }

// Lab is the configuration of a supervisor.
type Lab struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Binary is the path of the lab command inside the state folder. It is the supervisor, the first process of a node,
	// and the agent.
	Binary string `json:"binary"`
	// Preload is the path, inside the state folder, of a library that User Mode Linux needs on this machine; empty if
	// it needs none.
	Preload string `json:"preload,omitempty"`
	// Path lists the folders that contain etcd, kubelet, containerd and so on.
	Path     []string `json:"path,omitempty"`
	Nodes    []Node   `json:"nodes"`
	MemoryMB int      `json:"memoryMB"`
	Flavor   Flavor   `json:"flavor"`
	Bare     bool     `json:"bare,omitempty"`
	// MaxRestartPeriod is the kubelet's crashLoopBackOff.maxContainerRestartPeriod.
	MaxRestartPeriod time.Duration `json:"maxRestartPeriod"`
	// VolumeStatistics: the kubelet has statistics of volumes.
	VolumeStatistics bool `json:"volumeStatistics,omitempty"`
	// AlphaFeatures: the feature gates CSIVolumeHealth and MutablePVNodeAffinity are enabled.
	AlphaFeatures bool `json:"alphaFeatures,omitempty"`
	// KubeletDir is the kubelet's directory on the nodes.
	KubeletDir string `json:"kubeletDir"`
	OpenShift  bool   `json:"openShift,omitempty"`
	Snapshots  bool   `json:"snapshots,omitempty"`
	OLM        bool   `json:"olm,omitempty"`
	ServiceCA  bool   `json:"serviceCA,omitempty"`
	// OLMv1 is the manifest of OLM v1; empty if it does not run.
	OLMv1 string `json:"olmV1,omitempty"`
	// PrometheusOperator is true if the Prometheus operator runs. Its images are then in the registry.
	PrometheusOperator bool `json:"prometheusOperator,omitempty"`
	// NetworkPolicies is the manifest of the program that enforces NetworkPolicies; empty if none does.
	NetworkPolicies string `json:"networkPolicies,omitempty"`
	// Extenders are the scheduler extenders in the configuration of kube-scheduler, in YAML.
	Extenders string `json:"extenders,omitempty"`
	// Kernel is the kernel of the nodes.
	Kernel Kernel `json:"kernel"`
	// FirstCPU is the offset of the processors of the nodes, so that labs use different ones.
	FirstCPU int `json:"firstCPU"`
	// CRDs are files that are applied before the lab is up. The lab waits for them.
	CRDs []string `json:"crds,omitempty"`
	// Busybox lists the commands that the machine's busybox has.
	Busybox []string `json:"busybox,omitempty"`
	// Owned labs end when their standard input is closed.
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
	// AuditLog contains the requests of Pods to the API server.
	AuditLog    = "audit.log"
	BinaryFile  = "lab"
	PreloadFile = "xstate.so"
	KernelFile  = "linux"
	RunDir      = "run"
	RegistryDir = "registry"
)

// NodeDir is a node's folder, relative to the state folder.
func NodeDir(node string) string { return filepath.Join("nodes", node) }

// NodeLogDir is the folder for a node's logs, relative to the state folder.
func NodeLogDir(node string) string { return filepath.Join(LogDir, node) }

// Guest is the configuration of the first process of a node.
type Guest struct {
	Lab  string `json:"lab"`
	Node Node   `json:"node"`
	Bare bool   `json:"bare"`
	// MaxRestartPeriod, VolumeStatistics and AlphaFeatures are those of the lab.
	MaxRestartPeriod time.Duration `json:"maxRestartPeriod"`
	VolumeStatistics bool          `json:"volumeStatistics,omitempty"`
	AlphaFeatures    bool          `json:"alphaFeatures,omitempty"`
	// KubeletDir is that of the lab.
	KubeletDir string `json:"kubeletDir"`
	// Flavor is the kind of host that the node is.
	Flavor Flavor `json:"flavor"`
	// Modules is that of the kernel. A node sees it at the same path.
	Modules string `json:"modules"`
	// Path lists the folders that contain containerd, kubelet and kube-proxy.
	Path []string `json:"path,omitempty"`
	// Dir contains the node's certificates and kubeconfigs, and LogDir its logs. Both are paths of the machine.
	Dir    string `json:"dir"`
	LogDir string `json:"logDir"`
}

// Kernel is a User Mode Linux program and the environment to start it with.
type Kernel struct {
	// Program is the path of the program.
	Program string `json:"program"`
	// Modules is the folder of the machine with the kernel's modules, in a folder for each release.
	Modules string `json:"modules"`
	// Env is added to the environment of the program itself.
	Env []string `json:"env,omitempty"`
}

// GuestEnv is the environment variable, set on the node's kernel command line, with the path of the Guest file.
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

// Load reads a file that Save wrote.
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

// PathEnv returns a PATH of the folders, followed by the machine's own.
func PathEnv(folders []string) string {
	return "PATH=" + strings.Join(append(folders[:len(folders):len(folders)], "/usr/sbin", "/usr/bin",
		"/sbin", "/bin"), ":")
}
