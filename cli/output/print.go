// Package output has the types that the commands print as JSON and YAML, and prints them, tables, notes and sizes. It
// reads nothing but its arguments.
package output

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// The values of --output.
const (
	outputTable = ""
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

var outputs = []string{outputWide, outputJSON, outputYAML}

// Options is how results are printed.
type Options struct {
	format string
	// NoHeaders is true if a table has no headers, and no summary before it.
	NoHeaders bool
}

// AddFlags adds the flags that select how results are printed.
func (o *Options) AddFlags(command *cobra.Command) {
	command.Flags().StringVarP(&o.format, "output", "o", "", "output format: "+strings.Join(outputs, ", ")+
		"; a table with fewer columns than wide if it is not set")
	command.Flags().BoolVar(&o.NoHeaders, "no-headers", false, "print a table without headers and without a summary")
	_ = command.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
}

// Validate returns an error if the format is not supported.
func (o *Options) Validate() error {
	if o.format == outputTable || slices.Contains(outputs, o.format) {
		return nil
	}
	return fmt.Errorf("--output %q is not supported: use one of %s", o.format, strings.Join(outputs, ", "))
}

// IsTable returns true if the output is a table for people.
func (o *Options) IsTable() bool { return o.format == outputTable || o.format == outputWide }

// Print writes a result as JSON or YAML, or its table.
func (o *Options) Print(out io.Writer, result any, table *metav1.Table) error {
	switch o.format {
	case outputJSON:
		data, err := json.MarshalIndent(result, "", "    ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, string(data))
		return err
	case outputYAML:
		data, err := yaml.Marshal(result)
		if err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	options := printers.PrintOptions{NoHeaders: o.NoHeaders, Wide: o.format == outputWide}
	return printers.NewTablePrinter(options).PrintObj(table, out)
}

// PrintList prints a list. If a table has no rows, people get a message, as kubectl does.
func PrintList(command *cobra.Command, o *Options, list any, table *metav1.Table) error {
	if o.IsTable() && len(table.Rows) == 0 {
		fmt.Fprintln(command.ErrOrStderr(), "No "+command.Name()+" found")
		return nil
	}
	return o.Print(command.OutOrStdout(), list, table)
}

// NewTable returns an empty table. Columns after the last one that a table always has are for -o wide.
func NewTable(always, wide []string) *metav1.Table {
	table := &metav1.Table{}
	for _, name := range always {
		table.ColumnDefinitions = append(table.ColumnDefinitions, column(name, 0))
	}
	for _, name := range wide {
		table.ColumnDefinitions = append(table.ColumnDefinitions, column(name, 1))
	}
	return table
}

func column(name string, priority int32) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Priority: priority}
}

// AddRow adds a row. An empty cell is printed as <none>, as kubectl does.
func AddRow(table *metav1.Table, cells ...string) {
	row := metav1.TableRow{}
	for _, cell := range cells {
		row.Cells = append(row.Cells, cmp.Or(cell, "<none>"))
	}
	table.Rows = append(table.Rows, row)
}

// PrintNotes tells people what the output does not cover. JSON and YAML contain the notes.
func PrintNotes(errOut io.Writer, o *Options, notes []string) {
	if !o.IsTable() {
		return
	}
	for _, note := range notes {
		fmt.Fprintln(errOut, "note:", note)
	}
}

// PrintWithoutDevices prints the notes of a list that has no devices, and warns of nodes whose state is not current.
func PrintWithoutDevices(errOut io.Writer, o *Options, notes []string, nodes []Node) {
	for i := range nodes {
		nodes[i].DevicesOmitted = 0
	}
	PrintNotes(errOut, o, notes)
	PrintNodes(errOut, o, nodes)
}

// PrintNodes warns people of nodes whose state is not current or not complete.
func PrintNodes(errOut io.Writer, o *Options, nodes []Node) {
	if !o.IsTable() {
		return
	}
	for _, node := range nodes {
		if !node.Current {
			fmt.Fprintf(errOut, "warning: node %s: the state is not current: %s\n", node.Name, node.Message)
		}
		if node.DevicesOmitted > 0 {
			fmt.Fprintf(errOut, "note: node %s: %d devices that cannot be used are not listed\n", node.Name,
				node.DevicesOmitted)
		}
	}
}
