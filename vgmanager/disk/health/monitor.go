// Package health monitors devices, pools and redundancy between LVM reports, and notifies subscribers of changes.
//
// It starts no process. It reads the first block of each physical volume, and gets the state of volumes from the
// kernel by system calls. docs/reference/health.md describes what is monitored and what each state means.
package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

const (
	// Interval is the time between two rounds. A state that two rounds observe is reported within 30 s.
	Interval = 10 * time.Second
	// failingLimit is the time limit for checking the physical volumes. It is longer than the limit of direct.Pulse.
	failingLimit = 20 * time.Second
	// maxFailedRounds is the number of consecutive failed rounds after which the subscribers are notified.
	maxFailedRounds = 3
)

// Mapper reads mapped devices. devicemapper.Reader implements it.
type Mapper interface {
	List(ctx context.Context) ([]devicemapper.Device, error)
	Status(ctx context.Context, number string) ([]devicemapper.Target, error)
}

// Options configures a Monitor.
type Options struct {
	Mapper Mapper
	// Failing checks the physical volumes and returns the errors of unhealthy ones by "MAJOR:MINOR". It is not called
	// again before it returns.
	Failing func(ctx context.Context) map[string]error
	// Metadata returns a digest of the metadata of the volume groups, as Failing has last read it. Own returns the
	// number of changes of volume groups that this process has begun or ended, and whether one is running. Both can be
	// nil.
	Metadata func() string
	Own      func() (changes uint64, running bool)
	// Interval overrides the constant Interval in tests.
	Interval time.Duration
}

// Snapshot is the result of one round. If a round cannot read something, the last value stays and Err is set.
type Snapshot struct {
	// Time is the end of the round. It is zero before the first round.
	Time time.Time
	// Err is set if the physical volumes could not be checked or the mapped devices could not be listed.
	Err error
	// Failing has the physical volumes that return errors or do not respond, by "MAJOR:MINOR".
	Failing map[string]error
	// Suspended has the volumes that were suspended in two or more consecutive rounds, by "MAJOR:MINOR". LVM briefly
	// suspends volumes during its own operations.
	Suspended map[string]bool
	// Pools, RAIDs and Mirrors (moves of extents) are by device-mapper name. They include hidden volumes: the data
	// and the metadata of a thin pool can each be a RAID volume.
	Pools   map[string]devicemapper.ThinPool
	RAIDs   map[string]devicemapper.RAID
	Mirrors map[string]devicemapper.Mirror
	// Unreadable has the pools, RAID volumes and mirrors whose state could not be read, by device-mapper name.
	Unreadable map[string]error
	// ObserveFailed is Err if maxFailedRounds consecutive rounds failed. The other fields are then outdated.
	ObserveFailed error
}

// Monitor observes the node in rounds. It is safe for concurrent use.
type Monitor struct {
	Options
	failingLimit time.Duration

	mu          sync.Mutex
	subscribers []func()
	last        Snapshot

	// Only the loop uses the following fields. held counts the consecutive rounds in which a volume was suspended.
	// failedRounds counts the consecutive failed rounds.
	held         map[string]int
	failedRounds int
	levels       levels
	digest       string
	pending      chan map[string]error // pending result of Failing
	metadata     metadata
}

// New returns a Monitor.
func New(o Options) *Monitor {
	if o.Interval == 0 {
		o.Interval = Interval
	}
	return &Monitor{Options: o, failingLimit: failingLimit, held: map[string]int{}, levels: levels{}}
}

// Subscribe adds a function that is called after a change. The function must not block.
func (m *Monitor) Subscribe(changed func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscribers = append(m.subscribers, changed)
}

// Snapshot returns the result of the last round. The caller must not modify it.
func (m *Monitor) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Failing returns a copy of Failing in the last Snapshot.
func (m *Monitor) Failing() map[string]error { return maps.Clone(m.Snapshot().Failing) }

// Suspended returns a copy of Suspended in the last Snapshot.
func (m *Monitor) Suspended() map[string]bool { return maps.Clone(m.Snapshot().Suspended) }

// Unknown returns why the health of a volume group, or of some of its volumes, is not known. It returns nil if it is
// known.
func (m *Monitor) Unknown(group string) error {
	seen := m.Snapshot()
	list := []error{seen.ObserveFailed}
	for _, name := range slices.Sorted(maps.Keys(seen.Unreadable)) {
		if devicemapper.IsVolumeOf(name, group) {
			list = append(list, fmt.Errorf("read the state of %s: %w", name, seen.Unreadable[name]))
		}
	}
	return errors.Join(list...)
}

// Start runs rounds until ctx ends. It implements manager.Runnable.
func (m *Monitor) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		m.round(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(m.Interval + time.Duration(rand.Int64N(int64(m.Interval/10)+1))):
		}
	}
	return nil
}

// round runs one round and notifies the subscribers if the digest changed.
func (m *Monitor) round(ctx context.Context) {
	ctx, end := liveness.Begin(ctx, "round of the health of devices")
	defer end()
	before := m.ownChanges()
	seen := m.observe(ctx)
	if ctx.Err() != nil {
		return // The monitor stops, so the result may be incomplete.
	}
	digest := m.digestOf(seen)
	replaced := m.changedByOthers(before)
	m.mu.Lock()
	m.last = seen
	subscribers := slices.Clone(m.subscribers)
	m.mu.Unlock()
	changed := digest != m.digest || replaced
	if m.digest == "" {
		// The subscribers read LVM when they start. Only this round tells them which devices fail.
		changed = len(seen.Failing) > 0
	}
	m.digest = digest
	if !changed {
		return
	}
	for _, tell := range subscribers {
		tell()
	}
}

