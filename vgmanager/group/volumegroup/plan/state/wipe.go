package state

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// PresentGroup is a volume group on devices of the node.
type PresentGroup struct {
	Name, UUID string
	Tags       []string
	// SystemID is the host that owns a group that LVM does not list (lvmsystemid(7)), or "".
	SystemID string
	// VG is the group in LVM's report, or nil if LVM does not list it. Its logical volumes are not known then.
	VG *lvm.VG
	// Devices have its physical volumes that are attached.
	Devices []device.Device
}

// String returns the name and the UUID.
func (g PresentGroup) String() string { return fmt.Sprintf("volume group %s (%s)", g.Name, g.UUID) }

// Other returns the volume group as the one of a change that is limited to its devices.
func (g PresentGroup) Other() lvm.OtherGroup {
	return lvm.OtherGroup{Name: g.Name, UUID: g.UUID, Devices: device.Names(g.Devices)}
}

// IsActive returns true if a logical volume is active.
func (g PresentGroup) IsActive() bool {
	active := func(lv lvm.LV) bool { return lv.Attr.Active() }
	return g.VG != nil && (slices.ContainsFunc(g.VG.LVs, active) || slices.ContainsFunc(g.VG.Hidden, active))
}

// Has returns true if the device is one of the group's logical volumes.
func (g PresentGroup) Has(number device.Number) bool {
	same := func(lv lvm.LV) bool { return lv.Major != 0 && device.NewNumber(lv.Major, lv.Minor) == number }
	return g.VG != nil && (slices.ContainsFunc(g.VG.LVs, same) || slices.ContainsFunc(g.VG.Hidden, same))
}

// IsOn returns true if part is the device or one of its partitions.
func IsOn(part, d device.Device) bool {
	return part.Number == d.Number || slices.Contains(d.Partitions, part.Name)
}

// WipeTarget is a device to wipe.
type WipeTarget struct {
	Device device.Device
	// Path is the path that names the device.
	Path string
	// Reasons are the current reasons against the device.
	Reasons []device.Reason
	// Groups are the volume groups with physical volumes on the device or its partitions that are destroyed.
	Groups []PresentGroup
	// Named: the selector lists the UUID of each of these volume groups, and the device has no other content.
	Named bool
	// Active is the UUID of the volume group that DeactivateVG deactivates first, or "".
	Active string
}

// Subject returns the volume group to deactivate, and the path of the device.
func (t WipeTarget) Subject() string { return strings.TrimSpace(t.Active + " " + t.Path) }

// OnDevice returns true if a physical volume of the group is on a device.
func (g PresentGroup) OnDevice(number device.Number) bool {
	return slices.ContainsFunc(g.Devices, func(d device.Device) bool { return d.Number == number })
}

// IsNamed returns true if the consent is for exactly this content: it lists the UUIDs of the volume groups.
func (t WipeTarget) IsNamed() bool { return t.Named }

// Destroys returns true if the wipe Destroys the volume group with a UUID.
func (t WipeTarget) Destroys(uuid string) bool {
	return slices.ContainsFunc(t.Groups, func(g PresentGroup) bool { return g.UUID == uuid })
}

// Found returns the sorted reasons against the device, for wipe records.
func (t WipeTarget) Found() []string {
	var found []string
	for _, r := range t.Reasons {
		found = append(found, r.String())
	}
	slices.Sort(found)
	return found
}

// IsOfProduct returns true if a volume group with these tags belongs to this product, in any cluster.
func IsOfProduct(tags []string) bool {
	return slices.ContainsFunc(tags, func(tag string) bool {
		return tag == wellknown.OwnerTag || strings.HasPrefix(tag, wellknown.ClusterTagPrefix)
	})
}

// IsSubset returns true if a list has no element that another one lacks.
func IsSubset(list, of []string) bool {
	return !slices.ContainsFunc(list, func(e string) bool { return !slices.Contains(of, e) })
}

