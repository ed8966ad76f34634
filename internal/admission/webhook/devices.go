package webhook

import (
	"fmt"
	"maps"
	"math/bits"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

// selection is a deviceSelector with its field.
type selection struct {
	class    lvmv1alpha1.DeviceClass
	at       *field.Path
	selector *lvmv1alpha1.DeviceSelector
	// node restricts it to some nodes of the device class.
	node *corev1.NodeSelector
}

// selections returns the selectors of all device classes.
func selections(classes []lvmv1alpha1.DeviceClass) []selection {
	var all []selection
	for i, class := range classes {
		at := classesPath.Index(i)
		if class.DeviceSelector != nil {
			all = append(all, selection{class: class, at: at.Child("deviceSelector"), selector: class.DeviceSelector})
		}
		for j := range class.DeviceSelectors {
			s := &class.DeviceSelectors[j]
			all = append(all, selection{class: class, at: at.Child("deviceSelectors").Index(j),
				selector: &s.DeviceSelector, node: s.NodeSelector})
		}
	}
	return all
}

// meets reports whether two selections certainly apply to a common node.
func (s selection) meets(o selection) bool {
	return meet(s.class.NodeSelector, o.class.NodeSelector) && meet(s.node, o.node)
}

func named(s *lvmv1alpha1.DeviceSelector) bool { return len(s.Paths)+len(s.OptionalPaths) > 0 }

// transports are the values that the status of a device can have.
var transports = []string{"sata", "sas", "nvme", "virtio", "usb", "scsi", "fc", "iscsi", "mmc", "ata", "spi", "fcoe"}

// minDeviceSize is the minimum size of a device, in bytes (docs/reference/devices.md, TooSmall).
const minDeviceSize int64 = 16 << 20

// propertiesPossible refuses properties that no device can have.
func propertiesPossible(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for _, s := range selections(classes) {
		if size := s.selector.MinSize; size != nil && size.CmpInt64(minDeviceSize) < 0 {
			violations = append(violations, field.Invalid(s.at.Child("minSize"), size.String(),
				"must be at least 16Mi: smaller devices are never used"))
		}
		if low, high := s.selector.MinSize, s.selector.MaxSize; low != nil && high != nil && low.Cmp(*high) > 0 {
			violations = append(violations, field.Invalid(s.at.Child("maxSize"), high.String(),
				fmt.Sprintf("must not be less than minSize, which is %s", low.String())))
		}
		if high := s.selector.MaxSize; high != nil && high.CmpInt64(minDeviceSize) < 0 {
			violations = append(violations, field.Invalid(s.at.Child("maxSize"), high.String(),
				"must be at least 16Mi: smaller devices are never used"))
		}
		for i, transport := range s.selector.Transports {
			if !slices.Contains(transports, strings.ToLower(string(transport))) {
				violations = append(violations, field.NotSupported(s.at.Child("transports").Index(i),
					string(transport), transports))
			}
		}
		violations = append(violations, deviceLabelsPossible(s)...)
	}
	return violations
}

// deviceLabelsPossible refuses labels that no device can have.
func deviceLabelsPossible(s selection) field.ErrorList {
	var violations field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(s.selector.Labels)) {
		at := s.at.Child("labels").Key(key)
		for _, problem := range validation.IsQualifiedName(key) {
			violations = append(violations, field.Invalid(at, key, fmt.Sprintf("device class %q: no device can have "+
				"a label with this key: use a key like tier or example.com/tier: %s", s.class.Name, problem)))
		}
		for _, problem := range validation.IsValidLabelValue(s.selector.Labels[key]) {
			violations = append(violations, field.Invalid(at, s.selector.Labels[key], fmt.Sprintf("device class %q: "+
				"no device can have a label with this value: use a value like fast: %s", s.class.Name, problem)))
		}
	}
	return violations
}

