package host

import (
	"maps"
	"path/filepath"
	"sync"
	"time"
	"unicode"
)

// Counter counts started processes, exactly, by command. It is safe for concurrent use.
type Counter struct {
	mu       sync.Mutex
	commands map[string]Statistics
}

// Statistics are about the processes of one command.
type Statistics struct {
	// Started were started. Ended of them have ended, Failed of those with an error, at their time limit too.
	Started, Ended, Failed uint64
	// Took is the time of those that ended, together.
	Took time.Duration
}

func (c *Counter) change(label string, change func(*Statistics)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commands == nil {
		c.commands = map[string]Statistics{}
	}
	s := c.commands[label]
	change(&s)
	c.commands[label] = s
}

func (c *Counter) started(label string) { c.change(label, func(s *Statistics) { s.Started++ }) }

func (c *Counter) ended(label string, took time.Duration, failed bool) {
	c.change(label, func(s *Statistics) {
		s.Ended++
		s.Took += took
		if failed {
			s.Failed++
		}
	})
}

// Total returns the number of all processes.
func (c *Counter) Total() uint64 {
	var sum uint64
	for _, s := range c.Statistics() {
		sum += s.Started
	}
	return sum
}

// ByCommand returns the number of processes of each command, for example "lsblk" or "lvm lvcreate".
func (c *Counter) ByCommand() map[string]uint64 {
	counts := map[string]uint64{}
	for command, s := range c.Statistics() {
		counts[command] = s.Started
	}
	return counts
}

// Statistics returns what is known of each command.
func (c *Counter) Statistics() map[string]Statistics {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.commands)
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
