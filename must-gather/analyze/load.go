// Package analyze finds problems of a cluster's storage in collected data. It reads only a directory, so that the same
// rules apply to a live cluster and later to its archive.
package analyze

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/gatherindex"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
)

// maxFile is the maximum size of a file, in bytes.
const maxFile = 64 << 20

// Facts are the contents of an archive.
type Facts struct {
	// Now is the time of the collection.
	Now      time.Time
	Version  string
	Timings  archive.Timings
	Failures archive.Failures
	// Unreadable lists files that could not be read or parsed.
	Unreadable []string

	Clusters       []v1alpha1.LVMCluster
	VolumeGroups   []v1alpha1.LVMVolumeGroup
	NodeStatuses   []v1alpha1.LVMVolumeGroupNodeStatus
	Recoveries     []v1alpha1.LVMRecovery
	LogicalVolumes []topolvmv1.LogicalVolume
	Nodes          []corev1.Node
	CSINodes       []storagev1.CSINode
	StorageClasses []storagev1.StorageClass
	Volumes        []corev1.PersistentVolume
	Claims         []corev1.PersistentVolumeClaim
	Pods           []corev1.Pod
	Events         []corev1.Event
	Deployments    []appsv1.Deployment
	DaemonSets     []appsv1.DaemonSet
	Secrets        []corev1.Secret
	Webhooks       []admissionv1.ValidatingWebhookConfiguration
	OpenShift      string
	CSVs           []metav1.PartialObjectMetadata
	Alerts         []Alert
	// Kernel has the lines about devices in the kernel log of each node.
	Kernel map[string][]string
	// Runbooks maps names of alerts to the runbook files in the archive.
	Runbooks map[string]string
	// Collected lists what was read on each node.
	Collected map[string]gatherindex.Index
}

// Alert is an alert of Prometheus.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	State       string            `json:"state"`
	ActiveAt    time.Time         `json:"activeAt"`
}

// loader reads an archive and records what it cannot read.
type loader struct {
	files      fs.FS
	unreadable []string
}

// Load reads an archive. It lists broken files in Unreadable, and returns an error only if the directory is not an
// archive. now is the time of the collection if the archive does not contain it.
func Load(files fs.FS, now time.Time) (*Facts, error) {
	l := &loader{files: files}
	if !l.has("cluster-scoped-resources") && !l.has("namespaces") {
		return nil, errors.New("it contains neither cluster-scoped-resources nor namespaces: specify the directory " +
			"that contains them in the output of `oc adm must-gather`")
	}
	f := &Facts{Now: now, Kernel: map[string][]string{}, Collected: map[string]gatherindex.Index{}}
	l.json(archive.TimingsFile, &f.Timings)
	l.json(archive.ErrorsFile, &f.Failures)
	if !f.Timings.Ended.IsZero() {
		f.Now = f.Timings.Ended
	}
	if content, err := l.read(archive.VersionFile); err == nil {
		f.Version = strings.TrimSpace(string(content))
	}
	own := v1alpha1.GroupVersion.Group
	f.Clusters = each[v1alpha1.LVMCluster](l, own, "lvmclusters")
	f.VolumeGroups = each[v1alpha1.LVMVolumeGroup](l, own, "lvmvolumegroups")
	f.NodeStatuses = each[v1alpha1.LVMVolumeGroupNodeStatus](l, own, "lvmvolumegroupnodestatuses")
	f.Recoveries = each[v1alpha1.LVMRecovery](l, own, "lvmrecoveries")
	f.LogicalVolumes = each[topolvmv1.LogicalVolume](l, "topolvm.io", "logicalvolumes")
	f.Nodes = each[corev1.Node](l, "core", "nodes")
	f.CSINodes = each[storagev1.CSINode](l, "storage.k8s.io", "csinodes")
	f.StorageClasses = each[storagev1.StorageClass](l, "storage.k8s.io", "storageclasses")
	f.Volumes = each[corev1.PersistentVolume](l, "core", "persistentvolumes")
	f.Webhooks = each[admissionv1.ValidatingWebhookConfiguration](l, "admissionregistration.k8s.io",
		"validatingwebhookconfigurations")
	f.CSVs = each[metav1.PartialObjectMetadata](l, "operators.coreos.com", "clusterserviceversions")
	f.Claims = listed[corev1.PersistentVolumeClaim](l, "core", "persistentvolumeclaims")
	f.Pods = listed[corev1.Pod](l, "core", "pods")
	f.Events = listed[corev1.Event](l, "core", "events")
	f.Deployments = listed[appsv1.Deployment](l, "apps", "deployments")
	f.DaemonSets = listed[appsv1.DaemonSet](l, "apps", "daemonsets")
	f.Secrets = listed[corev1.Secret](l, "core", "secrets")
	f.Runbooks = l.runbooks()
	l.openshift(f)
	l.alerts(f)
	l.nodes(f)
	f.Unreadable = l.unreadable
	return f, nil
}

