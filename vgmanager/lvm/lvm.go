// Package lvm is LVM with types: one report that is read whole, and one function for each change.
//
// Every function runs at most one process. Sizes are bytes. Errors name the object and wrap one of the sentinels of
// this package where LVM's message is a known one. No function passes --force or answers a question of LVM with yes,
// except where its comment says which question and why.
package lvm

import (
	"errors"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/host"
)

const (
	// program is LVM on every distribution that ships it since /sbin became a link to /usr/sbin.
	program = "/usr/sbin/lvm"
	// readTimeout is the time limit of a report. LVM waits for its own locks without end, so a stuck command elsewhere
	// on the node would otherwise hold up the agent.
	readTimeout = 30 * time.Second
	// maxLabelReads is how many reads of labels may be past their limit.
	maxLabelReads = 8
	// writeTimeout is the time limit of a change.
	writeTimeout = 2 * time.Minute
)

// LVM runs the node's LVM. It is safe for concurrent use: changes of one volume group run one after another, and so do
// reports.
type LVM struct {
	runner host.Runner
	now    func() time.Time

	mu sync.Mutex
	// slots let one change of a volume group run at a time, by its name; wholeNode is for those that are about none.
	slots   map[string]*slot
	changes uint64 // number of changes that began or ended
	// inProgress is how many changes have begun and not ended.
	inProgress int
	recent     *Report
	recentAt   time.Time
	// running is the report that is being read; next is the one that is read when it ends.
	running, next *flight
	// well are the volume groups whose devices may be named to commands.
	well map[string]bool
	// accepted are the physical volumes of each volume group that may be missing when it is changed.
	accepted map[string][]string
	// silent tells which devices do not answer; filter leaves them out, "" for none. known are the physical volumes of
	// the last report, by "MAJOR:MINOR".
	silent Silent
	filter string
	known  map[string]bool
	// flush writes a device's cache to its medium; nil for none. devices are those of each volume group at the last
	// report.
	flush   Flush
	devices map[string][]string
	// labels are reads of labels, which may never end.
	labels *bounded.Calls
	// namesUnknown: the node's LVM is older than 2.03.12 and has no --devices.
	namesUnknown bool
}

// New returns LVM behind a Runner.
func New(runner host.Runner) *LVM {
	return &LVM{
		runner: runner, now: time.Now, slots: map[string]*slot{}, well: map[string]bool{},
		accepted: map[string][]string{},
		labels:   bounded.New(readTimeout, maxLabelReads),
	}
}

// ignore returns nil for an error that wraps one of the sentinels.
func ignore(err error, sentinels ...error) error {
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			return nil
		}
	}
	return err
}
