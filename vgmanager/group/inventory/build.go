// Package inventory publishes the block devices of this node, used or not, with the reasons against each.
//
// It changes nothing on the node.
package inventory

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Input is the data for the list.
type Input struct {
	Devices []device.Device
	Report  *lvm.Report
	// Node is the name of the node. Clusters are the identities of its cluster, also former ones.
	Node     string
	Clusters []string
	// Classes are the device classes of the node, with their observations.
	Classes []selection.ClassState
	// Probed are the devices that were read, with the reasons found.
	Probed map[device.Number][]device.Reason
	// Failing are the devices that return errors or do not respond.
	Failing map[device.Number]error
	// Known are the last known physical volumes of the node's volume groups, by group.
	Known map[string][]v1alpha1.PhysicalVolumeStatus
	// Labels are the labels that an administrator gave devices, also missing ones.
	Labels []v1alpha1.DeviceLabels
	// Before is the previous list.
	Before []v1alpha1.DeviceStatus
	Now    time.Time
}

// Build returns the list, sorted by name and within the budget, and the number of omitted devices.
func Build(in Input) ([]v1alpha1.DeviceStatus, int32) {
	pvs := state.PhysicalVolumes(in.Report)
	b := listing{Input: in, pvs: pvs, identities: device.Identities(in.Devices),
		fingerprints: device.NewFingerprints(in.Devices, pvs)}
	var list []v1alpha1.DeviceStatus
	for _, d := range in.Devices {
		if d.Type != "lvm" {
			list = append(list, b.present(d))
		}
	}
	list = append(list, b.missing(list)...)
	slices.SortFunc(list, byName)
	return fit(list)
}

func byName(a, b v1alpha1.DeviceStatus) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.PVUUID, b.PVUUID),
		strings.Compare(string(a.State), string(b.State)))
}

type listing struct {
	Input
	pvs          map[device.Number]device.PV
	identities   map[device.Number]string
	fingerprints device.Fingerprints
}

// present returns the entry of a device that is attached.
func (b *listing) present(d device.Device) v1alpha1.DeviceStatus {
	reasons := b.reasons(d)
	entry := v1alpha1.DeviceStatus{
		Name: d.Name, ID: b.identities[d.Number], Type: d.Type, Size: resource.NewQuantity(d.Size, resource.BinarySI),
		ByID: inFolder(d.ByID, "/dev/disk/by-id/"), ByPath: inFolder(d.ByPath, "/dev/disk/by-path/"),
		Model: d.Model, Vendor: d.Vendor, Serial: d.Serial, WWN: d.WWN, Transport: d.Transport,
		Rotational: d.Rotational, Removable: d.Removable, ReadOnly: d.ReadOnly, Labels: d.Labels,
		Partitions: d.Partitions, Holders: d.Holders, MountPoints: d.Mountpoints,
		State: stateOf(reasons), Eligibility: b.eligibility(d),
	}
	if d.KernelName != d.Name {
		entry.KernelName = d.KernelName
	}
	if pv, ok := b.pvs[d.Number]; ok {
		entry.VolumeGroup = pv.Group
		entry.VolumeGroupUUID = pv.GroupUUID
		entry.PVUUID = pv.UUID
	}
	for _, r := range reasons {
		entry.Reasons = append(entry.Reasons, v1alpha1.DeviceReason{Code: string(r.Code), Message: r.Message})
	}
	entry.Signatures = signatures(d, reasons)
	entry.Fingerprint = b.fingerprints.Of(d, reasons)
	entry.FirstSeen = b.firstSeen(entry)
	return entry
}

// group returns the volume group with a UUID, or nil if LVM does not list it.
func (b *listing) group(uuid string) *lvm.VG {
	at := slices.IndexFunc(b.Report.VGs, func(vg lvm.VG) bool { return vg.UUID == uuid })
	if at < 0 {
		return nil
	}
	return &b.Report.VGs[at]
}

// reasons returns all reasons against the device that do not depend on a device class.
func (b *listing) reasons(d device.Device) []device.Reason {
	reasons := append(device.Explain(d, b.pvs), device.Remarks(d)...)
	for _, r := range b.Probed[d.Number] {
		if !slices.ContainsFunc(reasons, func(o device.Reason) bool { return o.Code == r.Code }) {
			reasons = append(reasons, r)
		}
	}
	for i := range reasons {
		if reasons[i].Code == device.InVolumeGroup && !d.OSDisk {
			pv := b.pvs[d.Number]
			group := b.group(pv.GroupUUID)
			reasons[i].Message += selection.Ways(b.Classes, pv, group) + ownership.ActiveOfOthers(group, b.Node,
				b.Clusters...)
		}
	}
	if err := b.Failing[d.Number]; err != nil {
		reasons = append(reasons, device.Reason{Code: device.Failing, Message: err.Error()})
	}
	return reasons
}

