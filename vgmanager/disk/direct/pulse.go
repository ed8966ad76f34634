package direct

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/bounded"
)

// Limit is the response time limit of a healthy disk. A disk that wakes from standby needs 10 s or more. The
// kernel waits 30 s for a command before it starts error handling.
const Limit = 15 * time.Second

// Beat is a device to check with Pulse.
type Beat struct {
	Number Number
	// Path is the kernel's name of the device, so that it is either the device with this number or no device.
	Path string
}

// Pulse checks whether devices respond by reading their first blocks past all caches. It starts no process. It has at
// most one pending read for each device: a device that does not respond is read again only after the pending read
// ends. It is safe for concurrent use.
type Pulse struct {
	// Sysfs is the mount point of sysfs. Read reads the first blocks of a device, and Reads are its calls by number.
	Sysfs string
	Read  func(Beat) ([]byte, error)
	Reads *bounded.Calls

	mu sync.Mutex
	// starts are the hashes of the first blocks of the devices, as last read.
	starts map[Number][sha256.Size]byte
}

// startSize is the number of bytes that Pulse reads. They include LVM's label, and the header of the metadata area
// (struct mda_header in lib/format_text/layout.h), in which LVM updates the location of the metadata at each change of
// the volume group.
const startSize = 2 * BlockSize

// NewPulse returns a Pulse. The process must have access to the node's /dev and /sys.
func NewPulse() *Pulse {
	return &Pulse{Sysfs: "/sys", Read: readFirst, Reads: bounded.New(Limit, math.MaxInt),
		starts: map[Number][sha256.Size]byte{}}
}

// Check reads all devices at the same time and returns the errors of unhealthy devices. It returns when all have
// responded, and after 15 s at the latest.
func (p *Pulse) Check(ctx context.Context, devices []Beat) map[Number]error {
	p.forgetOthers(devices)
	failing := map[Number]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, d := range devices {
		all.Go(func() {
			if err := p.check(ctx, d); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failing[d.Number] = err
			}
		})
	}
	all.Wait()
	return failing
}

// Starts returns a digest of the first blocks of the devices of the last Check, as last read. It changes when the
// labels of the devices or their volume groups change.
func (p *Pulse) Starts() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []string
	for number, start := range p.starts {
		lines = append(lines, fmt.Sprintf("%s %x", number, start))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// forgetOthers forgets the first blocks of other devices than these.
func (p *Pulse) forgetOthers(devices []Beat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.starts, func(number Number, _ [sha256.Size]byte) bool {
		return !slices.ContainsFunc(devices, func(d Beat) bool { return d.Number == number })
	})
}

func (p *Pulse) readStart(d Beat) error {
	start, err := p.Read(d)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts[d.Number] = sha256.Sum256(start)
	return nil
}

// check reads a device. The read ends when the kernel completes or fails it.
func (p *Pulse) check(ctx context.Context, d Beat) error {
	if err := p.state(d); err != nil {
		return err
	}
	failure, err := bounded.Do(ctx, p.Reads, string(d.Number), func(context.Context) error { return p.readStart(d) })
	late := (*bounded.NoAnswerError)(nil)
	switch {
	case errors.As(err, &late):
		return fmt.Errorf("%w for %s", errSilent, time.Since(late.Since).Round(time.Second))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w in time", errSilent)
	case err != nil:
		return fmt.Errorf("has not answered yet: %w", err)
	}
	return failure
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
var errSilent = errors.New("has not answered")

// state returns the kernel's error state of a SCSI disk or an NVMe controller.
func (p *Pulse) state(d Beat) error {
	state, err := os.ReadFile(filepath.Join(p.Sysfs, "dev/block", string(d.Number), "device/state"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("its state cannot be read: %w", err)
	}
	switch text := strings.TrimSpace(string(state)); text {
	case "offline", "transport-offline", "deleted", "cancel", "dead", "deleting":
		return fmt.Errorf("its state in the kernel is %s", text)
	case "blocked", "resetting":
		return fmt.Errorf("%w: its state in the kernel is %s", errSilent, text)
	}
	return nil
}

func readFirst(d Beat) ([]byte, error) {
	f, err := open(d)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	start, err := Read(f, 0, startSize)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return start, nil
}
