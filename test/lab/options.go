package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/uml"
)

// Options configure a lab. The zero value is a cluster of one node without data disks.
type Options struct {
	// Name is the name of the lab, by default "lab". Labs with different names can run at the same time.
	Name string
	// State is the lab's directory, by default .cache/labs/NAME in the repository. The lab creates and removes it. The
	// path must not contain spaces, quotes, commas, colons or equal signs.
	State string
	// Nodes is the number of nodes, which are called node1, node2, …; 1 by default, 9 at most.
	Nodes int
	// Disks are the data disks of every node, with at most 15 plain ones.
	Disks []DiskSpec
	// MemoryMB is the memory of a node in MiB; 2048 by default. A node uses only as much of the machine's memory as its
	// peak usage.
	MemoryMB int
	// Flavor is the name of the kind of host of the nodes; DefaultFlavor by default. See [Flavors].
	Flavor string
	// Bare nodes have a kernel, udev, LVM and disks, but no Kubernetes.
	Bare bool
	// OpenShift adds the CRDs by which operators detect OpenShift: SecurityContextConstraints, ConsolePlugin,
	// ConsoleQuickStart, APIServer and Infrastructure, and an APIServer and an Infrastructure named cluster.
	OpenShift bool
	// Snapshots adds the CRDs of volume snapshots, and the snapshot controller.
	Snapshots bool
	// OLM adds the Operator Lifecycle Manager: its CRDs, its operators in the namespace olm, which is also the
	// namespace of global catalogs, and the images registry.lab:5000/opm:1 and olm-util:1.
	OLM bool
	// OLMv1 adds OLM v1: catalogd and operator-controller with their own manifest, in the namespace olmv1-system. They
	// pull images of quay.io from the lab's registry. With ServiceCA, OLM v1 installs bundles with webhooks, like on
	// OpenShift; otherwise it refuses them.
	OLMv1 bool
	// ServiceCA adds a signer that implements the annotations of OpenShift's service CA: certificates for Services, and
	// the bundle of their authority in ConfigMaps, webhook configurations, CustomResourceDefinitions and APIServices.
	ServiceCA bool
	// PrometheusOperator adds the Prometheus Operator, which watches all namespaces, all its CRDs, and the images
	// registry.lab:5000/prometheus:1 and prometheus-config-reloader:1. A Prometheus object results in a running
	// Prometheus.
	PrometheusOperator bool
	// NetworkPolicies enforces NetworkPolicies on every node, with kube-network-policies. Without it they have no
	// effect.
	NetworkPolicies bool
	// Extenders are the scheduler extenders of kube-scheduler: the value of the key extenders of its configuration
	// file, in YAML. kube-scheduler is not on a node: it reaches an extender at the address of a node: see [NodeIP].
	Extenders string
	// MaxRestartPeriod is the maximum time until the kubelet restarts a container that ended, in whole seconds from 1s
	// to 5m; 5m by default, as on any cluster.
	MaxRestartPeriod time.Duration
	// VolumeStatistics makes the kubelet answer stats/summary, with statistics of volumes. It needs those of the file
	// systems of the node for that, which take time.
	VolumeStatistics bool
	// AlphaFeatures enables the feature gates of the product's alpha features of Kubernetes 1.37: MutablePVNodeAffinity
	// of the API server, and CSIVolumeHealth also of the kubelets, which ask for the health every 10 s instead of every
	// minute.
	AlphaFeatures bool
	// KubeletDir is the kubelet's directory on the nodes, below /var/lib; /var/lib/kubelet by default.
	KubeletDir string
	// CRDs are additional CRD files to apply before the lab is up.
	CRDs []string
	// Progress receives a line with the duration of every step. None by default.
	Progress io.Writer
	// folders are additional directories of this machine that are visible on a node with another root.
	folders []string
	// Detached labs run longer than this process; they end with Down or "lab down". Other labs end when this process
	// ends, for any reason.
	Detached bool
}

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

const (
	minMemoryMB      = 256
	maxRestartPeriod = 5 * time.Minute // the kubelet's own default, and its limit
)

