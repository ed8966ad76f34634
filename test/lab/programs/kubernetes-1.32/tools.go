//go:build tools

// Package kubernetes pins the API server and the controller manager of an earlier Kubernetes, and its etcd.
package kubernetes

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
)
