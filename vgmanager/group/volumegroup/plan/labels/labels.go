// Package labels decides about the recovery RestoreLabels: which devices had a physical volume whose label was
// overwritten, and from which metadata the label can be restored.
package labels

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/lostdevices"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// lostLabels returns the missing physical volumes of a class whose devices are attached, and the UUIDs of those whose
// devices are not.
func lostLabels(s state.NodeState, vg *lvm.VG) (found []state.Label, away []string) {
	for _, uuid := range missingPVs(s, vg) {
		id := state.BeforeOf(s, uuid).DeviceID
		at := slices.IndexFunc(s.Devices, func(d device.Device) bool {
			return id != "" && s.Disks.Identities[d.Number] == id
		})
		if at < 0 {
			away = append(away, uuid)
			continue
		}
		found = append(found, state.Label{UUID: uuid, Device: s.Devices[at]})
	}
	return found, away
}

// missingPVs returns the UUIDs of the physical volumes that LVM does not find, sorted.
func missingPVs(s state.NodeState, vg *lvm.VG) []string {
	var uuids []string
	if vg == nil {
		for _, pv := range s.Before.PhysicalVolumes {
			uuids = append(uuids, pv.UUID)
		}
	} else {
		for _, pv := range vg.PVs {
			if pv.Missing && !state.IsAttached(pv) {
				uuids = append(uuids, pv.UUID)
			}
		}
	}
	slices.Sort(uuids)
	return uuids
}

// overwritten returns why the label of a device cannot be restored, or "". Data that something else wrote is not
// overwritten.
func overwritten(s state.NodeState, l state.Label) string {
	d := l.Device
	text := fmt.Sprintf("device %s, which had physical volume %s", d.Name, l.UUID)
	switch {
	case s.Health.Failing[d.Number] != nil:
		return fmt.Sprintf("%s, is failing: %v: replace it", text, s.Health.Failing[d.Number])
	case len(d.Partitions) > 0 || d.PartitionTable != "":
		return text + ", has a partition table now: remove it first if the data of the volumes is more important"
	case len(d.Mountpoints) > 0:
		return text + ", is mounted on " + strings.Join(d.Mountpoints, ", ")
	}
	for _, signature := range d.Signatures {
		// A killed LVM command can have restored the label without the metadata.
		if signature.Type != device.SignatureLVM || !isUnassigned(s, l) {
			return fmt.Sprintf("%s, has the signature %s now: remove it first (wipefs) if the data of the volumes is "+
				"more important", text, signature.Type)
		}
	}
	return ""
}

func isUnassigned(s state.NodeState, l state.Label) bool {
	return slices.ContainsFunc(s.Report.Unassigned, func(pv lvm.PV) bool {
		return pv.UUID == l.UUID && state.NumberOf(pv) == l.Device.Number
	})
}

// labelProblem returns why the labels of the volume group cannot be restored, or "".
func labelProblem(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", d.Name, d.Node)
	if problem := GroupProblem(d, s, vg); problem != "" {
		return problem
	}
	found, away := lostLabels(s, vg)
	if len(found)+len(away) == 0 {
		return lostdevices.Problem(d, s, vg)
	}
	if len(found) == 0 {
		return fmt.Sprintf("%s: no device that is attached has lost its label; devices that are not attached: %s: "+
			"attach them, or, if they are lost, %s", where, state.Joined(away), recovery.LostDevicesHint(d))
	}
	for _, l := range found {
		if why := overwritten(s, l); why != "" {
			return where + ": " + why
		}
	}
	if vg == nil {
		return backupProblem(d, s, found)
	}
	return ""
}

// GroupProblem returns why the volume group does not need its labels, or "".
func GroupProblem(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", d.Name, d.Node)
	if problems := ownership.Duplicates(d, s); len(problems) > 0 {
		return problems[0].Message
	}
	switch commands := lostdevices.Unhiding(s); {
	case s.Disks.Hidden.Err != nil:
		return fmt.Sprintf("%s: whether LVM on the node lists all devices is not known: %v", where, s.Disks.Hidden.Err)
	case len(commands) > 0:
		return fmt.Sprintf("%s: LVM on the node does not list a device: run on the node: %s", where,
			strings.Join(commands, "; "))
	case vg == nil && len(s.Report.Named(d.Name)) > 0:
		return fmt.Sprintf("%s: there is another volume group with this name: rename it, or detach its devices", where)
	case vg == nil && !lostdevices.WasThere(state.WithoutRecovery(d), s):
		return where + " does not exist, and no volume group was there before"
	case vg == nil:
		return ""
	}
	if problem := ownership.Foreign(d, vg); problem != "" {
		return problem
	}
	if vg.MissingPVs == 0 {
		return where + ": no device is missing"
	}
	return ""
}

