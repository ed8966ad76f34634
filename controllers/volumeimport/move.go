package volumeimport

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// move moves the objects of a volume from another node to this one: the LogicalVolume is changed, also to the device
// class that has adopted the volume group, and the PersistentVolume is recreated, because its node affinity cannot be
// changed. The claim stays, and is bound to the new PersistentVolume, which has the same name.
//
// Before the PersistentVolume is deleted, the new one is written to an annotation of the LogicalVolume. From then on,
// the move is completed even if the operator is killed or the LVMRecovery is deleted: see recreate.
func (j *job) move(ctx context.Context, v v1alpha1.RecoveryVolume) error {
	lv := &topolvmv1.LogicalVolume{}
	err := j.live.Get(ctx, client.ObjectKey{Name: v.PersistentVolume}, lv)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read LogicalVolume %s: %w", v.PersistentVolume, err)
	}
	switch {
	case apierrors.IsNotFound(err) || lv.Status.VolumeID == "" && view.Import(lv) == v.Name:
		// Only the PersistentVolume was restored, for example from a backup.
		return j.logicalVolume(ctx, v)
	case !lv.DeletionTimestamp.IsZero():
		return blocked("volume %s: LogicalVolume %s is being deleted", v.Name, lv.Name)
	case lv.Status.VolumeID != v.Name:
		return blocked("volume %s: LogicalVolume %s is for another volume (%q)", v.Name, lv.Name, lv.Status.VolumeID)
	case lv.Spec.NodeName != j.node && lv.Spec.NodeName != v.FromNode:
		return blocked("volume %s: LogicalVolume %s is on node %s, not on %s", v.Name, lv.Name, lv.Spec.NodeName,
			v.FromNode)
	}
	if view.MovedVolume(lv) == "" {
		if err := j.prepare(ctx, v, lv); err != nil {
			return err
		}
	}
	return j.recreate(ctx, lv)
}

// prepare changes the node of the LogicalVolume. If the PersistentVolume has to be recreated, the same request writes
// the new one to the annotation.
func (j *job) prepare(ctx context.Context, v v1alpha1.RecoveryVolume, lv *topolvmv1.LogicalVolume) error {
	pv := &corev1.PersistentVolume{}
	err := j.live.Get(ctx, client.ObjectKey{Name: v.PersistentVolume}, pv)
	exists := err == nil
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read PersistentVolume %s: %w", v.PersistentVolume, err)
	}
	if exists {
		if err := usable(pv, v); err != nil {
			return err
		}
	}
	if err := j.left(ctx, v, lv, pv.Spec.ClaimRef); err != nil {
		return err
	}
	before := lv.DeepCopy()
	lv.Spec.NodeName, lv.Spec.DeviceClass = j.node, j.class
	if exists && !isOn(pv, j.node) {
		data, err := json.Marshal(relocate.PersistentVolume(pv, j.node))
		if err != nil {
			return fmt.Errorf("PersistentVolume %s: %w", pv.Name, err)
		}
		metav1.SetMetaDataAnnotation(&lv.ObjectMeta, wellknown.MovedVolumeAnnotation, string(data))
	} else if lv.Spec.NodeName == before.Spec.NodeName && lv.Spec.DeviceClass == before.Spec.DeviceClass {
		return nil
	}
	err = j.client.Patch(ctx, lv, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return waiting("volume %s: LogicalVolume %s has just changed", v.Name, lv.Name)
	}
	if err != nil {
		return fmt.Errorf(
			"move LogicalVolume %s from node %s to node %s: %w", lv.Name, v.FromNode, j.node, err)
	}
	return nil
}

// usable returns an error if a PersistentVolume is not for the volume, or is being deleted.
func usable(pv *corev1.PersistentVolume, v v1alpha1.RecoveryVolume) error {
	source := pv.Spec.CSI
	switch {
	case source == nil || source.Driver != wellknown.DriverName || source.VolumeHandle != v.Name:
		return blocked("volume %s: PersistentVolume %s exists for another volume", v.Name, pv.Name)
	case !pv.DeletionTimestamp.IsZero():
		return blocked("volume %s: PersistentVolume %s is being deleted", v.Name, pv.Name)
	}
	return nil
}

// isOn reports whether the node affinity of a PersistentVolume is for a node.
func isOn(pv *corev1.PersistentVolume, node string) bool { return view.NodeOfVolume(pv) == node }

// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=lvm.topolvm.io,resources=lvmvolumegroupnodestatuses,namespace=openshift-lvm-storage,verbs=get;list;watch

// left returns an error unless the other node has neither the volume nor a running Pod with the claim. A node that is
// not ready cannot say so; that its disks are on this node is then what the administrator has approved.
func (j *job) left(ctx context.Context, v v1alpha1.RecoveryVolume, lv *topolvmv1.LogicalVolume,
	claim *corev1.ObjectReference) error {
	ready, err := j.isReady(ctx, v.FromNode)
	if !ready || err != nil {
		return err
	}
	if err := j.withoutVolume(ctx, v, lv); err != nil {
		return err
	}
	if claim == nil {
		return nil
	}
	pods, err := j.podsIn(ctx, claim.Namespace)
	if err != nil {
		return err
	}
	for i := range pods {
		if pod := &pods[i]; pod.Spec.NodeName == v.FromNode && relocate.Runs(pod) && relocate.Uses(pod, claim.Name) {
			return blocked(
				"volume %s: Pod %s/%s on node %s uses claim %s: delete the Pod", v.Name, pod.Namespace, pod.Name,
				v.FromNode, v.Claim)
		}
	}
	return nil
}

// isReady reports whether a node exists and is ready.
func (j *job) isReady(ctx context.Context, name string) (bool, error) {
	node := &corev1.Node{}
	if err := j.live.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}), nil
}

// withoutVolume returns an error if the agent of the other node reports that the node has devices of the volume group.
// If the node has another volume group for the device class, which can have a logical volume of the same name, its
// agent must report that it lacks that one: after a restore of etcd from before a VolumeMove, only this shows which
// node has the data.
func (j *job) withoutVolume(ctx context.Context, v v1alpha1.RecoveryVolume, lv *topolvmv1.LogicalVolume) error {
	groups, err := j.groupsOf(ctx, v.FromNode)
	if err != nil {
		return err
	}
	for _, group := range groups {
		present := slices.ContainsFunc(group.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
			return pv.State != v1alpha1.PhysicalVolumeMissing
		})
		if group.UUID == j.group && present {
			return blocked("volume %s: node %s is ready and reports that it has devices of volume group %s (%s) too: "+
				"detach them from one of the nodes", v.Name, v.FromNode, group.Name, j.group)
		}
		isOther := group.UUID != j.group && present && (lv.Spec.DeviceClass == "" || group.Name == lv.Spec.DeviceClass)
		reported := view.Condition(lv)
		if isOther && lv.Spec.NodeName == v.FromNode && reported != view.MissingVolume(v.FromNode, v.Name) {
			return blocked("volume %s: node %s is ready and has volume group %s (%s), and its node agent does not "+
				"report that it lacks the logical volume (annotation %s of LogicalVolume %s): the objects stay with "+
				"that node. Wait a minute; if it has the logical volume, find out which of the two has the data",
				v.Name, v.FromNode, group.Name, group.UUID, wellknown.ConditionAnnotation, lv.Name)
		}
	}
	return nil
}

// groupsOf returns the volume groups that the agent of a node reports. It reads them once for all volumes.
func (j *job) groupsOf(ctx context.Context, node string) ([]v1alpha1.VGStatus, error) {
	if groups, known := j.groups[node]; known {
		return groups, nil
	}
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	err := j.live.Get(ctx, client.ObjectKey{Namespace: j.namespace, Name: node}, status)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read LVMVolumeGroupNodeStatus %s: %w", node, err)
	}
	if j.groups == nil {
		j.groups = map[string][]v1alpha1.VGStatus{}
	}
	j.groups[node] = status.Status.NodeStatus
	return status.Status.NodeStatus, nil
}

// podsIn returns the Pods of a namespace. It reads them once for all volumes.
func (j *job) podsIn(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	if pods, known := j.pods[namespace]; known {
		return pods, nil
	}
	pods := []corev1.Pod{}
	err := paging.Each(ctx, j.live, &corev1.PodList{}, func(list *corev1.PodList) {
		pods = append(pods,
			slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return len(p.Spec.Volumes) == 0 })...)
	}, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("list the Pods of namespace %s: %w", namespace, err)
	}
	if j.pods == nil {
		j.pods = map[string][]corev1.Pod{}
	}
	j.pods[namespace] = pods
	return pods, nil
}
