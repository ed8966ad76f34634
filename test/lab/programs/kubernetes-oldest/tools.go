//go:build tools

// Package kubernetes pins the API server, the controller manager and etcd of the oldest Kubernetes that the bundle
// supports (minKubeVersion).
package kubernetes

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
