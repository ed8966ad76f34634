//go:build tools

// Package tools pins the programs of OLM v1 for labs, and all their dependencies.
package tools

import (
	_ "github.com/operator-framework/operator-controller/cmd/catalogd"
	_ "github.com/operator-framework/operator-controller/cmd/operator-controller"
)
