// Package health looks at devices, pools and redundancy between the looks at LVM, and tells when something is not as it
// was.
//
// It starts no process: the first block of each physical volume is read, and the kernel is asked by system calls.
// docs/reference/health.md says what is looked at and what each state means.
package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
)

const (
	// Interval is how often the node is looked at. What is seen twice is told within 30 s.
	Interval = 10 * time.Second
	// failingLimit is how long the physical volumes may take: longer than device.Pulse waits for a disk.
	failingLimit = 20 * time.Second
	// blindRounds is after how many rounds that could not be made the subscribers look for themselves.
	blindRounds = 3
)

// Mapper reads mapped devices: devicemapper.Reader does.
type Mapper interface {
	List(ctx context.Context) ([]devicemapper.Device, error)
	Status(ctx context.Context, number string) ([]devicemapper.Target, error)
}

// Options are what a Monitor needs.
type Options struct {
	Mapper Mapper
	// Failing asks the physical volumes, and returns what is wrong with those that are not well, by "MAJOR:MINOR". It
	// is never called again before it returned.
	Failing func(ctx context.Context) map[string]error
	// Interval is the constant of that name unless a test wants another one.
	Interval time.Duration
}

// Snapshot is what one round saw. What a round could not read is as the last one saw it, and Err tells so.
type Snapshot struct {
	// Time is when the round was over; zero before the first.
	Time time.Time
	// Err is why the devices could not be read, or the mapped devices could not be listed; nil if all could.
	Err error
	// Failing has the physical volumes that give errors or do not answer, by "MAJOR:MINOR".
	Failing map[string]error
	// Suspended has the volumes that were suspended in two rounds or more, by "MAJOR:MINOR". LVM suspends volumes for
	// moments in the course of its own work.
	Suspended map[string]bool
	// Pools, RAIDs and Mirrors (moves of extents) are by the name of device-mapper. Parts of volumes are among them:
	// the data and the metadata of a thin pool may each be a RAID volume.
	Pools   map[string]devicemapper.ThinPool
	RAIDs   map[string]devicemapper.RAID
	Mirrors map[string]devicemapper.Mirror
	// Unreadable has those of them whose state could not be read, by the name of device-mapper.
	Unreadable map[string]error
	// Blind is Err once it lasts for blindRounds: what the rest says is too old to be called the truth.
	Blind error
}

// Monitor looks at the node until it ends. It is safe for concurrent use.
type Monitor struct {
	Options
	failingLimit time.Duration

	mu          sync.Mutex
	subscribers []func()
	last        Snapshot

	// The rest belongs to the loop alone. held counts the rounds in which a volume was found suspended, blind those
	// that failed.
	held    map[string]int
	blind   int
	levels  levels
	digest  string
	pending chan map[string]error // the answer of Failing that is still waited for
}

// New returns a Monitor.
func New(o Options) *Monitor {
	if o.Interval == 0 {
		o.Interval = Interval
	}
	return &Monitor{Options: o, failingLimit: failingLimit, held: map[string]int{}, levels: levels{}}
}

// Subscribe adds a function that is called when something changed. It must not block.
func (m *Monitor) Subscribe(changed func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscribers = append(m.subscribers, changed)
}

// Snapshot returns what the last round saw. Nobody may change it.
func (m *Monitor) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Failing returns a copy of that of the Snapshot.
func (m *Monitor) Failing() map[string]error { return maps.Clone(m.Snapshot().Failing) }

// Suspended returns a copy of that of the Snapshot.
func (m *Monitor) Suspended() map[string]bool { return maps.Clone(m.Snapshot().Suspended) }

// Unknown returns why nothing is known about the health of a volume group, or of some of its volumes; nil if all is
// known.
func (m *Monitor) Unknown(group string) error {
	seen := m.Snapshot()
	list := []error{seen.Blind}
	// Device-mapper's names double the hyphens of the group and of the volume, and join them with one.
	prefix := strings.ReplaceAll(group, "-", "--") + "-"
	for _, name := range slices.Sorted(maps.Keys(seen.Unreadable)) {
		if rest, ok := strings.CutPrefix(name, prefix); ok && !strings.HasPrefix(rest, "-") {
			list = append(list, fmt.Errorf("state of %s: %w", name, seen.Unreadable[name]))
		}
	}
	return errors.Join(list...)
}

// Start looks until ctx ends. It implements manager.Runnable.
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

// round looks once, and tells the subscribers if what matters is not as it was.
func (m *Monitor) round(ctx context.Context) {
	seen := m.look(ctx)
	if ctx.Err() != nil {
		return // It ends: what was not read any longer says nothing.
	}
	digest := m.digestOf(seen)
	m.mu.Lock()
	m.last = seen
	subscribers := slices.Clone(m.subscribers)
	m.mu.Unlock()
	changed := digest != m.digest
	if m.digest == "" {
		// Those who look at LVM see at their own beginning what LVM tells. Of the devices they know only by this round.
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

// look makes a Snapshot.
func (m *Monitor) look(ctx context.Context) Snapshot {
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
	m.blind++
	if seen.Err == nil {
		m.blind = 0
	}
	seen.Blind = nil
	if m.blind >= blindRounds {
		seen.Blind = seen.Err
	}
	seen.Time = time.Now()
	return seen
}

// askFailing asks the physical volumes in a goroutine, which one that hangs must not hold up the others from. The
// answer to a question that is still open is waited for again.
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
		return nil, fmt.Errorf("it could not be found out within %s whether the devices are well", m.failingLimit)
	}
}

// longSuspended returns the volumes that are suspended for the second round or longer.
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

// status is the answer about one device.
type status struct {
	name    string
	targets []devicemapper.Target
	err     error
}

// statuses asks pools, RAID volumes and mirrors, all at once: one that hangs must not hold up the others. Suspended
// ones answer too.
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

// hasState tells whether the status of a target says more than that the device is there. That of a thin volume does
// not, and it waits for its pool.
func hasState(kind string) bool { return kind == "thin-pool" || kind == "raid" || kind == "mirror" }

// volumes takes in what pools, RAID volumes and mirrors say.
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
		// One that was removed meanwhile is not there.
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
		// A move of several segments has one target for each, and the lines of what stays where it is.
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
