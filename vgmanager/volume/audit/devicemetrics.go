package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// maxDevices is the maximum number of devices of a volume that have a series.
const maxDevices = 16

var (
	deviceFamily = metric.NewGauge("lvms_volume_device_info",
		"1 for each device that has extents of a volume, including those of its copies and their metadata. For a thin "+
			"volume, they are the devices with the data of its thin pool: its blocks can be on each of them. device "+
			"and device_id are the name and the identity in the status of the node, as in lvms_device_state; a "+
			"missing device has the last ones. physical_volume is the UUID. While data is moved between devices, the "+
			"volumes of the move have all devices of the move. At most 16 devices of a volume have series. "+limitBound,
		"node", "device_class", "volume", "namespace", "persistentvolumeclaim", "device", "device_id",
		"physical_volume")
	omittedFamily = metric.NewGauge("lvms_volume_device_info_omitted",
		"Number of devices of a volume without a series of lvms_volume_device_info, because it is on more than 16. No "+
			"series for other volumes. "+limitBound, volumeLabels...)
)

// volumeDevice is a device that has extents of a volume.
type volumeDevice struct{ name, id, uuid string }

// deviceNames returns the physical volumes in the status of this node by UUID. It reads a cache. A status that does
// not exist yet has none.
func (a *Auditor) deviceNames(ctx context.Context) (map[string]v1alpha1.PhysicalVolumeStatus, error) {
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Node}, status)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read the status of node %s: the metrics of the devices of volumes are missing: %w",
			a.Node, err)
	}
	known := map[string]v1alpha1.PhysicalVolumeStatus{}
	for i := range status.Status.NodeStatus {
		for _, pv := range status.Status.NodeStatus[i].PhysicalVolumes {
			known[pv.UUID] = pv
		}
	}
	return known, nil
}

// devicesOf returns the devices of physical volumes, sorted by name: with the name in LVM's report, or the last known
// name of a missing device. known are those in the status of the node by UUID. If it is nil, the status could not be
// read, and no device is returned.
func devicesOf(extents []view.PhysicalVolume, known map[string]v1alpha1.PhysicalVolumeStatus) []volumeDevice {
	if known == nil {
		return nil
	}
	devices := make([]volumeDevice, 0, len(extents))
	for _, pv := range extents {
		status := known[pv.UUID]
		devices = append(devices,
			volumeDevice{name: cmp.Or(pv.Name, status.Name), id: status.DeviceID, uuid: pv.UUID})
	}
	slices.SortFunc(devices, func(a, b volumeDevice) int {
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name), cmp.Compare(a.uuid, b.uuid))
	})
	return devices
}

func (v volumeMetrics) collectDevices(to chan<- prometheus.Metric, node string) {
	labels := v.labels(node)
	for _, d := range v.devices[:min(maxDevices, len(v.devices))] {
		deviceFamily.Send(to, 1, slices.Concat(labels, []string{d.name, d.id, d.uuid})...)
	}
	if omitted := len(v.devices) - maxDevices; omitted > 0 {
		omittedFamily.Send(to, float64(omitted), labels...)
	}
}
