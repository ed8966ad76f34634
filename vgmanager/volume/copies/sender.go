package copies

import (
	"context"
	"errors"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/volume/fence"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
)

// Volumes are the logical volumes of this node. engine.Engine implements it.
type Volumes interface {
	Device(ctx context.Context, class, name string) (*engine.Device, error)
	FencedDevice(ctx context.Context, class, name, fence string) (*engine.Device, error)
}

// Locks are the volumes for which a call of the node service is in progress. service.Locks implements it.
type Locks interface {
	Enter(volume string) error
	Leave(volume string)
}

// Allocations reads what is allocated in a thin snapshot. changedblocks.Reader implements it.
type Allocations interface {
	Read(ctx context.Context, q changedblocks.Query) (*changedblocks.Page, error)
}

// Sender opens the snapshots of this node, and fenced thick volumes, for the agents of targets.
type Sender struct {
	// Live reads from the API server, because a target was created just now.
	Live        client.Reader
	Node        string
	Volumes     Volumes
	Allocations Allocations
	// Locks are those of the node service, under which volumes are fenced.
	Locks Locks
	// Wait delays the reading of a number of bytes. It is nil without a limit.
	Wait func(ctx context.Context, bytes int) error
}

// open returns the source of a target for the agent of a node. The API server says which node may have which snapshot:
// the spec of the LogicalVolume of the target names its source, and no node agent can write it. It ignores From.
func (s *Sender) open(ctx context.Context, node string, r Request) (*opened, error) {
	wanted, err := s.get(ctx, r.Target, ErrForbidden)
	if err != nil {
		return nil, err
	}
	if wanted.Spec.NodeName != node || wanted.Spec.Source == "" || wanted.Status.VolumeID != "" ||
		!wanted.DeletionTimestamp.IsZero() {
		return nil, fmt.Errorf("LogicalVolume %s is not a copy that is being created on node %s: %w", r.Target, node,
			ErrForbidden)
	}
	if err := checkRound(wanted, r); err != nil {
		return nil, err
	}
	source, err := s.get(ctx, wanted.Spec.Source, ErrGone)
	if err != nil {
		return nil, err
	}
	if isFencedVolume(wanted, source) {
		return s.openFenced(ctx, wanted, r)
	}
	found, err := s.snapshot(ctx, source)
	if err != nil {
		return nil, err
	}
	base, err := s.base(ctx, r.Base, source)
	if err != nil {
		return nil, err
	}
	q := changedblocks.Query{VG: found.VolumeGroup, Target: found.Name, Encrypted: true}
	baseSize := uint64(0)
	if base != nil {
		q.Base = base.Name
		baseSize = uint64(base.Size)
	}
	return s.openDevice(source.Name, found, s.ranges(q, uint64(found.Size)), baseSize)
}

// snapshot returns the device of a snapshot of this node.
func (s *Sender) snapshot(ctx context.Context, source *topolvmv1.LogicalVolume) (*engine.Device, error) {
	if err := s.check(source); err != nil {
		return nil, err
	}
	found, err := s.Volumes.Device(ctx, source.Spec.DeviceClass, source.Status.VolumeID)
	if err != nil {
		return nil, deviceError(source, err)
	}
	if !found.ReadOnly || found.ThinPool == "" {
		return nil, fmt.Errorf("source %s: logical volume %s/%s is not a read-only thin snapshot: %w", source.Name,
			found.VolumeGroup, found.Name, ErrGone)
	}
	return found, nil
}

// deviceError returns an error of Volumes. It wraps ErrGone if the logical volume does not exist.
func deviceError(source *topolvmv1.LogicalVolume, err error) error {
	if status.Code(err) == codes.NotFound {
		err = errors.Join(err, ErrGone)
	}
	return fmt.Errorf("source %s: %w", source.Name, err)
}

