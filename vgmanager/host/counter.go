package host

import (
	"maps"
	"path/filepath"
	"sync"
	"unicode"
)

// Counter counts started processes, exactly, by command. It is safe for concurrent use.
type Counter struct {
	mu     sync.Mutex
	counts map[string]uint64
}

func (c *Counter) add(label string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]uint64{}
	}
	c.counts[label]++
}

// Total returns the number of all processes.
func (c *Counter) Total() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum uint64
	for _, n := range c.counts {
		sum += n
	}
	return sum
}

// ByCommand returns the number of processes of each command, for example "lsblk" or "lvm lvcreate".
func (c *Counter) ByCommand() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// label is the program's base name, and the sub-command if its first argument is one. The set of labels is small: paths
// and options never become part of it.
func label(name string, args []string) string {
	base := filepath.Base(name)
	if len(args) > 0 && args[0] != "" && unicode.IsLower(rune(args[0][0])) {
		return base + " " + args[0]
	}
	return base
}
