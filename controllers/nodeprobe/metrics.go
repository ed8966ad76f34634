package nodeprobe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
)

var (
	successFamily = metric.NewGauge("lvms_node_probe_success",
		"1 if the last probe of the node created, mounted, wrote and deleted a volume of the device class, otherwise "+
			"0.", "node", "device_class")
	durationFamily = metric.NewGauge("lvms_node_probe_duration_seconds",
		"Time from the creation of the claim of the last probe until its data was written to the device, in seconds. "+
			"Missing if it failed.", "node", "device_class")
	timeFamily = metric.NewGauge("lvms_node_probe_timestamp_seconds",
		"Time at which the last probe ended, in seconds since 1970.", "node", "device_class")
)

// Families lists all metrics of the Prober.
var Families = []metric.Family{successFamily, durationFamily, timeFamily}

// Describe implements prometheus.Collector.
func (p *Prober) Describe(to chan<- *prometheus.Desc) { metric.Describe(to, Families) }

// Collect implements prometheus.Collector.
func (p *Prober) Collect(to chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.results {
		timeFamily.Send(to, float64(r.at.Unix()), r.node, r.class)
		if r.problem != "" {
			successFamily.Send(to, 0, r.node, r.class)
			continue
		}
		successFamily.Send(to, 1, r.node, r.class)
		durationFamily.Send(to, r.took.Seconds(), r.node, r.class)
	}
}