// Codes that determine the state. The first state with one of the reasons applies.
var (
	unknownCodes = []device.Code{device.ProbeError, device.Unreadable}
	inUseCodes   = []device.Code{
		device.InVolumeGroup, device.Mounted, device.SwapInUse, device.HasHolders, device.IsOSDisk, device.Busy,
		device.MultipathMember, device.KubernetesLoop,
	}
	// harmless are reasons that do not exclude a device.
	harmless = []device.Code{device.NoStablePath}
)

func stateOf(reasons []device.Reason) v1alpha1.DeviceState {
	has := func(codes ...device.Code) bool {
		return slices.ContainsFunc(reasons, func(r device.Reason) bool { return slices.Contains(codes, r.Code) })
	}
	switch {
	case has(device.Failing):
		return v1alpha1.DeviceFailing
	case has(inUseCodes...):
		return v1alpha1.DeviceInUse
	case has(unknownCodes...):
		return v1alpha1.DeviceUnknown
	case slices.ContainsFunc(reasons, func(r device.Reason) bool { return !slices.Contains(harmless, r.Code) }):
		return v1alpha1.DeviceExcluded
	}
	return v1alpha1.DeviceAvailable
}

func (b *listing) eligibility(d device.Device) []v1alpha1.DeviceEligibility {
	var list []v1alpha1.DeviceEligibility
	for _, verdict := range selection.Judge(b.Classes, d) {
		entry := v1alpha1.DeviceEligibility{DeviceClass: verdict.Class, Eligible: verdict.Eligible}
		for _, code := range verdict.Codes {
			entry.Reasons = append(entry.Reasons, string(code))
		}
		list = append(list, entry)
	}
	slices.SortFunc(list, func(a, b v1alpha1.DeviceEligibility) int {
		return strings.Compare(a.DeviceClass,
			b.DeviceClass)
	})
	return list
}

// signatures returns the signatures that udev knows and those that were found by reading the device.
func signatures(d device.Device, reasons []device.Reason) []v1alpha1.DeviceSignature {
	var list []v1alpha1.DeviceSignature
	add := func(s device.Signature) {
		entry := v1alpha1.DeviceSignature{Type: s.Type, UUID: s.UUID, Label: s.Label}
		if !slices.ContainsFunc(list, func(o v1alpha1.DeviceSignature) bool { return o.Type == s.Type }) {
			list = append(list, entry)
		}
	}
	for _, s := range d.Signatures {
		add(s)
	}
	for _, r := range reasons {
		if r.Signature != nil {
			add(*r.Signature)
		}
	}
	slices.SortFunc(list, func(a, b v1alpha1.DeviceSignature) int { return strings.Compare(a.Type, b.Type) })
	return list
}

func inFolder(links []string, folder string) []string {
	var list []string
	for _, l := range links {
		list = append(list, strings.TrimPrefix(l, folder))
	}
	return list
}

// firstSeen returns the time from the previous list. A device without an identity is identified by its name.
func (b *listing) firstSeen(entry v1alpha1.DeviceStatus) *metav1.Time {
	for i := range b.Before {
		if old := &b.Before[i]; old.FirstSeen != nil && same(*old, entry) {
			return old.FirstSeen
		}
	}
	now := metav1.NewTime(b.Now.Truncate(time.Second))
	return &now
}

func same(a, b v1alpha1.DeviceStatus) bool {
	if a.ID != "" || b.ID != "" {
		return a.ID == b.ID
	}
	return a.Name == b.Name
}

// missing returns the missing devices of volume groups of this product. They stay in the list until they are removed
// from the group.
func (b *listing) missing(present []v1alpha1.DeviceStatus) []v1alpha1.DeviceStatus {
	var list []v1alpha1.DeviceStatus
	for i := range b.Report.VGs {
		vg := &b.Report.VGs[i]
		if !vg.HasTag(wellknown.OwnerTag) {
			continue
		}
		for _, pv := range vg.PVs {
			there := slices.ContainsFunc(present, func(d v1alpha1.DeviceStatus) bool { return d.PVUUID == pv.UUID })
			if pv.Missing && !there {
				list = append(list, b.lost(vg.Name, pv))
			}
		}
	}
	listed := map[string]bool{}
	for _, pv := range b.Report.PVs() {
		listed[pv.UUID] = true
	}
	for _, group := range slices.Sorted(maps.Keys(b.Known)) {
		for _, pv := range b.Known[group] {
			there := listed[pv.UUID] || slices.ContainsFunc(present,
				func(d v1alpha1.DeviceStatus) bool { return d.ID != "" && d.ID == pv.DeviceID })
			if !there {
				lost := lvm.PV{UUID: pv.UUID}
				if pv.Size != nil {
					lost.Size = lvm.Bytes(pv.Size.Value())
				}
				list = append(list, b.lost(group, lost))
			}
		}
	}
	return list
}