// backupProblem returns why LVM's backup is not the metadata of the missing volume group, or "".
func backupProblem(d state.Desired, s state.NodeState, found []state.Label) string {
	where := fmt.Sprintf("volume group %s on node %s: LVM's backup of its metadata, %s%s", d.Name, d.Node,
		lvm.BackupDir, d.Name)
	switch b := s.Metadata.Backup; {
	case b.Err != nil:
		return fmt.Sprintf("%s, cannot be used: %v", where, b.Err)
	case b.Metadata == nil:
		return where + ", was not read yet"
	case b.VG != d.Name || b.UUID != ownership.RecordedUUID(s):
		return fmt.Sprintf("%s, is of another volume group: it has the UUID %s, and the lost one had %s", where, b.UUID,
			ownership.RecordedUUID(s))
	}
	for _, l := range found {
		if !s.Metadata.Backup.Has(l.UUID) {
			return fmt.Sprintf("%s, does not have physical volume %s", where, l.UUID)
		}
	}
	return ""
}

// newPlan returns which labels are restored. It returns in problem why none can be. objects are the volumes of the
// device class according to the API: those that an older backup does not have are lost.
func newPlan(d state.Desired, s state.NodeState, objects []v1alpha1.RecoveryVolume,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	vg := ownership.GroupOf(d, s)
	if problem := labelProblem(d, s, vg); problem != "" {
		return nil, problem
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created,
		MetadataSource: metadataSource(s, vg)}
	found, _ := lostLabels(s, vg)
	for _, l := range found {
		p.Devices = append(p.Devices, v1alpha1.RecoveryDevice{UUID: l.UUID, Name: l.Device.Name,
			DeviceID: s.Disks.Identities[l.Device.Number]})
	}
	if vg != nil {
		p.VolumeGroupUUID, p.KeptVolumeCount = vg.UUID, int32(len(vg.LVs))
	}
	p.ID = recoveryplan.ID(v1alpha1.RecoveryRestoreLabels, d.Node, d.Name, p)
	if vg != nil {
		return p, ""
	}
	CountVolumes(p, s.Metadata.Backup.Metadata, objects)
	return p, ""
}

// CountVolumes adds the volumes that the metadata does not have to the lost ones of a plan.
func CountVolumes(p *v1alpha1.RecoveryPlan, m *textmeta.Metadata, objects []v1alpha1.RecoveryVolume) {
	for _, object := range objects {
		if !slices.Contains(m.LVs, object.Name) {
			p.LostVolumes = append(p.LostVolumes, object)
			continue
		}
		p.KeptVolumeCount++
	}
	p.LostVolumeCount = int32(len(p.LostVolumes))
	p.LostVolumes = p.LostVolumes[:min(len(p.LostVolumes), v1alpha1.MaxLostVolumes)]
}

// metadataSource describes where the metadata comes from.
func metadataSource(s state.NodeState, vg *lvm.VG) string {
	if vg != nil {
		return "the other devices of the volume group"
	}
	return recovery.Describe(s.Metadata.Backup.Metadata)
}

// unverified returns the physical volumes of an approved plan that LVM finds, and whose headers were not checked. LVM
// finds one whose label, but not whose metadata, was written before its command was killed.
func unverified(d state.Desired, s state.NodeState, vg *lvm.VG) []state.Label {
	if !d.Open.Allows(v1alpha1.RecoveryRestoreLabels) || vg == nil {
		return nil
	}
	var list []state.Label
	for _, pv := range vg.PVs {
		verified := slices.Contains(s.Metadata.Verified, pv.UUID)
		if !pv.Missing && slices.Contains(d.Open.Approved.Devices, pv.UUID) && !verified {
			list = append(list, state.Label{UUID: pv.UUID,
				Device: device.Device{Name: pv.Name, Number: state.NumberOf(pv)}})
		}
	}
	return list
}

