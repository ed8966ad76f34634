//go:build tools

// Package kubernetes pins the API server, and its etcd, of the oldest Kubernetes that the bundle admits
// (minKubeVersion).
package kubernetes

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
