package audit

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// ioBound is the end of the help of the metrics of I/O.
const ioBound = " The counter starts again at 0 when the volume is activated. No series while the volume is not " +
	"active. " + limitBound

var (
	ioObservedFamily = metric.NewGauge("lvms_volume_io_observed",
		"1 if the I/O statistics of volumes could be read for this scrape, 0 otherwise: then no volume has a series "+
			"of I/O, and the log of the node agent has the reason.", "node")
	readsFamily = metric.NewCounter("lvms_volume_reads_total",
		"Number of completed reads of a volume. It counts what reaches the logical volume: after the page cache, and "+
			"below the encryption of an encrypted volume, before its devices merge or split requests."+ioBound,
		volumeLabels...)
	writesFamily = metric.NewCounter("lvms_volume_writes_total",
		"Number of completed writes of a volume, without discards and flushes, counted like reads."+ioBound,
		volumeLabels...)
	readBytesFamily = metric.NewCounter("lvms_volume_read_bytes_total",
		"Number of bytes read from a volume."+ioBound, volumeLabels...)
	writtenBytesFamily = metric.NewCounter("lvms_volume_written_bytes_total",
		"Number of bytes written to a volume, once for a redundant volume."+ioBound, volumeLabels...)
	readSecondsFamily = metric.NewCounter("lvms_volume_read_seconds_total",
		"Sum of the times that the reads of a volume took, in seconds, including the time in its devices. Requests at "+
			"the same time are added, so it can grow by more than one second per second."+ioBound, volumeLabels...)
	writeSecondsFamily = metric.NewCounter("lvms_volume_write_seconds_total",
		"Sum of the times that the writes of a volume took, in seconds, including the time in its devices. Requests "+
			"at the same time are added, so it can grow by more than one second per second."+ioBound, volumeLabels...)
)

// IOCounters reads the I/O statistics of the mapped devices. devicemapper.Reader implements it without a process and
// has a time limit.
type IOCounters interface {
	Statistics(ctx context.Context) (devicemapper.Statistics, error)
}

// ioLimit is the time limit for the I/O statistics of one scrape. Prometheus waits for ten seconds by default.
const ioLimit = 5 * time.Second

// collectIO sends the I/O of the volumes. If the statistics cannot be read, it sends no counter, because a missing
// value is not 0.
func (a *Auditor) collectIO(to chan<- prometheus.Metric, volumes []volumeMetrics) {
	if a.IO == nil || a.MaxVolumes == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), ioLimit)
	defer cancel()
	counted, err := a.IO.Statistics(ctx)
	a.noteIO(err)
	if err != nil {
		ioObservedFamily.Send(to, 0, a.Node)
		return
	}
	ioObservedFamily.Send(to, 1, a.Node)
	for _, v := range volumes {
		if c, active := counted.Volume(v.group, v.name); active {
			v.collectIO(to, a.Node, c)
		}
	}
}

// noteIO logs a failed read once, until a read succeeds or fails for another reason.
func (a *Auditor) noteIO(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	a.mu.Lock()
	known := a.ioFailure == text
	a.ioFailure = text
	a.mu.Unlock()
	switch {
	case known:
	case err != nil:
		log.Log.Error(err, "cannot read the I/O statistics: the metrics of the I/O of volumes are missing",
			"node", a.Node)
	default:
		log.Log.Info("the I/O statistics of volumes can be read again", "node", a.Node)
	}
}

func (v volumeMetrics) collectIO(to chan<- prometheus.Metric, node string, c devicemapper.IO) {
	labels := v.labels(node)
	readsFamily.Send(to, float64(c.Reads), labels...)
	writesFamily.Send(to, float64(c.Writes), labels...)
	readBytesFamily.Send(to, float64(c.ReadBytes), labels...)
	writtenBytesFamily.Send(to, float64(c.WrittenBytes), labels...)
	readSecondsFamily.Send(to, c.ReadTime.Seconds(), labels...)
	writeSecondsFamily.Send(to, c.WriteTime.Seconds(), labels...)
}
