package lvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lvm-storage/lvm-operator/internal/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/host"
)

// LabeledPV is a physical volume as its own device shows it, whether or not LVM on the node lists the device.
type LabeledPV struct {
	// Name is the path of the device, UUID that of the physical volume.
	Name, UUID string
	// Major and Minor are the device number.
	Major, Minor uint32
	// VGName and VGUUID are empty for a physical volume of no volume group.
	VGName, VGUUID string
	// VGTags are the tags of the volume group.
	VGTags []string
	// SystemID is the host that the volume group belongs to (lvmsystemid(7)); empty for any host.
	SystemID string
	// Unresolved: the label says that it belongs to a volume group, and the devices that were read do not tell to
	// which.
	Unresolved bool
}

// labelColumns are the columns of ReadLabels.
const labelColumns = "pv_name,pv_uuid,pv_major,pv_minor,pv_missing,pv_in_use,vg_name,vg_uuid,vg_systemid,vg_tags"

// unknownName is what LVM prints in place of a name that it cannot find.
const unknownName = "[unknown]"

// ReadLabels reads the labels of devices from the devices themselves: those that the devices file does not list, and
// those of volume groups of other hosts, too. A device without a label is not in the answer, nor is one that is not
// there: the caller knows which it asked for. A volume group that misses other physical volumes is resolved. An error
// means that nothing is known.
//
// --devices takes the place of the devices file. --foreign, --shared: volume groups of other hosts are not listed
// without.
func (l *LVM) ReadLabels(ctx context.Context, devices ...string) ([]LabeledPV, error) {
	if len(devices) == 0 {
		return nil, nil
	}
	object := "labels of " + strings.Join(devices, ", ")
	out, err := l.pvs(ctx, devices)
	if lacksDevices(err) {
		// Such an LVM has no devices file: it lists all devices.
		out, err = l.pvs(ctx, nil)
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

// pvs reads the labels of devices, or of all. A device that does not answer holds up nobody for longer than
// readTimeout, and no other read of the same devices is begun meanwhile.
func (l *LVM) pvs(ctx context.Context, devices []string) ([]byte, error) {
	type answer struct {
		out []byte
		err error
	}
	got, err := bounded.Do(ctx, l.labels, strings.Join(devices, " "), func(ctx context.Context) answer {
		out, err := l.runPVs(ctx, devices)
		return answer{out, err}
	})
	if err != nil {
		return nil, fmt.Errorf("lvm pvs %w: %s", err, lockHint)
	}
	return got.out, got.err
}

func (l *LVM) runPVs(ctx context.Context, devices []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	args := []string{"pvs"}
	for _, d := range devices {
		args = append(args, "--devices", d)
	}
	args = append(args, "--foreign", "--shared", "--reportformat", "json", "-o", labelColumns)
	return l.runner.Run(ctx, program, args...)
}

// lacksDevices tells whether the node's LVM is older than 2.03.12, which has no --devices.
func lacksDevices(err error) bool {
	var failure *host.Error
	return errors.As(err, &failure) && strings.Contains(failure.Stderr, "unrecognized option '--devices'")
}

func decodeLabels(out []byte) ([]LabeledPV, error) {
	raw := rawReport{}
	if err := json.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("report of LVM is not the JSON that is expected: %w", err)
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
			// Missing ones are those of the same volume group on other devices.
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

// devicesFileExists tells whether the node has a devices file that its LVM uses. Without the file LVM uses all devices,
// and a command that changes the file creates it first: LVM then lists nothing else.
func (l *LVM) devicesFileExists(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := l.runner.Run(ctx, program, "lvmdevices")
	if err = classify("look for LVM's devices file", err); err != nil {
		return false, ignore(err, ErrNotEnabled)
	}
	return true, nil
}

// DevicesFileAdd adds a device to LVM's devices file, so that LVM lists what is on it. One that is there already is no
// error. It gives ErrNotEnabled on a node without the file.
func (l *LVM) DevicesFileAdd(ctx context.Context, device string) error {
	object := "add " + device + " to LVM's devices file"
	exists, err := l.devicesFileExists(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", object, err)
	}
	if !exists {
		return fmt.Errorf("%s: %w", object, ErrNotEnabled)
	}
	return l.change(ctx, object, wholeNode, "lvmdevices", "--adddev", device)
}
