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
)

// releases notes, in a file on the node for each volume group, which physical volumes a removed group had. It is on the
// node and not in the API, since it has to be true in the moment between two commands, whether the API server answers
// or not.
type releases struct {
	dir string
}

type release struct {
	VolumeGroup     string   `json:"volumeGroup"`
	PhysicalVolumes []string `json:"physicalVolumes"`
}

func (r releases) path(vg string) string { return filepath.Join(r.dir, "released-"+vg+".json") }

// read returns the UUIDs; none if no group of the name was being removed.
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

// removals notes, in a file on the node for each volume group, which devices were taken out of it at somebody's
// request. A request may name a device by the UUID of its physical volume, and that is gone with the label.
type removals struct{ dir string }

// removal is a device that was taken out.
type removal struct {
	UUID string `json:"uuid"`
	// ID is the identity of the device, Names are the paths that led to it.
	ID    string   `json:"id,omitempty"`
	Names []string `json:"names"`
}

func (r removals) path(vg string) string { return filepath.Join(r.dir, "removed-"+vg+".json") }

func (r removals) read(vg string) ([]removal, error) {
	data, err := os.ReadFile(r.path(vg))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []removal
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("devices that were removed from volume group %s: %w", vg, err)
	}
	return list, nil
}

// add notes a removal. Those that no request names any longer are forgotten.
func (r removals) add(vg string, one removal, named func(uuid string) bool) error {
	list, err := r.read(vg)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(o removal) bool { return o.UUID == one.UUID || !named(o.UUID) })
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
