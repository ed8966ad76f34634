package webhook

import (
	"fmt"
	"math/bits"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// selection is a deviceSelector and where it is written.
type selection struct {
	class    lvmv1alpha1.DeviceClass
	at       *field.Path
	selector *lvmv1alpha1.DeviceSelector
	// node narrows it down to some nodes of the device class.
	node *corev1.NodeSelector
}

// selections are the selectors of all device classes.
func selections(classes []lvmv1alpha1.DeviceClass) []selection {
	var all []selection
	for i, class := range classes {
		at := classesPath.Index(i)
		if class.DeviceSelector != nil {
			all = append(all, selection{class: class, at: at.Child("deviceSelector"), selector: class.DeviceSelector})
		}
		for j := range class.DeviceSelectors {
			s := &class.DeviceSelectors[j]
			all = append(all, selection{class: class, at: at.Child("deviceSelectors").Index(j), selector: &s.DeviceSelector, node: s.NodeSelector})
		}
	}
	return all
}

// meets reports whether two selections surely hold on a node together.
func (s selection) meets(o selection) bool {
	return meet(s.class.NodeSelector, o.class.NodeSelector) && meet(s.node, o.node)
}

func named(s *lvmv1alpha1.DeviceSelector) bool { return len(s.Paths)+len(s.OptionalPaths) > 0 }

// transports that a device can have, as its status names them.
var transports = []string{"sata", "sas", "nvme", "virtio", "usb", "scsi", "fc", "iscsi", "mmc", "ata", "spi", "fcoe"}

// minDeviceSize is the least that a device can have, in bytes (docs/reference/devices.md, TooSmall).
const minDeviceSize int64 = 16 << 20

// propertiesPossible: what no device can have selects nothing, and says so.
func propertiesPossible(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for _, s := range selections(classes) {
		if size := s.selector.MinSize; size != nil && size.CmpInt64(minDeviceSize) < 0 {
			violations = append(violations, field.Invalid(s.at.Child("minSize"), size.String(), "must be at least 16Mi: smaller devices are never used"))
		}
		if low, high := s.selector.MinSize, s.selector.MaxSize; low != nil && high != nil && low.Cmp(*high) > 0 {
			violations = append(violations, field.Invalid(s.at.Child("maxSize"), high.String(), fmt.Sprintf("must not be below minSize, which is %s", low.String())))
		}
		if high := s.selector.MaxSize; high != nil && high.CmpInt64(minDeviceSize) < 0 {
			violations = append(violations, field.Invalid(s.at.Child("maxSize"), high.String(), "must be at least 16Mi: smaller devices are never used"))
		}
		for i, transport := range s.selector.Transports {
			if !slices.Contains(transports, strings.ToLower(string(transport))) {
				violations = append(violations, field.NotSupported(s.at.Child("transports").Index(i), string(transport), transports))
			}
		}
	}
	return violations
}

// propertiesDiffer: of two device classes that look for the same devices on the same nodes none would get any.
func propertiesDiffer(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	all := selections(classes)
	for i, s := range all {
		for _, o := range all[:i] {
			if s.class.Name != o.class.Name && !named(s.selector) && !named(o.selector) && s.meets(o) && equality.Semantic.DeepEqual(s.selector, o.selector) {
				violations = append(violations, field.Invalid(s.at, s.class.Name, fmt.Sprintf(
					"device class %q looks for the same devices on the same nodes, at %s: a device can belong to one device class, make the selectors differ", o.class.Name, o.at)))
			}
		}
	}
	return violations
}

// The limits of LVM for the size of stripes, in bytes (lvcreate(8)): from a page up, a power of two. Beyond the greatest a stripe is
// larger than an extent.
const (
	minStripeSize int64 = 4 << 10
	maxStripeSize int64 = 4 << 20
)

// raidPossible: the named devices are enough for the level, and LVM can make the stripes.
func raidPossible(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for i, class := range classes {
		raid, at := class.RAIDConfig, classesPath.Index(i)
		if raid == nil {
			continue
		}
		if size := raid.StripeSize; size != nil && (!between(*size, minStripeSize, maxStripeSize) || bits.OnesCount64(uint64(size.Value())) != 1) {
			violations = append(violations, field.Invalid(at.Child("raidConfig", "stripeSize"), size.String(), "must be a power of two from 4Ki to 4Mi; leave it out for 64Ki"))
		}
		// Entries of deviceSelectors may hold together on a node, so only all of them are surely too few.
		count, open := 0, false
		for _, s := range selections([]lvmv1alpha1.DeviceClass{class}) {
			count, open = count+len(pathsOf(s.selector)), open || !named(s.selector)
		}
		if count > 0 && !open && count < raid.MinimumDevices() {
			violations = append(violations, field.Invalid(at.Child("deviceSelector"), count, fmt.Sprintf(
				"%s needs at least %d devices on each node, and %d are named: name more of them", raid.Type, raid.MinimumDevices(), count)))
		}
	}
	return violations
}

// wipesNew: consent to destroy what is on devices is for devices that come with it. Those that were there before may have volumes by
// now, or belong to somebody who never asked for that.
func wipesNew(before, after []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for _, s := range selections(after) {
		if !wipes(s.selector) {
			continue
		}
		for _, p := range pathsOf(s.selector) {
			if wasThereUnwiped(before, s, p) {
				violations = append(violations, field.Forbidden(s.at.Child("forceWipeDevicesAndDestroyAllData"), fmt.Sprintf(
					"%s was in device class %q before, without being wiped, and may hold data by now: wipe it by hand, or use a deviceSelectors entry with this field for new devices only", p, s.class.Name)))
			}
		}
	}
	return violations
}

// wasThereUnwiped reports whether a path stood in the device class without consent: for the same nodes, or, where no entry was for
// just these, for any.
func wasThereUnwiped(before []lvmv1alpha1.DeviceClass, s selection, path string) bool {
	unwiped := false
	for _, o := range selections(before) {
		if o.class.Name != s.class.Name || !slices.Contains(pathsOf(o.selector), path) {
			continue
		}
		if equality.Semantic.DeepEqual(o.node, s.node) {
			return !wipes(o.selector)
		}
		unwiped = unwiped || !wipes(o.selector)
	}
	return unwiped
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

// deviceWarnings are about what is allowed and may surprise, on devices.
func deviceWarnings(before, after []lvmv1alpha1.DeviceClass) admission.Warnings {
	var all admission.Warnings
	for _, s := range selections(after) {
		if wipes(s.selector) {
			all = append(all, fmt.Sprintf("device class %q: everything on %s will be destroyed, once for each disk, unless it is in use", s.class.Name, strings.Join(pathsOf(s.selector), ", ")))
		}
	}
	for _, class := range after {
		if pool := class.ThinPoolConfig; pool != nil && pool.AutoExtend != nil && pool.SizePercent == 100 {
			all = append(all, fmt.Sprintf("device class %q: thinPoolConfig.autoExtend has nothing to take while sizePercent is 100, until a device is added", class.Name))
		}
		for _, request := range class.DeviceRequests {
			if class.DeviceSelector != nil && request.Action == lvmv1alpha1.DeviceActionRemove && slices.Contains(pathsOf(class.DeviceSelector), path.Clean(request.Device)) {
				all = append(all, fmt.Sprintf("device class %q: %s is to be removed and is still named in the deviceSelector: it is not taken again as long as the request stands; take it out of the selector too", class.Name, request.Device))
			}
		}
		all = append(all, takenOut(before, class)...)
	}
	return all
}

// takenOut tells what happens to a device whose path is not there any more.
func takenOut(before []lvmv1alpha1.DeviceClass, after lvmv1alpha1.DeviceClass) admission.Warnings {
	still := map[string]bool{}
	for _, s := range selections([]lvmv1alpha1.DeviceClass{after}) {
		for _, p := range pathsOf(s.selector) {
			still[p] = true
		}
	}
	var gone []string
	for _, s := range selections(before) {
		for _, p := range pathsOf(s.selector) {
			if s.class.Name == after.Name && !still[p] {
				gone = append(gone, p)
			}
		}
	}
	if len(gone) == 0 || len(still) == 0 {
		// Without any path the device class finds its devices by itself, and keeps what it has.
		return nil
	}
	return admission.Warnings{fmt.Sprintf(
		"device class %q: what is on %s will be moved to the other devices of its node, and the device taken out of the group; put the path back to stop that", after.Name, strings.Join(gone, ", "))}
}
