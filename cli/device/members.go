package device

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/objects"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

// member is a device of a volume group.
type member struct {
	at session.Target
	pv v1alpha1.PhysicalVolumeStatus
	// names are all names of the device: a request can have any of them.
	names []string
}

// findMember returns the device of a device class with a name: a path, the ID, a link in /dev/disk/by-id or
// /dev/disk/by-path, or the UUID of the physical volume.
func findMember(at session.Target, name string) (member, error) {
	group := at.Group()
	devices := objects.DevicesNamed(at.Status, name)
	var found []member
	for _, pv := range group.PhysicalVolumes {
		m := member{at: at, pv: pv, names: []string{pv.UUID, pv.Name, pv.DeviceID, pv.Path}}
		isMember := name == pv.UUID || len(devices) == 0 && (name == pv.Name || name == pv.DeviceID || name == pv.Path)
		one := v1alpha1.VGStatus{PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{pv}}
		for i := range at.Status.Status.Devices {
			if device := &at.Status.Status.Devices[i]; verdict.Uses(&one, device) {
				m.names = append(m.names, objects.NamesOfDevice(device)...)
				isMember = isMember || slices.Contains(devices, device)
			}
		}
		if isMember {
			m.names = slices.DeleteFunc(m.names, func(n string) bool { return n == "" })
			found = append(found, m)
		}
	}
	switch len(found) {
	case 0:
		return member{}, fmt.Errorf("the volume group of %s does not have the device %s: it has %s", at, name,
			strings.Join(memberNames(group), ", "))
	case 1:
		return found[0], nil
	}
	return member{}, fmt.Errorf("several devices of the volume group of %s have the name %s: give the UUID of the "+
		"physical volume", at, name)
}

// memberNames returns the devices of a volume group with the UUIDs of their physical volumes.
func memberNames(group *v1alpha1.VGStatus) []string {
	var names []string
	for _, pv := range group.PhysicalVolumes {
		names = append(names, fmt.Sprintf("%s (%s)", cmp.Or(pv.Name, "a missing device"), pv.UUID))
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return names
}

// name returns how messages name the device.
func (m member) name() string { return cmp.Or(m.pv.Name, m.pv.UUID) }

// isAbout returns true if a request names the device.
func (m member) isAbout(r v1alpha1.DeviceRequest) bool {
	return r.Node == m.at.Node && slices.Contains(m.names, r.Device)
}

// room returns the free space of the other devices of the group that accept data, in bytes, and whether it is known.
func (m member) room() (int64, bool) {
	var room int64
	for _, pv := range m.at.Group().PhysicalVolumes {
		if pv.UUID == m.pv.UUID || pv.State != v1alpha1.PhysicalVolumeReady {
			continue
		}
		if pv.Free == nil {
			return 0, false
		}
		room += pv.Free.Value()
	}
	return room, true
}

// effects returns what a request leads to, in sentences; the worst first.
func (m member) effects(class *v1alpha1.DeviceClass, action v1alpha1.DeviceAction) []string {
	switch {
	case action == "":
		effects := []string{"The device accepts new data again. A move that runs is aborted, and the data stays " +
			"where it was."}
		if m.pv.Suspended {
			effects = append(effects, "The device is resumed too: new Pods get the volumes on it again.")
		}
		return effects
	case m.pv.State == v1alpha1.PhysicalVolumeMissing:
		return m.effectsOfMissing(class)
	case action == v1alpha1.DeviceActionCordon:
		return m.effectsOfCordon()
	case action == v1alpha1.DeviceActionDrain:
		return append(m.effectsOfMove(), "The device stays in the volume group, empty and cordoned, until the "+
			"request is withdrawn (uncordon).")
	}
	return append(m.effectsOfRemoval(class), m.effectsOfMove()...)
}

func (m member) effectsOfCordon() []string {
	effects := []string{"Existing data stays available. No new data is placed on the device."}
	if m.pv.State == v1alpha1.PhysicalVolumeDraining {
		effects = append(effects, "The move that runs is aborted, and the data stays where it was.")
	}
	if room, known := m.room(); known && room == 0 {
		effects = slices.Insert(effects, 0, "No other device of the volume group has free space: volumes that need "+
			"new space can be neither created nor expanded while the request exists.")
	}
	return append(effects, "To undo this: kubectl lvms uncordon.")
}

func (m member) effectsOfMove() []string {
	var effects []string
	if m.pv.State == v1alpha1.PhysicalVolumeFailing {
		effects = append(effects, "The device is failing: data that cannot be read from it cannot be moved. Back up "+
			"its volumes first.")
	}
	if m.pv.Size != nil && m.pv.Free != nil && m.pv.Size.Cmp(*m.pv.Free) <= 0 {
		return append(effects, "The device is empty: no data is moved.")
	}
	if slices.ContainsFunc(m.at.Group().PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return pv.State == v1alpha1.PhysicalVolumeMissing
	}) {
		effects = append(effects, "A device of the volume group is missing: LVM moves no data until it is attached "+
			"again or removed.")
	}
	return append(effects, m.spaceEffect(), "All data is moved, or none: until the move is complete, and if it is "+
		"interrupted, the data stays where it was. Volumes stay in use, and are slower during the move.")
}