// WipeRecord records on the node the wipe of one disk for one device class. It is written before the wipe starts.
type WipeRecord struct {
	// Class is the UID of the LVMVolumeGroup with the consent.
	Class string `json:"class"`
	// ID is the identity of the disk, and Names are the other identities, links and paths that it had (IsOf).
	ID    string   `json:"id"`
	Names []string `json:"names,omitempty"`
	// Groups are the UUIDs of the volume groups that were destroyed.
	Groups []string `json:"groups,omitempty"`
	// Name, Found and Backup are information for users.
	Name   string    `json:"name"`
	Found  []string  `json:"found,omitempty"`
	Backup string    `json:"backup,omitempty"`
	Time   time.Time `json:"time"`
	// Approved is the fingerprint for which the wipe was approved, and Blank the one that the wipe leaves. They are
	// empty if the device class requires no approval.
	Approved string `json:"approved,omitempty"`
	Blank    string `json:"blank,omitempty"`
	// Done: the disk was wiped. If it is false, the agent crashed during the wipe. A retry may wipe only the
	// signatures in the record.
	Done bool `json:"done"`
}

// pathPrefix is the prefix of a path among the names of a device.
const pathPrefix = "path:"

// Key returns the key of a disk for wipe records. It does not use an identity that a wipe destroys. A disk
// without a WWN or serial number is identified by the path that names it, so that an error can only prevent a wipe.
func (t WipeTarget) Key(s NodeState) string {
	if id := s.Disks.Identities[t.Device.Number]; strings.HasPrefix(id, "wwn:") || strings.HasPrefix(id, "serial:") {
		return id
	}
	return pathPrefix + t.Path
}

// Names returns what identifies the device apart from the others that are attached: identities that no other device
// has, links, and the paths of the selectors.
func (t WipeTarget) Names(s NodeState) []string {
	var names []string
	shared := false
	for _, mark := range t.Device.Marks() {
		if slices.ContainsFunc(s.Devices, func(o device.Device) bool {
			return !areStacked(o, t.Device) && slices.Contains(o.Marks(), mark)
		}) {
			shared = true
			continue
		}
		names = append(names, mark)
	}
	if !shared {
		names = append(names, links(t.Device.ByID)...) // udev makes them from the identities
	}
	names = append(append(names, links(t.Device.ByPath)...), pathsTo(s, t.Device)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// areStacked returns true if the devices are one, or one is built on the other, as a multipath device on its paths.
func areStacked(a, b device.Device) bool {
	on := func(a, b device.Device) bool {
		return slices.ContainsFunc(a.Children, func(c device.Child) bool { return c.Name == b.Name })
	}
	return a.Number == b.Number || on(a, b) || on(b, a)
}

// links returns links that do not depend on the content of a device as names.
func links(list []string) []string {
	var names []string
	for _, link := range list {
		if !strings.Contains(link, "/lvm-pv-uuid-") {
			names = append(names, pathPrefix+link)
		}
	}
	return names
}

// pathsTo returns the paths of the selectors that lead to a device as names.
func pathsTo(s NodeState, d device.Device) []string {
	var names []string
	for _, p := range s.Disks.Paths {
		if p.Err == nil && p.Number == d.Number {
			names = append(names, pathPrefix+p.Path)
		}
	}
	return names
}

// IsOf returns true if the record may be that of a device: they have an identity, link or path in common, now or at
// the time of the wipe. An error can only prevent a wipe. Two disks with different identities of the same kind are
// different although the same path leads to them, as the disks that were in one slot.
func (r WipeRecord) IsOf(s NodeState, d device.Device) bool {
	known := append([]string{r.ID}, r.Names...)
	marks := d.Marks()
	if overlap(known, marks) {
		return true
	}
	for _, kind := range []string{"wwn:", "serial:"} {
		if hasKind(known, kind) && hasKind(marks, kind) {
			return false
		}
	}
	now := slices.Concat(links(d.ByID), links(d.ByPath), pathsTo(s, d), links([]string{d.Name, d.KernelName}))
	return overlap(known, now)
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(e string) bool { return slices.Contains(b, e) })
}

func hasKind(names []string, kind string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, kind) })
}
