// Package dashboards is the single source of the product's dashboard. `go run ./monitoring` writes it in two formats:
// for the OpenShift console, which reads an old format of Grafana, and for Grafana itself. To see the panels, import
// grafana.json into a Grafana.
package dashboards

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

// Console is the dashboard for the OpenShift console, generated from the panels of this package.
//
//go:embed console.json
var Console []byte

const (
	title = "LVM Storage"
	// uid is the identifier of the dashboard in Grafana.
	uid = "lvm-storage"
)

// kind is a kind of panel.
type kind int

const (
	lines kind = iota
	areas
	number
	table
)

// Units that the console supports. Times are in hours or days, as their titles say.
const (
	plain   = "short"
	inBytes = "bytes"
	ratio   = "percentunit"
)

// columns is the width of the dashboard.
const columns = 12

// row is a heading with panels.
type row struct {
	title  string
	panels []panel
}

// panel is a chart, number or table. Grafana shows its help.
type panel struct {
	title, help string
	kind        kind
	unit        string
	decimals    int
	width       int
	queries     []query
	// labels are the first columns of a table.
	labels []labelColumn
	// sorted is the column by which Grafana sorts a table, in descending order. The console sorts by the first column.
	sorted string
	// words replace values of a number; "null" is for no value.
	words [][2]string
	// warning and critical are the values from which a number has another color; 0 for none.
	warning, critical float64
}

// query has a name: of its lines, with labels as {{label}}, or of its column in a table, which has a unit of its own.
type query struct {
	expr, name, unit string
	decimals         int
}

// labelColumn is a column with a label.
type labelColumn struct{ label, title string }

// variable is a selection at the top of the dashboard.
type variable struct{ name, title, query string }

var variables = []variable{
	{"node", "Node", "label_values(lvms_node_status_observed, node)"},
	{"device_class", "Device class", "label_values(lvms_volume_group_state, device_class)"},
}

type object = map[string]any

// JSON returns both formats by file name.
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

// refID returns the letter of a query: Value #A is the column of the first one.
func refID(i int) string { return string(rune('A' + i)) }
