//go:build tools

// Package tools pins the Prometheus Operator, of which a lab has custom resource definitions and no program.
package tools

import _ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
