//go:build tools

// Package programs keeps in go.mod what the lab builds from this module; the folders below it are modules of their own.
package programs

import _ "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller"
