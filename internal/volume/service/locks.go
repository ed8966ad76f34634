package service

import (
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Locks are the volumes for which a call is in progress. If work takes longer than its call, Locks keeps its error for
// the next call. The zero value is ready for use.
type Locks struct {
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

// Enter begins work on a volume. It returns Aborted if other work is still in progress.
func (l *Locks) Enter(volume string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.volumes[volume]; other != nil {
		return status.Errorf(codes.Aborted, "volume %s is in use by another call: %s", volume, other)
	}
	if l.volumes == nil {
		l.volumes = map[string]*work{}
		l.failed = map[string]error{}
	}
	l.volumes[volume] = &work{since: time.Now()}
	return nil
}

// Leave ends work on a volume.
func (l *Locks) Leave(volume string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.volumes, volume)
}

// LeaveFailed ends work whose call has already ended. The next call returns the error.
func (l *Locks) LeaveFailed(volume string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.volumes, volume)
	l.failed[volume] = err
}

// TakeFailure returns the error of work that ended after its call, and removes it.
func (l *Locks) TakeFailure(volume string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.failed[volume]
	delete(l.failed, volume)
	return err
}

// Running records the command that runs on the device of a volume, for the messages of other calls.
func (l *Locks) Running(volume, command string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.volumes[volume]; w != nil {
		w.command, w.since = command, time.Now()
	}
}

// State describes the work on a volume.
func (l *Locks) State(volume string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.volumes[volume]; w != nil {
		return w.String()
	}
	return "it has ended"
}
