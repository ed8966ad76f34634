package audit

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
)

// maxFailedReads is the number of consecutive audits that cannot read the volumes after which their metrics end.
const maxFailedReads = 3

var orphanFamily = metric.NewGauge("lvms_orphan_logical_volumes",
	"Number of logical volumes without a LogicalVolume object (kind=LogicalVolume), of LogicalVolume objects without "+
		"a logical volume (kind=Object), of volumes without a PersistentVolume, a snapshot or a claim "+
		"(kind=Unclaimed), and of logical volumes whose object names another node, which lacks them "+
		"(kind=OtherNode).",
	"node", "device_class", "kind")

// Families are all metrics of the Auditor.
var Families = []metric.Family{orphanFamily, countFamily, sizeFamily, writtenFamily, readOnlyFamily, brokenFamily,
	iopsLimitFamily, bytesLimitFamily, limitsFailedFamily, deviceFamily, omittedFamily, ioObservedFamily, readsFamily,
	writesFamily, readBytesFamily, writtenBytesFamily, readSecondsFamily, writeSecondsFamily}

// Describe implements prometheus.Collector.
func (a *Auditor) Describe(to chan<- *prometheus.Desc) { metric.Describe(to, Families) }

// Collect implements prometheus.Collector. It reports nothing for a device class that is not available, and no
// volumes at all after maxFailedReads failed audits, because the values would be outdated. It reads the I/O of volumes
// itself: the other values are those of the last audit.
func (a *Auditor) Collect(to chan<- prometheus.Metric) {
	if volumes, known := a.collectAudited(to); known {
		a.collectIO(to, volumes)
	}
}

// collectAudited sends what the last audit found, and returns its volumes. known is false if they are outdated.
func (a *Auditor) collectAudited(to chan<- prometheus.Metric) (volumes []volumeMetrics, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failedReads >= maxFailedReads {
		return nil, false
	}
	for class, orphans := range a.orphans {
		count := map[v1alpha1.OrphanKind]int{v1alpha1.OrphanLogicalVolume: 0, v1alpha1.OrphanObject: 0,
			v1alpha1.OrphanUnclaimed: 0, v1alpha1.OrphanOtherNode: 0}
		for _, o := range orphans {
			count[o.Kind]++
		}
		for kind, n := range count {
			orphanFamily.Send(to, float64(n), a.Node, class, string(kind))
		}
		countFamily.Send(to, float64(a.count[class]), a.Node, class)
	}
	for _, v := range a.volumes {
		v.collect(to, a.Node)
	}
	for _, v := range a.limits {
		v.collect(to, a.Node)
	}
	for _, v := range a.broken {
		brokenFamily.Send(to, 1, v.labels(a.Node)...)
	}
	// An audit replaces the list and does not change it.
	return a.volumes, true
}
