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

// pulseLimit is the response time limit of a healthy disk. A disk that wakes from standby needs 10 s or more. The
// kernel waits 30 s for a command before it starts error handling.
const pulseLimit = 15 * time.Second

// Beat is a device to check with Pulse.
type Beat struct {
	Number Number
	// Path is the kernel's name of the device, so that it is either the device with this number or no device.
	Path string
}

// Pulse checks whether devices respond by reading their first block past all caches. It starts no process. It has at
// most one pending read for each device: a device that does not respond is read again only after the pending read
// ends. It is safe for concurrent use.
type Pulse struct {
	sysfs string
	limit time.Duration
	now   func() time.Time
	read  func(Beat) error

	mu    sync.Mutex
	asked map[Number]time.Time // start times of the pending reads
}

// NewPulse returns a Pulse. The process must have access to the node's /dev and /sys.
func NewPulse() *Pulse {
	return &Pulse{sysfs: "/sys", limit: pulseLimit, now: time.Now, read: readFirst, asked: map[Number]time.Time{}}
}

// Check reads all devices at the same time and returns the errors of unhealthy devices. It returns when all have
// responded, and after 15 s at the latest.
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

// Unanswered reads all devices at the same time and returns the sorted numbers of those that do not respond in time.
// A device that returns errors has responded.
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

// errSilent is wrapped in the error of a device that does not respond.
var errSilent = errors.New("does not answer")

// wait returns the answer if there is one, even if the time limit has passed, because waiting for another device can
// have used the time.
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

// ask starts a read in a goroutine, which ends when the kernel completes or fails the read. If a read is pending, ask
// starts none and returns the start time of the pending one.
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

// state returns the kernel's error state of a SCSI disk or an NVMe controller.
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
	// O_EXCL is not used, because LVM has the device open. O_NONBLOCK is for drives without a medium.
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
