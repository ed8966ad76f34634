// Package attempts delays repeated attempts to refresh, resume or rebuild a volume.
package attempts

import (
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

const (
	// firstPause is the delay between the first and the second attempt. It doubles with each attempt.
	firstPause = 5 * time.Second
	// longestPause is the maximum delay between two attempts.
	longestPause = 5 * time.Minute
	// forgetAttempts is the time without an attempt after which the delay starts again with firstPause. It is longer
	// than longestPause.
	forgetAttempts = 15 * time.Minute
)

// All has the All to refresh, resume or rebuild volumes, by volume group and volume. Such a command succeeds
// even if it did not help, and its uevents wake the agent, so without a delay the agent would repeat it endlessly.
type All map[string]map[string]attempt

type attempt struct {
	count       int
	ineffective int
	last        time.Time
}

func (a attempt) next() time.Time {
	pause := firstPause
	for i := 1; i < a.count && pause < longestPause; i++ {
		pause *= 2
	}
	return a.last.Add(min(pause, longestPause))
}

// Add records an attempt.
func (all All) Add(group, volume string, now time.Time) {
	if all[group] == nil {
		all[group] = map[string]attempt{}
	}
	a := all[group][volume]
	all[group][volume] = attempt{count: a.count + 1, ineffective: a.ineffective + 1, last: now}
}

// Of returns the attempts for the volumes Of a group. unhealthy are the volumes that still need one.
func (all All) Of(group string, unhealthy []string, now time.Time) map[string]state.Attempt {
	list := map[string]state.Attempt{}
	for volume, a := range all[group] {
		if now.Sub(a.last) > forgetAttempts {
			delete(all[group], volume)
			continue
		}
		if !slices.Contains(unhealthy, volume) {
			a.ineffective = 0
			all[group][volume] = a
		}
		list[volume] = state.Attempt{Ineffective: a.ineffective, Waiting: now.Before(a.next())}
	}
	return list
}

// Delay returns the time until the next attempt for a volume of the group that still needs one, but not less than
// least, and not more than most.
func (all All) Delay(group string, now time.Time, least, most time.Duration) time.Duration {
	for _, a := range all[group] {
		if a.ineffective > 0 {
			most = min(most, max(a.next().Sub(now), least))
		}
	}
	return most
}
