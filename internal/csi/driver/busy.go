package driver

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// busy are the volumes that a call is at work on. Work that outlives its call keeps its error for the next one. The
// zero value is ready.
type busy struct {
	mu      sync.Mutex
	volumes map[string]*work
	// failed is what work ended with when its call had ended before.
	failed map[string]error
}

// work is what is done to a volume.
type work struct {
	since time.Time
	// command is the program that runs on the volume's device, "" if none does.
	command string
}

func (w work) String() string {
	what := "another call"
	if w.command != "" {
		what = w.command
	}
	return what + " has been running since " + w.since.UTC().Format(time.RFC3339)
}

// enter begins work on a volume. Aborted: other work has not ended.
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

// leaveFailed ends work whose call has ended: the next call gets its error.
func (b *busy) leaveFailed(volume string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.volumes, volume)
	b.failed[volume] = err
}

// takeFailure returns, once, the error of work that outlived its call.
func (b *busy) takeFailure(volume string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.failed[volume]
	delete(b.failed, volume)
	return err
}

// running notes the command that runs on the device of a volume, for those who come meanwhile.
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
