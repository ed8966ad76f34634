package volumegroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/topolvm/legacy"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
)

// +kubebuilder:rbac:groups=topolvm.cybozu.com,resources=logicalvolumes,verbs=list

// readOwners returns the objects of the cluster to which logical volumes belong. It reads them from the API server,
// because the cache has only the objects of this node, and can be outdated. LogicalVolumes of other nodes count too:
// their volume group may have been moved to this node.
func (r *Reconciler) readOwners(ctx context.Context) plan.Owners {
	o := plan.Owners{Of: map[string]string{}, Volumes: map[string]plan.VolumeOwner{}, Names: map[string]string{}}
	volumes := paging.Each(ctx, r.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			addPersistentVolume(o, &list.Items[i])
		}
	})
	objects := paging.Each(ctx, r.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			addLogicalVolume(o, &list.Items[i])
		}
	})
	earlierObjects := legacy.Each(ctx, r.Live, func(lv *earlierv1.LogicalVolume) { addEarlierVolume(o, lv) })
	o.Err = errors.Join(volumes, objects, earlierObjects)
	return o
}

// addEarlierVolume adds a LogicalVolume of TopoLVM before 0.15. A snapshot has no PersistentVolume.
func addEarlierVolume(o plan.Owners, lv *earlierv1.LogicalVolume) {
	for _, volume := range []string{string(lv.UID), lv.Status.VolumeID} {
		addEarlier(o, volume, fmt.Sprintf("LogicalVolume %s of the API group %s, of node %s", lv.Name,
			earlierv1.GroupVersion.Group, lv.Spec.NodeName))
	}
}

// addEarlier adds an object of TopoLVM before 0.15, unless one has the volume already.
func addEarlier(o plan.Owners, volume, described string) {
	owner := o.Volumes[volume]
	if volume == "" || owner.Earlier != "" {
		return
	}
	owner.Earlier = described
	o.Volumes[volume] = owner
	if o.Of[volume] == "" {
		o.Of[volume] = described
	}
}

func addPersistentVolume(o plan.Owners, pv *corev1.PersistentVolume) {
	source := pv.Spec.CSI
	if source == nil || source.Driver != v1alpha1.DriverName {
		o.Names[pv.Name] = ""
		if source != nil && v1alpha1.IsDriver(source.Driver) {
			addEarlier(o, source.VolumeHandle, fmt.Sprintf("PersistentVolume %s of the driver %s", pv.Name,
				source.Driver))
		}
		return
	}
	o.Of[source.VolumeHandle] = "PersistentVolume " + pv.Name
	o.Names[pv.Name] = source.VolumeHandle
	owner := o.Volumes[source.VolumeHandle]
	owner.PersistentVolume, owner.VolumeNode = pv.Name, v1alpha1.NodeOfVolume(pv)
	if claim := pv.Spec.ClaimRef; claim != nil {
		owner.Claim = claim.Namespace + "/" + claim.Name
	}
	o.Volumes[source.VolumeHandle] = owner
}

func addLogicalVolume(o plan.Owners, lv *topolvmv1.LogicalVolume) {
	described := fmt.Sprintf("LogicalVolume %s of node %s", lv.Name, lv.Spec.NodeName)
	// The name of the logical volume is the UID of the object. It is in the status once the volume exists.
	retired, _, _ := strings.Cut(lv.Annotations[v1alpha1.RetireAnnotation], "/")
	for _, volume := range []string{string(lv.UID), lv.Annotations[v1alpha1.ExistingVolumeAnnotation],
		lv.Annotations[v1alpha1.ImportAnnotation], lv.Annotations[v1alpha1.MoveVolumeAnnotation], retired,
		lv.Status.VolumeID} {
		if volume != "" {
			o.Of[volume] = described
		}
	}
	volume := cmp.Or(lv.Status.VolumeID, lv.Annotations[v1alpha1.ImportAnnotation], string(lv.UID))
	if _, named := o.Names[lv.Name]; !named {
		o.Names[lv.Name] = volume
	}
	owner := o.Volumes[volume]
	owner.LogicalVolume, owner.Node, owner.DeviceClass = lv.Name, lv.Spec.NodeName, lv.Spec.DeviceClass
	owner.Created = lv.Status.VolumeID != "" && lv.DeletionTimestamp.IsZero()
	o.Volumes[volume] = owner
}

// removeOrphans erases and deletes orphans of an approved plan. It first reads the objects of the cluster again.
func (r *Reconciler) removeOrphans(ctx context.Context, w plan.Desired, s plan.NodeState, a plan.Action) error {
	s.Owners = r.readOwners(ctx)
	if problem := plan.OrphanProblem(w, s); problem != "" {
		return errors.New(problem)
	}
	_, err := r.eraseAndRemove(ctx, w, plan.GroupOf(w, s), a.Volumes)
	return err
}
