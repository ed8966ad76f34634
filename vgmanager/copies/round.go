package copies

import (
	"context"
	"fmt"
	"io"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
	"github.com/lvm-storage/lvm-operator/vgmanager/peer"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumecopy"
)

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

func (t Target) content() volumecopy.Content {
	switch {
	case t.Round.Base != "":
		return volumecopy.ContentBase
	case t.Round.Sparse:
		return volumecopy.ContentZeros
	case t.Round.Only && t.Chunk > 0:
		return volumecopy.ContentZeroChunks
	}
	return volumecopy.ContentUnknown
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

func (t Target) request() peer.Request {
	r := peer.Request{Target: t.Object, From: t.Done}
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

// moreRoom returns the Room of a volumecopy.Target.
func (t Target) moreRoom() func(ctx context.Context) error {
	if t.Room == nil {
		return nil
	}
	return func(ctx context.Context) error { return t.Room(ctx, 0) }
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

// checkRound returns an error unless a request is for the present round of a target. An agent that has read the target
// before it changed would take the differences to one snapshot for those to another one. Only the operator writes the
// source and the base of a target.
func checkRound(target *topolvmv1.LogicalVolume, r peer.Request) error {
	base := target.Annotations[v1alpha1.CopyBaseAnnotation]
	switch {
	case target.Annotations[v1alpha1.MoveVolumeAnnotation] == "" && r.Source+r.Base == "":
		return nil
	case target.Annotations[v1alpha1.MoveVolumeAnnotation] == "":
		return fmt.Errorf("LogicalVolume %s is not the target of a move, so it has no rounds: %w", target.Name,
			peer.ErrForbidden)
	case r.Source != target.Spec.Source:
		return fmt.Errorf("the source of LogicalVolume %s is %s, and %q was requested: try again", target.Name,
			target.Spec.Source, r.Source)
	case r.Base != "" && r.Base != base:
		return fmt.Errorf("the base of LogicalVolume %s is %q, and %q was requested: try again", target.Name, base,
			r.Base)
	}
	return nil
}

// base returns the device of the base of a round, or nil without one. It returns an error unless the base is a snapshot
// of the same volume as the source: the differences between snapshots of other volumes are no data of this one.
func (s *Sender) base(ctx context.Context, name string, source *topolvmv1.LogicalVolume) (*lvmd.Device, error) {
	if name == "" {
		return nil, nil
	}
	base, err := s.get(ctx, name, peer.ErrGone)
	if err != nil {
		return nil, err
	}
	if err := s.check(base); err != nil {
		return nil, err
	}
	if base.Spec.Source == "" || base.Spec.Source != source.Spec.Source ||
		base.Spec.DeviceClass != source.Spec.DeviceClass || base.UID == source.UID {
		return nil, fmt.Errorf("base %s is not an earlier snapshot of the volume of %s: %w", name, source.Name,
			peer.ErrForbidden)
	}
	return s.device(ctx, base)
}
