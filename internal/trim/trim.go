// Package trim makes what a cache holds small: claims and PersistentVolumes are held only while something happens to them, and then whole,
// since some libraries write back what they find in a cache; other objects lose what nobody here reads.
package trim

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Any drops who set which field, which is a third of an object.
func Any(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetFinalizers(shared(accessor.GetFinalizers()))
	}
	return object, nil
}

// Whole keeps everything.
func Whole(object any) (any, error) { return object, nil }

// Node keeps what decides about placement, readiness and capacity.
func Node(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return Any(object)
	}
	node.ManagedFields, node.Finalizers = nil, shared(node.Finalizers)
	maps.DeleteFunc(node.Annotations, func(key, _ string) bool {
		return !strings.HasPrefix(key, v1alpha1.CapacityAnnotationPrefix) && key != v1alpha1.ReleaseClaimsAnnotation
	})
	conditions := slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })
	// A node reports every few minutes, and that it did is nothing new.
	for i := range conditions {
		conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	node.Status = corev1.NodeStatus{Conditions: slices.Clip(conditions)}
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable}
	return node, nil
}

// NodeStatus keeps of the devices by what they are called, and why they are not used.
func NodeStatus(object any) (any, error) {
	status, ok := object.(*v1alpha1.LVMVolumeGroupNodeStatus)
	if !ok {
		return Any(object)
	}
	status.ManagedFields = nil
	for i := range status.Status.Devices {
		d := &status.Status.Devices[i]
		*d = v1alpha1.DeviceStatus{
			Name: d.Name, ID: d.ID, KernelName: d.KernelName, ByID: d.ByID, ByPath: d.ByPath, VolumeGroup: d.VolumeGroup, PVUUID: d.PVUUID, State: d.State, Reasons: d.Reasons,
		}
	}
	return status, nil
}

// LogicalVolume keeps of one that was made, and has the size that is asked for, where it is and what is wrong with it.
func LogicalVolume(object any) (any, error) {
	lv, ok := object.(*topolvmv1.LogicalVolume)
	if !ok {
		return Any(object)
	}
	lv.ManagedFields = nil
	status := &lv.Status
	if lv.DeletionTimestamp != nil || status.VolumeID == "" || status.Code != codes.OK || status.CurrentSize == nil || status.CurrentSize.Cmp(lv.Spec.Size) != 0 {
		return lv, nil
	}
	annotations := map[string]string{}
	for _, key := range []string{v1alpha1.ConditionAnnotation, v1alpha1.UnclaimedAnnotation} {
		if value, ok := lv.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	made := lv.CreationTimestamp
	lv.ObjectMeta = identity(lv)
	lv.CreationTimestamp, lv.Annotations = made, annotations
	lv.Spec.NodeName, lv.Spec.DeviceClass = text(lv.Spec.NodeName), text(lv.Spec.DeviceClass)
	lv.Spec.LvcreateOptionClass, lv.Spec.AccessType = text(lv.Spec.LvcreateOptionClass), text(lv.Spec.AccessType)
	if lv.Spec.Name == lv.Name {
		lv.Spec.Name = lv.Name // The same bytes once.
	}
	if status.VolumeID == string(lv.UID) {
		status.VolumeID = string(lv.UID)
	}
	status.CurrentSize = &lv.Spec.Size
	return lv, nil
}

// Capacity keeps of a CSIStorageCapacity what a node has for a StorageClass; what many of them have the same of is held once.
func Capacity(object any) (any, error) {
	capacity, ok := object.(*storagev1.CSIStorageCapacity)
	if !ok {
		return Any(object)
	}
	capacity.ManagedFields = nil
	capacity.StorageClassName, capacity.Namespace = text(capacity.StorageClassName), text(capacity.Namespace)
	capacity.Labels = sharedMap(capacity.Labels)
	if capacity.Capacity != nil && capacity.MaximumVolumeSize != nil && capacity.Capacity.Cmp(*capacity.MaximumVolumeSize) == 0 {
		capacity.MaximumVolumeSize = capacity.Capacity
	}
	return capacity, nil
}

func sharedMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	var words []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		words = append(words, key, m[key])
	}
	return once(&labels, strings.Join(words, "\n"), m)
}

func identity(object metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: object.GetName(), Namespace: text(object.GetNamespace()), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(), Finalizers: shared(object.GetFinalizers()),
	}
}

// What many objects have the same of is held once, by its words. Nobody changes what a cache holds.
var lists, labels sync.Map

func text(s string) string { return unique.Make(s).Value() }

// kinds is how many different values are held once: what has more is not the same in many objects.
const kinds = 1000

// once returns the value that is held for a key, and holds the given one if there is none.
func once[T any](held *sync.Map, key string, value T) T {
	if found, ok := held.Load(key); ok {
		if same, ok := found.(T); ok {
			return same
		}
		return value
	}
	n := 0
	held.Range(func(any, any) bool { n++; return n < kinds })
	if n < kinds {
		held.Store(key, value)
	}
	return value
}

func shared(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return once(&lists, strings.Join(list, "\n"), slices.Clip(list))
}
