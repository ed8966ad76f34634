package volumegroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumegroup/plan"
)

// releases records the physical volumes of a removed group, in a file on the node for each volume group. The record
// is on the node and not in the API, because it must be correct between two commands even if the API server is
// unreachable.
type releases struct {
	dir string
}

type release struct {
	VolumeGroup     string   `json:"volumeGroup"`
	PhysicalVolumes []string `json:"physicalVolumes"`
}

func (r releases) path(vg string) string { return filepath.Join(r.dir, "released-"+vg+".json") }

// read returns the UUIDs. It returns none if no group with the name was being removed.
func (r releases) read(vg string) ([]string, error) {
	data, err := os.ReadFile(r.path(vg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	note := release{}
	if err == nil {
		err = json.Unmarshal(data, &note)
	}
	if err != nil {
		return nil, fmt.Errorf("physical volumes of the removed volume group %s: %w", vg, err)
	}
	return note.PhysicalVolumes, nil
}

func (r releases) write(vg string, pvs []lvm.PV) error {
	note := release{VolumeGroup: vg}
	for _, pv := range pvs {
		note.PhysicalVolumes = append(note.PhysicalVolumes, pv.UUID)
	}
	data, err := json.Marshal(note)
	if err != nil {
		return err
	}
	if err := lvmd.ReplaceFile(r.path(vg), data); err != nil {
		return fmt.Errorf("note the physical volumes of volume group %s before its removal: %w", vg, err)
	}
	return nil
}

func (r releases) forget(vg string) error {
	if err := os.Remove(r.path(vg)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the removed volume group %s: %w", vg, err)
	}
	return nil
}

// removals records the devices that were removed from a volume group on request, in a file on the node for each
// group. A request can name a device by the UUID of its physical volume, which no longer exists after the label is
// removed.
type removals struct{ dir string }

func (r removals) path(vg string) string { return filepath.Join(r.dir, "removed-"+vg+".json") }

func (r removals) read(vg string) ([]plan.Removal, error) {
	data, err := os.ReadFile(r.path(vg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []plan.Removal
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("devices that were removed from volume group %s: %w", vg, err)
	}
	return list, nil
}

// add records a removal. It deletes the records that no request names any longer.
func (r removals) add(vg string, one plan.Removal, named func(uuid string) bool) error {
	list, err := r.read(vg)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(o plan.Removal) bool { return o.UUID == one.UUID || !named(o.UUID) })
	data, err := json.Marshal(append(list, one))
	if err != nil {
		return err
	}
	if err := lvmd.ReplaceFile(r.path(vg), data); err != nil {
		return fmt.Errorf("note the removal of a device from volume group %s: %w", vg, err)
	}
	return nil
}

func (r removals) forget(vg string) error {
	if err := os.Remove(r.path(vg)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the devices that were removed from volume group %s: %w", vg, err)
	}
	return nil
}
