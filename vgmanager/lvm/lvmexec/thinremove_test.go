package lvmexec

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/ondisk"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

// queuedNode is a node with the volume group vg1, whose thin pool has the volumes a and s. LVM's commands show the
// metadata of thinVolumes, in which the pool has transaction 9.
type queuedNode struct {
	*testing.T
	lvm    *LVM
	runner *runner
	// queue is the text of the messages in the metadata. unreadable: the devices cannot be read.
	queue      string
	unreadable bool
	kernel     lvm.PoolState
	err        error
	// answers are errors of commands, by a part of their text.
	answers map[string]error
	volumes string
}

// The record "volumes" has the volume group vg1 with the thin pool "pool", its volume a, and the thick volume t1.
const (
	groupUUID  = "4Dc58Y-dMkT-43A8-EzGf-ovfT-T4qM-qta5lk"
	volumeUUID = "edWJ1W-3nlF-bBKn-tok3-XpF6-tPZ9-nFaPvq"
)

var groupPVs = []string{"47RIUC-Mivv-SC1p-waeg-OAnK-GrI1-f8uH6l", "iO0IXi-v8zV-W4sE-c1oz-Lt77-Gs0Y-Ei0eGW"}

func newQueuedNode(t *testing.T) *queuedNode {
	n := &queuedNode{T: t, kernel: lvm.PoolState{Device: "LVM-pool-tpool", TransactionID: 9}, volumes: thinVolumes}
	n.runner = reporting(t, "volumes")
	report := n.runner.answer
	n.runner.answer = func(ctx context.Context, args []string) ([]byte, error) {
		text := strings.Join(args, " ")
		for part, err := range n.answers {
			if strings.Contains(text, part) {
				return nil, err
			}
		}
		switch args[0] {
		case "fullreport":
			return report(ctx, args)
		case "lvs":
			return []byte(n.volumes), nil
		case "resume":
			n.kernel.Suspended = false
		}
		return nil, nil
	}
	n.lvm = newLocking(t, n.runner)
	n.lvm.ReadGroupsWith(func(context.Context, []ondisk.Device) (ondisk.Group, error) {
		if n.unreadable {
			return ondisk.Group{}, errors.New("input/output error")
		}
		return ondisk.Group{UUIDs: groupPVs, Metadata: []byte(n.metadata())}, nil
	})
	n.lvm.PoolsWith(func(context.Context, string, string) (lvm.PoolState, error) { return n.kernel, n.err })
	return n
}

func (n *queuedNode) metadata() string {
	volumes := "logical_volumes {\na {\nid = \"a-0\"\nsegment1 {\ntype = \"thin\"\nthin_pool = \"pool\"\ndevice_id = 1\n" +
		"}\n}\nt1 {\nid = \"t-0\"\nsegment1 {\ntype = \"striped\"\n}\n}\n" +
		"pool {\nid = \"p-0\"\nsegment1 {\ntype = \"thin-pool\"\ntransaction_id = 9\n" + n.queue + "}\n}\n}\n"
	return strings.TrimSuffix(metadataText("vg1", groupUUID, groupPVs), "}\n") + volumes + "}\n"
}

// changes returns the beginnings of the commands that are no reports.
func (n *queuedNode) changes() string {
	var list []string
	for _, c := range n.runner.changes() {
		fields := strings.Fields(c)
		if !slices.Contains([]string{"lvs"}, fields[1]) {
			list = append(list, fields[1])
		}
	}
	return strings.Join(list, " ")
}

const queued = "message1 {\ncreate = \"b\"\n}\n"

func dmsetupError(text string) error {
	return &host.Error{Stderr: text, ExitCode: 1, Err: errors.New("exit 1")}
}