// metadata is the metadata of the volume groups in a round.
type metadata struct {
	digest string
	// own is the state before it was read.
	own own
}

// own is what this process does with volume groups.
type own struct {
	changes uint64
	running bool
}

func (m *Monitor) ownChanges() own {
	if m.Own == nil {
		return own{}
	}
	changes, running := m.Own()
	return own{changes, running}
}

// changedByOthers returns true if another process has changed a volume group since the last round. before is what this
// process had done before the metadata was read. If this process has also made a change, changedByOthers returns false,
// because the change of the other process cannot be told from its own.
func (m *Monitor) changedByOthers(before own) bool {
	if m.Metadata == nil {
		return false
	}
	now := metadata{m.Metadata(), before}
	last := m.metadata
	m.metadata = now
	after := m.ownChanges()
	return last.digest != "" && now.digest != last.digest && after.changes == last.own.changes && !after.running
}

// observe returns a Snapshot of the current state.
func (m *Monitor) observe(ctx context.Context) Snapshot {
	seen := m.Snapshot()
	answer := m.askFailing(ctx)
	devices, listErr := m.Mapper.List(ctx)
	if listErr == nil {
		seen.Suspended = m.longSuspended(devices)
		seen.volumes(m.statuses(ctx, devices))
	}
	failing, failingErr := m.waitForFailing(ctx, answer)
	if failingErr == nil {
		seen.Failing = failing
	}
	seen.Err = errors.Join(listErr, failingErr)
	m.failedRounds++
	if seen.Err == nil {
		m.failedRounds = 0
	}
	seen.ObserveFailed = nil
	if m.failedRounds >= maxFailedRounds {
		seen.ObserveFailed = seen.Err
	}
	seen.Time = time.Now()
	return seen
}

// askFailing checks the physical volumes in a goroutine, so that one that hangs does not block the other checks. If a
// check is pending, it waits for that one again.
func (m *Monitor) askFailing(ctx context.Context) <-chan map[string]error {
	if m.pending == nil {
		answer := make(chan map[string]error, 1)
		m.pending = answer
		go func() { answer <- m.Options.Failing(ctx) }()
	}
	return m.pending
}

func (m *Monitor) waitForFailing(ctx context.Context, answer <-chan map[string]error) (map[string]error, error) {
	ctx, cancel := context.WithTimeout(ctx, m.failingLimit)
	defer cancel()
	select {
	case failing := <-answer:
		m.pending = nil
		return failing, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the health of the devices could not be determined within %s", m.failingLimit)
	}
}

// longSuspended returns the volumes that are suspended in two or more consecutive rounds.
func (m *Monitor) longSuspended(devices []devicemapper.Device) map[string]bool {
	held := map[string]int{}
	long := map[string]bool{}
	for _, d := range devices {
		if d.Suspended && d.IsVolume() {
			held[d.Number] = m.held[d.Number] + 1
			if held[d.Number] >= 2 {
				long[d.Number] = true
			}
		}
	}
	m.held = held
	return long
}

// status is the result for one device.
type status struct {
	name    string
	targets []devicemapper.Target
	err     error
}

// statuses reads the status of pools, RAID volumes and mirrors in parallel, so that one that hangs does not block the
// others. Suspended devices return their status too.
func (m *Monitor) statuses(ctx context.Context, devices []devicemapper.Device) []status {
	var list []status
	var asked []string
	for _, d := range devices {
		if d.IsVolume() && slices.ContainsFunc(d.Types, hasState) {
			list = append(list, status{name: d.Name})
			asked = append(asked, d.Number)
		}
	}
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() { list[i].targets, list[i].err = m.Mapper.Status(ctx, asked[i]) })
	}
	all.Wait()
	return list
}

// hasState returns true if the status of a target is of interest. The status of a thin volume is not, and it can
// block on its pool.
func hasState(kind string) bool { return kind == "thin-pool" || kind == "raid" || kind == "mirror" }

// volumes adds the statuses of pools, RAID volumes and mirrors.
func (s *Snapshot) volumes(list []status) {
	s.Pools = map[string]devicemapper.ThinPool{}
	s.RAIDs = map[string]devicemapper.RAID{}
	s.Mirrors = map[string]devicemapper.Mirror{}
	s.Unreadable = map[string]error{}
	for _, volume := range list {
		err := volume.err
		for _, target := range volume.targets {
			err = errors.Join(err, s.take(volume.name, target))
		}
		// The device may have been removed meanwhile.
		if err != nil && !errors.Is(err, devicemapper.ErrNotFound) {
			s.Unreadable[volume.name] = err
		}
	}
}

func (s *Snapshot) take(name string, target devicemapper.Target) error {
	switch target.Type {
	case "thin-pool":
		return take(s.Pools, name, target, devicemapper.ParseThinPool)
	case "raid":
		return take(s.RAIDs, name, target, devicemapper.ParseRAID)
	case "mirror":
		// A move of several segments has one mirror target for each, and linear targets for the extents that stay.
		return take(s.Mirrors, fmt.Sprintf("%s at %d", name, target.Start), target, devicemapper.ParseMirror)
	}
	return nil
}

func take[T any](into map[string]T, name string, target devicemapper.Target, parse func(string) (T, error)) error {
	state, err := parse(target.Params)
	if err == nil {
		into[name] = state
	}
	return err
}
