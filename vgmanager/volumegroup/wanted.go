package volumegroup

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/taint"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
)

// Wanted is what a LVMVolumeGroup asks of this node.
type Wanted struct {
	// Name of the device class and of its volume group.
	Name string
	// UID of the LVMVolumeGroup: a new object of the same name is a new consent.
	UID types.UID
	// Node is the name of this node, for messages and tags.
	Node string
	// Cluster is the identity of the Kubernetes cluster, for tags.
	Cluster    string
	Generation int64
	Spec       v1alpha1.LVMVolumeGroupSpec
	// Selectors are those that hold on this node. With none, every unused device is meant.
	Selectors []v1alpha1.DeviceSelector
	// Others are the other device classes of this node.
	Others []Other
	// WipedBefore: another version of the product has already wiped for this device class on this node.
	WipedBefore bool
	// Deleting: the volume group is to be removed from the node.
	Deleting bool
	// Leaving: the device class no longer selects the node. What is in the volume group stays, and nothing new
	// comes in.
	Leaving bool
	// Taint of the node that is not tolerated; "" if there is none. It keeps a new volume group away.
	Taint string
}

// WipedAnnotationPrefix begins the annotation by which other versions note, on a LVMVolumeGroup, that they wiped its
// devices on a node.
const WipedAnnotationPrefix = "wiped.devices.lvms.openshift.io/"

// NewWanted is what a LVMVolumeGroup asks of a node, beside all LVMVolumeGroups that there are.
func NewWanted(object *v1alpha1.LVMVolumeGroup, all []v1alpha1.LVMVolumeGroup, node *corev1.Node,
	cluster string) (Wanted, error) {
	w := Wanted{
		Name: object.Name, UID: object.UID, Node: node.Name, Cluster: cluster, Generation: object.Generation,
		Spec:     object.Spec,
		Deleting: !object.DeletionTimestamp.IsZero(),
	}
	_, w.WipedBefore = object.Annotations[WipedAnnotationPrefix+node.Name]
	var err error
	var applies bool
	if w.Selectors, applies, err = Applies(&object.Spec, node); err != nil {
		return w, fmt.Errorf("LVMVolumeGroup %s: %w", object.Name, err)
	}
	w.Leaving = !applies && !w.Deleting
	if untolerated := taint.Untolerated(node, object.Spec.Tolerations); untolerated != nil {
		w.Taint = untolerated.ToString()
	}
	for i := range all {
		selectors, applies, err := Applies(&all[i].Spec, node)
		if err != nil {
			return w, fmt.Errorf("LVMVolumeGroup %s: %w", all[i].Name, err)
		}
		if applies && all[i].Name != object.Name && all[i].DeletionTimestamp.IsZero() {
			w.Others = append(w.Others, Other{Name: all[i].Name, Selectors: selectors})
		}
	}
	return w, nil
}

// Other is another device class of this node, as far as it may want the same devices.
type Other struct {
	Name      string
	Selectors []v1alpha1.DeviceSelector
}

// Applies tells whether a LVMVolumeGroup is for a node, and which of its selectors hold there.
func Applies(spec *v1alpha1.LVMVolumeGroupSpec, node *corev1.Node) ([]v1alpha1.DeviceSelector, bool, error) {
	selected, err := matches(spec.NodeSelector, node)
	if err != nil || !selected {
		return nil, false, err
	}
	if spec.DeviceSelector != nil {
		return []v1alpha1.DeviceSelector{*spec.DeviceSelector}, true, nil
	}
	var selectors []v1alpha1.DeviceSelector
	for i := range spec.DeviceSelectors {
		selected, err := matches(spec.DeviceSelectors[i].NodeSelector, node)
		if err != nil {
			return nil, false, err
		}
		if selected {
			selectors = append(selectors, spec.DeviceSelectors[i].DeviceSelector)
		}
	}
	return selectors, len(selectors) > 0 || len(spec.DeviceSelectors) == 0, nil
}

func matches(selector *corev1.NodeSelector, node *corev1.Node) (bool, error) {
	if selector == nil {
		return true, nil
	}
	parsed, err := nodeaffinity.NewNodeSelector(selector)
	if err != nil {
		return false, fmt.Errorf("nodeSelector: %w", err)
	}
	return parsed.Match(node), nil
}

// namesDevices tells whether a selector has paths. One without chooses among all devices by property.
func namesDevices(s *v1alpha1.DeviceSelector) bool { return len(s.Paths)+len(s.OptionalPaths) > 0 }

func mayWipe(s *v1alpha1.DeviceSelector) bool {
	return s.ForceWipeDevicesAndDestroyAllData != nil && *s.ForceWipeDevicesAndDestroyAllData
}

// discovers tells whether selectors can take devices that nobody named.
func discovers(selectors []v1alpha1.DeviceSelector) bool {
	for i := range selectors {
		if !namesDevices(&selectors[i]) {
			return true
		}
	}
	return len(selectors) == 0
}

// finds tells whether selectors take a device that they find.
func finds(selectors []v1alpha1.DeviceSelector, d device.Device) bool {
	for i := range selectors {
		if !namesDevices(&selectors[i]) && len(mismatches(&selectors[i], d)) == 0 {
			return true
		}
	}
	return len(selectors) == 0
}

// allowsRemovable tells whether one of the selectors that find the device takes removable ones.
func allowsRemovable(selectors []v1alpha1.DeviceSelector, d device.Device) bool {
	for i := range selectors {
		if !namesDevices(&selectors[i]) && selectors[i].Removable && len(mismatches(&selectors[i], d)) == 0 {
			return true
		}
	}
	return false
}

// mismatches returns what a device lacks of the properties that a selector asks for.
func mismatches(s *v1alpha1.DeviceSelector, d device.Device) []string {
	var list []string
	lacks := func(wrong bool, format string, args ...any) {
		if wrong {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	lacks(s.MinSize != nil && d.Size < s.MinSize.Value(), "has %d bytes, less than minSize", d.Size)
	lacks(s.MaxSize != nil && d.Size > s.MaxSize.Value(), "has %d bytes, more than maxSize", d.Size)
	lacks(s.Rotational != nil && d.Rotational != *s.Rotational, "is rotational: %t", d.Rotational)
	lacks(!oneOf(s.Models, d.Model), "is of the model %q", d.Model)
	lacks(!oneOf(s.Vendors, d.Vendor), "is of the vendor %q", d.Vendor)
	lacks(!oneOf(s.Serials, d.Serial), "has the serial %q", d.Serial)
	lacks(!oneOf(s.Transports, d.Transport), "has the transport %q", d.Transport)
	return list
}

// oneOf compares without regard to case; a pattern may end in *. An empty list leaves the property open.
func oneOf(patterns []v1alpha1.DeviceProperty, value string) bool {
	if len(patterns) == 0 {
		return true
	}
	value = strings.ToLower(strings.TrimSpace(value))
	for _, p := range patterns {
		pattern := strings.ToLower(strings.TrimSpace(string(p)))
		if prefix, open := strings.CutSuffix(pattern, "*"); pattern == value ||
			open && strings.HasPrefix(value, prefix) {
			return true
		}
	}
	return false
}

// writtenPaths are all paths of selectors, cleaned.
func writtenPaths(selectors []v1alpha1.DeviceSelector) map[string]bool {
	written := map[string]bool{}
	for i := range selectors {
		for _, p := range selectors[i].Paths {
			written[path.Clean(string(p))] = true
		}
		for _, p := range selectors[i].OptionalPaths {
			written[path.Clean(string(p))] = true
		}
	}
	return written
}
