package audit

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// volumeLabels are the labels of a volume. namespace and persistentvolumeclaim are the kubelet's names, so that its
// volume metrics can be joined.
var volumeLabels = []string{"node", "device_class", "volume", "namespace", "persistentvolumeclaim"}

var (
	countFamily = metric.NewGauge("lvms_logical_volumes",
		"Number of logical volumes of the device class, including snapshots. If the node has more volumes than "+
			"--volume-metrics, only those that use the most space have the metrics lvms_volume_size_bytes, "+
			"lvms_volume_data_percent and lvms_volume_read_only, and those of I/O and devices.",
		"node", "device_class")
	sizeFamily = metric.NewGauge("lvms_volume_size_bytes",
		"Size of a volume, in bytes. The label volume is the name of the logical volume; namespace and "+
			"persistentvolumeclaim are those of its claim, and empty if it has none.", volumeLabels...)
	writtenFamily = metric.NewGauge("lvms_volume_data_percent",
		"Part of a thin volume that has been written and not discarded, in percent of its size. No series while "+
			"the volume is not active.", volumeLabels...)
	readOnlyFamily = metric.NewGauge("lvms_volume_read_only",
		"1 if the volume is read-only, 0 otherwise.", volumeLabels...)
	brokenFamily = metric.NewGauge("lvms_volume_filesystem_abnormal",
		"1 for a volume whose mounted file system became read-only after an error, was shut down, has recorded "+
			"errors, returns errors, or does not answer. No series for other volumes. At most 100 volumes of "+
			"a node have a series.", volumeLabels...)
)

// maxBroken is the maximum number of volumes with a broken file system that have a series.
const maxBroken = 100

// volumeMetrics has the metrics of one volume.
type volumeMetrics struct {
	class, group, name, namespace, claim string
	size                                 int64
	percent                              *float64
	readOnly                             bool
	// extents are the physical volumes with extents of the volume, and devices the same with the names of the status.
	extents []view.PhysicalVolume
	devices []volumeDevice
}

// held returns how many bytes of its device class the volume uses.
func (v volumeMetrics) held() float64 {
	if v.percent == nil {
		return float64(v.size)
	}
	return float64(v.size) * *v.percent / 100
}

// labels returns the values of volumeLabels.
func (v volumeMetrics) labels(node string) []string {
	return []string{node, v.class, v.name, v.namespace, v.claim}
}

func (v volumeMetrics) collect(to chan<- prometheus.Metric, node string) {
	labels := v.labels(node)
	sizeFamily.Send(to, float64(v.size), labels...)
	if v.percent != nil {
		writtenFamily.Send(to, *v.percent, labels...)
	}
	readOnly := 0.0
	if v.readOnly {
		readOnly = 1
	}
	readOnlyFamily.Send(to, readOnly, labels...)
	v.collectDevices(to, node)
}

// newVolumeMetrics returns the number of volumes of each class, and the metrics of the volumes that use the most
// space.
func newVolumeMetrics(volumes []engine.VolumeState, most int) (map[string]int, []volumeMetrics) {
	count := map[string]int{}
	list := make([]volumeMetrics, 0, len(volumes))
	for _, v := range volumes {
		count[v.Class]++
		namespace, claim, _ := strings.Cut(identity.ClaimOf(v.Tags), "/")
		list = append(list, volumeMetrics{class: v.Class, group: v.VolumeGroup, name: v.Name,
			namespace: namespace, claim: claim, size: v.Size, percent: v.DataPercent, readOnly: v.ReadOnly,
			extents: v.Devices})
	}
	if len(list) > most {
		slices.SortFunc(list, func(a, b volumeMetrics) int {
			return cmp.Or(cmp.Compare(b.held(), a.held()), cmp.Compare(a.name, b.name))
		})
		list = slices.Clip(list[:most])
	}
	return count, list
}

// measure stores the volume metrics for the next scrape. If the names of devices cannot be read, it stores the others
// and returns the error.
func (a *Auditor) measure(ctx context.Context, volumes []engine.VolumeState, objects []topolvmv1.LogicalVolume) error {
	known, err := a.deviceNames(ctx)
	count, list := newVolumeMetrics(volumes, a.MaxVolumes)
	for i := range list {
		list[i].devices = devicesOf(list[i].extents, known)
	}
	limits := newLimitMetrics(volumes, objects, a.MaxVolumes)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count = count
	a.volumes = list
	a.limits = limits
	return err
}
