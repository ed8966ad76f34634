package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// settleLimit is the time in which the cluster must reach the expected state after the last step, including a resync of
// the mirror.
const settleLimit = 5 * time.Minute

// Violation is a difference from the expected state, with the names that it concerns.
type Violation struct {
	Names []string
	Text  string
}

// Error returns only the text.
func (v *Violation) Error() string { return v.Text }

// violated returns a violation.
func violated(name, format string, args ...any) error {
	return &Violation{Names: []string{name}, Text: fmt.Sprintf(format, args...)}
}

// check compares the cluster with the model. It waits for what may take time, but never for data.
func (w *world) check(ctx context.Context, m *Model) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for _, check := range []func(context.Context, *Model) error{w.checkStatus, w.checkObjects, w.checkVolumes,
		w.checkCapacity} {
		var last error
		err := story.Wait(ctx, "checkpoint", func(ctx context.Context) (bool, string, error) {
			err := check(ctx, m)
			if ctx.Err() == nil {
				last = err // After the timeout, the error is that of the timeout.
			}
			return err == nil, "", err
		})
		if err != nil && last != nil {
			return last
		}
		if err != nil {
			return err
		}
	}
	return w.checkData(ctx, m)
}

// checkData reads every file of the volumes that have a Pod.
func (w *world) checkData(ctx context.Context, m *Model) error {
	for _, name := range sorted(m.Volumes) {
		v := m.Volumes[name]
		if !v.Running {
			continue
		}
		if err := w.WaitRunning(ctx, namespace, name); err != nil { // After a power loss the node restarts its Pods.
			return violated(name, "volume %s: %v", name, err)
		}
		for file, want := range v.Files {
			got, err := w.read(ctx, name, v.Block, file)
			if err != nil {
				return violated(name, "volume %s: file %d cannot be read: %v", name, file, err)
			}
			if got != want {
				return violated(name, "volume %s: file %d has the checksum %s, and had %s when it was flushed", name,
					file, got, want)
			}
		}
	}
	return nil
}

// checkStatus compares the present faults with those in the status.
func (w *world) checkStatus(ctx context.Context, m *Model) error {
	cluster := &lvmv1alpha1.LVMCluster{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: clusterName}, cluster); err != nil {
		return err
	}
	if cluster.Status.ObservedGeneration != cluster.Generation || cluster.Status.Ready == m.Failed {
		return violated(clusterName, "the LVMCluster is %s, and a fault is in force: %t: %s", cluster.Status.State,
			m.Failed, conditions(cluster.Status.Conditions))
	}
	seen := map[string]lvmv1alpha1.VGState{}
	for _, class := range cluster.Status.DeviceClassStatuses {
		for _, node := range class.NodeStatus {
			seen[class.Name] = node.Status
			if ok := node.Status == lvmv1alpha1.VGStatusReady; ok == m.degraded(class.Name) {
				return violated(class.Name, "device class %s is %s: %s", class.Name, node.Status, node.Reason)
			}
		}
	}
	want := []string{mirrorClass, thickClass, thinClass}
	if m.Extra {
		want = append([]string{extraClass}, want...)
	}
	if got := sorted(seen); !slices.Equal(got, want) {
		return violated(clusterName, "the LVMCluster has the device classes %v, want %v", got, want)
	}
	return nil
}

