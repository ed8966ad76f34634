package clusterobjects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/removednode"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/topolvm/legacy"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// +kubebuilder:rbac:groups=topolvm.cybozu.com,resources=logicalvolumes,verbs=list

// ReadOwners returns the objects of the cluster to which logical volumes belong. It reads them from the API server,
// because the cache has only the objects of this node, and can be outdated. LogicalVolumes of other nodes count too:
// their volume group may have been moved to this node.
func (o *Objects) ReadOwners(ctx context.Context) state.Owners {
	owners := state.Owners{Of: map[string]string{}, Volumes: map[string]state.VolumeOwner{}, Names: map[string]string{}}
	volumes := paging.Each(ctx, o.Live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for i := range list.Items {
			addPersistentVolume(owners, &list.Items[i])
		}
	})
	objects := paging.Each(ctx, o.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			addLogicalVolume(owners, &list.Items[i])
		}
	})
	earlierObjects := legacy.Each(ctx, o.Live, func(lv *earlierv1.LogicalVolume) { addEarlierVolume(owners, lv) })
	owners.Err = errors.Join(volumes, objects, earlierObjects)
	return owners
}

// addEarlierVolume adds a LogicalVolume of TopoLVM before 0.15. A snapshot has no PersistentVolume.
func addEarlierVolume(o state.Owners, lv *earlierv1.LogicalVolume) {
	for _, volume := range []string{string(lv.UID), lv.Status.VolumeID} {
		addEarlier(o, volume, fmt.Sprintf("LogicalVolume %s of the API group %s, of node %s", lv.Name,
			earlierv1.GroupVersion.Group, lv.Spec.NodeName))
	}
}

// addEarlier adds an object of TopoLVM before 0.15, unless one has the volume already.
func addEarlier(o state.Owners, volume, described string) {
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

func addPersistentVolume(o state.Owners, pv *corev1.PersistentVolume) {
	source := pv.Spec.CSI
	if source == nil || source.Driver != wellknown.DriverName {
		o.Names[pv.Name] = ""
		if source != nil && view.IsDriver(source.Driver) {
			addEarlier(o, source.VolumeHandle, fmt.Sprintf("PersistentVolume %s of the driver %s", pv.Name,
				source.Driver))
		}
		return
	}
	o.Of[source.VolumeHandle] = "PersistentVolume " + pv.Name
	o.Names[pv.Name] = source.VolumeHandle
	owner := o.Volumes[source.VolumeHandle]
	owner.PersistentVolume, owner.VolumeNode = pv.Name, view.NodeOfVolume(pv)
	if claim := pv.Spec.ClaimRef; claim != nil {
		owner.Claim = claim.Namespace + "/" + claim.Name
	}
	o.Volumes[source.VolumeHandle] = owner
}

func addLogicalVolume(o state.Owners, lv *topolvmv1.LogicalVolume) {
	described := fmt.Sprintf("LogicalVolume %s of node %s", lv.Name, lv.Spec.NodeName)
	// The name of the logical volume is the UID of the object. It is in the status once the volume exists.
	retired, _, _ := view.Retired(lv)
	for _, volume := range []string{string(lv.UID), view.ExistingVolume(lv), view.Import(lv), view.MoveVolume(lv),
		retired, lv.Status.VolumeID} {
		if volume != "" {
			o.Of[volume] = described
		}
	}
	volume := cmp.Or(lv.Status.VolumeID, view.Import(lv), string(lv.UID))
	if _, named := o.Names[lv.Name]; !named {
		o.Names[lv.Name] = volume
	}
	owner := o.Volumes[volume]
	owner.LogicalVolume, owner.Node, owner.DeviceClass = lv.Name, lv.Spec.NodeName, lv.Spec.DeviceClass
	owner.Created = lv.Status.VolumeID != "" && lv.DeletionTimestamp.IsZero()
	o.Volumes[volume] = owner
}

// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=configmaps,resourceNames=lvms-deleted-volumes,verbs=get

// ReadDeletions reads the records of deleted volumes from the API server.
func (o *Objects) ReadDeletions(ctx context.Context) (map[string]removednode.DeletedVolume, error) {
	object := &corev1.ConfigMap{}
	err := o.Live.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: removednode.DeletedVolumes}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ConfigMap %s: %w", removednode.DeletedVolumes, err)
	}
	records := map[string]removednode.DeletedVolume{}
	for key, value := range object.Data {
		d := removednode.DeletedVolume{}
		if err := json.Unmarshal([]byte(value), &d); err != nil || d.Volume == "" || d.UID == "" || d.Time.IsZero() ||
			key != removednode.DeletedVolumeKey(d.Volume) {
			log.FromContext(ctx).Info("a record of a deleted volume cannot be used", "configMap", object.Name,
				"name", key)
			continue
		}
		records[d.Volume] = d
	}
	return records, nil
}

// Absent returns the names of the volumes of a device class that the volume group does not have. A failed read is an
// error, so that no volume is called present.
func (o *Objects) Absent(ctx context.Context, d state.Desired, vg *lvm.VG) ([]string, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := o.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list LogicalVolumes: %w", err)
	}
	var names []string
	for i := range list.Items {
		v := &list.Items[i]
		ours := v.Spec.NodeName == o.Node &&
			(v.Spec.DeviceClass == d.Name || v.Spec.DeviceClass == "" && d.Spec.Default)
		if ours && v.Status.VolumeID != "" && v.DeletionTimestamp.IsZero() && vg.LV(v.Status.VolumeID) == nil {
			names = append(names, v.Status.VolumeID)
		}
	}
	return names, nil
}
