// Package access has the rights with which a Prometheus finds what it reads metrics from.
package access

import _ "embed"

// Prometheus are the Role and the RoleBinding for OpenShift's own Prometheus, in YAML.
//
//go:embed rbac.yaml
var Prometheus []byte

// Namespace is the operator's in the file.
const Namespace = "openshift-lvm-storage"
