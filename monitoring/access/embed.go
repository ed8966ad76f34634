// Package access has the permissions with which a Prometheus discovers the metrics endpoints.
package access

import _ "embed"

// Prometheus has the Role and the RoleBinding for OpenShift's own Prometheus, in YAML.
//
//go:embed rbac.yaml
var Prometheus []byte

// Namespace is the operator's namespace in the file.
const Namespace = "openshift-lvm-storage"
