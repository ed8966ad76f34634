// Package rules is the one source of the product's recording rules and alerts. `make monitoring` writes them as a
// PrometheusRule.
//
// An alert is about one node and device class where it can be. One that has a more serious sibling is silent while that
// one fires, so that one fault is one alert. What is measured counts with its worst of the last ten minutes: a value
// that swings about a threshold does not make an alert come and go, and a scrape that fails does not end one.
package rules

import "time"

// Severities of an alert, as OpenShift has them: data or the service is lost, or about to be; to be looked at today;
// good to know.
const (
	Critical = "critical"
	Warning  = "warning"
	Info     = "info"
)

// Runbooks is where the pages are that say what to do, by the name of the alert.
const Runbooks = "https://github.com/lvm-storage/lvm-operator/blob/main/monitoring/runbooks/"

// Namespace is where the product is installed, for alerts about what has no series any longer.
const Namespace = "openshift-lvm-storage"

// Record is a recording rule.
type Record struct{ Name, Expr string }

// Alert is an alerting rule. Summary and Description may use Prometheus' templates.
type Alert struct {
	Name, Severity, Expr string
	// For is how long the expression has to hold.
	For                  time.Duration
	Summary, Description string
	// Static has the label namespace, where the expression has none.
	Static bool
}

// Group is evaluated as one, its rules in their order: records first.
type Group struct {
	Name    string
	Records []Record
	Alerts  []Alert
}

// Groups are all rules.
func Groups() []Group {
	return []Group{capacity(), devices(), service()}
}

// window is how far back the worst counts.
const window = "[10m]"

// byClass, byNode and byDisk are the labels that an alert keeps. Others, as the Pod's name, change while what is
// measured is the same.
const (
	byClass = "by (namespace, node, device_class) "
	byNode  = "by (namespace, node) "
	byDisk  = "by (namespace, node, device, device_id) "
	onClass = "on (node, device_class) "
)

// worst returns the greatest value of a metric of a device class within the window.
func worst(metric string) string {
	return "max " + byClass + "(max_over_time(" + metric + window + "))"
}
