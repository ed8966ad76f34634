package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pulseLimit is how long a healthy disk may take to answer. One that wakes from standby takes 10 s and more; the kernel
// itself waits 30 s for a command before it begins to do something about it.
const pulseLimit = 15 * time.Second

// Beat is a device whose pulse is felt.
type Beat struct {
	Number Number
	// Path is a name of the device; the kernel's, so that it is the device of this number or none.
	Path string
}

// Pulse tells whether devices answer, by reading their first block past all caches. It starts no process. A device that
// does not answer is asked again only when the last question was answered: there is never more than one for it. It is
// safe for concurrent use.
type Pulse struct {
	sysfs string
	limit time.Duration
	now   func() time.Time
	read  func(Beat) error

	mu    sync.Mutex
	asked map[Number]time.Time // the questions that were not answered yet
}

// NewPulse returns a Pulse. The process needs the node's /dev and /sys.
func NewPulse() *Pulse {
	return &Pulse{sysfs: "/sys", limit: pulseLimit, now: time.Now, read: readFirst, asked: map[Number]time.Time{}}
}

// Check asks all devices at once and returns what is wrong with those that are not well. It takes as long as the
// slowest that answers, and never more than 15 s.
func (p *Pulse) Check(ctx context.Context, devices []Beat) map[Number]error {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	answers := map[Number]<-chan error{}
	failing := map[Number]error{}
	for _, d := range devices {
		if err := p.state(d); err != nil {
			failing[d.Number] = err
			continue
		}
		answer, since := p.ask(d)
		if answer == nil {
			failing[d.Number] = fmt.Errorf("%w for %s", errSilent, p.now().Sub(since).Round(time.Second))
			continue
		}
		answers[d.Number] = answer
	}
	for number, answer := range answers {
		if err := p.wait(ctx, answer); err != nil {
			failing[number] = err
		}
	}
	return failing
}

// Unanswered asks all devices at once and returns those that have not answered in time, sorted. One that gives errors
// has.
func (p *Pulse) Unanswered(ctx context.Context, devices []Beat) []Number {
	var numbers []Number
	for number, err := range p.Check(ctx, devices) {
		if errors.Is(err, errSilent) {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// errSilent is in the error of a device that has not answered.
var errSilent = errors.New("does not answer")

// wait prefers an answer to the end of the time: another device, for which it was waited before, may have used that up.
func (p *Pulse) wait(ctx context.Context, answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-answer:
		return err
	default:
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w within %s", errSilent, p.limit)
	}
	return fmt.Errorf("has not answered yet: %w", ctx.Err())
}

// ask reads in a goroutine of its own, which ends when the kernel gives the device up. It asks nothing, and returns
// since when, while an answer is missing.
func (p *Pulse) ask(d Beat) (<-chan error, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since, waiting := p.asked[d.Number]; waiting {
		return nil, since
	}
	p.asked[d.Number] = p.now()
	answer := make(chan error, 1)
	go func() {
		err := p.read(d)
		p.mu.Lock()
		delete(p.asked, d.Number)
		p.mu.Unlock()
		answer <- err
	}()
	return answer, time.Time{}
}

// state reads what the kernel thinks of a SCSI disk or an NVMe controller.
func (p *Pulse) state(d Beat) error {
	state, err := os.ReadFile(filepath.Join(p.sysfs, "dev/block", string(d.Number), "device/state"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("its state cannot be read: %w", err)
	}
	switch text := strings.TrimSpace(string(state)); text {
	case "offline", "transport-offline", "deleted", "cancel", "dead", "deleting":
		return fmt.Errorf("the kernel calls it %s", text)
	case "blocked", "resetting":
		return fmt.Errorf("%w: the kernel calls it %s", errSilent, text)
	}
	return nil
}

func readFirst(d Beat) error {
	// Not O_EXCL: LVM has it. O_NONBLOCK is for drives without a medium.
	f, err := os.OpenFile(d.Path, os.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("cannot be opened: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if number, ok := numberOf(info); !ok || number != d.Number {
		return fmt.Errorf("is not there: its name %s is of another device", d.Path)
	}
	if _, err := readDirect(f, 0, blockSize); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	return nil
}
