// Package metric describes the metrics of the product in one form, from which docs/reference/metrics.md is written.
package metric

import "github.com/prometheus/client_golang/prometheus"

// Family is one metric with its labels. Names and units follow https://prometheus.io/docs/practices/naming/.
type Family struct {
	Name, Help string
	Labels     []string
	Type       prometheus.ValueType
}

// NewGauge returns a Family of something that goes up and down.
func NewGauge(name, help string, labels ...string) Family {
	return Family{Name: name, Help: help, Labels: labels, Type: prometheus.GaugeValue}
}

// NewCounter returns a Family of something that is counted.
func NewCounter(name, help string, labels ...string) Family {
	return Family{Name: name, Help: help, Labels: labels, Type: prometheus.CounterValue}
}

// Desc is what a prometheus.Collector describes it by.
func (f Family) Desc() *prometheus.Desc { return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil) }

// Send gives a value, with that of each label in their order. The number of labels has to fit.
func (f Family) Send(to chan<- prometheus.Metric, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.Desc(), f.Type, value, labels...)
}

// Describe implements that method of a prometheus.Collector for some families.
func Describe(to chan<- *prometheus.Desc, families []Family) {
	for _, f := range families {
		to <- f.Desc()
	}
}
