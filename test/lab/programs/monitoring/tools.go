//go:build tools

// Package tools pins the Prometheus Operator and the Prometheus that a lab can run, and the custom resource definitions
// of both.
package tools

import (
	_ "github.com/prometheus-operator/prometheus-operator/cmd/operator"
	_ "github.com/prometheus-operator/prometheus-operator/cmd/prometheus-config-reloader"
	_ "github.com/prometheus/prometheus/cmd/prometheus"
)
