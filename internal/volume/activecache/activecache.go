// Package activecache reduces the memory of a cache. Claims, PersistentVolumes and LogicalVolumes are cached only while
// they are not settled, and then completely, because some libraries write back objects that they read from a cache.
// Other objects lose the fields that nothing in the product reads.
package activecache

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Any removes managed fields, which are a third of an object.
func Any(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetFinalizers(shared(accessor.GetFinalizers()))
	}
	return object, nil
}

// Unchanged keeps all fields.
func Unchanged(object any) (any, error) { return object, nil }

// Node keeps the fields for placement, readiness and capacity.
func Node(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return Any(object)
	}
	node.ManagedFields, node.Finalizers = nil, shared(node.Finalizers)
	maps.DeleteFunc(node.Annotations, func(key, _ string) bool {
		return !strings.HasPrefix(key, wellknown.CapacityAnnotationPrefix) &&
			!strings.HasPrefix(key, wellknown.EarlierCapacityAnnotationPrefix) &&
			key != wellknown.ReleaseClaimsAnnotation
	})
	conditions := slices.DeleteFunc(node.Status.Conditions,
		func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })
	// A node updates its heartbeat every few minutes without any other change.
	for i := range conditions {
		conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	node.Status = corev1.NodeStatus{Conditions: slices.Clip(conditions)}
	node.Spec = corev1.NodeSpec{Taints: node.Spec.Taints, Unschedulable: node.Spec.Unschedulable}
	return node, nil
}

// NodeStatus removes the inventory of devices. Only admission reads it, and not from a cache.
func NodeStatus(object any) (any, error) {
	status, ok := object.(*v1alpha1.LVMVolumeGroupNodeStatus)
	if !ok {
		return Any(object)
	}
	status.ManagedFields, status.Finalizers = nil, shared(status.Finalizers)
	status.Status.Devices = nil
	words(status.Status.Conditions)
	for i := range status.Status.NodeStatus {
		class := &status.Status.NodeStatus[i]
		class.Name, class.Status, class.Reason = text(class.Name), text(class.Status), text(class.Reason)
		words(class.Conditions)
		class.Excluded = excluded(class.Excluded)
	}
	for i := range status.Spec.NodeStatus {
		class := &status.Spec.NodeStatus[i]
		class.Name, class.Status, class.Reason = text(class.Name), text(class.Status), text(class.Reason)
		class.DeviceDiscoveryPolicy = text(class.DeviceDiscoveryPolicy)
		class.Excluded = excluded(class.Excluded)
	}
	return status, nil
}

// excluded deduplicates the strings of excluded devices, which are much the same on all nodes, and twice in each
// object.
func excluded(devices []v1alpha1.ExcludedDevice) []v1alpha1.ExcludedDevice {
	for i := range devices {
		devices[i].Name = text(devices[i].Name)
		devices[i].Reasons = shared(devices[i].Reasons)
	}
	return devices
}

// words deduplicates the strings of conditions.
func words(conditions []metav1.Condition) {
	for i := range conditions {
		c := &conditions[i]
		c.Type, c.Status, c.Reason, c.Message = text(c.Type), text(c.Status), text(c.Reason), text(c.Message)
	}
}

// Capacity keeps the fields of a CSIStorageCapacity that are necessary, and deduplicates values that many objects have
// in common.
func Capacity(object any) (any, error) {
	capacity, ok := object.(*storagev1.CSIStorageCapacity)
	if !ok {
		return Any(object)
	}
	capacity.ManagedFields = nil
	capacity.StorageClassName, capacity.Namespace = text(capacity.StorageClassName), text(capacity.Namespace)
	capacity.Labels = sharedMap(capacity.Labels)
	// Each node has one object for each StorageClass.
	if capacity.NodeTopology != nil {
		capacity.NodeTopology.MatchLabels = sharedMap(capacity.NodeTopology.MatchLabels)
	}
	if capacity.Capacity != nil && capacity.MaximumVolumeSize != nil &&
		capacity.Capacity.Cmp(*capacity.MaximumVolumeSize) == 0 {
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

// lists and labels hold values that many objects have in common, by their content. They are safe to share because
// nothing modifies cached objects.
var lists, labels sync.Map

func text[T ~string](s T) T { return unique.Make(s).Value() }

// kinds is the maximum number of values to deduplicate. If there are more, the values are not common to many objects.
const kinds = 5000

// once returns the stored value for a key. If there is none, it stores and returns the given one.
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
