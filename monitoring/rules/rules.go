// Package rules is the single source of the product's recording rules and alerts. `make generate` writes them as a
// PrometheusRule.
//
// If possible, an alert is for one node and device class. While a more severe alert for the same problem fires, the
// less severe one is silent, so that one fault is one alert. Measured values count with the worst value of the last ten
// minutes: a value that alternates around a threshold does not make an alert appear and disappear, and a failed scrape
// does not end one.
package rules

import "time"

// Severities of an alert, as in OpenShift. Critical means that data or the service is lost or will be soon. Warning
// needs attention within a day. Info is information.
const (
	Critical = "critical"
	Warning  = "warning"
	Info     = "info"
)

// Runbooks is the address of the runbooks, which are named like the alerts.
const Runbooks = "https://github.com/lvm-storage/lvm-operator/blob/main/monitoring/runbooks/"

// Namespace is the namespace of the installation, for alerts on series that no longer exist.
const Namespace = "openshift-lvm-storage"

// Record is a recording rule.
type Record struct{ Name, Expr string }

// Alert is an alerting rule. Summary and Description may contain Prometheus templates.
type Alert struct {
	Name, Severity, Expr string
	// For is how long the expression must be true.
	For                  time.Duration
	Summary, Description string
	// Static adds the label namespace if the expression has none.
	Static bool
}

// Group is a group of rules, which Prometheus evaluates in order: records first.
type Group struct {
	Name    string
	Records []Record
	Alerts  []Alert
}

// Groups returns all rules.
func Groups() []Group {
	return []Group{capacity(), devices(), volumes(), service()}
}

// window is the time over which the worst value counts.
const window = "[10m]"

// byClass, byNode and byDisk select the labels of an alert. Other labels, such as the name of the Pod, may change for
// the same measurement.
const (
	byClass = "by (namespace, node, device_class) "
	byNode  = "by (namespace, node) "
	byDisk  = "by (namespace, node, device, device_id) "
	onClass = "on (node, device_class) "
)

// worst returns an expression for the maximum of a metric of a device class within the window.
func worst(metric string) string {
	return "max " + byClass + "(max_over_time(" + metric + window + "))"
}
