//go:build tools

// Package tools pins kube-network-policies, which enforces NetworkPolicies on the nodes of a lab.
package tools

import _ "sigs.k8s.io/kube-network-policies/cmd"
