// Package output decodes what LVM prints: reports become the values of package lvm, and messages its errors.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// columns are the columns of each subreport. chunk_size, zero, segtype, stripes, transaction_id and discards are
// columns of segments: LVM rejects them in the subreport of volumes ("columns which lead to change of report type").
var columns = []struct{ report, names string }{
	{"vg", "vg_name,vg_uuid,vg_seqno,vg_size,vg_free,vg_extent_size,vg_attr,vg_tags,vg_missing_pv_count," +
		"vg_mda_size,vg_mda_free"},
	{"pv", "pv_name,pv_uuid,vg_name,pv_size,pv_free,pv_used,pv_major,pv_minor,pv_missing,pv_in_use," +
		"pv_allocatable,pv_tags"},
	{"lv", "lv_name,lv_uuid,lv_path,lv_size,lv_attr,lv_tags,lv_kernel_major,lv_kernel_minor,pool_lv,origin," +
		"data_percent,metadata_percent,lv_metadata_size,lv_health_status,lv_check_needed," +
		"sync_percent,lv_parent,move_pv_uuid,lv_time"},
	{"seg", "lv_uuid,segtype,stripes,chunk_size,zero,transaction_id,discards"},
	{"pvseg", "pv_uuid,lv_uuid,pvseg_start,pvseg_size"},
}

// ReportArguments returns the arguments of the fullreport that everything is decoded from. --all lists the hidden
// volumes, which show what uses a physical volume and which moves run. --select is not used, because it filters rows:
// a volume group without rows would look empty. --foreign and --shared are not used: volume groups of other hosts are
// ignored. The column pv_duplicate is not used, because LVM never sets it for a physical volume of a volume group.
func ReportArguments() []string {
	args := []string{"fullreport", "--all", "--reportformat", "json", "--units", "b", "--nosuffix", "--config",
		timeFormat}
	for _, c := range columns {
		args = append(args, "--configreport", c.report, "-o", c.names)
	}
	return args
}

// timeFormat makes LVM print times as seconds since 1970, regardless of lvm.conf (lvm.conf(5), report/time_format).
const timeFormat = `report{time_format="%s"}`

// cell is a value of a report. It is a string, or a number if LVM prints json_std.
type cell string

// UnmarshalJSON accepts a string, a number, true, false, or null as the empty string.
func (c *cell) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte(`"`)) {
		return json.Unmarshal(raw, (*string)(c))
	}
	switch text := string(raw); {
	case text == "null":
		*c = ""
	case strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{"):
		return fmt.Errorf("a value of a report is %s, want a string or a number", text)
	default:
		*c = cell(text)
	}
	return nil
}

// row is one object of a subreport. It records the first missing or malformed cell as the error, so that a decoder is
// a list of columns without error handling.
type row struct {
	cells map[string]cell
	err   *error
}

func (r row) fail(name, problem string) {
	if *r.err == nil {
		*r.err = fmt.Errorf("column %s %s", name, problem)
	}
}

func (r row) text(name string) string {
	value, ok := r.cells[name]
	if !ok {
		r.fail(name, "is missing")
	}
	return string(value)
}

func (r row) required(name string) string {
	value := r.text(name)
	if value == "" {
		r.fail(name, "is empty")
	}
	return value
}

func (r row) size(name string) lvm.Bytes {
	value := r.text(name)
	if value == "" {
		return 0
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		r.fail(name, fmt.Sprintf("is %q, want bytes", value))
	}
	return lvm.Bytes(n)
}

// number reads a device number. LVM prints -1 if there is no device.
func (r row) number(name string) uint32 {
	value := r.text(name)
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		r.fail(name, fmt.Sprintf("is %q, want a number", value))
	}
	return uint32(max(n, 0))
}

// optionalNumber reads a number, or nil from an empty cell.
func (r row) optionalNumber(name string) *uint64 {
	value := r.text(name)
	if value == "" {
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		r.fail(name, fmt.Sprintf("is %q, want a number", value))
	}
	return &n
}