// get reads a LogicalVolume. absent is wrapped if it does not exist.
func (s *Sender) get(ctx context.Context, name string, absent error) (*topolvmv1.LogicalVolume, error) {
	lv := &topolvmv1.LogicalVolume{}
	err := s.Live.Get(ctx, client.ObjectKey{Name: name}, lv)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("LogicalVolume %s does not exist: %w", name, absent)
	}
	if err != nil {
		return nil, fmt.Errorf("read LogicalVolume %s: %w", name, err)
	}
	return lv, nil
}

// check returns an error if a LogicalVolume is not a snapshot of this node.
func (s *Sender) check(source *topolvmv1.LogicalVolume) error {
	switch {
	case source.Spec.NodeName != s.Node:
		return fmt.Errorf("source %s is on node %s, not on %s: %w", source.Name, source.Spec.NodeName, s.Node,
			ErrForbidden)
	case source.Spec.AccessType != accessSnapshot:
		return fmt.Errorf("source %s is not a snapshot: %w", source.Name, ErrGone)
	case !source.DeletionTimestamp.IsZero():
		return fmt.Errorf("source %s is being deleted: %w", source.Name, ErrGone)
	case source.Status.VolumeID == "":
		return fmt.Errorf("source %s is not created yet", source.Name)
	}
	return nil
}

// accessSnapshot is the access type of a snapshot.
const accessSnapshot = "ro"

// openDevice opens a logical volume to read the parts of it that list returns.
func (s *Sender) openDevice(object string, found *engine.Device, list ranges, baseSize uint64) (*opened, error) {
	size := uint64(found.Size)
	d, err := openSource(blockdevice.Identity{Path: found.Path, Number: found.Number, Size: size})
	if err != nil {
		return nil, fmt.Errorf("source %s: open logical volume %s/%s: %w", object, found.VolumeGroup, found.Name, err)
	}
	start := make([]byte, startLength)
	if _, err := d.ReadAt(start, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("source %s: read the start of logical volume %s/%s: %w", object,
			found.VolumeGroup, found.Name, err), d.Close())
	}
	return &opened{description: description{Size: size, BaseSize: baseSize, Allocated: uint64(found.Allocated),
		MaxSector: maxSector(start), Content: lvtag.Inherited(found.Tags)}, device: d, ranges: list, wait: s.Wait,
		close: d.Close}, nil
}

// ranges returns what is allocated in a snapshot, or differs from its base. It reads a page when it is needed.
func (s *Sender) ranges(q changedblocks.Query, size uint64) ranges {
	return func(ctx context.Context, from uint64, yield func(changedblocks.Range, error) bool) {
		q := q
		q.Offset = from
		for {
			page, err := s.page(ctx, q, size)
			if err != nil {
				yield(changedblocks.Range{}, err)
				return
			}
			for _, r := range page.Ranges {
				if !yield(r, nil) {
					return
				}
			}
			if page.Next == 0 {
				return
			}
			q.Offset = page.Next
		}
	}
}

func (s *Sender) page(ctx context.Context, q changedblocks.Query, size uint64) (*changedblocks.Page, error) {
	page, err := s.Allocations.Read(ctx, q)
	switch {
	case errors.Is(err, lvm.ErrNotFound):
		return nil, errors.Join(err, ErrGone)
	case err != nil:
		return nil, err
	case page.Size != size:
		return nil, fmt.Errorf("snapshot %s/%s has %d bytes now, had %d", q.VG, q.Target, page.Size, size)
	}
	return page, nil
}

