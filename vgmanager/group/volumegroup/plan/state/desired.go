package state

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/kube/taint"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// RequiresApproval returns true if a device of the device class must be approved before it is used.
func (d Desired) RequiresApproval() bool { return d.Spec.Approval == v1alpha1.ApprovalRequired }

// Last returns the last of several reasons.
func Last(reasons []device.Reason) device.Reason { return reasons[len(reasons)-1] }

// Desired is the desired state of a LVMVolumeGroup on this node.
type Desired struct {
	// Name is the name of the device class and, unless it uses an existing volume group, of its volume group (Group).
	Name string
	// UID is the UID of the LVMVolumeGroup. Consent to wipe is valid for one UID: a recreated object is a new
	// consent.
	UID types.UID
	// Node is the name of this node, for messages and tags.
	Node string
	// Cluster is the Kubernetes cluster, for tags.
	Cluster    Cluster
	Generation int64
	Spec       v1alpha1.LVMVolumeGroupSpec
	// Selectors are the selectors that apply to this node. If empty, every unused device is selected.
	Selectors []v1alpha1.DeviceSelector
	// Others are the other device classes of this node.
	Others []Other
	// Sharers are the other device classes of this node that use existing volume groups.
	Sharers []Sharer
	// Consent is the consent to use devices, besides that of the selectors.
	Consent Consent
	// Deleting: the volume group must be removed from the node.
	Deleting bool
	// Leaving: the device class no longer selects the node. Existing volumes stay, and no new ones are created.
	Leaving bool
	// Open is the open recovery of the volume group.
	Open OpenRecovery
	// Taint is a taint of the node that is not tolerated, or "". It prevents a new volume group.
	Taint string
}

// Cluster is the identity of a Kubernetes cluster. Former is the one that tags of an earlier version have, or "".
type Cluster struct{ ID, Former string }

// Consent is the consent to use devices for a device class on a node.
type Consent struct {
	// Approvals are the approvals of devices.
	Approvals []v1alpha1.LVMDeviceApproval
	// WipedBefore: another version of the product already wiped devices.
	WipedBefore bool
}

// OpenRecovery is what an LVMRecovery that has not ended requests. It is empty if there is none.
type OpenRecovery struct {
	// Action is the action of the recovery, approved or not, or "".
	Action v1alpha1.RecoveryAction
	// Approved is what the approved plan allows, or nil.
	Approved *Recovery
	// Orphans are the names of the logical volumes that the recovery deletes.
	Orphans []string
	// Import is set if the recovery imports volumes, and Check if it checks file systems.
	Import *Import
	Check  *Check
}

// Allows returns true if the recovery has an action, and its plan is approved.
func (o OpenRecovery) Allows(action v1alpha1.RecoveryAction) bool {
	return o.Approved != nil && o.Approved.Action == action
}

// wipedAnnotationPrefix is the prefix of the annotation with which other versions record, on a LVMVolumeGroup, that
// they wiped its devices on a node.
const wipedAnnotationPrefix = "wiped.devices.lvms.openshift.io/"

// NewDesired returns the desired state of a LVMVolumeGroup on a node. all are the existing LVMVolumeGroups.
func NewDesired(object *v1alpha1.LVMVolumeGroup, all []v1alpha1.LVMVolumeGroup, node *corev1.Node,
	cluster Cluster) (Desired, error) {
	d := Desired{
		Name: object.Name, UID: object.UID, Node: node.Name, Cluster: cluster, Generation: object.Generation,
		Spec:     object.Spec,
		Deleting: !object.DeletionTimestamp.IsZero(),
	}
	_, d.Consent.WipedBefore = object.Annotations[wipedAnnotationPrefix+node.Name]
	var err error
	var applies bool
	if d.Selectors, applies, err = Applies(&object.Spec, node); err != nil {
		return d, fmt.Errorf("LVMVolumeGroup %s: %w", object.Name, err)
	}
	d.Leaving = !applies && !d.Deleting
	if untolerated := taint.Untolerated(node, object.Spec.Tolerations); untolerated != nil {
		d.Taint = untolerated.ToString()
	}
	for i := range all {
		selectors, applies, err := Applies(&all[i].Spec, node)
		if err != nil {
			return d, fmt.Errorf("LVMVolumeGroup %s: %w", all[i].Name, err)
		}
		if other := &all[i]; applies && other.Name != object.Name && other.Spec.ExistingVolumeGroup != "" {
			d.Sharers = append(d.Sharers, Sharer{Name: other.Name, Group: other.Spec.ExistingVolumeGroup,
				Pool: poolOf(&other.Spec)})
			continue
		}
		if applies && all[i].Name != object.Name && all[i].DeletionTimestamp.IsZero() {
			d.Others = append(d.Others, Other{Name: all[i].Name, Selectors: selectors})
		}
	}
	return d, nil
}