// time reads seconds since 1970. An empty cell, as for a volume created by an old LVM, gives the zero time.
func (r row) time(name string) time.Time {
	text := r.text(name)
	if text == "" {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		r.fail(name, fmt.Sprintf("is %q, want seconds since 1970", text))
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func (r row) percent(name string) *float64 {
	value := r.text(name)
	if value == "" {
		return nil
	}
	p, err := strconv.ParseFloat(value, 64)
	if err != nil || p < 0 {
		r.fail(name, fmt.Sprintf("is %q, want percent", value))
	}
	return &p
}

func (r row) list(name string) []string {
	value := r.text(name)
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}

func (r row) attr(name string, length int) string {
	value := r.text(name)
	if len(value) != length {
		r.fail(name, fmt.Sprintf("is %q, want %d characters", value, length))
		return strings.Repeat("-", length)
	}
	return value
}

type rawReport struct {
	Report []struct {
		VG  []map[string]cell `json:"vg"`
		PV  []map[string]cell `json:"pv"`
		LV  []map[string]cell `json:"lv"`
		Seg []map[string]cell `json:"seg"`
		// PVSeg has a row for each run of extents of a physical volume, and an empty row for a group without runs.
		PVSeg []map[string]cell `json:"pvseg"`
	} `json:"report"`
}

// DecodeReport decodes the output of a successful fullreport.
func DecodeReport(out []byte) (*lvm.Report, error) {
	raw := rawReport{}
	if err := decodeJSON(out, &raw); err != nil {
		return nil, err
	}
	if raw.Report == nil {
		return nil, errors.New(`report of LVM has no "report"`)
	}
	report := &lvm.Report{}
	var err error
	rows := func(cells map[string]cell) row { return row{cells: cells, err: &err} }
	for _, part := range raw.Report {
		var pvs []lvm.PV
		for _, cells := range part.PV {
			pvs = append(pvs, decodePV(rows(cells)))
		}
		if len(part.VG) == 0 {
			report.Unassigned = append(report.Unassigned, pvs...)
			continue
		}
		vg := decodeVG(rows(part.VG[0]))
		vg.PVs = pvs
		for _, cells := range part.LV {
			addVolume(&vg, rows(cells))
		}
		joinCaches(&vg)
		ids := newIndex(&vg)
		for _, cells := range part.Seg {
			ids.addSegment(rows(cells))
		}
		for _, cells := range part.PVSeg {
			if len(cells) > 0 {
				ids.addExtents(rows(cells), vg.ExtentSize)
			}
		}
		report.VGs = append(report.VGs, vg)
	}
	if err != nil {
		return nil, fmt.Errorf("report of LVM: %w", err)
	}
	return report, nil
}

func decodeVG(r row) lvm.VG {
	missing := r.number("vg_missing_pv_count")
	return lvm.VG{
		Name:       r.required("vg_name"),
		UUID:       r.required("vg_uuid"),
		Seqno:      uint64(r.number("vg_seqno")),
		Size:       r.size("vg_size"),
		Free:       r.size("vg_free"),
		ExtentSize: r.size("vg_extent_size"),
		Tags:       r.list("vg_tags"),
		Attr:       lvm.VGAttr(r.attr("vg_attr", 6)),
		MissingPVs: int(missing),

		MetadataArea: lvm.MetadataArea{Size: r.size("vg_mda_size"), Free: r.size("vg_mda_free")},
	}
}

func decodePV(r row) lvm.PV {
	vg := r.text("vg_name")
	if vg == unknownName {
		vg = ""
	}
	return lvm.PV{
		Name:    r.required("pv_name"),
		UUID:    r.required("pv_uuid"),
		VGName:  vg,
		Size:    r.size("pv_size"),
		Free:    r.size("pv_free"),
		Major:   r.number("pv_major"),
		Minor:   r.number("pv_minor"),
		Missing: r.text("pv_missing") != "",
		InUse:   r.text("pv_in_use") != "",
		Used:    r.size("pv_used"),
		Tags:    r.list("pv_tags"),

		Allocatable: r.text("pv_allocatable") != "",
	}
}

func decodeLV(r row) lvm.LV {
	return lvm.LV{
		Name:            r.required("lv_name"),
		UUID:            r.required("lv_uuid"),
		Path:            r.text("lv_path"),
		Size:            r.size("lv_size"),
		Attr:            lvm.LVAttr(r.attr("lv_attr", 10)),
		Tags:            r.list("lv_tags"),
		Major:           r.number("lv_kernel_major"),
		Minor:           r.number("lv_kernel_minor"),
		PoolName:        r.text("pool_lv"),
		Origin:          r.text("origin"),
		DataPercent:     r.percent("data_percent"),
		MetadataPercent: r.percent("metadata_percent"),
		MetadataSize:    r.size("lv_metadata_size"),
		Health:          r.text("lv_health_status"),
		// LVM prints "unknown" for everything that is not an active thin pool.
		CheckNeeded: r.text("lv_check_needed") == "check needed",
		SyncPercent: r.percent("sync_percent"),
		Parent:      unbracketed(r.text("lv_parent")),
		MoveSource:  r.text("move_pv_uuid"),
		Created:     r.time("lv_time"),
	}
}

// addVolume adds a logical volume to the visible or to the hidden ones. LVM prints the name of a hidden volume in
// brackets.
func addVolume(vg *lvm.VG, r row) {
	lv := decodeLV(r)
	name := unbracketed(lv.Name)
	if name == lv.Name {
		vg.LVs = append(vg.LVs, lv)
		return
	}
	lv.Name = name
	vg.Hidden = append(vg.Hidden, lv)
}

func unbracketed(name string) string {
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		return name[1 : len(name)-1]
	}
	return name
}

// index finds the objects of a volume group by UUID. Names are not unique: LVM calls every missing physical volume
// "[unknown]".
type index struct {
	lvs map[string]*lvm.LV
	pvs map[string]*lvm.PV
}

func newIndex(vg *lvm.VG) index {
	ids := index{lvs: make(map[string]*lvm.LV, len(vg.LVs)+len(vg.Hidden)), pvs: make(map[string]*lvm.PV, len(vg.PVs))}
	for _, list := range [][]lvm.LV{vg.LVs, vg.Hidden} {
		for i := range list {
			ids.lvs[list[i].UUID] = &list[i]
		}
	}
	for i := range vg.PVs {
		ids.pvs[vg.PVs[i].UUID] = &vg.PVs[i]
	}
	return ids
}

// addSegment copies the columns of a segment to its volume. A volume can have several segments; a thin pool has one.
func (x index) addSegment(r row) {
	id := r.required("lv_uuid")
	kind := r.required("segtype")
	stripes := r.number("stripes")
	chunk := r.size("chunk_size")
	zero := r.text("zero")
	transaction := r.optionalNumber("transaction_id")
	discards := r.text("discards")
	lv := x.lvs[id]
	if lv == nil {
		r.fail("lv_uuid", fmt.Sprintf("is %q in a segment, which is not a volume of the group", id))
		return
	}
	if lv.SegType == "" || lv.SegType == "linear" {
		lv.SegType = kind
	}
	lv.Stripes = int(stripes)
	if transaction != nil {
		lv.TransactionID = transaction
	}
	if lv.Attr.IsThinPool() {
		lv.ChunkSize = chunk
		lv.Zeroes = zero == "zero"
		lv.Discards = discards
	}
}

// addExtents records the owner of a run of extents of a physical volume. LVM prints the runs in the order of the
// device.
func (x index) addExtents(r row, extent lvm.Bytes) {
	pvID := r.required("pv_uuid")
	lvID := r.text("lv_uuid")
	size := r.size("pvseg_size") * extent
	pv := x.pvs[pvID]
	lv := x.lvs[lvID]
	switch {
	case pv == nil:
		r.fail("pv_uuid", fmt.Sprintf("is %q in a segment, which is not a physical volume of the group", pvID))
	case lvID == "":
		pv.FreeAreas = append(pv.FreeAreas, size)
	case lv == nil:
		r.fail("lv_uuid",
			fmt.Sprintf("is %q in a segment of a physical volume, which is not a volume of the group", lvID))
	default:
		if at, found := slices.BinarySearch(lv.PVs, pvID); !found {
			lv.PVs = slices.Insert(lv.PVs, at, pvID)
		}
	}
}
