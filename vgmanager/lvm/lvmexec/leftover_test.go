package lvmexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const (
	groupID  = "wS4zjx-hhY3-T91U-ywbT-rdAi-npnL-eHd8i1"
	volumeID = "8TYUIO-mbMJ-fgDi-nmVe-NLAx-s5bw-ttm2j0"
	leftID   = "Aaaaaa-bbbb-cccc-dddd-eeee-ffff-gggggg"
)

// leftoverNode has mapped devices that block lvconvert, until they are removed.
type leftoverNode struct {
	left        []string
	device      string
	known, fail string
}

func (n *leftoverNode) answer(_ context.Context, args []string) ([]byte, error) {
	if args[0] == n.fail {
		return nil, errors.New("no answer")
	}
	switch args[0] {
	case "fullreport":
		return []byte(wholeGroup), nil
	case "info":
		return []byte(n.device), nil
	case "lvs":
		return []byte(n.known), nil
	case "remove":
		n.left = n.left[1:]
	case "lvconvert":
		if len(n.left) > 0 {
			return nil, &host.Error{ExitCode: 5, Err: errors.New("exit 5"), Stderr: "  device-mapper: create ioctl on " +
				n.left[0] + " LVM-" + strings.ReplaceAll(groupID+volumeID, "-", "") +
				" failed: Device or resource busy\n  Failed to suspend logical volume vg1/a."}
		}
	}
	return nil, nil
}

// TestWhatAKilledRepairLeavesDoesNotBlockTheNextOne: only a device that is not open, of a logical volume that the group
// does not have, is removed. If that cannot be read, it stays.
func TestWhatAKilledRepairLeavesDoesNotBlockTheNextOne(t *testing.T) {
	id := func(parts ...string) string { return "LVM-" + strings.ReplaceAll(strings.Join(parts, ""), "-", "") }
	const known = "  " + groupID + " " + volumeID + "\n"
	for name, test := range map[string]struct {
		node    leftoverNode
		says    string
		removed int
	}{
		"nothing is left": {leftoverNode{}, "", 0},
		"two devices": {leftoverNode{left: []string{"vg1-a_rmeta_2", "vg1-a_rimage_2"}, known: known,
			device: id(groupID, leftID) + " 0\n"}, "", 2},
		"open": {leftoverNode{left: []string{"vg1-a_rmeta_2"}, known: known, device: id(groupID, leftID) + " 1\n"},
			"vg1-a_rmeta_2 blocks the command, and is not removed: it is open", 0},
		"of the group": {leftoverNode{left: []string{"x"}, known: known, device: id(groupID, volumeID) + "-real 0\n"},
			"it is of a logical volume that the volume group has", 0},
		"of another group": {leftoverNode{left: []string{"x"}, known: known, device: id(leftID, leftID) + " 0\n"},
			"it is of another volume group", 0},
		"of another program": {leftoverNode{left: []string{"x"}, known: known, device: "CRYPT-1 0\n"},
			"it is of another volume group", 0},
		"no volumes": {leftoverNode{left: []string{"x"}, device: id(groupID, leftID) + " 0\n"}, "lvs", 0},
		"no device":  {leftoverNode{left: []string{"x"}, known: known}, "dmsetup printed", 0},
		"the device cannot be read": {leftoverNode{left: []string{"x"}, known: known, fail: "info"},
			"read the mapped device x", 0},
		"the volumes cannot be read": {leftoverNode{left: []string{"x"}, fail: "lvs",
			device: id(groupID, leftID) + " 0\n"}, "list the logical volumes", 0},
		"the removal fails": {leftoverNode{left: []string{"x"}, known: known, fail: "remove",
			device: id(groupID, leftID) + " 0\n"}, "remove the mapped device x", 0},
	} {
		t.Run(name, func(t *testing.T) {
			node := test.node
			before := len(node.left)
			l := New(&runner{answer: node.answer})
			err := l.Apply(t.Context(), lvm.LVRepair{VG: "vg1", Name: "a"})
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			if removed := before - len(node.left); removed != test.removed {
				t.Errorf("%d devices were removed, want %d", removed, test.removed)
			}
		})
	}
}

