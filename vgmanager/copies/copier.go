// Package copies copies volumes between nodes, and between device classes of a node. The agent of the target asks that
// of the source for the data of a snapshot, and writes it to a new logical volume.
package copies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/vgmanager/jobs"
	"github.com/lvm-storage/lvm-operator/vgmanager/peer"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumecopy"
)

const (
	// atOnce is the number of volumes that are copied to this node at the same time. The others wait.
	atOnce = 2
	// recordEvery is after how many bytes of data or zeros the progress is recorded. Recording starts an LVM command.
	recordEvery = 1 << 30
	// maxEnded is the maximum number of volumes whose end is reported and was not received yet.
	maxEnded = 64
)

// ErrUnsuitable says that the target cannot have the data of the source.
var ErrUnsuitable = errors.New("the logical volume does not fit its source")

// Source sends the data for a target. peer.Client implements it.
type Source interface {
	Data(ctx context.Context, r peer.Request) (*peer.Stream, error)
	Sums(ctx context.Context, r peer.Request) (*peer.Stream, error)
}

// Target is a new logical volume.
type Target struct {
	// Key identifies the logical volume on the node. Name is VG/LV.
	Key, Name string
	// Object is the name of the LogicalVolume.
	Object string
	// Device is the device of the logical volume.
	Device volumecopy.Identity
	// Chunk is the size of the chunks of the thin pool in bytes, 0 for a thick volume.
	Chunk uint64
	// Done is how much was copied and recorded before, in bytes. Allocated is how much the thin volume has, 0 for a
	// thick one.
	Done, Allocated uint64
	Round           Round
	// Room returns an error if the thin pool must not get so many bytes of data or, for 0 bytes, no more of them. It is
	// nil for a thick volume.
	Room func(ctx context.Context, bytes uint64) error
}

// Record saves how much of a volume was copied, in bytes.
type Record func(ctx context.Context, done uint64) error

// Progress is how far a copy is.
type Progress struct {
	// Copied and Compared are how many bytes of the source were copied, and compared after that. Size is the size of
	// the source, 0 if it is not known yet. Parts that are not allocated count too.
	Copied, Compared, Size uint64
	// Sent is how many bytes the source has sent since the copy began or continued, compressed and without checksums.
	// Took is the time since then.
	Sent uint64
	Took time.Duration
	// Finished: the target has all data of the source. Content are the tags of the source that describe it.
	Finished bool
	Content  []string

	begun time.Time
	// left: the last call of Copy has returned before the work ended.
	left bool
}

// device is an open target.
type device interface {
	volumecopy.Device
	Close() error
}

// Copier copies volumes to this node, in the background. It is safe for concurrent use.
type Copier struct {
	jobs *jobs.Jobs
	open func(volumecopy.Identity) (device, error)
	// recordEvery is the constant, except in tests.
	recordEvery uint64
	ended       chan event.GenericEvent

	mu       sync.Mutex
	progress map[string]Progress
}

// New returns a Copier. It stops to copy when ctx ends.
func New(ctx context.Context) *Copier {
	return &Copier{jobs: jobs.New(ctx, atOnce), progress: map[string]Progress{}, recordEvery: recordEvery,
		open:  func(id volumecopy.Identity) (device, error) { return volumecopy.OpenTarget(id) },
		ended: make(chan event.GenericEvent, maxEnded)}
}

// Ended has the LogicalVolumes whose work ended after Copy had returned: Copy has their results. If nobody receives
// them, the latest are left out.
func (c *Copier) Ended() <-chan event.GenericEvent { return c.ended }

// Running returns true if a volume is being copied, by the key of its target.
func (c *Copier) Running(key string) bool { return c.jobs.Running(key) }

// Copy begins to copy a volume, or continues to, and waits until ctx ends. It returns the progress, or the error that
// ended the work: the next call continues from the Done of its target. The error wraps volumecopy.ErrDiffers if the
// target must be created again, peer.ErrGone, peer.ErrForbidden or ErrUnsuitable.
func (c *Copier) Copy(ctx context.Context, source Source, target Target, record Record) (Progress, error) {
	c.change(target.Key, func(p *Progress) { p.left = false })
	ended, err := c.jobs.Do(ctx, target.Key, func(ctx context.Context) error {
		c.change(target.Key, func(p *Progress) {
			*p = Progress{Copied: target.Done, begun: time.Now(), left: p.left}
		})
		defer c.report(target)
		err := c.copy(ctx, source, target, record)
		if err != nil {
			return fmt.Errorf("copy the data for logical volume %s: %w", target.Name, err)
		}
		return nil
	})
	if !ended {
		c.change(target.Key, func(p *Progress) { p.left = true })
		return c.get(target.Key), nil
	}
	progress := c.take(target.Key)
	progress.Finished = err == nil
	return progress, err
}

