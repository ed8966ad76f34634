// Package gatherindex describes what was read from a node for support: the file that lists it is the last one in the
// archive of the node.
package gatherindex

import "time"

// IndexFile is the last file of the archive of a node. It has an Index as JSON.
const IndexFile = "collect.json"

// Index lists what was read and what was not.
type Index struct {
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Results []Result  `json:"results"`
}

// Result is the result of reading one item.
type Result struct {
	File    string  `json:"file"`
	Command string  `json:"command"`
	Seconds float64 `json:"seconds"`
	Bytes   int     `json:"bytes"`
	// Cut is the number of bytes that were left out.
	Cut int `json:"cut,omitempty"`
	// Absent: the node does not have the optional program or file.
	Absent bool `json:"absent,omitempty"`
	// Error is why the item could not be read.
	Error string `json:"error,omitempty"`
}
