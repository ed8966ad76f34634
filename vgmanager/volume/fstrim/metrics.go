package fstrim

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
)

var (
	countFamily = metric.NewCounter("lvms_trims_total",
		"Number of attempts of the node agent to trim the file system of a mounted volume since it "+
			"started, by result: Trimmed, NotSupported (the file system or its device does not support discards), "+
			"Failed. Only device classes with trim have it.", "node", "device_class", "result")
	bytesFamily = metric.NewCounter("lvms_trimmed_bytes_total",
		"What file systems reported as discarded in these trims, in bytes. A file system can report blocks that were "+
			"discarded before: the usage of the thin pool says how much it got back.", "node", "device_class")
	timeFamily = metric.NewGauge("lvms_last_trim_timestamp_seconds",
		"Time of the last successful trim of a mounted volume of the device class, in seconds since the Unix epoch. "+
			"No series until there is one.", "node", "device_class")
)

// Families are all metrics of the Trimmer.
var Families = []metric.Family{countFamily, bytesFamily, timeFamily}

// results are the values of the label result.
var results = []Result{Trimmed, NotSupported, Failed}

// totals are the trims of a device class.
type totals struct {
	count map[Result]int
	bytes int64
	// last is the last successful trim of a volume that is mounted; zero for none.
	last time.Time
}

// count adds an attempt to the totals of a device class.
func (t *Trimmer) count(class string, record Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.totals[class]
	if all == nil {
		return // The device class no longer has trim.
	}
	all.count[record.Result]++
	all.bytes += record.TrimmedBytes
	if record.Result == Trimmed && record.Time.After(all.last) {
		all.last = record.Time
	}
}

// keepTotals keeps the totals of the device classes that have trim, and begins those of new ones. volumes have the
// trims of earlier agents.
func (t *Trimmer) keepTotals(classes map[string]class, volumes []volume) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.totals {
		if _, present := classes[name]; !present {
			delete(t.totals, name)
		}
	}
	for name := range classes {
		if t.totals[name] == nil {
			t.totals[name] = &totals{count: map[Result]int{}}
		}
	}
	for _, v := range volumes {
		all := t.totals[v.class]
		if all != nil && v.last != nil && v.last.Result == Trimmed && v.last.Time.After(all.last) {
			all.last = v.last.Time
		}
	}
}

// Describe implements prometheus.Collector.
func (t *Trimmer) Describe(to chan<- *prometheus.Desc) { metric.Describe(to, Families) }

// Collect implements prometheus.Collector.
func (t *Trimmer) Collect(to chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for class, all := range t.totals {
		for _, result := range results {
			countFamily.Send(to, float64(all.count[result]), t.Node, class, string(result))
		}
		bytesFamily.Send(to, float64(all.bytes), t.Node, class)
		if !all.last.IsZero() {
			timeFamily.Send(to, float64(all.last.Unix()), t.Node, class)
		}
	}
}
