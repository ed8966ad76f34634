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
	// starting is the number of processes that are being started.
	starting uint64
	// held is closed when processes may be started again; nil if they may.
	held chan struct{}
}

// Statistics describes the processes of one command.
type Statistics struct {
	// Started, Ended and Failed count processes. Failed is the part of Ended that returned an error, timeouts
	// included.
	Started, Ended, Failed uint64
	// Took is the total run time of the processes that ended.
	Took time.Duration
}

// count changes the statistics of a command. The caller has locked mu.
func (c *Counter) count(label string, change func(*Statistics)) {
	if c.commands == nil {
		c.commands = map[string]Statistics{}
	}
	s := c.commands[label]
	change(&s)
	c.commands[label] = s
}

// starts waits while processes are held. Then it calls start, which starts a process, and counts the process if start
// returns no error.
func (c *Counter) starts(label string, start func() error) error {
	c.enter()
	err := start()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starting--
	if err == nil {
		c.count(label, func(s *Statistics) { s.Started++ })
	}
	return err
}

func (c *Counter) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for held := c.held; held != nil; held = c.held {
		c.mu.Unlock()
		<-held
		c.mu.Lock()
	}
	c.starting++
}

// hold lets each process wait before it is started, until release is called. One caller at a time.
func (c *Counter) hold() (release func()) {
	held := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = held
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held = nil
		close(held)
	}
}

func (c *Counter) ended(label string, took time.Duration, failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(label, func(s *Statistics) {
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

// Counters are all counters of a process.
type Counters []*Counter

// Running returns how many processes were started, and how many of them have not ended, with those that are being
// started.
func (all Counters) Running() (started, running uint64) {
	for _, c := range all {
		c.mu.Lock()
		running += c.starting
		for _, s := range c.commands {
			started += s.Started
			running += s.Started - s.Ended
		}
		c.mu.Unlock()
	}
	return started, running
}

// Hold lets each process wait before it is started, until release is called. One caller at a time.
func (all Counters) Hold() (release func()) {
	var releases []func()
	for _, c := range all {
		releases = append(releases, c.hold())
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
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