func (m member) spaceEffect() string {
	room, known := m.room()
	if m.pv.Size == nil || m.pv.Free == nil || !known {
		return "It is not known whether the other devices have enough free space. If not, nothing is moved, and the " +
			"device shows the reason."
	}
	used := m.pv.Size.Value() - m.pv.Free.Value()
	if used > room {
		return fmt.Sprintf("%s of the device is in use, and the free space of the other devices is %s: nothing is "+
			"moved before you add a device or delete volumes.", output.BytesText(used),
			cmp.Or(output.BytesText(room), "0"))
	}
	return fmt.Sprintf("%s of data is moved to the other devices of the volume group, which have %s free.",
		output.BytesText(used), output.BytesText(room))
}

func (m member) effectsOfRemoval(class *v1alpha1.DeviceClass) []string {
	var effects []string
	left := len(m.at.Group().PhysicalVolumes) - 1
	if left < 1 {
		effects = append(effects, "It is the only device of the volume group on the node, and stays in it. To remove "+
			"the volume group, remove the device class.")
	}
	least, why := classspec.MinimumDevices(class.RAIDConfig, class.ThinPoolConfig, class.ThickConfig)
	if left >= 1 && left < least {
		effects = append(effects, fmt.Sprintf("%s requires at least %d devices, and only %d would be left: the "+
			"device stays until another one is added.", why, least, left))
	}
	return append(effects, fmt.Sprintf("When the device is empty, it is removed from the volume group, which shrinks "+
		"by %s, and its LVM label is deleted.", cmp.Or(output.SizeOf(m.pv.Size), "its size")),
		"While the request exists, the device is not used again, even if a selector lists its path. Withdraw the "+
			"request (uncordon) when the device is detached.")
}

func (m member) effectsOfMissing(class *v1alpha1.DeviceClass) []string {
	effects := []string{"The device is missing. If it was only detached, attach it again instead: its data is still " +
		"valid."}
	if class.RAIDConfig != nil {
		return append(effects, "Each affected volume is rebuilt on the other devices, one after another, and then "+
			"the lost device is removed from the volume group. If no device is spare, add one first.")
	}
	return append(effects, "No data is deleted: while a volume has data on the device, the device stays. To remove "+
		"it with the volumes that are lost: kubectl lvms forget.")
}

// stateAfter is the state of a physical volume for which a request, or its withdrawal, is carried out.
var stateAfter = map[v1alpha1.DeviceAction]v1alpha1.PhysicalVolumeState{
	v1alpha1.DeviceActionCordon: v1alpha1.PhysicalVolumeCordoned,
	v1alpha1.DeviceActionDrain:  v1alpha1.PhysicalVolumeDrained,
	"":                          v1alpha1.PhysicalVolumeReady,
}

// progressOf returns whether a request for a physical volume is carried out, and what happens. A status without the
// physical volumes of the group says nothing.
func progressOf(status *v1alpha1.LVMVolumeGroupNodeStatus, m member,
	action v1alpha1.DeviceAction) (session.RequestState, string) {
	at := session.Target{Node: m.at.Node, Class: m.at.Class, Status: status}
	group := at.Group()
	if group == nil || len(group.PhysicalVolumes) == 0 {
		return session.RequestPending, "the node agent does not report the devices of the volume group"
	}
	index := slices.IndexFunc(group.PhysicalVolumes, func(pv v1alpha1.PhysicalVolumeStatus) bool {
		return pv.UUID == m.pv.UUID
	})
	if index < 0 {
		return session.RequestDone, "the device is no longer in the volume group"
	}
	pv := group.PhysicalVolumes[index]
	text := string(pv.State)
	if pv.MovedPercent != nil {
		text += fmt.Sprintf(" %d%%", *pv.MovedPercent)
	}
	if pv.Message != "" {
		text += ": " + output.OneLine(pv.Message)
	}
	switch {
	case pv.State == v1alpha1.PhysicalVolumeFailing && (action == "" || action == v1alpha1.DeviceActionCordon):
		return session.RequestDone, text + " (the state of a failing device does not show whether it is cordoned)"
	case pv.State == v1alpha1.PhysicalVolumeBlocked && action != "" && action != v1alpha1.DeviceActionCordon:
		return session.RequestBlocked, text
	case pv.State != "" && pv.State == stateAfter[action]:
		return session.RequestDone, text
	}
	return session.RequestPending, text
}
