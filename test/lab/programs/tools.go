//go:build tools

// Package programs keeps in go.mod what the lab takes from modules without importing it: a program that it builds, and
// the custom resource definitions of OpenShift. The folders below it are modules of their own.
package programs

import (
	_ "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller"
	_ "github.com/openshift/api/config/v1"
)
