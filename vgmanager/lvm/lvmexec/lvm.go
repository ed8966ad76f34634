// Package lvmexec runs the node's LVM. It reads one complete report, and makes the changes of package lvm, those of the
// same volume group one after another.
//
// Errors name the object and wrap one of the sentinel errors of package lvm if the message of LVM is known.
package lvmexec

import (
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
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
	// lockDir is the directory of LVM's locks.
	lockDir string

	executor executor
	slots    slots
	reports  reports
	trust    trust
	flusher  flusher
	groups   groupReader
	// labels runs the reads of labels, which may never end.
	labels *bounded.Calls

	mu sync.Mutex
	// pools reads the state of thin pools from the kernel, nil if not set.
	pools lvm.Pools
}

// New returns an LVM that runs commands with runner.
func New(runner host.Runner) *LVM {
	l := &LVM{
		runner: runner, lockDir: lockDir,
		executor: executor{runner: runner, configStamp: func() string { return stampOf(configFiles) }},
		slots:    slots{byGroup: map[string]*slot{}},
		trust:    trust{healthy: map[string]bool{}, accepted: map[string][]string{}},
		labels:   bounded.New(readTimeout, maxLabelReads),
	}
	l.reports.now = time.Now
	l.reports.read = l.read
	return l
}
