package driver

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// busy holds the volumes for which a call is in progress. If work takes longer than its call, busy keeps its error for
// the next call. The zero value is ready for use.
type busy struct {
	mu      sync.Mutex
	volumes map[string]*work
	// failed has the errors of work that ended after its call.
	failed map[string]error
}

// work is an operation on a volume.
type work struct {
	since time.Time
	// command is the program that runs on the volume's device, or "".
	command string
}

func (w work) String() string {
	what := "another call"
	if w.command != "" {
		what = w.command
	}
	return what + " has been running since " + w.since.UTC().Format(time.RFC3339)
}

// enter begins work on a volume. It returns Aborted if other work is still in progress.
func (b *busy) enter(volume string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if other := b.volumes[volume]; other != nil {
		return status.Errorf(codes.Aborted, "volume %s is in use by another call: %s", volume, other)
	}
	if b.volumes == nil {
		b.volumes = map[string]*work{}
		b.failed = map[string]error{}
	}
	b.volumes[volume] = &work{since: time.Now()}
	return nil
}

func (b *busy) leave(volume string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.volumes, volume)
}

// leaveFailed ends work whose call has already ended. The next call returns the error.
func (b *busy) leaveFailed(volume string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.volumes, volume)
	b.failed[volume] = err
}

// takeFailure returns the error of work that ended after its call, and removes it.
func (b *busy) takeFailure(volume string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.failed[volume]
	delete(b.failed, volume)
	return err
}

// running records the command that runs on the device of a volume, for the messages of other calls.
func (b *busy) running(volume, command string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.volumes[volume]; w != nil {
		w.command, w.since = command, time.Now()
	}
}

// state describes the work on a volume.
func (b *busy) state(volume string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.volumes[volume]; w != nil {
		return w.String()
	}
	return "it has ended"
}
