// Package copies copies volumes between nodes, and between device classes of a node. The agent of the target requests
// the data of a snapshot, or of a fenced thick volume, from that of the source (client.go, server.go), which sends what
// is allocated or has changed (sender.go, send.go). The target writes it to a new logical volume, and then compares all
// of it with the source (copier.go, receive.go).
package copies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
)

const (
	// atOnce is the number of volumes that are copied to this node at the same time. The others wait.
	atOnce = 2
	// recordEvery is after how many bytes of data or zeros the progress is recorded. Recording starts an LVM command.
	recordEvery = 1 << 30
	// maxEnded is the maximum number of volumes whose end is reported and was not received yet.
	maxEnded = 64
)

// Source sends the data for a target: the agent of another node.
type Source interface {
	// Data returns the data from an offset on, Sums the checksums of all of it. The caller closes them.
	Data(ctx context.Context, r Request) (*Stream, error)
	Sums(ctx context.Context, r Request) (*Stream, error)
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
}

// Copier copies volumes to this node, in the background. It is safe for concurrent use.
type Copier struct {
	ctx   context.Context //nolint:containedctx // a copy runs for longer than a call
	slots chan struct{}
	open  func(blockdevice.Identity) (device, error)
	// recordEvery is the constant, except in tests.
	recordEvery uint64
	ended       chan event.GenericEvent

	mu sync.Mutex
	// running are the copies that run or have ended and were not asked for since, by the key of the target.
	running map[string]*job
}

// job is the work for one target.
type job struct {
	cancel context.CancelFunc
	// ended is closed when the work has ended. err is its result then.
	ended chan struct{}
	err   error
	// progress is that of the work, which began at a time.
	progress Progress
	begun    time.Time
	// left: the last call of Copy has returned before the work ended.
	left bool
}

// New returns a Copier. It stops to copy when ctx ends.
func New(ctx context.Context) *Copier {
	return &Copier{ctx: ctx, slots: make(chan struct{}, atOnce), running: map[string]*job{}, recordEvery: recordEvery,
		open:  func(id blockdevice.Identity) (device, error) { return openTarget(id) },
		ended: make(chan event.GenericEvent, maxEnded)}
}

// Ended has the LogicalVolumes whose work ended after Copy had returned: Copy has their results. If nobody receives
// them, the latest are left out.
func (c *Copier) Ended() <-chan event.GenericEvent { return c.ended }

// Copy begins to copy a volume, or continues to, and waits until ctx ends. It returns the progress, or the error that
// ended the work: the next call continues from the Done of its target. The error wraps ErrDiffers if the target must be
// created again, ErrGone, ErrForbidden or ErrUnsuitable.
func (c *Copier) Copy(ctx context.Context, source Source, target Target, record Record) (Progress, error) {
	j := c.start(source, target, record)
	select {
	case <-j.ended:
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-j.ended:
		c.forget(target.Key, j)
		return j.progress, j.err
	default:
		j.left = true
		return j.timed(), nil
	}
}

// timed returns the progress with the time that the copy has taken.
func (j *job) timed() Progress {
	if !j.begun.IsZero() {
		j.progress.Took = time.Since(j.begun)
	}
	return j.progress
}

// Stop stops to copy a volume, and waits until its device is closed, or until ctx ends. It does nothing if the volume
// is not being copied.
func (c *Copier) Stop(ctx context.Context, key string) error {
	c.mu.Lock()
	j := c.running[key]
	c.mu.Unlock()
	if j == nil {
		return nil
	}
	j.cancel()
	select {
	case <-j.ended:
	case <-ctx.Done():
		return fmt.Errorf("the copy of %s has not stopped yet: %w", key, ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(key, j)
	return nil
}

func (c *Copier) forget(key string, ended *job) {
	if c.running[key] == ended {
		delete(c.running, key)
	}
}

// start returns the work for a target, and starts it if there is none.
func (c *Copier) start(source Source, t Target, record Record) *job {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.running[t.Key]; j != nil {
		j.left = false
		return j
	}
	ctx, cancel := context.WithCancel(c.ctx)
	j := &job{cancel: cancel, ended: make(chan struct{})}
	c.running[t.Key] = j
	go func() {
		defer cancel()
		c.end(j, t, c.run(ctx, j, source, t, record))
	}()
	return j
}

// run copies a volume when fewer than atOnce others are copied.
func (c *Copier) run(ctx context.Context, j *job, source Source, t Target, record Record) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.change(j, func(p *Progress) {
		p.Copied = t.Done
		j.begun = time.Now()
	})
	if err := c.copy(ctx, j, source, t, record); err != nil {
		return fmt.Errorf("copy the data for logical volume %s: %w", t.Name, err)
	}
	return nil
}

// end keeps the result of the work for a target, and reports its end unless a call of Copy still waits for it.
func (c *Copier) end(j *job, t Target, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j.timed()
	j.progress.Finished = err == nil
	j.err = err
	close(j.ended)
	if !j.left {
		return
	}
	select {
	case c.ended <- event.GenericEvent{Object: &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{
		Name: t.Object}}}:
	default:
	}
}

func (c *Copier) change(j *job, change func(*Progress)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&j.progress)
}

func (c *Copier) copy(ctx context.Context, j *job, source Source, t Target, record Record) (err error) {
	d, err := c.open(t.Device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	size, err := c.receive(ctx, j, source, writing{Target: t, device: d, saveEvery: c.recordEvery, saveOffset: record})
	if err != nil {
		return err
	}
	return c.compare(ctx, j, source, t, d, size)
}

// receive writes the data of the source to the device, and returns the size of the source. It requests the data also if
// all of it was recorded before, because the answer has the tags of the source.
func (c *Copier) receive(ctx context.Context, j *job, source Source, w writing) (size uint64, err error) {
	stream, err := source.Data(ctx, w.request())
	if err != nil {
		return 0, err
	}
	defer func() { _ = stream.Close() }()
	if stream.Size > w.Device.Size {
		return 0, fmt.Errorf("%w: it has %d bytes, the source has %d", ErrUnsuitable, w.Device.Size, stream.Size)
	}
	if err := w.checkBase(stream.BaseSize); err != nil {
		return 0, err
	}
	if err := checkSector(w.device, stream.MaxSector); err != nil {
		return 0, err
	}
	if err := w.checkRoom(ctx, stream.Allocated); err != nil {
		return 0, err
	}
	c.change(j, func(p *Progress) {
		p.Size = stream.Size
		p.Content = stream.Content
	})
	w.size = stream.Size
	w.baseSize = stream.BaseSize
	counted := &counter{Reader: stream}
	w.progress = func(offset uint64) {
		c.change(j, func(p *Progress) {
			p.Copied = offset
			p.Sent = counted.bytes
		})
	}
	err = w.receive(ctx, counted)
	c.change(j, func(p *Progress) { p.Sent = counted.bytes })
	return stream.Size, err
}

// compare compares the device with the checksums of the source.
func (c *Copier) compare(ctx context.Context, j *job, source Source, t Target, d device, size uint64) error {
	sums, err := source.Sums(ctx, t.request())
	if err != nil {
		return err
	}
	defer func() { _ = sums.Close() }()
	if err := t.checkBase(sums.BaseSize); err != nil {
		return err
	}
	return verify(ctx, sums, d, size, func(offset uint64) {
		c.change(j, func(p *Progress) { p.Compared = offset })
	})
}