// Other is another device class of this node that may select the same devices.
type Other struct {
	Name      string
	Selectors []v1alpha1.DeviceSelector
}

// Sharer is another device class of this node that uses an existing volume group.
type Sharer struct {
	// Name is the name of the device class. Group is the name of the volume group. Pool is the name of the thin pool,
	// or "" for thick volumes.
	Name, Group, Pool string
}

func poolOf(spec *v1alpha1.LVMVolumeGroupSpec) string {
	if spec.ThinPoolConfig == nil {
		return ""
	}
	return spec.ThinPoolConfig.Name
}

// UsesExisting returns true if an administrator created the volume group of the device class.
func (d Desired) UsesExisting() bool { return d.Spec.ExistingVolumeGroup != "" }

// Group returns the name of the volume group.
func (d Desired) Group() string { return cmp.Or(d.Spec.ExistingVolumeGroup, d.Name) }

// Applies returns whether a LVMVolumeGroup applies to a node, and its selectors for that node.
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

// namesDevices returns true if a selector has paths. A selector without paths selects devices by their properties.
func namesDevices(s *v1alpha1.DeviceSelector) bool { return len(s.Paths)+len(s.OptionalPaths) > 0 }

// MayWipe returns true if a selector consents to wipe the devices that it names.
func MayWipe(s *v1alpha1.DeviceSelector) bool {
	return s.ForceWipeDevicesAndDestroyAllData != nil && *s.ForceWipeDevicesAndDestroyAllData
}

// Discovers returns true if the selectors can select devices that are not named.
func Discovers(selectors []v1alpha1.DeviceSelector) bool {
	for i := range selectors {
		if !namesDevices(&selectors[i]) {
			return true
		}
	}
	return len(selectors) == 0
}

// Finds returns true if the selectors select a device by its properties.
func Finds(selectors []v1alpha1.DeviceSelector, d device.Device) bool {
	for i := range selectors {
		if !namesDevices(&selectors[i]) && len(Mismatches(&selectors[i], d)) == 0 {
			return true
		}
	}
	return len(selectors) == 0
}

// AllowsRemovable returns true if a selector that finds the device accepts removable devices.
func AllowsRemovable(selectors []v1alpha1.DeviceSelector, d device.Device) bool {
	for i := range selectors {
		if !namesDevices(&selectors[i]) && selectors[i].Removable && len(Mismatches(&selectors[i], d)) == 0 {
			return true
		}
	}
	return false
}

// Mismatches returns the properties of a device that do not match a selector.
func Mismatches(s *v1alpha1.DeviceSelector, d device.Device) []string {
	var list []string
	lacks := func(wrong bool, format string, args ...any) {
		if wrong {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	lacks(s.MinSize != nil && d.Size < s.MinSize.Value(), "has a size of %s, less than minSize",
		Quantity(lvm.Bytes(d.Size)))
	lacks(s.MaxSize != nil && d.Size > s.MaxSize.Value(), "has a size of %s, more than maxSize",
		Quantity(lvm.Bytes(d.Size)))
	lacks(s.Rotational != nil && d.Rotational != *s.Rotational, "is rotational: %t", d.Rotational)
	lacks(!oneOf(s.Models, d.Model), "has the model %q", d.Model)
	lacks(!oneOf(s.Vendors, d.Vendor), "has the vendor %q", d.Vendor)
	lacks(!oneOf(s.Serials, d.Serial), "has the serial %q", d.Serial)
	lacks(!oneOf(s.Transports, d.Transport), "has the transport %q", d.Transport)
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		value, has := d.Labels[name]
		lacks(!has, "does not have the label %s", name)
		lacks(has && value != s.Labels[name], "has the label %s=%s", name, value)
	}
	return list
}

// oneOf returns true if value matches a pattern, ignoring case. A pattern can end in *. An empty list matches every
// value.
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

// WrittenPaths returns all paths of selectors, cleaned.
func WrittenPaths(selectors []v1alpha1.DeviceSelector) map[string]bool {
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

// FindsWithLabels returns true if the selectors would select a device by its properties if it had the labels.
func FindsWithLabels(selectors []v1alpha1.DeviceSelector, d device.Device) bool {
	without := slices.Clone(selectors)
	for i := range without {
		without[i].Labels = nil
	}
	return Finds(without, d)
}

// IsThisCluster returns true if the value of a tag is an identity of this cluster.
func (d Desired) IsThisCluster(id string) bool {
	return id == d.Cluster.ID || d.Cluster.Former != "" && id == d.Cluster.Former
}
