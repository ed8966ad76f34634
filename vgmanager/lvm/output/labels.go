package output

import (
	"errors"
	"fmt"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// LabelColumns are the columns that DecodeLabels decodes.
const LabelColumns = "pv_name,pv_uuid,pv_major,pv_minor,pv_missing,pv_in_use,vg_name,vg_uuid,vg_systemid,vg_tags"

// unknownName is what LVM prints for a name that it cannot find.
const unknownName = "[unknown]"

// DecodeLabels decodes the output of pvs with LabelColumns.
func DecodeLabels(out []byte) ([]lvm.LabeledPV, error) {
	raw := rawReport{}
	if err := decodeJSON(out, &raw); err != nil {
		return nil, err
	}
	if raw.Report == nil {
		return nil, errors.New(`report of LVM has no "report"`)
	}
	var pvs []lvm.LabeledPV
	var err error
	for _, part := range raw.Report {
		if part.PV == nil {
			return nil, errors.New(`report of LVM has no "pv"`)
		}
		for _, cells := range part.PV {
			r := row{cells: cells, err: &err}
			// The missing ones are physical volumes of the same volume group on other devices.
			if r.text("pv_missing") == "" {
				pvs = append(pvs, decodeLabel(r))
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("report of LVM: %w", err)
	}
	return pvs, nil
}

func decodeLabel(r row) lvm.LabeledPV {
	pv := lvm.LabeledPV{
		Name: r.required("pv_name"), UUID: r.required("pv_uuid"), Major: r.number("pv_major"),
		Minor:  r.number("pv_minor"),
		VGName: r.text("vg_name"), VGUUID: r.text("vg_uuid"), VGTags: r.list("vg_tags"),
		SystemID: r.text("vg_systemid"),
	}
	if pv.VGName == unknownName || pv.VGName == "" && r.text("pv_in_use") != "" {
		pv.VGName = ""
		pv.VGUUID = ""
		pv.VGTags = nil
		pv.Unresolved = true
	}
	return pv
}