// TestWhatAKilledDeactivationLeavesDoesNotBlockTheNextOne: the device of a thin pool itself is removed, if nothing has
// it open.
func TestWhatAKilledDeactivationLeavesDoesNotBlockTheNextOne(t *testing.T) {
	for name, test := range map[string]struct {
		device, fail string
		isRemoved    bool
		says         string
	}{
		"not open":          {"LVM-x-tpool 0\n", "", true, ""},
		"open":              {"LVM-x-tpool 2\n", "", false, `dmsetup printed "LVM-x-tpool 2`},
		"another device":    {"CRYPT-x 0\n", "", false, "is not removed"},
		"cannot be read":    {"", "info", false, "read the mapped device vg1-my--pool-tpool"},
		"cannot be removed": {"LVM-x-tpool 0\n", "remove", false, "remove the mapped device vg1-my--pool-tpool"},
	} {
		t.Run(name, func(t *testing.T) {
			isRemoved := false
			r := &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
				switch {
				case args[0] == test.fail:
					return nil, errors.New("no answer")
				case args[0] == "info":
					return []byte(test.device), nil
				case args[0] == "remove":
					isRemoved = args[2] == "vg1-my--pool-tpool"
				case args[0] == "lvchange" && !isRemoved:
					return nil, &host.Error{ExitCode: 5, Err: errors.New("exit 5"),
						Stderr: "  Device vg1-my--pool_tmeta (254:0) is used by another device."}
				}
				return nil, nil
			}}
			err := New(r).Apply(t.Context(), lvm.ThinMetadataDeactivate{VG: "vg1", Pool: "my-pool"})
			if isRemoved != test.isRemoved || (err == nil) != (test.says == "") ||
				err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("removed: %t, %v", isRemoved, err)
			}
		})
	}
}

// TestPoolThatAKilledDeactivationLeavesDoesNotBlockThatOfItsGroup: the device of a thin pool of this volume group is
// removed, if nothing has it open.
func TestPoolThatAKilledDeactivationLeavesDoesNotBlockThatOfItsGroup(t *testing.T) {
	ours := "LVM-" + strings.ReplaceAll(groupID+volumeID, "-", "") + "-tpool"
	theirs := "LVM-" + strings.ReplaceAll(leftID+volumeID, "-", "") + "-tpool"
	const inUse = "  Device vg1-my--pool_tmeta (254:0) is used by another device.\n" +
		"  Device vg1-my--pool_tdata (254:1) is used by another device."
	for name, test := range map[string]struct {
		message, device string
		isRemoved       bool
		says            string
	}{
		"not open":                {inUse, ours + " 0\n", true, ""},
		"open":                    {inUse, ours + " 1\n", false, "is not removed"},
		"of another volume group": {inUse, theirs + " 0\n", false, "is not removed"},
		"another reason":          {"  Logical volume vg1/a in use.", ours + " 0\n", false, "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			var removed []string
			r := &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
				switch {
				case args[0] == "info":
					return []byte(test.device), nil
				case args[0] == "remove":
					removed = append(removed, args[2])
				case args[0] == "vgchange" && len(removed) == 0:
					return nil, &host.Error{ExitCode: 5, Err: errors.New("exit 5"), Stderr: test.message}
				}
				return nil, nil
			}}
			err := New(r).Apply(t.Context(), lvm.GroupDeactivate{Group: lvm.OtherGroup{Name: "vg1", UUID: groupID}})
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			want := []string(nil)
			if test.isRemoved {
				want = []string{"vg1-my--pool-tpool"}
			}
			if !slices.Equal(removed, want) {
				t.Errorf("removed %q, want %q", removed, want)
			}
		})
	}
}

// TestLabelIsRemovedByForceOnlyWithoutMetadata has the output of pvck 2.03.16.
func TestLabelIsRemovedByForceOnlyWithoutMetadata(t *testing.T) {
	area := func(n, offset, flags string) string {
		return "  mda_header_" + n + " at 4096 # metadata area\n  mda_header_" + n + ".raw_locn[0] at 4136 # commit\n" +
			"  mda_header_" + n + ".raw_locn[0].offset " + offset + "\n  mda_header_" + n +
			".raw_locn[0].size 0\n  mda_header_" + n + ".raw_locn[0].flags " + flags + "\n"
	}
	for name, test := range map[string]struct {
		headers string
		err     error
		says    string
	}{
		"no metadata":                  {area("1", "0", "0x0"), nil, ""},
		"no metadata in two areas":     {area("1", "0", "0x0") + area("2", "0", "0x0"), nil, ""},
		"metadata":                     {area("1", "512", "0x0"), nil, "can have metadata"},
		"metadata in the second area":  {area("1", "0", "0x0") + area("2", "1024", "0x0"), nil, "can have metadata"},
		"an area that LVM ignores":     {area("1", "0", "0x1"), nil, "can have metadata"},
		"no metadata area":             {"  pv_header at 544\n", nil, "can have metadata"},
		"a value that is not a number": {area("1", "?", "0x0"), nil, "can have metadata"},
		"the headers cannot be read":   {"", errors.New("no answer"), "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			var removal string
			r := &runner{answer: func(_ context.Context, args []string) ([]byte, error) {
				if args[0] == "pvck" {
					return []byte(test.headers), test.err
				}
				removal = strings.Join(args, " ")
				return nil, nil
			}}
			err := New(r).Apply(t.Context(), lvm.PVRemove{Device: "/dev/sdb", Unfinished: true})
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %q", err, test.says)
			}
			if isRemoved := removal == "pvremove --force --force --yes /dev/sdb"; isRemoved != (test.says == "") {
				t.Errorf("ran %q", removal)
			}
		})
	}
}
