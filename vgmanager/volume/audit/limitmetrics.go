package audit

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// Values of the label direction.
const (
	directionRead  = "read"
	directionWrite = "write"
)

// limitBound is the end of the help of the metrics of I/O limits.
const limitBound = "At most --volume-metrics volumes of a node have series, those that use the most space."

var (
	iopsLimitFamily = metric.NewGauge("lvms_volume_io_limit_operations_per_second",
		"Limit of a VolumeAttributesClass that is in force for the I/O of each Pod to a volume, in requests per "+
			"second. direction is read or write. No series without such a limit. "+limitBound,
		slices.Concat(volumeLabels, []string{"direction"})...)
	bytesLimitFamily = metric.NewGauge("lvms_volume_io_limit_bytes_per_second",
		"Limit of a VolumeAttributesClass that is in force for the I/O of each Pod to a volume, in bytes per second. "+
			"direction is read or write. No series without such a limit. "+limitBound,
		slices.Concat(volumeLabels, []string{"direction"})...)
	limitsFailedFamily = metric.NewGauge("lvms_volume_io_limits_failed",
		"1 for a volume whose requested I/O limits could not be applied. The reason is in the annotation "+
			"`lvm.topolvm.io/io-limits-error` of its LogicalVolume. No series for other volumes. "+limitBound,
		volumeLabels...)
)

// limitMetrics has the I/O limits of one volume.
type limitMetrics struct {
	volumeMetrics
	inForce iolimits.Limits
	// failed is true if the requested limits could not be applied.
	failed bool
}

func (l limitMetrics) collect(to chan<- prometheus.Metric, node string) {
	labels := l.labels(node)
	send := func(family metric.Family, direction string, limit int64) {
		if limit != 0 {
			family.Send(to, float64(limit), slices.Concat(labels, []string{direction})...)
		}
	}
	send(iopsLimitFamily, directionRead, l.inForce.ReadIOPS)
	send(iopsLimitFamily, directionWrite, l.inForce.WriteIOPS)
	send(bytesLimitFamily, directionRead, l.inForce.ReadBytes)
	send(bytesLimitFamily, directionWrite, l.inForce.WriteBytes)
	if l.failed {
		limitsFailedFamily.Send(to, 1, labels...)
	}
}

// newLimitMetrics returns the I/O limits of the volumes that have limits in force, or whose limits could not be
// applied: at most those of the given number of volumes that use the most space. Limits in an annotation that is not
// valid are unknown.
func newLimitMetrics(volumes []engine.VolumeState, objects []topolvmv1.LogicalVolume, most int) []limitMetrics {
	limits := map[string]limitMetrics{}
	for i := range objects {
		lv := &objects[i]
		inForce, err := iolimits.Parse(view.IOLimitsOf(lv).InForce)
		if err != nil {
			inForce = iolimits.Limits{}
		}
		failed := view.IOLimitsOf(lv).Refusal() != ""
		if lv.Status.VolumeID != "" && (failed || inForce != iolimits.Limits{}) {
			limits[lv.Status.VolumeID] = limitMetrics{inForce: inForce, failed: failed}
		}
	}
	limited := slices.DeleteFunc(slices.Clone(volumes), func(v engine.VolumeState) bool {
		_, present := limits[v.Name]
		return !present
	})
	_, shown := newVolumeMetrics(limited, most)
	list := make([]limitMetrics, 0, len(shown))
	for _, v := range shown {
		list = append(list, limitMetrics{v, limits[v.name].inForce, limits[v.name].failed})
	}
	return list
}

// limitsChanged returns true if the limits that the metrics show are others.
func limitsChanged(before, after *topolvmv1.LogicalVolume) bool {
	was, is := view.IOLimitsOf(before), view.IOLimitsOf(after)
	return was.InForce != is.InForce || (was.Refusal() != "") != (is.Refusal() != "")
}
