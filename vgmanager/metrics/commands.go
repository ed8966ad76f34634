package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lvm-storage/lvm-operator/vgmanager/host"
)

var (
	commandsStarted = family{"lvms_host_commands_total",
		"Number of programs that the node agent has started on its node.", []string{"command"}}
	commandsFailed = family{"lvms_host_command_failures_total",
		"Number of programs that ended with an error or were ended at their time limit. Some are meant to: LVM says by an error that something does not exist.", []string{"command"}}
	commandsTook = family{"lvms_host_command_duration_seconds",
		"Time that the programs took which the node agent has started on its node, in seconds.", []string{"command"}}
)

// Commands tells how many programs of the node this process has started, how many failed, and how long they took.
type Commands struct{ Counter *host.Counter }

// Describe implements prometheus.Collector.
func (c Commands) Describe(to chan<- *prometheus.Desc) {
	for _, f := range []family{commandsStarted, commandsFailed, commandsTook} {
		to <- f.desc()
	}
}

// Collect implements prometheus.Collector.
func (c Commands) Collect(to chan<- prometheus.Metric) {
	for command, s := range c.Counter.Statistics() {
		to <- prometheus.MustNewConstMetric(commandsStarted.desc(), prometheus.CounterValue, float64(s.Started), command)
		to <- prometheus.MustNewConstMetric(commandsFailed.desc(), prometheus.CounterValue, float64(s.Failed), command)
		to <- prometheus.MustNewConstSummary(commandsTook.desc(), s.Ended, s.Took.Seconds(), nil, command)
	}
}
