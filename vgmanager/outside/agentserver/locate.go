package agentserver

import (
	"context"
	"errors"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// accessSnapshot is the access type of the LogicalVolume of a snapshot.
const accessSnapshot = "ro"

// Classes are the device classes of this node. engine.Engine implements it.
type Classes interface {
	Class(name string) (deviceclass.Class, bool)
}

// Locate returns the changedblocks.Locate of a node. The client may read from a cache: a snapshot is ready to use only
// after this agent has written its volume ID.
func Locate(c client.Reader, node string, classes Classes) changedblocks.Locate {
	return func(ctx context.Context, snapshotID string) (changedblocks.Volume, error) {
		lv, err := find(ctx, c, node, snapshotID)
		if err != nil {
			return changedblocks.Volume{}, err
		}
		class, found := classes.Class(lv.Spec.DeviceClass)
		if !found {
			return changedblocks.Volume{}, fmt.Errorf("LogicalVolume %s: device class %q is not set up on node %s: %w",
				lv.Name, lv.Spec.DeviceClass, node, changedblocks.ErrUnavailable)
		}
		// The name of the source is unique also after the source was deleted: it has the UID of a claim or snapshot.
		return changedblocks.Volume{VG: class.VolumeGroup, Name: lv.Status.VolumeID, Source: lv.Spec.Source}, nil
	}
}

// find returns the LogicalVolume of a snapshot on a node.
func find(ctx context.Context, c client.Reader, node, snapshotID string) (*topolvmv1.LogicalVolume, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the LogicalVolumes of node %s: %w", node, err)
	}
	var found *topolvmv1.LogicalVolume
	for i := range list.Items {
		lv := &list.Items[i]
		if lv.Spec.NodeName != node || snapshotID == "" || lv.Status.VolumeID != snapshotID {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("LogicalVolumes %s and %s both have the volume ID %s: correct status.volumeID of "+
				"one", found.Name, lv.Name, snapshotID)
		}
		found = lv
	}
	if found == nil {
		return nil, fmt.Errorf("no LogicalVolume of node %s has this volume ID: %w", node, lvm.ErrNotFound)
	}
	if found.Spec.AccessType != accessSnapshot {
		return nil, fmt.Errorf("LogicalVolume %s is not a snapshot: %w", found.Name, changedblocks.ErrUnsupported)
	}
	if !found.DeletionTimestamp.IsZero() {
		return nil, fmt.Errorf("LogicalVolume %s is being deleted: %w", found.Name, lvm.ErrNotFound)
	}
	return found, nil
}

// Pools are the device classes of this node with their thin pools. engine.Engine implements it.
type Pools interface {
	Classes
	States(ctx context.Context) ([]engine.ClassState, error)
}

// ReleaseAll releases the metadata snapshots that an agent that was killed has left in the thin pools of the node. They
// keep the space of deleted volumes. What fails is released by the next read of the pool. In volume groups that an
// administrator created, another program may have reserved one, and could still use it: they are left alone.
func ReleaseAll(ctx context.Context, pools Pools, release func(ctx context.Context, vg, pool string) error) error {
	states, err := pools.States(ctx)
	if err != nil {
		return fmt.Errorf("read the thin pools: %w", err)
	}
	var errs []error
	for i := range states {
		class, found := pools.Class(states[i].Name)
		if !found || class.ThinPoolConfig == nil || class.ExistingVolumeGroup || states[i].Err != nil {
			continue
		}
		errs = append(errs, release(ctx, class.VolumeGroup, class.ThinPoolConfig.Name))
	}
	return errors.Join(errs...)
}
