package copies

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
)

// ErrUnsuitable says that the target cannot have the data of the source.
var ErrUnsuitable = errors.New("the logical volume does not fit its source")

// Target is a new logical volume.
type Target struct {
	// Key identifies the logical volume on the node. Name is VG/LV.
	Key, Name string
	// Object is the name of the LogicalVolume.
	Object string
	// Device is the device of the logical volume.
	Device blockdevice.Identity
	// Chunk is the size of the chunks of the thin pool in bytes, 0 for a thick volume.
	Chunk uint64
	// Done is how much was copied and recorded before, in bytes. Allocated is how much the thin volume has, 0 for a
	// thick one.
	Done, Allocated uint64
	Round           Round
	// Room returns an error if the thin pool must not get so many bytes of data or, for 0 bytes, no more of them: that
	// is asked before each 16 MiB are written. It is nil for a thick volume.
	Room func(ctx context.Context, bytes uint64) error
}

// Round is one of several copies to the same volume: each brings it from one snapshot of the source to the next one.
type Round struct {
	// Only: there is one round, because the volume is not moved. It needs no Source, and no Base.
	Only bool
	// Source and Base are the LogicalVolumes of the snapshots. The target has the data of Base, and gets the
	// differences. Without Base, it gets all data.
	Source, Base string
	// Sparse: the target was created in a thin pool that sets new chunks to zero, and still does. Otherwise all its
	// chunks are provided by the copy without Base, unless it is the only round.
	Sparse bool
	// KeepChunks: the pool ignores discards, so that zeros are written instead.
	KeepChunks bool
}

func (t Target) content() content {
	switch {
	case t.Round.Base != "":
		return contentBase
	case t.Round.Sparse:
		return contentZeros
	case t.Round.Only && t.Chunk > 0:
		return contentZeroChunks
	}
	return contentUnknown
}

// chunk returns the size of the chunks that the copy can provide in part, or free, or 0 if all of it is written.
func (t Target) chunk() uint64 {
	if !t.Round.Only && (!t.Round.Sparse || t.Round.KeepChunks) {
		return 0
	}
	return t.Chunk
}

// newFrom returns from which byte on the target has anything, because it was extended after the round before.
func (t Target) newFrom(baseSize uint64) uint64 {
	if t.Round.Sparse {
		return 0
	}
	return baseSize
}

func (t Target) request() Request {
	r := Request{Target: t.Object, From: t.Done}
	if !t.Round.Only {
		r.Source, r.Base = t.Round.Source, t.Round.Base
	}
	return r
}

// checkBase returns an error if a stream has not the differences that were requested: the agent of the source is of a
// version without rounds.
func (t Target) checkBase(baseSize uint64) error {
	if wanted := t.Round.Base != ""; wanted != (baseSize > 0) {
		return fmt.Errorf("the differences to %q were requested, and the answer has a base of %d bytes: update the "+
			"node agent of the source", t.request().Base, baseSize)
	}
	return nil
}

// checkRoom returns an error if the pool of the target has no room for what is allocated in the source, before the
// first byte of it is written. How much a source has that differs from its base is not known: 0 stands for that too.
func (t Target) checkRoom(ctx context.Context, allocated uint64) error {
	if t.Room == nil || t.Round.Base != "" || t.Done > 0 || allocated <= t.Allocated {
		return nil
	}
	return t.Room(ctx, allocated-t.Allocated)
}

// counter counts the bytes that are read.
type counter struct {
	io.Reader
	bytes uint64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes += uint64(n)
	return n, err
}
