package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	nodeName    = "node1"
	clusterName = "soak"
	namespace   = "soak"
	// stepLimit is the timeout of an operation with a fault: a node boots in seconds, and a resync or a move takes a
	// minute.
	stepLimit = 10 * time.Minute
	// maxRestartPeriod limits the back-off of killed agents: the kubelet's default is as long as settleLimit.
	maxRestartPeriod = 10 * time.Second
)

// disks are the disks of the node, by name. A class names its disks by serial number.
var disks = map[string][]string{
	thinClass: {"thin1"}, thickClass: {"thick1"}, mirrorClass: {"mirror1", "mirror2"}, extraClass: {"extra1"},
}

// addedDisk is the disk that opAddDevice adds to the thick class. failedDisk and pulledDisk are in the mirror.
const (
	addedDisk  = "added"
	failedDisk = "mirror1"
	pulledDisk = "mirror2"
)

// world is the cluster of the walk.
type world struct {
	*story.Cluster
	lab  *lab.Lab
	node *lab.Node
	log  func(format string, args ...any)
}

// setUp creates a lab of one node with the operator and the device classes.
func setUp(ctx context.Context, name, image string, log func(string, ...any)) (*world, error) {
	var specs []lab.DiskSpec
	for _, class := range sorted(disks) {
		for _, disk := range disks[class] {
			specs = append(specs, lab.DiskSpec{Name: disk, Kind: lab.SCSI, Size: 2 * lab.GiB})
		}
	}
	l, err := lab.Up(ctx, lab.Options{Name: name, Nodes: 1, Snapshots: true, Disks: specs,
		MaxRestartPeriod: maxRestartPeriod})
	if err != nil {
		return nil, err
	}
	w := &world{lab: l, node: l.Nodes()[0], log: log}
	if w.Cluster, err = story.Open(l); err != nil {
		return w, err
	}
	if err := w.Install(ctx, image); err != nil {
		return w, err
	}
	if err := w.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return w, err
	}
	cluster := &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: story.OperatorNamespace,
		Name: clusterName}}
	for _, class := range []string{thinClass, thickClass, mirrorClass} {
		wanted, err := w.class(ctx, class)
		if err != nil {
			return w, err
		}
		cluster.Spec.Storage.DeviceClasses = append(cluster.Spec.Storage.DeviceClasses, wanted)
	}
	return w, w.retry(ctx, "create the LVMCluster", func(ctx context.Context) error {
		return ignoreExists(w.Create(ctx, cluster))
	})
}

// class returns a device class of the walk.
func (w *world) class(ctx context.Context, name string) (lvmv1alpha1.DeviceClass, error) {
	class := lvmv1alpha1.DeviceClass{
		Name: name, Default: name == thinClass, FilesystemType: lvmv1alpha1.FilesystemTypeExt4,
		DeviceDiscoveryPolicy: lvmv1alpha1.DeviceDiscoveryDynamic, DeviceSelector: &lvmv1alpha1.DeviceSelector{},
	}
	switch name {
	case thinClass:
		class.FilesystemType = lvmv1alpha1.FilesystemTypeXFS
		class.ThinPoolConfig = &lvmv1alpha1.ThinPoolConfig{Name: "pool", OverprovisionRatio: 10, SizePercent: 90}
	case mirrorClass:
		class.RAIDConfig = &lvmv1alpha1.RAIDConfig{Type: lvmv1alpha1.RAIDType("raid1")}
	}
	for _, disk := range disks[name] {
		found, err := w.disk(ctx, disk)
		if err != nil {
			return class, err
		}
		class.DeviceSelector.Serials = append(class.DeviceSelector.Serials, lvmv1alpha1.DeviceProperty(found.Serial))
	}
	return class, nil
}

func (w *world) disk(ctx context.Context, name string) (lab.Disk, error) {
	all, err := w.node.Disks(ctx)
	if err != nil {
		return lab.Disk{}, err
	}
	at := slices.IndexFunc(all, func(d lab.Disk) bool { return d.Name == name })
	if at < 0 {
		return lab.Disk{}, fmt.Errorf("node %s has no disk %s", nodeName, name)
	}
	return all[at], nil
}

// change modifies the device classes.
func (w *world) change(ctx context.Context, change func(*lvmv1alpha1.Storage)) error {
	return w.retry(ctx, "change the LVMCluster", func(ctx context.Context) error {
		cluster := &lvmv1alpha1.LVMCluster{}
		if err := w.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: clusterName},
			cluster); err != nil {
			return err
		}
		change(&cluster.Spec.Storage)
		return w.Update(ctx, cluster)
	})
}

// of returns a device class of the LVMCluster.
func of(storage *lvmv1alpha1.Storage, name string) *lvmv1alpha1.DeviceClass {
	at := slices.IndexFunc(storage.DeviceClasses, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == name })
	return &storage.DeviceClasses[at]
}

// status returns the volume groups in the node status.
func (w *world) status(ctx context.Context) (map[string]lvmv1alpha1.VGStatus, error) {
	found := &lvmv1alpha1.LVMVolumeGroupNodeStatus{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: nodeName}, found); err != nil {
		return nil, err
	}
	groups := map[string]lvmv1alpha1.VGStatus{}
	for _, group := range found.Status.NodeStatus {
		groups[group.Name] = group
	}
	return groups, nil
}

// retry calls a function until it returns no error, or until stepLimit is over: during a fault any call can fail.
func (w *world) retry(ctx context.Context, what string, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	return story.Wait(ctx, what, func(ctx context.Context) (bool, string, error) {
		ctx, cancel := context.WithTimeout(ctx, stepLimit/2)
		defer cancel()
		err := call(ctx)
		return err == nil, "", err
	})
}

// onNode runs a line of shell on the node.
func (w *world) onNode(ctx context.Context, line string) (string, error) {
	result, err := w.node.Exec(ctx, "/bin/sh", "-c", line)
	return strings.TrimSpace(result.Stdout), err
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// down removes the lab, and prints where its logs are if they are kept.
func (w *world) down(keepLogs string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var err error
	if keepLogs != "" {
		if err = w.lab.CollectLogs(ctx, keepLogs); err == nil {
			w.log("the logs are in %s", keepLogs)
		}
	}
	return errors.Join(err, w.lab.Down(ctx))
}
