// Package self reports whether this program is the lab command.
package self

// IsLab is set by the lab command, which can supervise a lab and be the first process of a node.
var IsLab bool
