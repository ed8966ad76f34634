// Package podwebhook has the permissions that the operator needs only while its webhook for Pods is on.
package podwebhook

import _ "embed"

// Role is the ClusterRole of the operator with its binding, in YAML.
//
//go:embed role.yaml
var Role []byte
