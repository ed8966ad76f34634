package lvmexec

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// ReadDevices reads the volume groups on some devices, also those that LVM on the node does not list because of its
// devices file or because another host owns them. LVM reports physical volumes on other devices as missing. With an LVM
// that does not support --devices (before 2.03.12), ReadDevices returns Report.
func (l *LVM) ReadDevices(ctx context.Context, devices ...string) (*lvm.Report, error) {
	object := "read the volume groups on " + strings.Join(devices, ", ")
	if len(devices) == 0 {
		return &lvm.Report{}, nil
	}
	type answer struct {
		out []byte
		err error
	}
	key := "groups on " + strings.Join(devices, " ")
	got, err := bounded.Do(ctx, l.labels, key, func(ctx context.Context) answer {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		args := output.ReportArguments()
		args = slices.Concat(args[:1], devicesOptions(devices), []string{"--foreign"}, args[1:])
		out, err := l.runner.Run(ctx, program, args...)
		return answer{out, err}
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: lvm fullreport %w: %s", object, err, output.LockHint)
	case output.LacksDevices(got.err):
		return l.Report(ctx)
	case got.err != nil:
		return nil, output.Classify(object, got.err)
	}
	report, err := output.DecodeReport(got.out)
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
