package selection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// NewWipeRecord returns the record of a wipe that is about to start.
func NewWipeRecord(d state.Desired, s state.NodeState, target state.WipeTarget, now time.Time) state.WipeRecord {
	record := state.WipeRecord{Class: string(d.UID), ID: target.Key(s), Name: target.Path, Found: target.Found(),
		Time: now}
	for _, name := range target.Names(s) {
		if name != record.ID {
			record.Names = append(record.Names, name)
		}
	}
	for _, g := range target.Groups {
		record.Groups = append(record.Groups, g.UUID)
	}
	return record
}

// wipeRecords returns the records for the device class: those of this node, and those of the node status that the node
// lost when it was installed again.
func wipeRecords(d state.Desired, s state.NodeState) []state.WipeRecord {
	var list []state.WipeRecord
	for _, record := range s.Records.Wiped {
		if record.Class == string(d.UID) {
			list = append(list, record)
		}
	}
	for _, before := range s.Before.WipedDevices {
		if !slices.ContainsFunc(list, func(r state.WipeRecord) bool { return r.ID == before.ID }) {
			list = append(list, state.WipeRecord{Class: string(d.UID), ID: before.ID, Names: before.Names,
				Groups: before.VolumeGroups, Name: before.Name, Found: before.Found, Backup: before.Backup,
				Time: before.Time.Time, Done: true})
		}
	}
	return list
}

// alreadyWiped returns why a device is not wiped because it was wiped before, or "". A consent that names a volume
// group by its UUID is for this content only, so another content of the device may have been wiped before.
func alreadyWiped(d state.Desired, s state.NodeState, target state.WipeTarget) string {
	if d.Consent.WipedBefore && !target.Named {
		return "an earlier version already wiped devices of this device class on this node; nothing is wiped a " +
			"second time"
	}
	for _, record := range wipeRecords(d, s) {
		at := record.Time.UTC().Format("2006-01-02 15:04 UTC")
		switch {
		case !record.IsOf(s, target.Device) || !record.Done && state.IsSubset(target.Found(), record.Found):
		case !target.Named:
			return fmt.Sprintf("this disk (%s) was already wiped for the device class on %s, and its present content "+
				"is newer; nothing is wiped a second time", record.ID, at)
		case record.Done && slices.ContainsFunc(record.Groups, target.Destroys):
			return fmt.Sprintf("its volume group was already destroyed for the device class on %s, and exists again; "+
				"nothing is destroyed a second time: to destroy it, run vgremove on the node", at)
		}
	}
	return ""
}

// byKernelName returns true if the path of a target is the name that the kernel gave the device.
func byKernelName(t state.WipeTarget) bool { return t.Path == t.Device.KernelName }

// hasMembers returns true if the device class has physical volumes on this node, or had some at the last observation.
func hasMembers(s state.NodeState, vg *lvm.VG) bool {
	return vg != nil || len(s.Before.PhysicalVolumes) > 0
}

// movedPath returns why the device that a path leads to now is not used, or "": the path led to another device, which
// is in the volume group and attached. So the names of the devices have changed, and nobody chose this device.
func movedPath(desired state.Desired, s state.NodeState, vg *lvm.VG, path state.Path, d device.Device) string {
	if vg == nil {
		return ""
	}
	for _, pv := range vg.PVs {
		number := state.NumberOf(pv)
		if pv.Missing || number == d.Number || !ledTo(desired, s, path, pv, d) {
			continue
		}
		return fmt.Sprintf("is not the device to which %s led before: that is %s now, which is in volume group %s. "+
			"Name devices in the deviceSelector by links in /dev/disk/by-id that do not change", path.Path, pv.Name,
			vg.Name)
	}
	return ""
}

// ledTo returns true if a path of the selectors led to a physical volume, and not to the device to which it leads now.
func ledTo(desired state.Desired, s state.NodeState, path state.Path, pv lvm.PV, d device.Device) bool {
	if state.BeforeOf(s, pv.UUID).Path == path.Path {
		return true
	}
	at := slices.IndexFunc(s.Devices, func(o device.Device) bool { return o.Number == state.NumberOf(pv) })
	return at >= 0 && slices.ContainsFunc(wipeRecords(desired, s), func(r state.WipeRecord) bool {
		return r.Done && r.Name == path.Path && r.IsOf(s, s.Devices[at]) && !r.IsOf(s, d)
	})
}

// WipedDevices returns the records for the status. It keeps those that only the status has.
func WipedDevices(d state.Desired, s state.NodeState) []v1alpha1.WipedDevice {
	var list []v1alpha1.WipedDevice
	for _, record := range wipeRecords(d, s) {
		if record.Done {
			list = append(list, status(record))
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.WipedDevice) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func status(r state.WipeRecord) v1alpha1.WipedDevice {
	return v1alpha1.WipedDevice{ID: r.ID, Names: r.Names, Name: r.Name, Found: r.Found, VolumeGroups: r.Groups,
		Backup: r.Backup, Time: metav1.NewTime(r.Time.Truncate(time.Second))}
}

// WithWipe returns the wiped devices of a node status with one more, which is about to be wiped.
func WithWipe(list []v1alpha1.WipedDevice, record state.WipeRecord) []v1alpha1.WipedDevice {
	list = append(WithoutWipe(list, record), status(record))
	slices.SortFunc(list, func(a, b v1alpha1.WipedDevice) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// WithoutWipe returns the wiped devices of a node status without one.
func WithoutWipe(list []v1alpha1.WipedDevice, record state.WipeRecord) []v1alpha1.WipedDevice {
	return slices.DeleteFunc(slices.Clone(list), func(o v1alpha1.WipedDevice) bool { return o.ID == record.ID })
}
