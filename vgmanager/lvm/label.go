package lvm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// LabeledPV is a physical volume as its label describes it, even if LVM on the node does not list the device.
type LabeledPV struct {
	// Name is the path of the device. UUID is the UUID of the physical volume.
	Name, UUID string
	// Major and Minor are the device number.
	Major, Minor uint32
	// VGName and VGUUID are empty if the physical volume belongs to no volume group.
	VGName, VGUUID string
	// VGTags are the tags of the volume group.
	VGTags []string
	// SystemID is the host that owns the volume group (lvmsystemid(7)). It is empty if any host may use the group.
	SystemID string
	// Unresolved: according to the label the physical volume belongs to a volume group, but the devices that were
	// read do not identify the group.
	Unresolved bool
}

// labelColumns are the columns of ReadLabels.
const labelColumns = "pv_name,pv_uuid,pv_major,pv_minor,pv_missing,pv_in_use,vg_name,vg_uuid,vg_systemid,vg_tags"

// unknownName is what LVM prints for a name that it cannot find.
const unknownName = "[unknown]"

// ReadLabels reads the labels directly from the devices, including devices that are not in the devices file and
// volume groups of other hosts. It omits devices that have no label or do not exist; the caller knows which devices
// it asked for. It resolves a volume group even if other physical volumes of the group are missing. After an error
// nothing is known.
//
// --devices overrides the devices file. --foreign and --shared include volume groups of other hosts.
func (l *LVM) ReadLabels(ctx context.Context, devices ...string) ([]LabeledPV, error) {
	if len(devices) == 0 {
		return nil, nil
	}
	object := "read the labels of " + strings.Join(devices, ", ")
	out, err := readPVs(ctx, l, devices)
	if lacksDevices(err) {
		// An LVM without --devices has no devices file and lists all devices.
		out, err = readPVs(ctx, l, nil)
	}
	if err != nil {
		return nil, classify(object, err)
	}
	pvs, err := decodeLabels(out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	return pvs, nil
}

// readPVs reads the labels of the devices, or of all devices. A device that does not respond delays the caller by at
// most readTimeout. Meanwhile, no second read of the same devices starts.
func readPVs(ctx context.Context, l *LVM, devices []string) ([]byte, error) {
	type answer struct {
		out []byte
		err error
	}
	got, err := bounded.Do(ctx, l.labels, strings.Join(devices, " "), func(ctx context.Context) answer {
		out, err := l.executor.pvs(ctx, devices)
		return answer{out, err}
	})
	if err != nil {
		return nil, fmt.Errorf("lvm pvs %w: %s", err, lockHint)
	}
	return got.out, got.err
}

func (x *executor) pvs(ctx context.Context, devices []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	args := []string{"pvs"}
	for _, d := range devices {
		args = append(args, "--devices", d)
	}
	args = append(args, "--foreign", "--shared", "--reportformat", "json", "-o", labelColumns)
	return x.execute(ctx, args...)
}

// lacksDevices returns true if err shows that the node's LVM is older than 2.03.12, which does not support --devices.
func lacksDevices(err error) bool {
	var failure *host.Error
	return errors.As(err, &failure) && strings.Contains(failure.Stderr, "unrecognized option '--devices'")
}

func decodeLabels(out []byte) ([]LabeledPV, error) {
	raw := rawReport{}
	if err := decodeJSON(out, &raw); err != nil {
		return nil, err
	}
	if raw.Report == nil {
		return nil, errors.New(`report of LVM has no "report"`)
	}
	var pvs []LabeledPV
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

func decodeLabel(r row) LabeledPV {
	pv := LabeledPV{
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

// devicesFileExists returns true if LVM on the node uses a devices file and the file exists. Without the file, LVM
// uses all devices. A command that changes the file would create it first, and LVM would then list no other device.
func (x *executor) devicesFileExists(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := x.runner.Run(ctx, program, "lvmdevices")
	if err = classify("check for LVM's devices file", err); err != nil {
		return false, ignore(err, ErrNotEnabled)
	}
	return true, nil
}

// DevicesFileAdd adds a device to LVM's devices file, so that LVM lists the device. If the device is already in the
// file, it is not an error. DevicesFileAdd returns ErrNotEnabled if the node does not have the file.
type DevicesFileAdd struct {
	Device string
}

func (c DevicesFileAdd) String() string { return "add " + c.Device + " to LVM's devices file" }

func (c DevicesFileAdd) command() command { return command{steps: c.add} }

func (c DevicesFileAdd) add(ctx context.Context, l *LVM) error {
	exists, err := l.executor.devicesFileExists(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if !exists {
		return fmt.Errorf("%s: %w", c, ErrNotEnabled)
	}
	return l.apply(ctx, c.String(), command{vg: wholeNode, args: []string{"lvmdevices", "--adddev", c.Device}})
}
