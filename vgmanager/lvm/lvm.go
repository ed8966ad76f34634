// Package lvm is a typed interface to LVM. It reads one complete report, and has one type for each change.
//
// Sizes are in bytes. Errors name the object and wrap one of the sentinel errors of this package if the message of LVM
// is known. No change passes --force or answers a question of LVM with yes, unless its comment says which question and
// why.
package lvm

import (
	"errors"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
)

const (
	// program is the path of LVM. It is valid on every distribution that links /sbin to /usr/sbin.
	program = "/usr/sbin/lvm"
	// dmsetup sends messages to the kernel that LVM has no command for.
	dmsetup = "/usr/sbin/dmsetup"
	// readTimeout is the time limit of a report. LVM waits for its locks without a time limit, so a stuck command on
	// the node would otherwise block the agent.
	readTimeout = 30 * time.Second
	// maxLabelReads is how many reads of labels may be past their time limit at the same time.
	maxLabelReads = 8
	// writeTimeout is the time limit of a change.
	writeTimeout = 2 * time.Minute
)

// LVM runs the node's LVM. It is safe for concurrent use. Changes of the same volume group run one after another, and
// so do reports.
type LVM struct {
	runner host.Runner
	now    func() time.Time
	// lockDir is the directory of LVM's locks.
	lockDir string

	mu sync.Mutex
	// slots serialize changes by the name of the volume group. wholeNode is the key for changes without a volume
	// group.
	slots   map[string]*slot
	changes uint64 // number of changes that began or ended
	// inProgress is the number of changes that have begun and not ended.
	inProgress int
	recent     *Report
	recentAt   time.Time
	// running is the report that is being read. next starts when running ends.
	running, next *flight
	// healthy has the volume groups whose devices may be passed to commands (SetHealthy).
	healthy map[string]bool
	// accepted has the physical volumes of each volume group that may be missing during a change (AcceptLoss).
	accepted map[string][]string
	// silent returns the devices that do not respond, and list those that LVM may read. excluded are those that did not
	// respond before the last report. known has its physical volumes by "MAJOR:MINOR".
	silent   Silent
	list     func() (Devices, error)
	excluded map[string][]string
	known    map[string]bool
	// own are the node's filters, read when configStamp returned ownStamp.
	own         filters
	ownStamp    string
	configStamp func() string
	// flush flushes the write cache of a device, nil if not set. devices has the devices of each volume group in the
	// last report.
	flush   Flush
	look    Look
	pools   Pools
	devices map[string][]string
	// labels runs the reads of labels, which may never end.
	labels *bounded.Calls
	// namesUnknown: the node's LVM is older than 2.03.12 and does not support --devices.
	namesUnknown bool
}

// New returns an LVM that runs commands with runner.
func New(runner host.Runner) *LVM {
	return &LVM{
		runner: runner, now: time.Now, lockDir: lockDir, slots: map[string]*slot{}, healthy: map[string]bool{},
		accepted: map[string][]string{},
		labels:   bounded.New(readTimeout, maxLabelReads),

		configStamp: func() string { return stampOf(configFiles) },
	}
}

// ignore returns nil if err wraps one of the sentinel errors.
func ignore(err error, sentinels ...error) error {
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			return nil
		}
	}
	return err
}
