// Package metric defines the metrics of the product in one form, from which docs/reference/metrics.md is generated.
package metric

import "github.com/prometheus/client_golang/prometheus"

// Family is one metric with its labels. Names and units follow https://prometheus.io/docs/practices/naming/.
type Family struct {
	Name, Help string
	Labels     []string
	Type       prometheus.ValueType
}

// NewGauge returns a Family for a value that goes up and down.
func NewGauge(name, help string, labels ...string) Family {
	return Family{Name: name, Help: help, Labels: labels, Type: prometheus.GaugeValue}
}

// NewCounter returns a Family for a value that only increases.
func NewCounter(name, help string, labels ...string) Family {
	return Family{Name: name, Help: help, Labels: labels, Type: prometheus.CounterValue}
}

// Desc returns the description for a prometheus.Collector.
func (f Family) Desc() *prometheus.Desc { return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil) }

// Send sends a value with the values of the labels, in their order. The number of label values must match.
func (f Family) Send(to chan<- prometheus.Metric, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.Desc(), f.Type, value, labels...)
}

// Describe implements the Describe method of a prometheus.Collector.
func Describe(to chan<- *prometheus.Desc, families []Family) {
	for _, f := range families {
		to <- f.Desc()
	}
}
