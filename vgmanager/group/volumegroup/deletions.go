package volumegroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
)

// deletionsAge is how long the records of deleted volumes are used for what is not changed because of them.
const deletionsAge = 10 * time.Minute

// deletions are the records of deleted volumes that were last read.
type deletions struct {
	time    time.Time
	records map[string]v1alpha1.DeletedVolume
}

// observeDeletions sets Deletions and Expired. The records are read only if the volume group has orphans. If something
// cannot be read, nothing is removed.
func (r *Reconciler) observeDeletions(ctx context.Context, w plan.Desired, s *plan.NodeState, maxAge time.Duration) {
	if _, set := w.Spec.DeletedVolumeRetention.Duration(); !set || w.Deleting || !r.hasOrphans(w.Name) {
		return
	}
	if maxAge == 0 || r.now().Sub(r.deletions.time) > deletionsAge {
		records, err := r.readDeletions(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot find out which orphans are to be removed", "deviceClass", w.Name)
			s.Deletions = r.deletions.records // only for the status
			return
		}
		r.deletions = deletions{r.now(), records}
	}
	s.Deletions = r.deletions.records
	if len(plan.Expired(w, *s, r.now())) == 0 {
		return
	}
	owned := *s
	owned.Owners = r.readOwners(ctx)
	if owned.Owners.Err != nil {
		log.FromContext(ctx).Error(owned.Owners.Err, "cannot find out whether orphans belong to objects of the cluster",
			"deviceClass", w.Name)
	}
	s.Expired = plan.Expired(w, owned, r.now())
}

func (r *Reconciler) hasOrphans(class string) bool {
	return r.Orphans != nil && slices.ContainsFunc(r.Orphans(class), func(o v1alpha1.OrphanStatus) bool {
		return o.Kind == v1alpha1.OrphanLogicalVolume
	})
}

// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=configmaps,resourceNames=lvms-deleted-volumes,verbs=get

// readDeletions reads the records of deleted volumes from the API server.
func (r *Reconciler) readDeletions(ctx context.Context) (map[string]v1alpha1.DeletedVolume, error) {
	object := &corev1.ConfigMap{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: v1alpha1.DeletedVolumesConfigMap}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", v1alpha1.DeletedVolumesConfigMap, err)
	}
	records := map[string]v1alpha1.DeletedVolume{}
	for key, value := range object.Data {
		d := v1alpha1.DeletedVolume{}
		if err := json.Unmarshal([]byte(value), &d); err != nil || d.Volume == "" || d.UID == "" || d.Time.IsZero() ||
			key != v1alpha1.DeletedVolumeKey(d.Volume) {
			log.FromContext(ctx).Info("a record of a deleted volume cannot be used", "configMap", object.Name,
				"name", key)
			continue
		}
		records[d.Volume] = d
	}
	return records, nil
}

// removeDeleted erases and removes logical volumes of deleted LogicalVolumes. It first reads the records and the
// objects of the cluster again.
func (r *Reconciler) removeDeleted(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	var err error
	if s.Deletions, err = r.readDeletions(ctx); err != nil {
		return err
	}
	s.Owners = r.readOwners(ctx)
	if s.Owners.Err != nil {
		return s.Owners.Err
	}
	expired := sets.New(plan.Expired(w, s, r.now())...)
	vg := plan.GroupOf(w, s)
	due := 0
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if !slices.Contains(a.Volumes, lv.UUID) {
			continue
		}
		if !expired.Has(lv.Name) {
			return fmt.Errorf("logical volume %s/%s on node %s is not removed: it belongs to an object of the "+
				"cluster again, or its record has changed", w.Name, lv.Name, w.Node)
		}
		due++
	}
	if due == 0 {
		return errors.New("no logical volume to remove is left")
	}
	removed, err := r.eraseAndRemove(ctx, w, vg, a.Volumes)
	if len(removed) > 0 {
		r.reportDeleted(ctx, w, s, removed)
	}
	return err
}

// reportDeleted logs removed logical volumes, and emits an event.
func (r *Reconciler) reportDeleted(ctx context.Context, w plan.Desired, s plan.NodeState, names []string) {
	for _, name := range names {
		d := s.Deletions[name]
		log.FromContext(ctx).Info("removed the logical volume of a deleted LogicalVolume", "deviceClass", w.Name,
			"lv", name, "logicalVolume", d.LogicalVolume)
	}
	r.emit(w, corev1.EventTypeNormal, plan.EventDeletedVolumeRemoved, fmt.Sprintf(
		"logical volumes removed from volume group %s on node %s: %s: their LogicalVolumes were deleted while the "+
			"Node did not exist, more than %s ago (deletedVolumeRetention)", w.Name, w.Node,
		limited(names), w.Spec.DeletedVolumeRetention))
}

// maxNamed is the maximum number of volumes that the event names.
const maxNamed = 10

func limited(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
