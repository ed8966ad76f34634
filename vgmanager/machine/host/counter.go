package host

import (
	"maps"
	"path/filepath"
	"sync"
	"time"
	"unicode"
)

// Counter counts the processes that were started, by command. It is safe for concurrent use.
type Counter struct {
	mu       sync.Mutex
	commands map[string]Statistics
}

// Statistics describes the processes of one command.
type Statistics struct {
	// Started, Ended and Failed count processes. Failed is the part of Ended that returned an error, timeouts
	// included.
	Started, Ended, Failed uint64
	// Took is the total run time of the processes that ended.
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

// Total returns the number of processes started by all commands.
func (c *Counter) Total() uint64 {
	var sum uint64
	for _, s := range c.Statistics() {
		sum += s.Started
	}
	return sum
}

// Running returns how many processes were started, and how many of them have not ended.
func (c *Counter) Running() (started, running uint64) {
	for _, s := range c.Statistics() {
		started += s.Started
		running += s.Started - s.Ended
	}
	return started, running
}

// ByCommand returns the number of processes started by each command, for example "lsblk" or "lvm lvcreate".
func (c *Counter) ByCommand() map[string]uint64 {
	counts := map[string]uint64{}
	for command, s := range c.Statistics() {
		counts[command] = s.Started
	}
	return counts
}

// Statistics returns a copy of the statistics of each command.
func (c *Counter) Statistics() map[string]Statistics {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.commands)
}

// label returns the base name of the program, followed by the subcommand if the first argument is one. Paths and
// options are never part of a label, so the set of labels stays small.
func label(name string, args []string) string {
	base := filepath.Base(name)
	if len(args) > 0 && args[0] != "" && unicode.IsLower(rune(args[0][0])) {
		return base + " " + args[0]
	}
	return base
}