// report reports that the work for a target has ended, unless a call of Copy still waits for it.
func (c *Copier) report(target Target) {
	if !c.get(target.Key).left {
		return
	}
	select {
	case c.ended <- event.GenericEvent{Object: &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{
		Name: target.Object}}}:
	default:
	}
}

// Stop stops to copy a volume, and waits until its device is closed, or until ctx ends. It does nothing if the volume
// is not being copied.
func (c *Copier) Stop(ctx context.Context, key string) error {
	if err := c.jobs.Stop(ctx, key); err != nil {
		return fmt.Errorf("the copy of %s: %w", key, err)
	}
	c.take(key)
	return nil
}

func (c *Copier) copy(ctx context.Context, source Source, t Target, record Record) (err error) {
	d, err := c.open(t.Device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := c.receive(ctx, source, t, d, record); err != nil {
		return err
	}
	return c.compare(ctx, source, t, d)
}

// receive writes the data of the source to the device. It asks for it also if all of it was recorded before, because
// the answer has the tags of the source.
func (c *Copier) receive(ctx context.Context, source Source, t Target, d device, record Record) error {
	stream, err := source.Data(ctx, t.request())
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	if stream.Size > t.Device.Size {
		return fmt.Errorf("%w: it has %d bytes, the source has %d", ErrUnsuitable, t.Device.Size, stream.Size)
	}
	if err := t.checkBase(stream.BaseSize); err != nil {
		return err
	}
	if err := t.checkRoom(ctx, stream.Allocated); err != nil {
		return err
	}
	c.change(t.Key, func(p *Progress) { p.Size, p.Content = stream.Size, stream.Content })
	counted := &counter{Reader: stream}
	err = volumecopy.Receive(ctx, counted, volumecopy.Target{
		Device: d, Size: stream.Size, Content: t.content(), Chunk: t.chunk(), NewFrom: t.newFrom(stream.BaseSize),
		From: t.Done, SaveInterval: c.recordEvery,
		Save: func(ctx context.Context, offset uint64) error { return record(ctx, offset) },
		Room: t.moreRoom(),
		Progress: func(offset uint64) {
			c.change(t.Key, func(p *Progress) { p.Copied, p.Sent = offset, counted.bytes })
		},
	})
	c.change(t.Key, func(p *Progress) { p.Sent = counted.bytes })
	return err
}

// compare compares the device with the checksums of the source.
func (c *Copier) compare(ctx context.Context, source Source, t Target, d device) error {
	sums, err := source.Sums(ctx, t.request())
	if err != nil {
		return err
	}
	defer func() { _ = sums.Close() }()
	if err := t.checkBase(sums.BaseSize); err != nil {
		return err
	}
	return volumecopy.Verify(ctx, sums, d, c.get(t.Key).Size, func(offset uint64) {
		c.change(t.Key, func(p *Progress) { p.Compared = offset })
	})
}

func (c *Copier) get(key string) Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.progress[key].timed()
}

// timed returns the progress with the time that the copy has taken.
func (p Progress) timed() Progress {
	if !p.begun.IsZero() {
		p.Took = time.Since(p.begun)
	}
	return p
}

func (c *Copier) change(key string, change func(*Progress)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.progress[key]
	change(&p)
	c.progress[key] = p
}

// take returns the progress and forgets it.
func (c *Copier) take(key string) Progress {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.progress[key].timed()
	delete(c.progress, key)
	return p
}

// IsTransient reports whether an error of Copy can go away without a change of the source or the target, other than the
// space of the target's pool.
func IsTransient(err error) bool {
	return !errors.Is(err, peer.ErrGone) && !errors.Is(err, ErrUnsuitable) && !errors.Is(err, volumecopy.ErrDiffers) &&
		!errors.Is(err, unix.ENOSPC)
}
