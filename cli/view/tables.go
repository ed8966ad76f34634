package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
)

func statusTable(status output.Status) *metav1.Table {
	table := output.NewTable([]string{"Problem", "Node", "Class", "Object", "Action"}, []string{"Message"})
	for _, p := range status.Problems {
		output.AddRow(table, p.Reason, p.Node, p.DeviceClass, cmp.Or(p.Claim, p.Device, p.Object), p.Action, p.Message)
	}
	return table
}

func deviceTable(devices output.DeviceList) *metav1.Table {
	table := output.NewTable([]string{"Node", "Device", "State", "Size", "Type", "Class", "Reasons"},
		[]string{"ID", "Model", "Serial", "Labels", "Message"})
	for i := range devices.Items {
		d := &devices.Items[i]
		output.AddRow(table, d.Node, d.Name, string(d.State), output.SizeOf(d.Size), d.Type,
			strings.Join(d.DeviceClasses, ","), codesOf(d), d.ID, d.Model, d.Serial, labelText(d.Labels),
			joinTexts(d.Message, verdict.MessagesOf(d.Reasons)))
	}
	return table
}

// labelText returns labels as one word, or "" if there are none.
func labelText(labels map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, key+"="+labels[key])
	}
	return strings.Join(list, ",")
}

// joinTexts joins the texts that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), output.Separator)
}

// suspendedByRequest marks a device that somebody suspended. The code Suspended of the API is another one: I/O to the
// device is suspended.
const suspendedByRequest = "SuspendedByRequest"

// codesOf returns the codes of the reasons why a device cannot be used, each once. A device of a device class is used,
// so the column only has whether it is suspended.
func codesOf(d *output.Device) string {
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

func classTable(classes output.ClassList) *metav1.Table {
	table := output.NewTable([]string{"Class", "Node", "State", "Size", "Free", "Pool data", "Pool metadata"},
		[]string{"Volume group", "Devices", "Pool size", "Pool free", "Provisioned", "LVM metadata", "Reason"})
	for i := range classes.Items {
		c := &classes.Items[i]
		state := cmp.Or(c.Status, v1alpha1.VGStatusProgressing)
		cells := []string{c.Name, c.Node, string(state), output.SizeOf(c.Size), output.SizeOf(c.Free)}
		pool := []string{"", "", "", "", ""}
		if p := c.ThinPool; p != nil {
			pool = []string{percent(p.DataPercent), percent(p.MetadataPercent), output.SizeOf(&p.Size),
				output.SizeOf(p.Free), output.SizeOf(p.VirtualSize)}
		}
		cells = append(cells, pool[:2]...)
		cells = append(cells, c.Group(), fmt.Sprint(len(c.Devices)))
		output.AddRow(table, append(append(cells, pool[2:]...), areaUsed(c.MetadataArea), output.OneLine(c.Reason))...)
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

func volumeTable(volumes output.VolumeList) *metav1.Table {
	table := output.NewTable([]string{"Claim", "Node", "Class", "Size", "State"},
		[]string{"Logical volume", "Source", "Encryption", "I/O limits", "Message"})
	for _, v := range volumes.Items {
		claim := v.Claim
		if v.PartOfMove {
			claim += " (move)"
		}
		output.AddRow(table, claim, v.Node, v.DeviceClass, output.SizeOf(&v.Size), string(v.State), v.LogicalVolume,
			v.Source, v.Encryption, limitsText(v), cmp.Or(v.Message, v.IOLimitsError))
	}
	return table
}

// limitsText is the cell of a table for the I/O limits of a volume.
func limitsText(v output.Volume) string {
	if v.IOLimitsRequested == "" {
		return v.IOLimits
	}
	return cmp.Or(v.IOLimits, iolimits.None) + " (requested: " + v.IOLimitsRequested + ")"
}

func percent(value int32) string { return fmt.Sprintf("%d%%", value) }