func conditions(all []metav1.Condition) string {
	var list []string
	for _, c := range all {
		list = append(list, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(list, "; ")
}

// checkObjects compares claims, volumes and snapshots with the model.
func (w *world) checkObjects(ctx context.Context, m *Model) error {
	sizes, err := w.sizes(ctx)
	if err != nil {
		return err
	}
	for name, v := range m.Volumes {
		if sizes[name] < v.MiB {
			return violated(name, "claim %s has %d MiB, want %d", name, sizes[name], v.MiB)
		}
	}
	for name := range sizes {
		if m.Volumes[name] == nil {
			return violated(name, "claim %s was deleted, and is there", name)
		}
	}
	volumes := &corev1.PersistentVolumeList{}
	snapshots := &snapshotv1.VolumeSnapshotList{}
	contents := &snapshotv1.VolumeSnapshotContentList{}
	for _, list := range []client.ObjectList{volumes, snapshots, contents} {
		if err := w.List(ctx, list); err != nil {
			return err
		}
	}
	if len(volumes.Items) != len(m.Volumes) || len(snapshots.Items) != len(m.Snapshots) ||
		len(contents.Items) != len(m.Snapshots) {
		return violated(clusterName,
			"there are %d PersistentVolumes for %d claims, %d VolumeSnapshots and %d contents for %d snapshots",
			len(volumes.Items), len(m.Volumes), len(snapshots.Items), len(contents.Items), len(m.Snapshots))
	}
	return nil
}

// lv is a logical volume as lvs reports it.
type lv struct {
	Group string `json:"vg_name"`
	Name  string `json:"lv_name"`
	Size  string `json:"lv_size"`
	Pool  string `json:"pool_lv"`
	Type  string `json:"segtype"`
}

// checkVolumes compares logical volumes with their objects.
func (w *world) checkVolumes(ctx context.Context, m *Model) error {
	found, err := w.logicalVolumes(ctx)
	if err != nil {
		return err
	}
	objects := &topolvmv1.LogicalVolumeList{}
	if err := w.List(ctx, objects); err != nil {
		return err
	}
	have := map[string]lv{}
	for _, volume := range found {
		if volume.Type != "thin-pool" {
			have[volume.Name] = volume
		}
	}
	for _, object := range objects.Items {
		volume, ok := have[object.Status.VolumeID]
		if !ok {
			return violated(object.Spec.Name, "LogicalVolume %s has no logical volume %q", object.Name,
				object.Status.VolumeID)
		}
		if size, _ := strconv.ParseInt(volume.Size, 10, 64); size < object.Spec.Size.Value() {
			return violated(object.Spec.Name, "logical volume %s/%s has %d bytes, and its object asks for %s",
				volume.Group, volume.Name, size, object.Spec.Size.String())
		}
		delete(have, object.Status.VolumeID)
	}
	if len(have) > 0 {
		return violated(clusterName, "the logical volumes %v have no object", sorted(have))
	}
	if want := len(m.Volumes) + len(m.Snapshots); len(objects.Items) != want {
		return violated(clusterName, "there are %d LogicalVolumes, want %d", len(objects.Items), want)
	}
	return nil
}

func (w *world) logicalVolumes(ctx context.Context) ([]lv, error) {
	out, err := w.onNode(ctx, "lvs --reportformat json --units b --nosuffix -o vg_name,lv_name,lv_size,pool_lv,segtype")
	if err != nil {
		return nil, err
	}
	var report struct {
		Report []struct {
			LV []lv `json:"lv"`
		} `json:"report"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Report) != 1 {
		return nil, fmt.Errorf("lvs printed %q: %w", out, err)
	}
	return report.Report[0].LV, nil
}

// checkCapacity compares the volume groups in the status with LVM.
func (w *world) checkCapacity(ctx context.Context, m *Model) error {
	groups, err := w.status(ctx)
	if err != nil {
		return err
	}
	out, err := w.onNode(ctx, "vgs --noheadings --units b --nosuffix -o vg_name,vg_size,vg_free")
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for line := range strings.Lines(out) {
		var name string
		var size, free int64
		if _, err := fmt.Sscan(line, &name, &size, &free); err != nil {
			return fmt.Errorf("vgs printed %q: %w", line, err)
		}
		group := groups[name]
		if group.Size == nil || group.Free == nil || group.Size.Value() != size || group.Free.Value() != free {
			return violated(name, "volume group %s has %d bytes, %d of them free; the status says %v, %v", name, size,
				free, group.Size, group.Free)
		}
		names[name] = true
	}
	if names[extraClass] != m.Extra || len(names) < 3 {
		return violated(extraClass, "the node has the volume groups %v", sorted(names))
	}
	return nil
}
