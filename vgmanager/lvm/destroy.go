package lvm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// ReadDevices reads the volume groups on some devices, also those that LVM on the node does not list because of its
// devices file or because another host owns them. LVM reports physical volumes on other devices as missing. With an LVM
// that does not support --devices (before 2.03.12), ReadDevices returns Report.
func (l *LVM) ReadDevices(ctx context.Context, devices ...string) (*Report, error) {
	object := "read the volume groups on " + strings.Join(devices, ", ")
	if len(devices) == 0 {
		return &Report{}, nil
	}
	type answer struct {
		out []byte
		err error
	}
	key := "groups on " + strings.Join(devices, " ")
	got, err := bounded.Do(ctx, l.labels, key, func(ctx context.Context) answer {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		args := reportArguments()
		args = slices.Concat(args[:1], devicesOptions(devices), []string{"--foreign"}, args[1:])
		out, err := l.runner.Run(ctx, program, args...)
		return answer{out, err}
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: lvm fullreport %w: %s", object, err, lockHint)
	case lacksDevices(got.err):
		return l.Report(ctx)
	case got.err != nil:
		return nil, classify(object, got.err)
	}
	report, err := decodeReport(got.out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", object, err)
	}
	return report, nil
}

func devicesOptions(devices []string) []string {
	var args []string
	for _, d := range devices {
		args = append(args, "--devices", d)
	}
	return args
}

// OtherGroup is a volume group that no device class uses, and that another one can share the name of.
type OtherGroup struct {
	Name, UUID string
	// Devices have its physical volumes.
	Devices []string
}

// GroupDeactivate deactivates all logical volumes of a volume group. It returns ErrInUse if one of them is open; LVM
// may then have deactivated others. It selects the group by its UUID.
//
// It does not pass --force or --yes. LVM never deactivates an open volume.
type GroupDeactivate struct {
	Group OtherGroup
}

func (c GroupDeactivate) String() string {
	return fmt.Sprintf("deactivate volume group %s (%s)", c.Group.Name, c.Group.UUID)
}

func (c GroupDeactivate) command() command {
	return command{vg: c.Group.Name,
		args: []string{"vgchange", "--activate", "n", "--select", "vg_uuid=" + c.Group.UUID}}
}

// GroupBackup writes the metadata of a volume group to a file, in the format of vgcfgbackup(8).
type GroupBackup struct {
	Group OtherGroup
	// File is a file on the node.
	File string
}

func (c GroupBackup) String() string {
	return fmt.Sprintf("back up the metadata of volume group %s (%s)", c.Group.Name, c.Group.UUID)
}

func (c GroupBackup) command() command { return command{steps: c.write} }

func (c GroupBackup) write(ctx context.Context, l *LVM) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	args := []string{"vgcfgbackup", "--foreign", "--file", c.File, c.Group.Name}
	_, err := l.runner.Run(ctx, program, append(args, devicesOptions(c.Group.Devices)...)...)
	if lacksDevices(err) {
		_, err = l.executor.execute(ctx, args...)
	}
	return classify(c.String(), err)
}
