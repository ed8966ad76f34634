package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// digestOf returns a digest of the relevant state, without values that change all the time. If two rounds have the
// same digest, no new LVM report is necessary.
func (m *Monitor) digestOf(s Snapshot) string {
	var lines []string
	if m.failedRounds >= maxFailedRounds {
		lines = append(lines, "unknown")
	}
	for number := range s.Failing {
		lines = append(lines, "failing "+number)
	}
	for number := range s.Suspended {
		lines = append(lines, "suspended "+number)
	}
	for name := range s.Unreadable {
		lines = append(lines, "unreadable "+name)
	}
	lines = append(lines, m.levels.pools(s.Pools)...)
	for name, raid := range s.RAIDs {
		lines = append(lines, fmt.Sprintf("raid %s %s, in sync %t", name, raid.Health, raid.InSync()))
	}
	for name, mirror := range s.Mirrors {
		lines = append(lines, fmt.Sprintf("mirror %s %s, done %t", name, mirror.Health,
			mirror.SyncedRegions == mirror.TotalRegions))
	}
	slices.Sort(lines)
	return "as of now\n" + strings.Join(lines, "\n")
}

// levels are the pool usage levels at the last notification, in percent.
type levels map[string]int

func (l levels) pools(pools map[string]devicemapper.ThinPool) []string {
	var lines []string
	now := levels{}
	for name, pool := range pools {
		data := name + " data"
		metadata := name + " metadata"
		now[data] = l.next(data, pool.DataPercent())
		now[metadata] = l.next(metadata, pool.MetadataPercent())
		lines = append(lines, fmt.Sprintf("pool %s %s, check %t, data %d, metadata %d", name, pool.Mode,
			pool.NeedsCheck, now[data], now[metadata]))
	}
	clear(l)
	maps.Copy(l, now)
	return lines
}

// slack is the hysteresis in percent: a pool counts as below a step when its usage is this much below it. Without it,
// usage around a step would cause repeated notifications.
const slack = 2

// next returns the level for a usage. Steps are 5 percent, and 1 percent from 90 percent. An increase counts at once.
func (l levels) next(key string, percent int) int {
	last, known := l[key]
	if step := stepOf(percent); !known || step > last {
		return step
	}
	return min(last, stepOf(percent+slack))
}

func stepOf(percent int) int {
	if percent >= 90 {
		return percent
	}
	return percent / 5 * 5
}
