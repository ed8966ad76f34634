// Package fstrim trims the file systems of the mounted volumes of a node, by the schedule of their device class or when
// their thin pool fills up. It trims one volume at a time, and starts no process. The last attempt for each volume is
// in an annotation of its LogicalVolume.
package fstrim

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

const (
	// minPressureInterval and maxPressureInterval limit the time between two trims of a volume whose thin pool is above
	// its threshold. The time doubles with each trim.
	minPressureInterval = time.Hour
	maxPressureInterval = 24 * time.Hour
	// minRetry and maxRetry limit the delay before a failed trim is repeated. It doubles with each failure.
	minRetry = time.Hour
	maxRetry = 24 * time.Hour
	// unsupportedInterval is the minimum time before a volume whose device did not support discards is tried again
	// because of the threshold of its thin pool.
	unsupportedInterval = 24 * time.Hour
)

// periodOf returns the time between two trims, or 0 without a schedule.
func periodOf(schedule v1alpha1.TrimSchedule) time.Duration {
	switch schedule {
	case v1alpha1.TrimDaily:
		return 24 * time.Hour
	case v1alpha1.TrimWeekly:
		return 7 * 24 * time.Hour
	}
	return 0
}

// class is the configuration and the state of a device class on this node.
type class struct {
	// period is the time between two trims of a volume; 0 without a schedule.
	period time.Duration
	// isAbove: the thin pool is above its threshold. percent is its usage.
	isAbove bool
	percent float64
	classState
}

// classState is what is remembered about a device class.
type classState struct {
	// since is when the agent first saw its schedule; zero without one. catchUp: it had one when the agent started, so
	// trims are made up for that were due while no agent ran. Otherwise all volumes of all nodes would be due at the
	// moment at which a schedule is set.
	since   time.Time
	catchUp bool
	// aboveSince is since when its thin pool is above the threshold; zero if it is not.
	aboveSince time.Time
}

// volume is a mounted volume that can be trimmed.
type volume struct {
	class, name string
	// device is "MAJOR:MINOR". path is where the kubelet has the file system staged.
	device, path string
	// object is the name of its LogicalVolume. created is when that was created.
	object  string
	created time.Time
	// allocated is the size of the blocks of the volume in its thin pool, in bytes; 0 for a thick volume.
	allocated int64
	// last is the last attempt, or nil. notBefore is when a trim that was interrupted may be repeated.
	last      *Record
	notBefore time.Time
}

// turn is a volume that is due. because of its pool comes before because of the schedule.
type turn struct {
	volume
	pressure bool
	percent  float64
	slot     time.Time
}

// dueVolumes returns the volumes that must be trimmed now, in their order: first those of the fullest thin pool, with
// the most data first; then those by schedule, with the longest overdue first.
func dueVolumes(node string, classes map[string]class, volumes []volume, now time.Time) []volume {
	var turns []turn
	for _, v := range volumes {
		c, known := classes[v.class]
		if !known || now.Before(v.notBefore) {
			continue
		}
		if t, due := turnOf(node, c, v, now); due {
			turns = append(turns, t)
		}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		if a.pressure != b.pressure {
			if a.pressure {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.percent, a.percent), a.slot.Compare(b.slot), cmp.Compare(b.allocated, a.allocated),
			cmp.Compare(a.name, b.name))
	})
	due := make([]volume, 0, len(turns))
	for _, t := range turns {
		due = append(due, t.volume)
	}
	return due
}

// turnOf returns when and why a volume is due, or false.
func turnOf(node string, c class, v volume, now time.Time) (turn, bool) {
	last := v.last
	if last != nil && last.Time.After(now) {
		last = nil // the clock was set back
	}
	if last != nil && last.Result == Failed && now.Before(last.Time.Add(retryDelay(last.Failures))) {
		return turn{}, false
	}
	if c.isAbove && (last == nil || now.Sub(last.Time) >= pressureInterval(c, *last)) {
		return turn{volume: v, pressure: true, percent: c.percent}, true
	}
	if c.period == 0 {
		return turn{}, false
	}
	if last != nil && last.Result == Failed {
		return turn{volume: v, slot: last.Time}, true
	}
	slot := lastSlot(node, v, c.period, now)
	return turn{volume: v, slot: slot}, slot.After(doneUntil(c, v, last))
}

// doneUntil returns the time whose slots, and all earlier ones, need no trim of a volume.
func doneUntil(c class, v volume, last *Record) time.Time {
	if last != nil && c.catchUp {
		return last.Time
	}
	until := c.since
	if v.created.After(until) {
		until = v.created
	}
	if last != nil && last.Time.After(until) {
		until = last.Time
	}
	return until
}

// lastSlot returns the last time, not after now, at which a volume has its turn. Slots are a period apart. The first
// one is within a period of the Unix epoch, at a time that is a hash of the node and the volume.
func lastSlot(node string, v volume, period time.Duration, now time.Time) time.Time {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(node + "/" + v.name))
	seconds := int64(period / time.Second)
	offset := int64(hash.Sum64() % uint64(seconds))
	return time.Unix((now.Unix()-offset)/seconds*seconds+offset, 0).UTC()
}

// pressureInterval returns the minimum time between the last attempt and a trim because of the threshold. If the pool
// was already above its threshold at the last attempt, that did not help enough, so it is the time that had passed
// then: trims are 1, 2, 4, 8 hours apart, and so on.
func pressureInterval(c class, last Record) time.Duration {
	if last.Result == NotSupported {
		return unsupportedInterval
	}
	return min(max(last.Time.Sub(c.aboveSince), minPressureInterval), maxPressureInterval)
}

// retryDelay returns the delay after a number of consecutive failures.
func retryDelay(failures int) time.Duration {
	delay := minRetry
	for range failures - 1 {
		if delay *= 2; delay >= maxRetry {
			return maxRetry
		}
	}
	return delay
}