// propertiesDiffer refuses device classes that select the same devices on the same nodes by properties: none of them
// would get a device.
func propertiesDiffer(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	all := selections(classes)
	for i, s := range all {
		for _, o := range all[:i] {
			if s.class.Name != o.class.Name && !named(s.selector) && !named(o.selector) && s.meets(o) &&
				equality.Semantic.DeepEqual(s.selector, o.selector) {
				violations = append(violations, field.Invalid(s.at, s.class.Name, fmt.Sprintf(
					"device class %q selects the same devices on the same nodes, at %s: a device can belong to "+
						"only one device class; change one of the selectors", o.class.Name, o.at)))
			}
		}
	}
	return violations
}

// adoptedAndWiped refuses volume groups that a device class both adopts and destroys.
func adoptedAndWiped(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for _, s := range selections(classes) {
		for i, group := range s.selector.WipeVolumeGroups {
			if slices.ContainsFunc(s.class.Adopt, func(a lvmv1alpha1.VolumeGroupAdoption) bool {
				return a.VolumeGroupUUID == string(group)
			}) {
				violations = append(violations, field.Invalid(s.at.Child("wipeVolumeGroups").Index(i), string(group),
					fmt.Sprintf("device class %q adopts this volume group: remove it from adopt to destroy it with "+
						"its volumes, or from here to use it", s.class.Name)))
			}
		}
	}
	return violations
}

func joined(groups []lvmv1alpha1.VolumeGroupReference) string {
	var names []string
	for _, g := range groups {
		names = append(names, string(g))
	}
	return strings.Join(names, ", ")
}

// minStripeSize is the minimum size of a stripe, in bytes: a page (lvcreate(8)). There is no maximum, because LVM
// reduces the size to that of an extent.
const minStripeSize int64 = 4 << 10

// stripeSizePossible checks that LVM supports a stripe size.
func stripeSizePossible(at *field.Path, size *resource.Quantity) field.ErrorList {
	if size == nil || size.CmpInt64(minStripeSize) >= 0 && bits.OnesCount64(uint64(size.Value())) == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, size.String(),
		"must be a power of two of at least 4Ki; remove it for the default of 64Ki")}
}

// devicesSufficient checks that enough devices are named for the RAID level, or for the stripes of the thin pool or of
// thick volumes.
func devicesSufficient(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for i, class := range classes {
		least, why := classspec.MinimumDevices(class.RAIDConfig, class.ThinPoolConfig, class.ThickConfig)
		if least <= 1 || !allNamed(class) {
			continue // only the nodes know how many devices a property selects
		}
		if count := len(pathsIn(class)); count < least {
			violations = append(violations, field.Invalid(devicesAt(class, classesPath.Index(i)), count, fmt.Sprintf(
				"%s requires at least %d devices on each node, but paths and optionalPaths name %d: name more "+
					"devices", why, least, count)))
		}
	}
	return violations
}

// stripeSizesPossible checks that LVM supports the stripe sizes.
func stripeSizesPossible(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for i, class := range classes {
		at := classesPath.Index(i)
		if raid := class.RAIDConfig; raid != nil {
			violations = append(violations,
				stripeSizePossible(at.Child("raidConfig", "stripeSize"), raid.StripeSize)...)
		}
		if pool := class.ThinPoolConfig; pool != nil {
			violations = append(violations,
				stripeSizeBelowExtent(at.Child("thinPoolConfig", "stripeSize"), pool.StripeSize)...)
		}
		if thick := class.ThickConfig; thick != nil {
			violations = append(violations,
				stripeSizeBelowExtent(at.Child("thickConfig", "stripeSize"), thick.StripeSize)...)
		}
	}
	return violations
}

// stripeSizeBelowExtent checks that LVM supports a stripe size, and does not reduce it to the size of an extent.
func stripeSizeBelowExtent(at *field.Path, size *resource.Quantity) field.ErrorList {
	violations := stripeSizePossible(at, size)
	if size != nil && size.CmpInt64(classspec.MaxStripeSize) > 0 {
		violations = append(violations, field.Invalid(at, size.String(),
			"must be at most 4Mi, the size of an extent; remove it for the default of 64Ki"))
	}
	return violations
}