// complete sets the defaults.
func (o Options) complete() (Options, error) {
	if o.Name == "" {
		o.Name = "lab"
	}
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.KubeletDir == "" {
		o.KubeletDir = "/var/lib/kubelet"
	}
	if o.MaxRestartPeriod == 0 {
		o.MaxRestartPeriod = maxRestartPeriod
	}
	if o.MemoryMB == 0 {
		o.MemoryMB = 2048
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Flavor == "" {
		o.Flavor = DefaultFlavor
	}
	if o.State == "" {
		cache, err := CacheDir()
		if err != nil {
			return o, err
		}
		o.State = filepath.Join(cache, "labs", o.Name)
	}
	state, err := filepath.Abs(o.State)
	if err != nil {
		return o, err
	}
	o.State = state
	flavor, err := FindFlavor(o.Flavor)
	if err != nil {
		return o, err
	}
	o.Disks = withDefaults(o.Disks, flavor.kind)
	return o, o.validate(flavor)
}

func (o Options) validate(flavor Flavor) error {
	var errs []error
	if !validName.MatchString(o.Name) {
		errs = append(errs, fmt.Errorf("name %q: want up to 32 of a-z, 0-9 and - in between", o.Name))
	}
	if o.Nodes < 1 || o.Nodes > spec.MaxNodes {
		errs = append(errs, fmt.Errorf("%d nodes: want 1 to %d", o.Nodes, spec.MaxNodes))
	}
	if o.MemoryMB < minMemoryMB {
		errs = append(errs, fmt.Errorf("%d MB of memory: want at least %d", o.MemoryMB, minMemoryMB))
	}
	if path.Clean(o.KubeletDir) != o.KubeletDir || !strings.HasPrefix(o.KubeletDir, "/var/lib/") {
		errs = append(errs, fmt.Errorf("the kubelet's directory %q: want a clean path below /var/lib", o.KubeletDir))
	}
	if o.MaxRestartPeriod < time.Second || o.MaxRestartPeriod > maxRestartPeriod ||
		o.MaxRestartPeriod%time.Second != 0 {
		errs = append(errs, fmt.Errorf("a restart period of %s: want whole seconds from 1s to %s", o.MaxRestartPeriod,
			maxRestartPeriod))
	}
	if o.Bare && (o.OpenShift || o.Snapshots || o.OLM || o.OLMv1 || len(o.CRDs) > 0) {
		errs = append(errs,
			errors.New("bare nodes have no API server for OpenShift's, snapshots', OLM's or other resources"))
	}
	if o.Bare && (o.ServiceCA || o.PrometheusOperator || o.NetworkPolicies) {
		errs = append(errs,
			errors.New("bare nodes have no API server for a service CA, the Prometheus Operator or network policies"))
	}
	if o.Bare && o.Extenders != "" {
		errs = append(errs, errors.New("bare nodes have no scheduler for extenders"))
	}
	return errors.Join(append(errs, uml.CheckPath(o.State), validateDisks(flavor.allDisks(o.Disks)))...)
}

func validateDisks(disks []DiskSpec) error {
	names := map[string]bool{}
	var errs []error
	plain := 0
	for _, d := range disks {
		errs = append(errs, d.validate())
		if names[d.Name] {
			errs = append(errs, fmt.Errorf("two disks are called %q", d.Name))
		}
		names[d.Name] = true
		if d.Kind == Plain || d.Kind == Shared {
			plain++
		}
	}
	if plain > spec.MaxDisks {
		errs = append(errs, fmt.Errorf("%d plain disks, with shared ones: a node can have %d", plain, spec.MaxDisks))
	}
	return errors.Join(errs...)
}

// CacheDir returns the directory with built programs and the state of labs: LVMS_CACHE, or .cache in the root of the
// repository.
func CacheDir() (string, error) {
	if dir := os.Getenv("LVMS_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".cache"), nil
}

const modulePath = "github.com/lvm-storage/lvm-operator"

// Root returns the root of the repository: the nearest parent of the working directory with the operator's go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if data, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && moduleOf(data) == modulePath {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is not inside of a checkout of %s", dir, modulePath)
		}
	}
}

var moduleLine = regexp.MustCompile(`(?m)^module\s+(\S+)`)

func moduleOf(gomod []byte) string {
	if m := moduleLine.FindSubmatch(gomod); m != nil {
		return string(m[1])
	}
	return ""
}
