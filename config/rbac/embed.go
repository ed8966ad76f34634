// Package rbac has the permissions of the operator, as they are installed.
package rbac

import _ "embed"

// Operator are the Roles and the ClusterRole of the operator, in YAML.
//
//go:embed operator_role.yaml
var Operator []byte

// Namespace is the one that the Roles of the operator's own namespace have in the file.
const Namespace = "openshift-lvm-storage"
