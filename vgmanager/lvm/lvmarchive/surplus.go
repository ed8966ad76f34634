package lvmarchive

import (
	"slices"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

const (
	// keepNewest and keepDays are how many files of a volume group are kept: the newest ones, and of the older ones the
	// newest of each day (UTC) on which LVM wrote one, as long as LVM keeps them by default. A recovery reads all of
	// them.
	keepNewest = 100
	keepDays   = lvm.MaxArchives - keepNewest
	maxAge     = keepDays * 24 * time.Hour
	// maxNewest and maxDaily are the maximum sizes of both. keepLeast files are kept in any case: LVM keeps as many
	// (backup/retain_min). With all of them, LVM does not advise to prune the archive (128 MiB).
	maxNewest = 64 << 20
	maxDaily  = 32 << 20
	keepLeast = 10
)

// file is a file of LVM's archive.
type file struct {
	name    string
	size    int64
	written time.Time
}

// surplus returns the files that are not kept, the oldest first. files are those of a volume group, the newest first.
func surplus(files []file, now time.Time) []string {
	var newest, daily int64
	kept := 0
	days := map[string]bool{}
	var names []string
	for i, f := range files {
		newest += f.size
		day := f.written.UTC().Format(time.DateOnly)
		switch {
		case i < keepLeast || i == kept && i < keepNewest && newest <= maxNewest:
			kept = i + 1
		case !days[day] && len(days) < keepDays && now.Sub(f.written) < maxAge && daily+f.size <= maxDaily:
			days[day] = true
			daily += f.size
		default:
			names = append(names, f.name)
		}
	}
	slices.Reverse(names)
	return names
}
