//go:build tools

// Package programs keeps modules in go.mod that the lab uses without importing them: a program that it builds, and the
// CRDs of OpenShift. The directories below it are separate modules.
package programs

import (
	_ "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller"
	_ "github.com/openshift/api/config/v1"
)
