package lvmexec

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// ReadLabels reads the labels directly from the devices, including devices that are not in the devices file and
// volume groups of other hosts. It omits devices that have no label or do not exist; the caller knows which devices
// it asked for. It resolves a volume group even if other physical volumes of the group are missing. After an error
// nothing is known.
//
// --devices overrides the devices file. --foreign and --shared include volume groups of other hosts.
func (l *LVM) ReadLabels(ctx context.Context, devices ...string) ([]lvm.LabeledPV, error) {
	if len(devices) == 0 {
		return nil, nil
	}
	object := "read the labels of " + strings.Join(devices, ", ")
	out, err := readPVs(ctx, l, devices)
	if output.LacksDevices(err) {
		// An LVM without --devices has no devices file and lists all devices.
		out, err = readPVs(ctx, l, nil)
	}
	if err != nil {
		return nil, output.Classify(object, err)
	}
	pvs, err := output.DecodeLabels(out)
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
		return nil, fmt.Errorf("lvm pvs %w: %s", err, output.LockHint)
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
	args = append(args, "--foreign", "--shared", "--reportformat", "json", "-o", output.LabelColumns)
	return x.execute(ctx, args...)
}

// devicesFileExists returns true if LVM on the node uses a devices file and the file exists. Without the file, LVM
// uses all devices. A command that changes the file would create it first, and LVM would then list no other device.
func (x *executor) devicesFileExists(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := x.runner.Run(ctx, program, "lvmdevices")
	err = output.Classify("check for LVM's devices file", err)
	if errors.Is(err, lvm.ErrNotEnabled) {
		return false, nil
	}
	return err == nil, err
}