// stripesReduced returns a warning for each stripe size that is larger than the one that is used.
func stripesReduced(classes []lvmv1alpha1.DeviceClass) []string {
	var all []string
	for _, class := range classes {
		if raid := class.RAIDConfig; raid != nil && raid.StripeSize != nil &&
			raid.StripeSize.CmpInt64(classspec.RAIDStripeBytes(raid)) > 0 {
			all = append(all, fmt.Sprintf("device class %q: raidConfig.stripeSize %s is larger than an extent: "+
				"stripes of %s are used", class.Name, raid.StripeSize,
				resource.NewQuantity(classspec.RAIDStripeBytes(raid), resource.BinarySI)))
		}
	}
	return all
}

// devicesAt returns the field with the devices of a device class.
func devicesAt(class lvmv1alpha1.DeviceClass, at *field.Path) *field.Path {
	if class.DeviceSelector != nil {
		return at.Child("deviceSelector")
	}
	return at.Child("deviceSelectors")
}

// pathsIn returns the distinct paths that a device class names on any node.
func pathsIn(class lvmv1alpha1.DeviceClass) []string {
	var paths []string
	for _, s := range selections([]lvmv1alpha1.DeviceClass{class}) {
		paths = append(paths, pathsOf(s.selector)...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// wipesNew refuses consent to wipe devices that the device class had before: they may contain volumes by now, or belong
// to a user who did not ask for it. Consent is possible together with new devices, and for a device class without an
// LVMVolumeGroup, which has used no device yet.
func wipesNew(before, after []lvmv1alpha1.DeviceClass, begun []lvmv1alpha1.LVMVolumeGroup,
	known inventory) field.ErrorList {
	var violations field.ErrorList
	for _, s := range selections(after) {
		if !wipes(s.selector) || !hasBegun(begun, s.class.Name) {
			continue
		}
		for _, u := range usesOf(s) {
			if known.withoutConsent(before, u) {
				violations = append(violations, field.Forbidden(
					s.at.Child("forceWipeDevicesAndDestroyAllData"), fmt.Sprintf(
						"%s was already in device class %q without being wiped, and may contain data: wipe it "+
							"manually, or set this field only in a deviceSelectors entry for new devices",
						path.Clean(u.path), s.class.Name)))
			}
		}
	}
	return violations
}

// kernelName matches the names that the kernel gives block devices in the order in which it finds them.
var kernelName = regexp.MustCompile(
	`^/dev/((sd|hd|vd|xvd)[a-z]+[0-9]*|(nvme[0-9]+n|mmcblk|dm-|md|loop)[0-9]+(p[0-9]+)?)$`)

// wipesByLinks refuses consent to wipe a device by its kernel's name, if the device class has volume groups: after a
// restart, the name can lead to another disk. An approval (LVMDeviceApproval) is for one disk, whatever its name.
func wipesByLinks(before, after []lvmv1alpha1.DeviceClass, begun []lvmv1alpha1.LVMVolumeGroup,
	known inventory) field.ErrorList {
	var violations field.ErrorList
	allowed := map[string]bool{}
	for _, s := range selections(before) {
		for _, u := range usesOf(s) {
			allowed[u.key()] = allowed[u.key()] || wipes(s.selector)
		}
	}
	for _, s := range selections(after) {
		if !wipes(s.selector) || !hasBegun(begun, s.class.Name) || s.class.Approval == lvmv1alpha1.ApprovalRequired {
			continue
		}
		for _, u := range usesOf(s) {
			if name := path.Clean(u.path); kernelName.MatchString(name) && !allowed[u.key()] {
				violations = append(violations, field.Invalid(u.at, u.path, "is a name of the kernel, which can lead "+
					"to another disk after a restart, and its content would be destroyed: name the device by a link "+
					"in /dev/disk/by-id or /dev/disk/by-path"+known.linkTo(s, name)))
			}
		}
	}
	return violations
}

// linkTo returns a link to the device that has a name on a node of a selection, as the end of a sentence, or "".
func (i inventory) linkTo(s selection, name string) string {
	for n := range i.nodes {
		node := &i.nodes[n]
		if !selectsNode(s.class.NodeSelector, node) || !selectsNode(s.node, node) {
			continue
		}
		d := i.devicesOf(node.Name).at(name)
		switch {
		case d != nil && len(d.ByID) > 0:
			return fmt.Sprintf("; on node %s it is /dev/disk/by-id/%s", node.Name, d.ByID[0])
		case d != nil && len(d.ByPath) > 0:
			return fmt.Sprintf("; on node %s it is /dev/disk/by-path/%s", node.Name, d.ByPath[0])
		}
	}
	return ""
}

// hasBegun reports whether a device class has an LVMVolumeGroup. A class without one has used no device yet.
func hasBegun(begun []lvmv1alpha1.LVMVolumeGroup, class string) bool {
	return slices.ContainsFunc(begun, func(g lvmv1alpha1.LVMVolumeGroup) bool { return g.Name == class })
}

// withoutConsent reports whether the old spec had a path in the same device class without consent, on a node for which
// the path now applies.
func (i inventory) withoutConsent(before []lvmv1alpha1.DeviceClass, now use) bool {
	for _, s := range selections(before) {
		if wipes(s.selector) || !slices.ContainsFunc(usesOf(s), func(u use) bool { return u.key() == now.key() }) {
			continue
		}
		onOneNode := func(n corev1.Node) bool {
			return selectsNode(s.class.NodeSelector, &n) && selectsNode(s.node, &n) && selectsNode(now.node, &n)
		}
		if s.meets(now.selection) || slices.ContainsFunc(i.nodes, onOneNode) {
			return true
		}
	}
	return false
}

func wipes(s *lvmv1alpha1.DeviceSelector) bool {
	return s.ForceWipeDevicesAndDestroyAllData != nil && *s.ForceWipeDevicesAndDestroyAllData
}

func pathsOf(s *lvmv1alpha1.DeviceSelector) []string {
	var paths []string
	for _, p := range slices.Concat(s.Paths, s.OptionalPaths) {
		paths = append(paths, path.Clean(string(p)))
	}
	return paths
}

// kernelNames returns the paths of a selector that are names of the kernel.
func kernelNames(s *lvmv1alpha1.DeviceSelector) []string {
	return slices.DeleteFunc(pathsOf(s), func(p string) bool { return !kernelName.MatchString(p) })
}

// deviceWarnings returns warnings about devices for valid settings with surprising effects.
func deviceWarnings(before, after []lvmv1alpha1.DeviceClass, known inventory) admission.Warnings {
	var all admission.Warnings
	for _, s := range selections(after) {
		if wipes(s.selector) {
			all = append(all,
				fmt.Sprintf(
					"device class %q: all data on %s will be destroyed, once for each disk, unless the disk is in "+
						"use",
					s.class.Name, strings.Join(pathsOf(s.selector), ", ")))
		}
		names := kernelNames(s.selector)
		if wipes(s.selector) && len(names) > 0 && s.class.Approval != lvmv1alpha1.ApprovalRequired {
			all = append(all, fmt.Sprintf("device class %q: %s can lead to another disk after a restart: once the "+
				"volume group exists, no disk is wiped by such a name; use links in /dev/disk/by-id or "+
				"/dev/disk/by-path",
				s.class.Name, strings.Join(names, ", ")))
		}
		if groups := s.selector.WipeVolumeGroups; len(groups) > 0 {
			all = append(all, fmt.Sprintf("device class %q: volume groups on %s will be destroyed with all their "+
				"logical volumes, unless one is in use: %s", s.class.Name, strings.Join(pathsOf(s.selector), ", "),
				joined(groups)))
		}
	}
	for _, class := range after {
		if pool := class.ThinPoolConfig; pool != nil && pool.AutoExtend != nil && pool.SizePercent == 100 {
			all = append(all, fmt.Sprintf("device class %q: thinPoolConfig.autoExtend has no effect until a device "+
				"is added, because sizePercent is 100", class.Name))
		}
	}
	return slices.Concat(all, stripesReduced(after), sizesIgnored(after), known.tooFewDevices(after),
		known.unusable(after), known.unknownNodes(after), known.stillNamed(after),
		known.nothingLeft(after), known.takenOut(before, after), known.poolsClosed(before, after),
		known.nodesLeft(before, after))
}
