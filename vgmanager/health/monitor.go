// Package health looks at devices, pools and redundancy between the looks at LVM, and tells when something is not as it was.
//
// It starts no process: the first block of each physical volume is read, and the kernel is asked by system calls.
package health

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
)

// Interval is how often the node is looked at. What is seen twice is told within 30 s.
const Interval = 10 * time.Second

// Mapper reads mapped devices.
type Mapper interface {
	List() ([]devicemapper.Device, error)
	Status(number string) ([]devicemapper.Target, error)
}

// Options are what a Monitor needs.
type Options struct {
	Mapper Mapper
	// Failing asks the physical volumes, and returns what is wrong with those that are not well, by "MAJOR:MINOR".
	Failing func(ctx context.Context) map[string]error
	// Interval is the constant of that name unless a test wants another one.
	Interval time.Duration
}

// Monitor looks at the node until it ends. It is safe for concurrent use.
type Monitor struct {
	Options

	mu          sync.Mutex
	subscribers []func()
	failing     map[string]error
	suspended   map[string]bool

	// The rest belongs to the loop alone. held counts the rounds in which a volume was found suspended.
	held   map[string]int
	fill   map[string]int
	digest string
}

// New returns a Monitor.
func New(o Options) *Monitor {
	if o.Interval == 0 {
		o.Interval = Interval
	}
	return &Monitor{Options: o, held: map[string]int{}, fill: map[string]int{}}
}

// Subscribe adds a function that is called when something changed. It must not block.
func (m *Monitor) Subscribe(changed func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscribers = append(m.subscribers, changed)
}

// Failing returns the devices that give errors or do not answer, by "MAJOR:MINOR", as of the last round.
func (m *Monitor) Failing() map[string]error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.failing)
}

// Suspended returns the volumes that were suspended in two rounds or more, by "MAJOR:MINOR". LVM suspends volumes for moments in the
// course of its own work.
func (m *Monitor) Suspended() map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.suspended)
}

// Start looks until ctx ends. It implements manager.Runnable.
func (m *Monitor) Start(ctx context.Context) error {
	for {
		m.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(m.Interval + time.Duration(rand.Int64N(int64(m.Interval/10)+1))):
		}
	}
}

// round looks once.
func (m *Monitor) round(ctx context.Context) {
	failing := m.Options.Failing(ctx)
	devices, err := m.Mapper.List()
	suspended := m.longSuspended(devices)
	digest := digestOf(failing, suspended, m.volumes(devices), err)
	m.mu.Lock()
	m.failing, m.suspended = failing, suspended
	subscribers := slices.Clone(m.subscribers)
	m.mu.Unlock()
	changed := m.digest != "" && digest != m.digest
	m.digest = digest
	if !changed {
		return
	}
	for _, tell := range subscribers {
		tell()
	}
}

// longSuspended returns the volumes that are suspended for the second round or longer.
func (m *Monitor) longSuspended(devices []devicemapper.Device) map[string]bool {
	held, long := map[string]int{}, map[string]bool{}
	for _, d := range devices {
		if d.Suspended && isVolume(d) {
			held[d.Number] = m.held[d.Number] + 1
			if held[d.Number] >= 2 {
				long[d.Number] = true
			}
		}
	}
	m.held = held
	return long
}

func isVolume(d devicemapper.Device) bool { return strings.HasPrefix(d.UUID, "LVM-") }

// volumes words the state of each pool and each RAID volume. A suspended one is not asked.
func (m *Monitor) volumes(devices []devicemapper.Device) []string {
	var list []string
	fill := map[string]int{}
	for _, d := range devices {
		if !isVolume(d) || d.Suspended || !mayTell(d) {
			continue
		}
		targets, err := m.Mapper.Status(d.Number)
		if err != nil {
			list = append(list, d.Name+" "+err.Error())
			continue
		}
		for _, target := range targets {
			if text := m.word(d, target, fill); text != "" {
				list = append(list, d.Name+" "+text)
			}
		}
	}
	m.fill = fill
	return list
}

// mayTell leaves out the parts of volumes, whose UUIDs LVM ends with a word, but for the device of a pool itself. The others cost
// one system call each, thin volumes too.
func mayTell(d devicemapper.Device) bool {
	_, part, _ := strings.Cut(strings.TrimPrefix(d.UUID, "LVM-"), "-")
	return part == "" || part == "tpool"
}

// word is the state of a target, without what changes all the time.
func (m *Monitor) word(d devicemapper.Device, target devicemapper.Target, fill map[string]int) string {
	switch target.Type {
	case "thin-pool":
		pool, err := devicemapper.ParseThinPool(target.Params)
		if err != nil {
			return err.Error()
		}
		data, metadata := m.step(d.Number+" data", pool.DataPercent, fill), m.step(d.Number+" metadata", pool.MetadataPercent, fill)
		return fmt.Sprintf("pool %s check %t data %d metadata %d", pool.Mode, pool.NeedsCheck, data, metadata)
	case "raid":
		raid, err := devicemapper.ParseRAID(target.Params)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("raid %s in sync %t", raid.Health, raid.InSync)
	}
	return ""
}

// step keeps the percent that was last told until it differs by 2, and by 1 from 90 on: a pool whose fill goes up and down around a
// threshold must not be told again and again.
func (m *Monitor) step(key string, percent int, fill map[string]int) int {
	last, known := m.fill[key]
	width := 2
	if percent >= 90 {
		width = 1
	}
	if !known || percent >= last+width || percent <= last-2 {
		last = percent
	}
	fill[key] = last
	return last
}

// digestOf is equal for two rounds that found the same.
func digestOf(failing map[string]error, suspended map[string]bool, volumes []string, err error) string {
	parts := []string{fmt.Sprintf("list: %v", err)}
	for _, number := range slices.Sorted(maps.Keys(failing)) {
		parts = append(parts, "failing "+number)
	}
	for _, number := range slices.Sorted(maps.Keys(suspended)) {
		parts = append(parts, "suspended "+number)
	}
	return strings.Join(append(parts, volumes...), "\n")
}
