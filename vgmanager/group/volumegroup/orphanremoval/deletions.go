// Package orphanremoval erases logical volumes that no object of the cluster has, and removes them, as the reconciler
// of LogicalVolumes does with those of deleted claims: no later volume must show their data.
package orphanremoval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/orphans"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// deletionsAge is how long the records of deleted volumes are used for what is not changed because of them.
const deletionsAge = 10 * time.Minute

// deletions are the records of deleted volumes that were last read.
type deletions struct {
	time    time.Time
	records map[string]removednode.DeletedVolume
}

// LVM changes logical volumes.
type LVM interface {
	Apply(ctx context.Context, c lvm.Change) error
}

// Classes erases volumes of the device classes in which volumes can be created.
type Classes interface {
	Class(name string) (deviceclass.Class, bool)
	// EraseVolume erases a volume before it is removed, if its class requires that. It returns the progress, or "" if
	// this is complete.
	EraseVolume(ctx context.Context, eraser engine.Eraser, class, name string) (progress string, err error)
}

// Removal erases and removes logical volumes that no object of the cluster has.
type Removal struct {
	LVM     LVM
	Classes Classes
	Eraser  engine.Eraser
	Objects *clusterobjects.Objects
	// Emit emits an event about a completed removal.
	Emit func(w state.Desired, kind string, reason state.EventReason, note string)
	// Orphans returns the orphans of a class. If it is nil, there are none.
	Orphans func(class string) []v1alpha1.OrphanStatus
	// Erasing are the names of the volumes that are being erased before their removal, by volume group.
	Erasing   map[string][]string
	deletions deletions
	Now       func() time.Time
}

// Observe returns which logical volumes are removed, and which are being erased. The records are read only if the
// volume group has orphans. If something cannot be read, nothing is removed.
func (p *Removal) Observe(ctx context.Context, d state.Desired, s state.NodeState,
	maxAge time.Duration) state.Orphans {
	if _, set := classspec.Retention(d.Spec.DeletedVolumeRetention); !set || d.Deleting || !p.hasOrphans(d.Name) {
		return s.Orphans
	}
	if maxAge == 0 || p.Now().Sub(p.deletions.time) > deletionsAge {
		records, err := p.Objects.ReadDeletions(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot find out which orphans are to be removed", "deviceClass", d.Name)
			s.Orphans.Deletions = p.deletions.records // only for the status
			return s.Orphans
		}
		p.deletions = deletions{p.Now(), records}
	}
	s.Orphans.Deletions = p.deletions.records
	if len(orphans.Expired(d, s, p.Now())) == 0 {
		return s.Orphans
	}
	s.Owners = p.Objects.ReadOwners(ctx)
	if s.Owners.Err != nil {
		log.FromContext(ctx).Error(s.Owners.Err, "cannot find out whether orphans belong to objects of the cluster",
			"deviceClass", d.Name)
	}
	s.Orphans.Expired = orphans.Expired(d, s, p.Now())
	return s.Orphans
}

func (p *Removal) hasOrphans(class string) bool {
	return p.Orphans != nil && slices.ContainsFunc(p.Orphans(class), func(o v1alpha1.OrphanStatus) bool {
		return o.Kind == v1alpha1.OrphanLogicalVolume
	})
}

// RemoveDeleted erases and removes logical volumes of deleted LogicalVolumes. It first reads the records and the
// objects of the cluster again.
func (p *Removal) RemoveDeleted(ctx context.Context, d state.Desired, s state.NodeState, uuids []string) error {
	var err error
	if s.Orphans.Deletions, err = p.Objects.ReadDeletions(ctx); err != nil {
		return err
	}
	s.Owners = p.Objects.ReadOwners(ctx)
	if s.Owners.Err != nil {
		return s.Owners.Err
	}
	expired := sets.New(orphans.Expired(d, s, p.Now())...)
	vg := ownership.GroupOf(d, s)
	due := 0
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if !slices.Contains(uuids, lv.UUID) {
			continue
		}
		if !expired.Has(lv.Name) {
			return fmt.Errorf("logical volume %s/%s on node %s is not removed: it belongs to an object of the "+
				"cluster again, or its record has changed", d.Name, lv.Name, d.Node)
		}
		due++
	}
	if due == 0 {
		return errors.New("no logical volume to remove is left")
	}
	removed, err := p.eraseAndRemove(ctx, d, vg, uuids)
	if len(removed) > 0 {
		p.reportDeleted(ctx, d, s, removed)
	}
	return err
}

// reportDeleted logs removed logical volumes, and emits an event.
func (p *Removal) reportDeleted(ctx context.Context, desired state.Desired, s state.NodeState, names []string) {
	for _, name := range names {
		d := s.Orphans.Deletions[name]
		log.FromContext(ctx).Info("removed the logical volume of a deleted LogicalVolume", "deviceClass", desired.Name,
			"lv", name, "logicalVolume", d.LogicalVolume)
	}
	p.Emit(desired, corev1.EventTypeNormal, state.EventDeletedVolumeRemoved, fmt.Sprintf(
		"logical volumes removed from volume group %s on node %s: %s: their LogicalVolumes were deleted while the "+
			"Node did not exist, more than %s ago (deletedVolumeRetention)", desired.Name, desired.Node,
		limited(names), desired.Spec.DeletedVolumeRetention))
}

// maxNamed is the maximum number of volumes that the event names.
const maxNamed = 10

func limited(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
