// Package dashboards is the one source of the product's dashboard. `go run ./monitoring` writes it in two forms: for
// OpenShift's console, which reads an old form of Grafana's, and for Grafana itself. To see the panels, import
// grafana.json into a Grafana.
package dashboards

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

// Console is the dashboard for OpenShift's console. It is written from the panels of this package.
//
//go:embed console.json
var Console []byte

const (
	title = "LVM Storage"
	// uid is a name that Grafana keeps the dashboard by.
	uid = "lvm-storage"
)

// The kinds of panels.
type kind int

const (
	lines kind = iota
	areas
	number
	table
)

// Units, those that the console knows. What is a time is in hours or days, as its title says.
const (
	plain   = "short"
	inBytes = "bytes"
	ratio   = "percentunit"
)

// columns is the width of the dashboard.
const columns = 12

// row is a heading with its panels.
type row struct {
	title  string
	panels []panel
}

// panel is one picture. Its help is shown by Grafana.
type panel struct {
	title, help string
	kind        kind
	unit        string
	decimals    int
	width       int
	queries     []query
	// labels are the first columns of a table.
	labels []labelColumn
	// sorted is the column by which Grafana sorts a table, the greatest first. The console sorts by the first one.
	sorted string
	// words stand for values of a number; that of "null" for none.
	words [][2]string
	// warning and critical are values from which on a number has another color. 0 is for none.
	warning, critical float64
}

// query has a name: of its lines, with labels as {{label}}; or of its column in a table, whose unit is its own.
type query struct {
	expr, name, unit string
	decimals         int
}

// labelColumn is a label under a title.
type labelColumn struct{ label, title string }

// variable is a choice at the top.
type variable struct{ name, title, query string }

var variables = []variable{
	{"node", "Node", "label_values(lvms_node_status_observed, node)"},
	{"device_class", "Device class", "label_values(lvms_volume_group_state, device_class)"},
}

type object = map[string]any

// JSON returns both forms by the name of their file.
func JSON() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, board := range map[string]object{"console.json": consoleBoard(), "grafana.json": grafanaBoard()} {
		var data bytes.Buffer
		encoder := json.NewEncoder(&data)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(board); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = data.Bytes()
	}
	return files, nil
}

// refID is the letter of a query: Value #A is the column of the first one.
func refID(i int) string { return string(rune('A' + i)) }
