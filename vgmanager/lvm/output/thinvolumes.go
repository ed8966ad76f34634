package output

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// ThinVolumeColumns are the columns that DecodeThinVolumes decodes.
const ThinVolumeColumns = "lv_name,lv_uuid,vg_uuid,pool_lv,thin_id,origin,lv_tags,lv_attr,transaction_id"

// DecodeThinVolumes decodes the output of lvs with ThinVolumeColumns: the thin volumes, and the transaction IDs of the
// thin pools, by name.
func DecodeThinVolumes(out []byte) (map[string]lvm.ThinVolume, map[string]uint64, error) {
	var reports struct {
		Report []struct {
			LV []struct {
				Name   string     `json:"lv_name"`
				UUID   string     `json:"lv_uuid"`
				VG     string     `json:"vg_uuid"`
				Pool   string     `json:"pool_lv"`
				ID     cell       `json:"thin_id"`
				Origin string     `json:"origin"`
				Tags   string     `json:"lv_tags"`
				Attr   lvm.LVAttr `json:"lv_attr"`
				Number cell       `json:"transaction_id"`
			} `json:"lv"`
		} `json:"report"`
	}
	if err := decodeJSON(out, &reports); err != nil {
		return nil, nil, err
	}
	if len(reports.Report) == 0 {
		return nil, nil, fmt.Errorf("LVM printed no report: %q", out)
	}
	volumes := map[string]lvm.ThinVolume{}
	pools := map[string]uint64{}
	for _, report := range reports.Report {
		for _, lv := range report.LV {
			if lv.Attr.IsThinPool() {
				number, err := strconv.ParseUint(string(lv.Number), 10, 64)
				if err != nil {
					return nil, nil, fmt.Errorf("thin pool %s has the transaction_id %q", lv.Name, lv.Number)
				}
				pools[lv.Name] = number
			}
			if !lv.Attr.IsThinVolume() {
				continue
			}
			id, err := strconv.ParseUint(string(lv.ID), 10, 64)
			if err != nil || lv.Pool == "" || lv.UUID == "" || lv.VG == "" || lv.Attr.IsStateUnknown() {
				return nil, nil, fmt.Errorf("thin volume %s has the pool %q, the thin_id %q, the UUIDs %q and %q and "+
					"the attributes %q", lv.Name, lv.Pool, lv.ID, lv.VG, lv.UUID, lv.Attr)
			}
			var tags []string
			if lv.Tags != "" {
				tags = strings.Split(lv.Tags, ",")
			}
			volumes[lv.Name] = lvm.ThinVolume{
				Name: lv.Name, Device: "LVM-" + strings.ReplaceAll(lv.VG+lv.UUID, "-", ""), Pool: lv.Pool, ID: id,
				Origin: lv.Origin, Tags: tags, Active: lv.Attr.Active(),
			}
		}
	}
	return volumes, pools, nil
}

// DeviceIDColumns are the columns that DecodeDeviceIDs decodes.
const DeviceIDColumns = "lv_uuid,pool_lv,thin_id"

// DecodeDeviceIDs decodes the output of lvs with DeviceIDColumns: the thin device of each volume of a thin pool, by the
// UUID of the volume.
func DecodeDeviceIDs(out []byte, pool string) (map[string]uint64, error) {
	var reports struct {
		Report []struct {
			LV []struct {
				UUID string `json:"lv_uuid"`
				Pool string `json:"pool_lv"`
				ID   cell   `json:"thin_id"`
			} `json:"lv"`
		} `json:"report"`
	}
	if err := decodeJSON(out, &reports); err != nil {
		return nil, err
	}
	if len(reports.Report) == 0 {
		return nil, fmt.Errorf("LVM printed no report: %q", out)
	}
	ids := map[string]uint64{}
	for _, r := range reports.Report {
		for _, lv := range r.LV {
			if lv.Pool != pool {
				continue
			}
			id, err := strconv.ParseUint(string(lv.ID), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("thin_id of volume %s is %q, want a number", lv.UUID, lv.ID)
			}
			ids[lv.UUID] = id
		}
	}
	return ids, nil
}
