package volumegroup

import (
	"context"
	"errors"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/paging"
	"github.com/lvm-storage/lvm-operator/vgmanager/volumegroup/plan"
)

// owners returns the objects of the cluster to which logical volumes belong, if a recovery deletes orphans. It reads
// them from the API server, because the cache has only the objects of this node, and can be outdated. LogicalVolumes
// of other nodes count too: their volume group may have been moved to this node.
func (r *Reconciler) owners(ctx context.Context, w plan.Desired) plan.Owners {
	if len(w.Orphans) == 0 {
		return plan.Owners{}
	}
	o := plan.Owners{Of: map[string]string{}}
	volumes := paging.Each(ctx, r.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			if source := list.Items[i].Spec.CSI; source != nil && source.Driver == v1alpha1.DriverName {
				o.Of[source.VolumeHandle] = "PersistentVolume " + list.Items[i].Name
			}
		}
	})
	objects := paging.Each(ctx, r.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			lv := &list.Items[i]
			owner := fmt.Sprintf("LogicalVolume %s of node %s", lv.Name, lv.Spec.NodeName)
			// The name of the logical volume is the UID of the object. It is in the status once the volume exists.
			o.Of[string(lv.UID)] = owner
			if lv.Status.VolumeID != "" {
				o.Of[lv.Status.VolumeID] = owner
			}
		}
	})
	o.Err = errors.Join(volumes, objects)
	return o
}

// removeOrphans deletes orphans of an approved plan. It first reads the objects of the cluster again.
func (r *Reconciler) removeOrphans(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	s.Owners = r.owners(ctx, w)
	if problem := plan.OrphanProblem(w, s); problem != "" {
		return errors.New(problem)
	}
	return r.LVM.LVRemoveByUUID(ctx, w.Name, a.Volumes...)
}
