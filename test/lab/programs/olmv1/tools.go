//go:build tools

// Package tools pins the programs of OLM v1 that a lab can run, and all that they are built of.
package tools

import (
	_ "github.com/operator-framework/operator-controller/cmd/catalogd"
	_ "github.com/operator-framework/operator-controller/cmd/operator-controller"
)
