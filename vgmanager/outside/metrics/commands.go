package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

var (
	commandsStarted = metric.NewCounter("lvms_host_commands_total",
		"Number of commands that the node agent has started on its node.", "command")
	commandsFailed = metric.NewCounter("lvms_host_command_failures_total",
		"Number of commands that failed or were stopped at their time limit. Some failures are expected: LVM returns "+
			"an error if an object does not exist.", "command")
	commandsTook = metric.NewCounter("lvms_host_command_duration_seconds",
		"Duration of the commands that the node agent has started on its node, in seconds.", "command")
)

// CommandFamilies are all metrics of Commands. The last one has a _sum and a _count.
var CommandFamilies = []metric.Family{commandsStarted, commandsFailed, commandsTook}

// Commands exposes how many programs this process has started, how many failed, and their run time. The counters must
// not share a command.
type Commands []*host.Counter

// Describe implements prometheus.Collector.
func (c Commands) Describe(to chan<- *prometheus.Desc) {
	metric.Describe(to, CommandFamilies)
}

// Collect implements prometheus.Collector.
func (c Commands) Collect(to chan<- prometheus.Metric) {
	for _, counter := range c {
		for command, s := range counter.Statistics() {
			commandsStarted.Send(to, float64(s.Started), command)
			commandsFailed.Send(to, float64(s.Failed), command)
			to <- prometheus.MustNewConstSummary(commandsTook.Desc(), s.Ended, s.Took.Seconds(), nil, command)
		}
	}
}
