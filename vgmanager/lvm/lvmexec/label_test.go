package lvmexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/output"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// Recorded from LVM 2.03.16 on a host whose devices file has none of the devices.
const (
	labelMissing = `{"report": [{"pv": [
		{"pv_name":"/dev/ubdb", "pv_uuid":"xK4nTa", "pv_major":"98", "pv_minor":"16", "pv_missing":"", "pv_in_use":"used", ` +
		`"vg_name":"vg9", "vg_uuid":"MDNMtE", "vg_systemid":"", "vg_tags":"lvms,lvms.node=n9"},
		{"pv_name":"[unknown]", "pv_uuid":"fAzjYD", "pv_major":"0", "pv_minor":"0", "pv_missing":"missing", "pv_in_use":"used", ` +
		`"vg_name":"vg9", "vg_uuid":"MDNMtE", "vg_systemid":"", "vg_tags":"lvms,lvms.node=n9"}]}]}`
	labelDamaged = `{"report": [{"pv": [
		{"pv_name":"/dev/ubdb", "pv_uuid":"xK4nTa", "pv_major":"98", "pv_minor":"16", "pv_missing":"", "pv_in_use":"used", ` +
		`"vg_name":"[unknown]", "vg_uuid":"", "vg_systemid":"", "vg_tags":""}]}]}`
	labelOrphan = `{"report": [{"pv": [
		{"pv_name":"/dev/ubdb", "pv_uuid":"xK4nTa", "pv_major":"98", "pv_minor":"16", "pv_missing":"", "pv_in_use":"", ` +
		`"vg_name":"", "vg_uuid":"", "vg_systemid":"", "vg_tags":""}]}]}`
	noLabel = `{"report": [{"pv": []}]}`
)

func TestReadLabels(t *testing.T) {
	pv := lvm.LabeledPV{Name: "/dev/ubdb", UUID: "xK4nTa", Major: 98, Minor: 16}
	with := func(change func(*lvm.LabeledPV)) []lvm.LabeledPV {
		c := pv
		change(&c)
		return []lvm.LabeledPV{c}
	}
	tests := map[string]struct {
		out  string
		want []lvm.LabeledPV
	}{
		"another disk of the group is missing": {labelMissing, with(func(p *lvm.LabeledPV) {
			p.VGName = "vg9"
			p.VGUUID = "MDNMtE"
			p.VGTags = []string{"lvms", "lvms.node=n9"}
		})},
		"damaged metadata": {labelDamaged, with(func(p *lvm.LabeledPV) { p.Unresolved = true })},
		"of no group":      {labelOrphan, with(func(*lvm.LabeledPV) {})},
		"no label":         {noLabel, nil},
		"in use by a group that has no name": {
			strings.Replace(labelOrphan, `"pv_in_use":""`, `"pv_in_use":"used"`, 1),
			with(func(p *lvm.LabeledPV) { p.Unresolved = true }),
		},
	}
	for name, tt := range tests {
		r := &runner{answer: func(context.Context, []string) ([]byte, error) { return []byte(tt.out), nil }}
		got, err := New(r).ReadLabels(t.Context(), "/dev/ubdb")
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v: %s", name, err, diff)
		}
		want := []string{"/usr/sbin/lvm pvs --devices /dev/ubdb --foreign --shared --reportformat json -o " +
			output.LabelColumns}
		if diff := cmp.Diff(want, r.commands); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestReadLabelsThatFailsIsNeverEmpty(t *testing.T) {
	for name, tt := range map[string]struct {
		out string
		err error
	}{
		"the command fails":   {"", &host.Error{ExitCode: 5, Err: errors.New("exit status 5")}},
		"no output":           {"", nil},
		"half the output":     {`{"report": [{"pv": [`, nil},
		"no report":           {`{}`, nil},
		"another report":      {`{"report": [{"vg": []}]}`, nil},
		"a column is missing": {strings.Replace(labelOrphan, `"vg_tags":""`, `"x":""`, 1), nil},
	} {
		r := &runner{answer: func(context.Context, []string) ([]byte, error) { return []byte(tt.out), tt.err }}
		if pvs, err := New(r).ReadLabels(t.Context(), "/dev/ubdb"); err == nil || pvs != nil {
			t.Errorf("%s: got %v, %v", name, pvs, err)
		}
	}
}

func TestReadLabelsByAnLVMWithoutDevices(t *testing.T) {
	r := &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
		if slices.Contains(args, "--devices") {
			return nil, &host.Error{ExitCode: 3, Stderr: "pvs: unrecognized option '--devices'",
				Err: errors.New("exit status 3")}
		}
		return []byte(labelMissing), nil
	}}
	if pvs, err := New(r).ReadLabels(t.Context(), "/dev/ubdb"); err != nil || len(pvs) != 1 || len(r.commands) != 2 {
		t.Errorf("got %v, %v, %v", pvs, err, r.commands)
	}
}

// devicesFile returns an error for the list of devices in the devices file.
func devicesFile(err error) *runner {
	return &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
		if slices.Equal(args, []string{"lvmdevices"}) {
			return nil, err
		}
		return nil, nil
	}}
}

var (
	noDevicesFile  = &host.Error{ExitCode: 5, Stderr: "Devices file does not exist.", Err: errors.New("exit status 5")}
	notEnabled     = &host.Error{ExitCode: 5, Stderr: "Devices file not enabled.", Err: errors.New("exit status 5")}
	unknownFailure = &host.Error{ExitCode: 5, Err: errors.New("exit status 5")}
)

func TestDevicesFileAdd(t *testing.T) {
	tests := map[string]struct {
		list    error
		changes bool
		want    error
		fails   bool
	}{
		"there is a file":      {nil, true, nil, false},
		"there is none":        {noDevicesFile, false, lvm.ErrNotEnabled, true},
		"LVM does not use one": {notEnabled, false, lvm.ErrNotEnabled, true},
		"nobody knows":         {unknownFailure, false, nil, true},
	}
	for name, tt := range tests {
		for range 2 {
			r := devicesFile(tt.list)
			err := New(r).Apply(t.Context(), lvm.DevicesFileAdd{Device: "/dev/sdb"})
			if (err != nil) != tt.fails || errors.Is(err, lvm.ErrNotEnabled) != (tt.want != nil) {
				t.Errorf("%s: got %v", name, err)
			}
			if slices.Contains(r.commands, "/usr/sbin/lvm lvmdevices --adddev /dev/sdb") != tt.changes {
				t.Errorf("%s: ran %v", name, r.commands)
			}
		}
	}
}
