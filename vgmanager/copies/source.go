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

	"github.com/lvm-storage/lvm-operator/vgmanager/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
	"github.com/lvm-storage/lvm-operator/vgmanager/peer"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumecopy"
)

// Volumes are the logical volumes of this node. lvmd.Engine implements it.
type Volumes interface {
	Device(ctx context.Context, class, name string) (*lvmd.Device, error)
	FencedDevice(ctx context.Context, class, name, fence string) (*lvmd.Device, error)
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

// Open is a peer.Open. The API server says which node may have which snapshot: the spec of the LogicalVolume of the
// target names its source, and no node agent can write it.
func (s *Sender) Open(ctx context.Context, node string, r peer.Request) (*peer.Opened, error) {
	wanted, err := s.get(ctx, r.Target, peer.ErrForbidden)
	if err != nil {
		return nil, err
	}
	if wanted.Spec.NodeName != node || wanted.Spec.Source == "" || wanted.Status.VolumeID != "" ||
		!wanted.DeletionTimestamp.IsZero() {
		return nil, fmt.Errorf("LogicalVolume %s is not a copy that is being created on node %s: %w", r.Target, node,
			peer.ErrForbidden)
	}
	if err := checkRound(wanted, r); err != nil {
		return nil, err
	}
	source, err := s.get(ctx, wanted.Spec.Source, peer.ErrGone)
	if err != nil {
		return nil, err
	}
	if isFencedVolume(wanted, source) {
		return s.openFenced(ctx, wanted, r)
	}
	if err := s.check(source); err != nil {
		return nil, err
	}
	found, err := s.device(ctx, source)
	if err != nil {
		return nil, err
	}
	base, err := s.base(ctx, r.Base, source)
	if err != nil {
		return nil, err
	}
	return s.open(source.Name, found, base)
}

// device returns the device of a snapshot.
func (s *Sender) device(ctx context.Context, source *topolvmv1.LogicalVolume) (*lvmd.Device, error) {
	found, err := s.Volumes.Device(ctx, source.Spec.DeviceClass, source.Status.VolumeID)
	if status.Code(err) == codes.NotFound {
		err = errors.Join(err, peer.ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("source %s: %w", source.Name, err)
	}
	if !found.ReadOnly || found.ThinPool == "" {
		return nil, fmt.Errorf("source %s: logical volume %s/%s is not a read-only thin snapshot: %w", source.Name,
			found.VolumeGroup, found.Name, peer.ErrGone)
	}
	return found, nil
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
			peer.ErrForbidden)
	case source.Spec.AccessType != accessSnapshot:
		return fmt.Errorf("source %s is not a snapshot: %w", source.Name, peer.ErrGone)
	case !source.DeletionTimestamp.IsZero():
		return fmt.Errorf("source %s is being deleted: %w", source.Name, peer.ErrGone)
	case source.Status.VolumeID == "":
		return fmt.Errorf("source %s is not created yet", source.Name)
	}
	return nil
}

// accessSnapshot is the access type of a snapshot.
const accessSnapshot = "ro"

// open opens a snapshot. base is nil to send all of it.
func (s *Sender) open(object string, found, base *lvmd.Device) (*peer.Opened, error) {
	q := changedblocks.Query{VG: found.VolumeGroup, Target: found.Name, Encrypted: true}
	baseSize := uint64(0)
	if base != nil {
		q.Base, baseSize = base.Name, uint64(base.Size)
	}
	return s.openDevice(object, found, s.ranges(q, uint64(found.Size)), baseSize)
}

// openDevice opens a logical volume to read the parts of it that ranges returns.
func (s *Sender) openDevice(object string, found *lvmd.Device, ranges volumecopy.Ranges,
	baseSize uint64) (*peer.Opened, error) {
	id := volumecopy.Identity{Path: found.Path, Number: found.Number, Size: uint64(found.Size)}
	opened, err := volumecopy.OpenSource(id)
	if err != nil {
		return nil, fmt.Errorf("source %s: open logical volume %s/%s: %w", object, found.VolumeGroup, found.Name, err)
	}
	return &peer.Opened{
		Source:   volumecopy.Source{Device: opened, Size: id.Size, Wait: s.Wait, Ranges: ranges},
		BaseSize: baseSize, Allocated: uint64(found.Allocated),
		Content: lvmd.Inherited(found.Tags),
		Close:   opened.Close,
	}, nil
}

// ranges returns what is allocated in a snapshot, or differs from its base. It reads a page when it is needed.
func (s *Sender) ranges(q changedblocks.Query, size uint64) volumecopy.Ranges {
	return func(ctx context.Context, from uint64, yield func(volumecopy.Range, error) bool) {
		q := q
		q.Offset = from
		for {
			page, err := s.page(ctx, q, size)
			if err != nil {
				yield(volumecopy.Range{}, err)
				return
			}
			for _, r := range page.Ranges {
				if !yield(volumecopy.Range{Offset: r.Offset, Length: r.Length}, nil) {
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
		return nil, errors.Join(err, peer.ErrGone)
	case err != nil:
		return nil, err
	case page.Size != size:
		return nil, fmt.Errorf("snapshot %s/%s has %d bytes now, had %d", q.VG, q.Target, page.Size, size)
	}
	return page, nil
}