// Action checks or restores the next label if it was approved, or is empty.
func Action(d state.Desired, s state.NodeState, vg *lvm.VG) state.Action {
	if written := unverified(d, s, vg); len(written) > 0 {
		return state.Action{Kind: state.VerifyLabel, Target: written[0]}
	}
	if !allowsLabels(d, s, vg) {
		return state.Action{}
	}
	found, _ := lostLabels(s, vg)
	return state.Action{Kind: state.RestoreLabel, Target: found[0]}
}

// allowsLabels returns true if the approval covers the labels that would be restored now. After the first label, LVM
// finds the volume group, and the metadata comes from that device.
func allowsLabels(d state.Desired, s state.NodeState, vg *lvm.VG) bool {
	r := d.Open.Approved
	if r == nil || r.Action != v1alpha1.RecoveryRestoreLabels || labelProblem(d, s, vg) != "" {
		return false
	}
	if vg == nil {
		p, _ := newPlan(d, s, nil, r.Created)
		return p.ID == r.PlanID
	}
	found, _ := lostLabels(s, vg)
	return !slices.ContainsFunc(found, func(l state.Label) bool { return !slices.Contains(r.Devices, l.UUID) })
}

// labelsRestored returns true if LVM finds all physical volumes of the approved plan. They must have been checked, too
// (unverified).
func labelsRestored(r *state.Recovery, vg *lvm.VG) bool {
	return vg != nil && !slices.ContainsFunc(r.Devices, func(uuid string) bool {
		return !slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool { return pv.UUID == uuid && !pv.Missing })
	})
}

// Status is RecoveryStatus for the restore of labels.
func Status(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	vg := ownership.GroupOf(d, o.Node)
	switch approved := d.Open.Approved; {
	case approved != nil && len(unverified(d, o.Node, vg)) == 0 && labelsRestored(approved, vg):
		status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &r.Now
		status.Message = fmt.Sprintf("volume group %s on node %s: the labels of %d devices were restored; find out "+
			"what overwrote them; if it also overwrote data, check the file systems", d.Name, d.Node,
			len(approved.Devices))
		return status
	case len(unverified(d, o.Node, vg)) > 0, allowsLabels(d, o.Node, vg):
		recovery.SetRunning(&status, recovery.Progress(o, vg), r.Now)
		return status
	}
	d.Open.Approved = nil
	recovery.RenewPlan(&status, r.Recovery.Spec.ApprovedPlan, r.Now, func(created metav1.Time) (*v1alpha1.RecoveryPlan,
		string) {
		return newPlan(d, o.Node, r.Volumes, created)
	}, func(p *v1alpha1.RecoveryPlan) string { return labelConsequence(o.Node, vg, p) })
	return status
}

// labelConsequence describes the plan of a restore of labels.
func labelConsequence(s state.NodeState, vg *lvm.VG, p *v1alpha1.RecoveryPlan) string {
	var names []string
	for _, d := range p.Devices {
		names = append(names, d.Name)
	}
	text := fmt.Sprintf("LVM's label and metadata are written again at the beginning of %s; source of the metadata: "+
		"%s; volumes that the metadata does not have: %d", state.Joined(names), p.MetadataSource, p.LostVolumeCount)
	if _, away := lostLabels(s, vg); len(away) > 0 {
		text += "; physical volumes that stay missing, because their devices are not attached: " + state.Joined(away)
	}
	return text
}

// Hint says how to restore the labels of attached devices, or is empty.
func Hint(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	found, _ := lostLabels(s, vg)
	var names []string
	for _, l := range found {
		if overwritten(s, l) == "" {
			names = append(names, l.Device.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("the device is attached and no longer has a label of LVM (%s): to restore the label, create "+
		"an LVMRecovery {nodeName: %s, deviceClassName: %s, action: %s}, which changes nothing until it is approved; ",
		state.Joined(names), d.Node, d.Name, v1alpha1.RecoveryRestoreLabels)
}