func (l *loader) has(name string) bool {
	info, err := fs.Stat(l.files, name)
	return err == nil && info.IsDir()
}

func (l *loader) broken(name string, err error) {
	l.unreadable = append(l.unreadable, fmt.Sprintf("%s: %v", name, err))
}

// read reads a file. It records every error except that the file does not exist.
func (l *loader) read(name string) ([]byte, error) {
	file, err := l.files.Open(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.broken(name, err)
		}
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	if err != nil {
		l.broken(name, err)
		return nil, err
	}
	return content, nil
}

func (l *loader) json(name string, into any) bool {
	content, err := l.read(name)
	if err != nil {
		return false
	}
	if err := json.Unmarshal(content, into); err != nil {
		l.broken(name, err)
		return false
	}
	return true
}

func (l *loader) glob(pattern string) []string {
	names, err := fs.Glob(l.files, pattern)
	if err != nil {
		l.broken(pattern, err)
	}
	return names
}

// runbooks returns the runbook files by the names of the alerts. Archives from before 0.2.0 have none.
func (l *loader) runbooks() map[string]string {
	found := map[string]string{}
	for _, name := range l.glob(path.Join(archive.RunbookFolder, "*.md")) {
		found[strings.TrimSuffix(path.Base(name), ".md")] = name
	}
	return found
}

// each reads objects with one file for each, cluster-scoped or in namespaces.
func each[T any](l *loader, group, resource string) []T {
	var objects []T
	names := slices.Concat(l.glob(path.Join("cluster-scoped-resources", group, resource, "*.yaml")),
		l.glob(path.Join("namespaces", "*", group, resource, "*.yaml")))
	for _, name := range names {
		if object, ok := decode[T](l, name); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// listed reads objects with one file for each namespace.
func listed[T any](l *loader, group, resource string) []T {
	var objects []T
	for _, name := range l.glob(path.Join("namespaces", "*", group, resource+".yaml")) {
		if list, ok := decode[struct {
			Items []T `json:"items"`
		}](l, name); ok {
			objects = append(objects, list.Items...)
		}
	}
	return objects
}

func decode[T any](l *loader, name string) (T, bool) {
	var object T
	content, err := l.read(name)
	if err == nil {
		if err = yaml.Unmarshal(content, &object); err == nil {
			return object, true
		}
		l.broken(name, err)
	}
	return object, false
}

func (l *loader) openshift(f *Facts) {
	for _, v := range each[configv1.ClusterVersion](l, "config.openshift.io", "clusterversions") {
		f.OpenShift = v.Status.Desired.Version
	}
}

func (l *loader) alerts(f *Facts) {
	var answer struct {
		Data struct {
			Alerts []Alert `json:"alerts"`
		} `json:"data"`
	}
	if l.json("monitoring/alerts.json", &answer) {
		f.Alerts = answer.Data.Alerts
	}
}

func (l *loader) nodes(f *Facts) {
	for _, name := range l.glob("nodes/*/" + gatherindex.IndexFile) {
		node := path.Base(path.Dir(name))
		var index gatherindex.Index
		if l.json(name, &index) {
			f.Collected[node] = index
		}
		f.Kernel[node] = l.kernel(path.Dir(name))
	}
}

// kernel reads the kernel lines of the journal, which cover the requested time, or else the kernel's ring buffer.
func (l *loader) kernel(folder string) []string {
	for _, name := range []string{"journal-kernel.log", "dmesg.txt"} {
		content, err := l.read(path.Join(folder, name))
		if err != nil || len(content) == 0 {
			continue
		}
		var lines []string
		for line := range strings.Lines(string(content)) {
			if suspect(line) && trouble.MatchString(line) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	return nil
}