// checkRound returns an error unless a request is for the present round of a target. An agent that has read the target
// before it changed would take the differences to one snapshot for those to another one. Only the operator writes the
// source and the base of a target.
func checkRound(target *topolvmv1.LogicalVolume, r Request) error {
	base := view.CopyBase(target)
	switch {
	case view.MoveVolume(target) == "" && r.Source+r.Base == "":
		return nil
	case view.MoveVolume(target) == "":
		return fmt.Errorf("LogicalVolume %s is not the target of a move, so it has no rounds: %w", target.Name,
			ErrForbidden)
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
func (s *Sender) base(ctx context.Context, name string, source *topolvmv1.LogicalVolume) (*engine.Device, error) {
	if name == "" {
		return nil, nil
	}
	base, err := s.get(ctx, name, ErrGone)
	if err != nil {
		return nil, err
	}
	if base.Spec.Source == "" || base.Spec.Source != source.Spec.Source ||
		base.Spec.DeviceClass != source.Spec.DeviceClass || base.UID == source.UID {
		return nil, fmt.Errorf("base %s is not an earlier snapshot of the volume of %s: %w", name, source.Name,
			ErrForbidden)
	}
	return s.snapshot(ctx, base)
}

// A thick volume has no snapshots: it is copied itself, while it is fenced for its VolumeMove or its clone. The target
// has the annotation of the fence under which it is copied, and the operator discards it if the volume has another one:
// then the volume could have been written to in between.

// fencedSource returns the volume ID of the volume that is copied to a target, and the holder of the fence that it must
// have for it.
// The volume ID is "" if the target is not that of a move, and not a clone of a thick volume.
func fencedSource(target *topolvmv1.LogicalVolume) (volume, holder string) {
	if moved := view.MoveVolume(target); moved != "" {
		return moved, view.Move(target)
	}
	return view.CloneVolume(target), fence.OfClone(target.UID)
}

// isFencedVolume reports whether the source of a target is the volume that is moved or cloned, and not a snapshot of
// it.
func isFencedVolume(target, source *topolvmv1.LogicalVolume) bool {
	volume, _ := fencedSource(target)
	return volume != "" && source.Status.VolumeID == volume && source.Spec.AccessType != accessSnapshot
}

// openFenced opens the thick volume that is copied to a target. It checks that the fence is that of the target, under
// the lock of the volume, under which it is fenced.
func (s *Sender) openFenced(ctx context.Context, target *topolvmv1.LogicalVolume, r Request) (*opened, error) {
	if r.Base != "" {
		return nil, fmt.Errorf("source %s is not a snapshot, so there are no differences to %s: %w", target.Spec.Source,
			r.Base, ErrForbidden)
	}
	id, holder := fencedSource(target)
	if err := s.Locks.Enter(id); err != nil {
		return nil, fmt.Errorf("source %s: %w", target.Spec.Source, err)
	}
	defer s.Locks.Leave(id)
	source, err := s.get(ctx, target.Spec.Source, ErrGone)
	if err != nil {
		return nil, err
	}
	if err := s.checkFenced(target, source); err != nil {
		return nil, err
	}
	found, err := s.Volumes.FencedDevice(ctx, source.Spec.DeviceClass, id, holder)
	if err != nil {
		return nil, deviceError(source, err)
	}
	if found.ThinPool != "" {
		return nil, fmt.Errorf("source %s: logical volume %s/%s is thin, so only its snapshots are copied: %w",
			source.Name, found.VolumeGroup, found.Name, ErrForbidden)
	}
	return s.openDevice(source.Name, found, whole(uint64(found.Size)), 0)
}

// checkFenced returns an error unless a volume is on this node, and the operator has it fenced for a target.
func (s *Sender) checkFenced(target, source *topolvmv1.LogicalVolume) error {
	volume, holder := fencedSource(target)
	requested := fence.Name(target)
	switch {
	case !isFencedVolume(target, source):
		return fmt.Errorf("source %s is no longer volume %s: %w", source.Name, volume, ErrForbidden)
	case source.Spec.NodeName != s.Node:
		return fmt.Errorf("source %s is on node %s, not on %s: %w", source.Name, source.Spec.NodeName, s.Node,
			ErrForbidden)
	case !source.DeletionTimestamp.IsZero():
		return fmt.Errorf("source %s is being deleted: %w", source.Name, ErrGone)
	case !fence.IsConfirmed(source, holder):
		return fmt.Errorf("source %s is not fenced for %s: %w", source.Name, lvtag.FenceText(holder), ErrForbidden)
	case requested == "" || fence.Name(source) != requested:
		return fmt.Errorf("source %s is fenced again since the copy %s was requested, so it can have changed: %w",
			source.Name, target.Name, ErrForbidden)
	}
	return nil
}
