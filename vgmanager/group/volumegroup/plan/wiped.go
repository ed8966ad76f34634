package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

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

// NewWipeRecord returns the record of a wipe that is about to start.
func NewWipeRecord(w Desired, s NodeState, target WipeTarget, now time.Time) WipeRecord {
	record := WipeRecord{Class: string(w.UID), ID: target.Key(s), Name: target.Path, Found: target.Found(), Time: now}
	for _, name := range target.names(s) {
		if name != record.ID {
			record.Names = append(record.Names, name)
		}
	}
	for _, g := range target.Groups {
		record.Groups = append(record.Groups, g.UUID)
	}
	return record
}

// pathPrefix is the prefix of a path among the names of a device.
const pathPrefix = "path:"

// Key returns the key of a disk for wipe records. It does not use an identity that a wipe destroys. A disk
// without a WWN or serial number is identified by the path that names it, so that an error can only prevent a wipe.
func (t WipeTarget) Key(s NodeState) string {
	if id := s.Identities[t.Device.Number]; strings.HasPrefix(id, "wwn:") || strings.HasPrefix(id, "serial:") {
		return id
	}
	return pathPrefix + t.Path
}

// names returns what identifies the device apart from the others that are attached: identities that no other device
// has, links, and the paths of the selectors.
func (t WipeTarget) names(s NodeState) []string {
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
	for _, p := range s.Paths {
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

// wipeRecords returns the records for the device class: those of this node, and those of the node status that the node
// lost when it was installed again.
func wipeRecords(w Desired, s NodeState) []WipeRecord {
	var list []WipeRecord
	for _, record := range s.Wiped {
		if record.Class == string(w.UID) {
			list = append(list, record)
		}
	}
	for _, before := range s.Before.WipedDevices {
		if !slices.ContainsFunc(list, func(r WipeRecord) bool { return r.ID == before.ID }) {
			list = append(list, WipeRecord{Class: string(w.UID), ID: before.ID, Names: before.Names,
				Groups: before.VolumeGroups, Name: before.Name, Found: before.Found, Backup: before.Backup,
				Time: before.Time.Time, Done: true})
		}
	}
	return list
}

// alreadyWiped returns why a device is not wiped because it was wiped before, or "". A consent that names a volume
// group by its UUID is for this content only, so another content of the device may have been wiped before.
func alreadyWiped(w Desired, s NodeState, target WipeTarget) string {
	if w.WipedBefore && !target.named {
		return "an earlier version already wiped devices of this device class on this node; nothing is wiped a " +
			"second time"
	}
	for _, record := range wipeRecords(w, s) {
		at := record.Time.UTC().Format("2006-01-02 15:04 UTC")
		switch {
		case !record.IsOf(s, target.Device) || !record.Done && isSubset(target.Found(), record.Found):
		case !target.named:
			return fmt.Sprintf("this disk (%s) was already wiped for the device class on %s, and its present content "+
				"is newer; nothing is wiped a second time", record.ID, at)
		case record.Done && slices.ContainsFunc(record.Groups, target.destroys):
			return fmt.Sprintf("its volume group was already destroyed for the device class on %s, and exists again; "+
				"nothing is destroyed a second time: to destroy it, run vgremove on the node", at)
		}
	}
	return ""
}

// byKernelName returns true if the path of a target is the name that the kernel gave the device.
func byKernelName(t WipeTarget) bool { return t.Path == t.Device.KernelName }

// hasMembers returns true if the device class has physical volumes on this node, or had some at the last observation.
func hasMembers(s NodeState, vg *lvm.VG) bool { return vg != nil || len(s.Before.PhysicalVolumes) > 0 }

// movedPath returns why the device that a path leads to now is not used, or "": the path led to another device, which
// is in the volume group and attached. So the names of the devices have changed, and nobody chose this device.
func movedPath(w Desired, s NodeState, vg *lvm.VG, path Path, d device.Device) string {
	if vg == nil {
		return ""
	}
	for _, pv := range vg.PVs {
		number := NumberOf(pv)
		if pv.Missing || number == d.Number || !ledTo(w, s, path, pv, d) {
			continue
		}
		return fmt.Sprintf("is not the device to which %s led before: that is %s now, which is in volume group %s. "+
			"Name devices in the deviceSelector by links in /dev/disk/by-id that do not change", path.Path, pv.Name,
			vg.Name)
	}
	return ""
}

// ledTo returns true if a path of the selectors led to a physical volume, and not to the device to which it leads now.
func ledTo(w Desired, s NodeState, path Path, pv lvm.PV, d device.Device) bool {
	if beforeOf(s, pv.UUID).Path == path.Path {
		return true
	}
	at := slices.IndexFunc(s.Devices, func(o device.Device) bool { return o.Number == NumberOf(pv) })
	return at >= 0 && slices.ContainsFunc(wipeRecords(w, s), func(r WipeRecord) bool {
		return r.Done && r.Name == path.Path && r.IsOf(s, s.Devices[at]) && !r.IsOf(s, d)
	})
}

// wipedDevices returns the records for the status. It keeps those that only the status has.
func wipedDevices(w Desired, s NodeState) []v1alpha1.WipedDevice {
	var list []v1alpha1.WipedDevice
	for _, record := range wipeRecords(w, s) {
		if record.Done {
			list = append(list, record.status())
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.WipedDevice) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func (r WipeRecord) status() v1alpha1.WipedDevice {
	return v1alpha1.WipedDevice{ID: r.ID, Names: r.Names, Name: r.Name, Found: r.Found, VolumeGroups: r.Groups,
		Backup: r.Backup, Time: metav1.NewTime(r.Time.Truncate(time.Second))}
}

// WithWipe returns the wiped devices of a node status with one more, which is about to be wiped.
func WithWipe(list []v1alpha1.WipedDevice, record WipeRecord) []v1alpha1.WipedDevice {
	list = append(WithoutWipe(list, record), record.status())
	slices.SortFunc(list, func(a, b v1alpha1.WipedDevice) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// WithoutWipe returns the wiped devices of a node status without one.
func WithoutWipe(list []v1alpha1.WipedDevice, record WipeRecord) []v1alpha1.WipedDevice {
	return slices.DeleteFunc(slices.Clone(list), func(o v1alpha1.WipedDevice) bool { return o.ID == record.ID })
}