func (b *listing) lost(group string, pv lvm.PV) v1alpha1.DeviceStatus {
	entry := v1alpha1.DeviceStatus{Name: "missing", Size: resource.NewQuantity(int64(pv.Size), resource.BinarySI)}
	for i := range b.Before {
		if b.Before[i].PVUUID == pv.UUID {
			entry = *b.Before[i].DeepCopy()
		}
	}
	if entry.State != v1alpha1.DeviceMissing {
		now := metav1.NewTime(b.Now.Truncate(time.Second))
		entry.LastSeen = &now
	}
	entry.State = v1alpha1.DeviceMissing
	entry.VolumeGroup = group
	entry.PVUUID = pv.UUID
	entry.Reasons = []v1alpha1.DeviceReason{{Code: string(device.InVolumeGroup),
		Message: "is a physical volume of the volume group " + group + ", and is missing"}}
	entry.Eligibility = nil
	entry.Labels = selection.LabelsOf(b.Labels, entry.ID)
	entry.Holders = nil
	entry.MountPoints = nil
	entry.Partitions = nil
	entry.Fingerprint = ""
	return entry
}

// budget is the maximum size of the list as JSON, in bytes. The object with the volume groups must stay below 256
// KiB.
const budget = 216 << 10

// fit reduces the list to the budget. It first removes duplicate details and details that are available elsewhere,
// and then entries of devices that cannot be used and are not used by this product.
func fit(list []v1alpha1.DeviceStatus) ([]v1alpha1.DeviceStatus, int32) {
	for _, shrink := range []func(*v1alpha1.DeviceStatus){nil, withoutMessages, withOneLink, bare} {
		if shrink != nil {
			for i := range list {
				shrink(&list[i])
			}
		}
		if sizeOf(list) <= budget {
			return list, 0
		}
	}
	return omit(list)
}

func withoutMessages(d *v1alpha1.DeviceStatus) {
	if d.State == v1alpha1.DeviceInUse || d.State == v1alpha1.DeviceExcluded {
		for i := range d.Reasons {
			d.Reasons[i].Message = ""
		}
	}
}

func withOneLink(d *v1alpha1.DeviceStatus) {
	d.ByID, d.ByPath = d.ByID[:min(1, len(d.ByID))], d.ByPath[:min(1, len(d.ByPath))]
}

func bare(d *v1alpha1.DeviceStatus) {
	withOneLink(d)
	d.ByPath = nil
	d.Holders = nil
	d.Vendor = ""
	if d.ID != "" {
		d.WWN = "" // devices that share a WWN have no ID
	}
	d.Serial = ""
	d.Fingerprint = ""
	for i := range d.Reasons {
		d.Reasons[i].Message = ""
	}
}

// omit removes devices, the least important first.
func omit(list []v1alpha1.DeviceStatus) ([]v1alpha1.DeviceStatus, int32) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rank(list[a]), rank(list[b])) })
	used := 2
	keep := map[int]bool{}
	for _, i := range order {
		used += sizeOf(list[i]) + 1
		if used > budget {
			break
		}
		keep[i] = true
	}
	var kept []v1alpha1.DeviceStatus
	for i := range list {
		if keep[i] {
			kept = append(kept, list[i])
		}
	}
	return kept, int32(len(list) - len(kept))
}

// rank returns the importance of a device. Lower values are more important for an administrator.
func rank(d v1alpha1.DeviceStatus) int {
	eligible := slices.ContainsFunc(d.Eligibility, func(e v1alpha1.DeviceEligibility) bool { return e.Eligible })
	switch {
	case d.State == v1alpha1.DeviceMissing || d.State == v1alpha1.DeviceFailing:
		return 0
	case eligible:
		return 1
	case d.State == v1alpha1.DeviceAvailable || d.State == v1alpha1.DeviceUnknown:
		return 2
	case !state.OmittedFirst(&d):
		return 3
	}
	return 4
}

func sizeOf(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		// These types always encode without error.
		return budget
	}
	return len(data)
}
