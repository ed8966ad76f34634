package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lvm-storage/lvm-operator/vgmanager/host"
)

// commandCollector tells how many programs of the node this process has started. To read it starts none.
type commandCollector struct{ started *host.Counter }

var commandsTotal = prometheus.NewDesc("lvms_host_commands_total",
	"Number of programs that the node agent has started on its node.", []string{"command"}, nil)

// Describe implements prometheus.Collector.
func (c commandCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- commandsTotal
}

// Collect implements prometheus.Collector.
func (c commandCollector) Collect(metrics chan<- prometheus.Metric) {
	for command, n := range c.started.ByCommand() {
		metrics <- prometheus.MustNewConstMetric(commandsTotal, prometheus.CounterValue, float64(n), command)
	}
}
