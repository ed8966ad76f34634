package volumegroup

import (
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
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

// attempts has the attempts to refresh, resume or rebuild volumes, by volume group and volume. Such a command succeeds
// even if it did not help, and its uevents wake the agent, so without a delay the agent would repeat it endlessly.
type attempts map[string]map[string]attempt

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

// add records an attempt.
func (all attempts) add(group, volume string, now time.Time) {
	if all[group] == nil {
		all[group] = map[string]attempt{}
	}
	a := all[group][volume]
	all[group][volume] = attempt{count: a.count + 1, ineffective: a.ineffective + 1, last: now}
}

// of returns the attempts for the volumes of a group. unhealthy are the volumes that still need one.
func (all attempts) of(group string, unhealthy []string, now time.Time) map[string]plan.Attempt {
	list := map[string]plan.Attempt{}
	for volume, a := range all[group] {
		if now.Sub(a.last) > forgetAttempts {
			delete(all[group], volume)
			continue
		}
		if !slices.Contains(unhealthy, volume) {
			a.ineffective = 0
			all[group][volume] = a
		}
		list[volume] = plan.Attempt{Ineffective: a.ineffective, Waiting: now.Before(a.next())}
	}
	return list
}

// delay returns the time until the next attempt for a volume of the group that still needs one, but not more than most.
func (all attempts) delay(group string, now time.Time, most time.Duration) time.Duration {
	for _, a := range all[group] {
		if a.ineffective > 0 {
			most = min(most, max(a.next().Sub(now), afterChange))
		}
	}
	return most
}
