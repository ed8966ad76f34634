// Package access has what OpenShift's own Prometheus needs to read the metrics: the permissions with which it discovers
// the endpoints, and the ServiceMonitor, which names them.
package access

import _ "embed"

// Prometheus has the Role and the RoleBinding for OpenShift's own Prometheus, in YAML.
//
//go:embed rbac.yaml
var Prometheus []byte

// Monitor has the ServiceMonitor for OpenShift's own Prometheus, in YAML.
//
//go:embed servicemonitor.yaml
var Monitor []byte

// MonitorName is the name of the ServiceMonitor.
const MonitorName = "lvms-operator-metrics-monitor"

// Namespace is the operator's namespace in the files.
const Namespace = "openshift-lvm-storage"
