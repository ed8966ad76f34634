package webhook

import (
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// highSizePercent is the sizePercent of a thin pool above which its metadata may be unable to grow.
const highSizePercent = 90

// The limits of LVM for thin pools, in bytes (lvmthin(7)).
const (
	minChunkSize    int64 = 64 << 10
	maxChunkSize    int64 = 1 << 30
	minMetadataSize int64 = 2 << 20
	maxMetadataSize int64 = 16 << 30
)

// classesPath is the path of the field to which most rules refer.
var classesPath = field.NewPath("spec", "storage", "deviceClasses")

// validateSpec returns the violations of a spec that the schema of the CRD cannot detect.
func validateSpec(spec lvmv1alpha1.LVMClusterSpec) field.ErrorList {
	classes := spec.Storage.DeviceClasses
	return slices.Concat(devicesNamed(classes), validateUniquePaths(classes), propertiesPossible(classes),
		propertiesDiffer(classes), adoptedAndWiped(classes), devicesSufficient(classes), stripeSizesPossible(classes),
		sizesPossible(classes), poolNamesPossible(classes), optionsPossible(classes), existingGroupsPossible(classes),
		namespaceLimitsPossible(classes), bandwidthPossible(spec.VolumeCopy))
}

// inNamespace requires the operator's namespace: the operator watches no other one.
func inNamespace(cluster *lvmv1alpha1.LVMCluster, namespace string) *field.Error {
	if cluster.Namespace == namespace {
		return nil
	}
	return field.Invalid(field.NewPath("metadata", "namespace"), cluster.Namespace,
		fmt.Sprintf("an LVMCluster must be created in namespace %q, where the operator runs",
			namespace))
}

// validateSingleton refuses a second LVMCluster.
func validateSingleton(cluster *lvmv1alpha1.LVMCluster, others []lvmv1alpha1.LVMCluster) *field.Error {
	for _, other := range others {
		if other.Name != cluster.Name {
			return field.Forbidden(field.NewPath("metadata", "name"), fmt.Sprintf(
				"LVMCluster %q already exists, and a cluster can have only one: add your device classes to it, or "+
					"delete it first",
				other.Namespace+"/"+other.Name))
		}
	}
	return nil
}

// devicesNamed requires device selectors if there are several device classes: a class without one uses every unused
// device, including those of the other classes.
func devicesNamed(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	managed := 0
	for _, class := range classes {
		if class.ExistingVolumeGroup == "" {
			managed++
		}
	}
	if managed < 2 {
		return nil
	}
	var violations field.ErrorList
	for i, class := range classes {
		if usesUnused(class) {
			violations = append(violations, field.Required(classesPath.Index(i).Child("deviceSelector"), fmt.Sprintf(
				"device class %q would use every unused device, including those for other device classes: select "+
					"its devices by paths, optionalPaths or properties",
				class.Name)))
		}
	}
	return violations
}

// usesUnused reports whether a device class uses every unused device.
func usesUnused(class lvmv1alpha1.DeviceClass) bool {
	return class.ExistingVolumeGroup == "" && class.DeviceSelector == nil && len(class.DeviceSelectors) == 0
}

// use is a path with the field that contains it.
type use struct {
	selection
	at   *field.Path
	path string
	// kind is what messages call the path. The words are those of upstream, which automation reads.
	kind string
}

// validateUniquePaths requires that a device belongs to one device class of a node, and is named once in it.
func validateUniquePaths(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	var seen []use
	for _, s := range selections(classes) {
		for _, u := range usesOf(s) {
			if violation := u.clash(seen); violation != nil {
				violations = append(violations, violation)
			}
			seen = append(seen, u)
		}
	}
	return violations
}

// usesOf returns the paths of a selector.
func usesOf(s selection) []use {
	var all []use
	for i, p := range s.selector.Paths {
		all = append(all, use{s, s.at.Child("paths").Index(i), string(p), "device path"})
	}
	for i, p := range s.selector.OptionalPaths {
		all = append(all, use{s, s.at.Child("optionalPaths").Index(i), string(p), "optional device path"})
	}
	return all
}

// clash returns the violation if a path conflicts with an earlier one, or nil.
func (u use) clash(seen []use) *field.Error {
	for _, other := range seen {
		switch {
		case path.Clean(u.path) != path.Clean(other.path) || !meet(u.node, other.node):
		case u.class.Name == other.class.Name:
			return field.Invalid(u.at, u.path, fmt.Sprintf(
				"%s %s is specified at multiple places in deviceClass %q, also at %s: keep one of them",
				u.kind, u.path, u.class.Name, other.at))
		case equality.Semantic.DeepEqual(u.class.NodeSelector, other.class.NodeSelector):
			return field.Invalid(u.at, u.path, fmt.Sprintf(
				"device classes %q and %q name the same device on the same nodes, also at %s: a device can belong "+
					"to only one device class; remove it from one of them",
				other.class.Name, u.class.Name, other.at))
		}
	}
	return nil
}

// sharedPaths returns a warning for each path that a device class for all nodes and one for some nodes name. Upstream
// accepts that, because the nodes can have different disks.
func sharedPaths(classes []lvmv1alpha1.DeviceClass) admission.Warnings {
	var all admission.Warnings
	var seen []use
	for _, s := range selections(classes) {
		for _, u := range usesOf(s) {
			for _, other := range seen {
				if path.Clean(u.path) == path.Clean(other.path) && u.class.Name != other.class.Name &&
					(u.class.NodeSelector == nil) != (other.class.NodeSelector == nil) {
					all = append(all, fmt.Sprintf("device classes %q and %q both name %s, and one of them selects all "+
						"nodes: on a node of both, neither uses the device unless it is already in the volume group "+
						"of one", other.class.Name, u.class.Name, u.path))
				}
			}
			seen = append(seen, u)
		}
	}
	return all
}

// meet reports whether two node selectors certainly have nodes in common: they are equal, or one of them selects all
// nodes. For two different selectors this is unknown; on a common node, the node agent assigns the device to the first
// device class.
func meet(a, b *corev1.NodeSelector) bool {
	return a == nil || b == nil || equality.Semantic.DeepEqual(a, b)
}

// sizesPossible checks the chunk and metadata sizes of thin pools against the limits of LVM. The schema cannot do so,
// because it has no rules for quantities.
func sizesPossible(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for i, class := range classes {
		pool := class.ThinPoolConfig
		at := classesPath.Index(i).Child("thinPoolConfig")
		if pool == nil {
			continue
		}
		if size := pool.ChunkSize; size != nil &&
			(!between(*size, minChunkSize, maxChunkSize) || size.Value()%minChunkSize != 0) {
			violations = append(violations, field.Invalid(at.Child("chunkSize"), size.String(),
				"must be a multiple of 64Ki from 64Ki to 1Gi; remove it for a default that depends on the size of "+
					"the thin pool"))
		}
		if size := pool.MetadataSize; size != nil && !between(*size, minMetadataSize, maxMetadataSize) {
			violations = append(violations, field.Invalid(at.Child("metadataSize"), size.String(),
				"must be from 2Mi to 16Gi; remove it for the default of 1Gi"))
		}
	}
	return violations
}

func between(size resource.Quantity, low, high int64) bool {
	return size.CmpInt64(low) >= 0 && size.CmpInt64(high) <= 0
}

// warnings returns warnings for valid settings with surprising effects.
func warnings(spec lvmv1alpha1.LVMClusterSpec) admission.Warnings {
	classes := spec.Storage.DeviceClasses
	all := sharedPaths(classes)
	if len(classes) > 0 && !anyDefault(classes) {
		all = append(all, "no device class is the default: every PersistentVolumeClaim must set storageClassName")
	}
	for _, class := range classes {
		if usesUnused(class) {
			all = append(all,
				fmt.Sprintf("device class %q has no deviceSelector: it will use every unused device of its nodes%s",
					class.Name, later(class)))
		}
		if pool := class.ThinPoolConfig; pool != nil && pool.SizePercent > highSizePercent &&
			class.ExistingVolumeGroup == "" {
			all = append(all, fmt.Sprintf(
				"device class %q: thinPoolConfig.sizePercent %d leaves little free space in the volume group: "+
					"above %d, there may be no space to extend the metadata of the thin pool, which fails if its "+
					"metadata is full",
				class.Name, pool.SizePercent, highSizePercent))
		}
	}
	return all
}

// later returns the part of a warning that describes devices that are added later.
func later(class lvmv1alpha1.DeviceClass) string {
	if class.DeviceDiscoveryPolicy == lvmv1alpha1.DeviceDiscoveryDynamic {
		return ", including devices that are added later"
	}
	return ""
}

func anyDefault(classes []lvmv1alpha1.DeviceClass) bool {
	for _, class := range classes {
		if class.Default {
			return true
		}
	}
	return false
}