func TestDataThatLVMWouldLeaveInThePoolIsDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		set     func(n *queuedNode)
		changes string
		err     string
	}{
		"no messages": {func(*queuedNode) {}, "lvremove", ""},
		"messages that the kernel has": {func(n *queuedNode) { n.queue = queued },
			"lvchange message lvremove", ""},
		"messages that the kernel lacks": {func(n *queuedNode) {
			n.queue = queued
			n.kernel.TransactionID = 8
		}, "lvremove", ""},
		"a suspended pool": {func(n *queuedNode) { n.queue, n.kernel.Suspended = queued, true },
			"resume lvchange message lvremove", ""},
		"a suspended pool that lacks the messages": {func(n *queuedNode) {
			n.queue = queued
			n.kernel.Suspended = true
			n.kernel.TransactionID = 8
		}, "resume lvremove", ""},
		"the pool stays suspended": {func(n *queuedNode) {
			n.queue = queued
			n.kernel.Suspended = true
			n.lvm.PoolsWith(func(context.Context, string, string) (lvm.PoolState, error) {
				return lvm.PoolState{Device: "x", Suspended: true}, nil
			})
		}, "resume", "vg1/pool is still suspended"},
		"the devices cannot be read": {func(n *queuedNode) { n.unreadable = true }, "lvchange message lvremove", ""},
		"the pool has no such device": {func(n *queuedNode) {
			n.queue = queued
			n.answers = map[string]error{"delete 1": dmsetupError("device-mapper: message ioctl on vg1-pool-tpool " +
				" failed: No data available\nCommand failed.")}
		}, "lvchange message lvremove", ""},
		"the pool refuses": {func(n *queuedNode) {
			n.queue = queued
			n.answers = map[string]error{"delete 1": dmsetupError("device-mapper: message ioctl on vg1-pool-tpool " +
				" failed: Device or resource busy\nCommand failed.")}
		}, "lvchange message", "resource busy"},
		"the volume is in use": {func(n *queuedNode) {
			n.queue = queued
			n.answers = map[string]error{"lvchange": dmsetupError("  Logical volume vg1/a in use.")}
		}, "lvchange", "in use"},
		"the kernel is not read": {func(n *queuedNode) { n.queue, n.err = queued, errors.New("no answer") }, "",
			"the data of vg1/a must be deleted first: no answer"},
		"the pool is not active": {func(n *queuedNode) { n.queue, n.err = queued, lvm.ErrNotFound }, "", "not found"},
		"the volumes are not read": {func(n *queuedNode) {
			n.queue = queued
			n.answers = map[string]error{"--nolocking": errors.New("no answer")}
		}, "", "no answer"},
		"the pool is another one": {func(n *queuedNode) {
			n.queue = queued
			n.volumes = strings.ReplaceAll(thinVolumes, `"pool"`, `"other"`)
		}, "", "thin pool vg1/pool: not found"},
		"the volume was removed by hand": {func(n *queuedNode) {
			n.queue = queued
			n.volumes = strings.ReplaceAll(thinVolumes, `"a"`, `"b"`)
		}, "lvremove", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				n := newQueuedNode(t)
				test.set(n)
				err := n.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"a"}})
				if got := n.changes(); got != test.changes {
					t.Errorf("ran %q, want %q", got, test.changes)
				}
				if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %q", err, test.err)
				}
			}
		})
	}
}

// TestAVolumeThatChangesMeanwhileIsNotDeleted: another program removes the volume and creates one of its name.
func TestAVolumeThatChangesMeanwhileIsNotDeleted(t *testing.T) {
	for name, now := range map[string]string{
		"another ID":     strings.Replace(thinVolumes, `"thin_id":"1"`, `"thin_id":"2"`, 1),
		"another volume": strings.Replace(thinVolumes, `"a-0"`, `"a-1"`, 1),
		"no volume":      strings.Replace(thinVolumes, `"lv_name":"a"`, `"lv_name":"z"`, 1),
	} {
		n := newQueuedNode(t)
		n.queue = queued
		answer := n.runner.answer
		n.runner.answer = func(ctx context.Context, args []string) ([]byte, error) {
			out, err := answer(ctx, args)
			if args[0] == "lvchange" {
				n.volumes = now
			}
			return out, err
		}
		err := n.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"a"}})
		if err == nil || !strings.Contains(err.Error(), "vg1/a was changed by another program") ||
			n.changes() != "lvchange" {
			t.Errorf("%s: ran %q: %v", name, n.changes(), err)
		}
	}
}

// TestVolumesThatAreNotThinNeedNoDeletion counts processes, also for the two other removals.
func TestVolumesThatAreNotThinNeedNoDeletion(t *testing.T) {
	n := newQueuedNode(t)
	n.queue = queued
	if err := n.lvm.Apply(t.Context(), lvm.LVRemove{VG: "vg1", Names: []string{"t1"}}); err != nil ||
		n.changes() != "lvremove" {
		t.Errorf("ran %q, %v", n.changes(), err)
	}
	for name, remove := range map[string]func(n *queuedNode) error{
		"by UUID": func(n *queuedNode) error {
			return n.lvm.Apply(t.Context(), lvm.LVRemoveByUUID{VG: "vg1", UUIDs: []string{volumeUUID}})
		},
		"inactive": func(n *queuedNode) error {
			return n.lvm.Apply(t.Context(), lvm.LVRemoveInactive{VG: "vg1", Names: []string{"a"}})
		},
	} {
		n := newQueuedNode(t)
		n.queue = queued
		if err := remove(n); err != nil || n.changes() != "lvchange message lvremove" {
			t.Errorf("%s: ran %q, %v", name, n.changes(), err)
		}
	}
}
