package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// The values of --output.
const (
	outputTable = ""
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

var outputs = []string{outputWide, outputJSON, outputYAML}

// output is how results are printed.
type output struct {
	format    string
	noHeaders bool
}

// addFlags adds the flags that select how results are printed.
func (o *output) addFlags(command *cobra.Command) {
	command.Flags().StringVarP(&o.format, "output", "o", "", "output format: "+strings.Join(outputs, ", ")+
		"; a table with fewer columns than wide if it is not set")
	command.Flags().BoolVar(&o.noHeaders, "no-headers", false, "print a table without headers and without a summary")
	_ = command.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
}

// validate returns an error if the format is not supported.
func (o *output) validate() error {
	if o.format == outputTable || slices.Contains(outputs, o.format) {
		return nil
	}
	return fmt.Errorf("--output %q is not supported: use one of %s", o.format, strings.Join(outputs, ", "))
}

// isTable returns true if the output is a table for people.
func (o *output) isTable() bool { return o.format == outputTable || o.format == outputWide }

// print writes a result as JSON or YAML, or its table.
func (o *output) print(out io.Writer, result any, table *metav1.Table) error {
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
	options := printers.PrintOptions{NoHeaders: o.noHeaders, Wide: o.format == outputWide}
	return printers.NewTablePrinter(options).PrintObj(table, out)
}

// newTable returns an empty table. Columns after the last one that a table always has are for -o wide.
func newTable(always, wide []string) *metav1.Table {
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

// addRow adds a row. An empty cell is printed as <none>, as kubectl does.
func addRow(table *metav1.Table, cells ...string) {
	row := metav1.TableRow{}
	for _, cell := range cells {
		row.Cells = append(row.Cells, cmp.Or(cell, "<none>"))
	}
	table.Rows = append(table.Rows, row)
}

func statusTable(status Status) *metav1.Table {
	table := newTable([]string{"Problem", "Node", "Class", "Object", "Action"}, []string{"Message"})
	for _, p := range status.Problems {
		addRow(table, p.Reason, p.Node, p.DeviceClass, cmp.Or(p.Claim, p.Device, p.Object), p.Action, p.Message)
	}
	return table
}

func deviceTable(devices DeviceList) *metav1.Table {
	table := newTable([]string{"Node", "Device", "State", "Size", "Type", "Class", "Reasons"},
		[]string{"ID", "Model", "Serial", "Labels", "Message"})
	for i := range devices.Items {
		d := &devices.Items[i]
		addRow(table, d.Node, d.Name, string(d.State), sizeOf(d.Size), d.Type, strings.Join(d.DeviceClasses, ","),
			codesOf(d), d.ID, d.Model, d.Serial, labelText(d.Labels), joinTexts(d.Message, messagesOf(d.Reasons)))
	}
	return table
}

// joinTexts joins the texts that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), separator)
}

// suspendedByRequest marks a device that somebody suspended. The code Suspended of the API is another one: I/O to the
// device is suspended.
const suspendedByRequest = "SuspendedByRequest"

// codesOf returns the codes of the reasons why a device cannot be used, each once. A device of a device class is used,
// so the column only has whether it is suspended.
func codesOf(d *Device) string {
	var codes []string
	if d.Suspended {
		codes = []string{suspendedByRequest}
	}
	if len(d.DeviceClasses) > 0 && d.State == v1alpha1.DeviceInUse {
		return strings.Join(codes, ",")
	}
	for _, r := range d.Reasons {
		if !slices.Contains(codes, r.Code) {
			codes = append(codes, r.Code)
		}
	}
	return strings.Join(codes, ",")
}

func waitingTable(waiting WaitingList) *metav1.Table {
	table := newTable([]string{"Node", "Device", "Class", "Reason", "Size", "Content"},
		[]string{"ID", "Model", "Fingerprint"})
	for i := range waiting.Items {
		w := &waiting.Items[i]
		addRow(table, w.Node, w.Name, w.DeviceClass, w.Reason, sizeOf(w.Size), w.Content, w.ID, w.Model, w.Fingerprint)
	}
	return table
}

func classTable(classes ClassList) *metav1.Table {
	table := newTable([]string{"Class", "Node", "State", "Size", "Free", "Pool data", "Pool metadata"},
		[]string{"Volume group", "Devices", "Pool size", "Pool free", "Provisioned", "LVM metadata", "Reason"})
	for i := range classes.Items {
		c := &classes.Items[i]
		state := cmp.Or(c.Status, v1alpha1.VGStatusProgressing)
		cells := []string{c.Name, c.Node, string(state), sizeOf(c.Size), sizeOf(c.Free)}
		pool := []string{"", "", "", "", ""}
		if p := c.ThinPool; p != nil {
			pool = []string{percent(p.DataPercent), percent(p.MetadataPercent), sizeOf(&p.Size), sizeOf(p.Free),
				sizeOf(p.VirtualSize)}
		}
		cells = append(cells, pool[:2]...)
		cells = append(cells, c.Group(), fmt.Sprint(len(c.Devices)))
		addRow(table, append(append(cells, pool[2:]...), areaUsed(c.MetadataArea), single(c.Reason))...)
	}
	return table
}

// areaUsed returns how full LVM's metadata area is, or "" if that is not known. LVM can use half of it.
func areaUsed(area *v1alpha1.MetadataAreaStatus) string {
	if area == nil || area.Size.Value() <= 0 {
		return ""
	}
	half := area.Size.Value() / 2
	return percent(int32(100 * max(0, half-area.Free.Value()) / half))
}

func volumeTable(volumes VolumeList) *metav1.Table {
	table := newTable([]string{"Claim", "Node", "Class", "Size", "State"},
		[]string{"Logical volume", "Source", "Encryption", "I/O limits", "Message"})
	for _, v := range volumes.Items {
		claim := v.Claim
		if v.PartOfMove {
			claim += " (move)"
		}
		addRow(table, claim, v.Node, v.DeviceClass, sizeOf(&v.Size), string(v.State), v.LogicalVolume, v.Source,
			v.Encryption, limitsText(v), cmp.Or(v.Message, v.IOLimitsError))
	}
	return table
}

func percent(value int32) string { return fmt.Sprintf("%d%%", value) }

// units are the units of sizes for people.
var units = []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

// sizeOf returns a size with at most one decimal, rounded down, in the largest unit of which there is at least one; ""
// for nil.
func sizeOf(q *resource.Quantity) string {
	if q == nil {
		return ""
	}
	size, unit := float64(q.Value()), ""
	for _, next := range units {
		if size < 1024 {
			break
		}
		size, unit = size/1024, next
	}
	return strconv.FormatFloat(math.Floor(size*10)/10, 'f', -1, 64) + unit
}
