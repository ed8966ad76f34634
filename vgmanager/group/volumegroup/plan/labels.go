package plan

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/textmeta"
)

// Label is a physical volume whose label is not on its device.
type Label struct {
	// UUID is the UUID of the physical volume.
	UUID   string
	Device device.Device
}

// Backup is LVM's backup of the metadata of a volume group that is missing.
type Backup struct {
	*textmeta.Metadata
	// Err is why it could not be read.
	Err error
}

// lostLabels returns the missing physical volumes of a class whose devices are attached, and the UUIDs of those whose
// devices are not.
func lostLabels(s NodeState, vg *lvm.VG) (found []Label, away []string) {
	for _, uuid := range missingPVs(s, vg) {
		id := beforeOf(s, uuid).DeviceID
		at := slices.IndexFunc(s.Devices, func(d device.Device) bool {
			return id != "" && s.Identities[d.Number] == id
		})
		if at < 0 {
			away = append(away, uuid)
			continue
		}
		found = append(found, Label{uuid, s.Devices[at]})
	}
	return found, away
}

// missingPVs returns the UUIDs of the physical volumes that LVM does not find, sorted.
func missingPVs(s NodeState, vg *lvm.VG) []string {
	var uuids []string
	if vg == nil {
		for _, pv := range s.Before.PhysicalVolumes {
			uuids = append(uuids, pv.UUID)
		}
	} else {
		for _, pv := range vg.PVs {
			if pv.Missing && !isAttached(pv) {
				uuids = append(uuids, pv.UUID)
			}
		}
	}
	slices.Sort(uuids)
	return uuids
}

// overwritten returns why the label of a device cannot be restored, or "". Data that something else wrote is not
// overwritten.
func overwritten(s NodeState, l Label) string {
	d := l.Device
	text := fmt.Sprintf("device %s, which had physical volume %s", d.Name, l.UUID)
	switch {
	case s.Failing[d.Number] != nil:
		return fmt.Sprintf("%s, is failing: %v: replace it", text, s.Failing[d.Number])
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

func isUnassigned(s NodeState, l Label) bool {
	return slices.ContainsFunc(s.Report.Unassigned, func(pv lvm.PV) bool {
		return pv.UUID == l.UUID && NumberOf(pv) == l.Device.Number
	})
}

// labelProblem returns why the labels of the volume group cannot be restored, or "".
func labelProblem(w Desired, s NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", w.Name, w.Node)
	if problem := groupProblem(w, s, vg); problem != "" {
		return problem
	}
	found, away := lostLabels(s, vg)
	if len(found)+len(away) == 0 {
		return recoveryProblem(w, s, vg)
	}
	if len(found) == 0 {
		return fmt.Sprintf("%s: no device that is attached has lost its label; devices that are not attached: %s: "+
			"attach them, or, if they are lost, %s", where, joined(away), recoveryHint(w))
	}
	for _, l := range found {
		if why := overwritten(s, l); why != "" {
			return where + ": " + why
		}
	}
	if vg == nil {
		return backupProblem(w, s, found)
	}
	return ""
}

// groupProblem returns why the volume group does not need its labels, or "".
func groupProblem(w Desired, s NodeState, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s on node %s", w.Name, w.Node)
	if problems := duplicates(w, s); len(problems) > 0 {
		return problems[0].Message
	}
	switch commands := unhiding(s); {
	case s.Hidden.Err != nil:
		return fmt.Sprintf("%s: whether LVM on the node lists all devices is not known: %v", where, s.Hidden.Err)
	case len(commands) > 0:
		return fmt.Sprintf("%s: LVM on the node does not list a device: run on the node: %s", where,
			strings.Join(commands, "; "))
	case vg == nil && len(s.Report.Named(w.Name)) > 0:
		return fmt.Sprintf("%s: there is another volume group with this name: rename it, or detach its devices", where)
	case vg == nil && !wasThere(withoutRecovery(w), s):
		return where + " does not exist, and no volume group was there before"
	case vg == nil:
		return ""
	}
	if problem := foreign(w, vg); problem != "" {
		return problem
	}
	if vg.MissingPVs == 0 {
		return where + ": no device is missing"
	}
	return ""
}

// backupProblem returns why LVM's backup is not the metadata of the missing volume group, or "".
func backupProblem(w Desired, s NodeState, found []Label) string {
	where := fmt.Sprintf("volume group %s on node %s: LVM's backup of its metadata, %s%s", w.Name, w.Node,
		lvm.BackupDir, w.Name)
	switch b := s.Backup; {
	case b.Err != nil:
		return fmt.Sprintf("%s, cannot be used: %v", where, b.Err)
	case b.Metadata == nil:
		return where + ", was not read yet"
	case b.VG != w.Name || b.UUID != recordedUUID(s):
		return fmt.Sprintf("%s, is of another volume group: it has the UUID %s, and the lost one had %s", where, b.UUID,
			recordedUUID(s))
	}
	for _, l := range found {
		if !s.Backup.Has(l.UUID) {
			return fmt.Sprintf("%s, does not have physical volume %s", where, l.UUID)
		}
	}
	return ""
}

// NewLabelPlan returns which labels are restored. It returns in problem why none can be. objects are the volumes of the
// device class according to the API: those that an older backup does not have are lost.
func NewLabelPlan(w Desired, s NodeState, objects []v1alpha1.RecoveryVolume,
	created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	vg := GroupOf(w, s)
	if problem := labelProblem(w, s, vg); problem != "" {
		return nil, problem
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created,
		MetadataSource: metadataSource(s, vg)}
	found, _ := lostLabels(s, vg)
	for _, l := range found {
		p.Devices = append(p.Devices, v1alpha1.RecoveryDevice{UUID: l.UUID, Name: l.Device.Name,
			DeviceID: s.Identities[l.Device.Number]})
	}
	if vg != nil {
		p.VolumeGroupUUID, p.KeptVolumeCount = vg.UUID, int32(len(vg.LVs))
	}
	p.ID = v1alpha1.PlanID(v1alpha1.RecoveryRestoreLabels, w.Node, w.Name, p)
	if vg != nil {
		return p, ""
	}
	countVolumes(p, s.Backup.Metadata, objects)
	return p, ""
}

// countVolumes adds the volumes that the metadata does not have to the lost ones of a plan.
func countVolumes(p *v1alpha1.RecoveryPlan, m *textmeta.Metadata, objects []v1alpha1.RecoveryVolume) {
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

// describe says which metadata a file has.
func describe(m *textmeta.Metadata) string {
	return fmt.Sprintf("%s, change %d of the volume group, at %s: %s", m.File, m.Seqno,
		m.Created.UTC().Format("2006-01-02T15:04:05Z"), m.Description)
}

// metadataSource describes where the metadata comes from.
func metadataSource(s NodeState, vg *lvm.VG) string {
	if vg != nil {
		return "the other devices of the volume group"
	}
	return describe(s.Backup.Metadata)
}

// unverified returns the physical volumes of an approved plan that LVM finds, and whose headers were not checked. LVM
// finds one whose label, but not whose metadata, was written before its command was killed.
func unverified(w Desired, s NodeState, vg *lvm.VG) []Label {
	if w.Recovery == nil || w.Recovery.Action != v1alpha1.RecoveryRestoreLabels || vg == nil {
		return nil
	}
	var list []Label
	for _, pv := range vg.PVs {
		if !pv.Missing && slices.Contains(w.Recovery.Devices, pv.UUID) && !slices.Contains(s.Verified, pv.UUID) {
			list = append(list, Label{pv.UUID, device.Device{Name: pv.Name, Number: NumberOf(pv)}})
		}
	}
	return list
}

// labelAction checks or restores the next label if it was approved, or is empty.
func labelAction(w Desired, s NodeState, vg *lvm.VG) Action {
	if written := unverified(w, s, vg); len(written) > 0 {
		return Action{Kind: VerifyLabel, Label: written[0]}
	}
	if !allowsLabels(w, s, vg) {
		return Action{}
	}
	found, _ := lostLabels(s, vg)
	return Action{Kind: RestoreLabel, Label: found[0]}
}

// allowsLabels returns true if the approval covers the labels that would be restored now. After the first label, LVM
// finds the volume group, and the metadata comes from that device.
func allowsLabels(w Desired, s NodeState, vg *lvm.VG) bool {
	r := w.Recovery
	if r == nil || r.Action != v1alpha1.RecoveryRestoreLabels || labelProblem(w, s, vg) != "" {
		return false
	}
	if vg == nil {
		p, _ := NewLabelPlan(w, s, nil, r.Created)
		return p.ID == r.PlanID
	}
	found, _ := lostLabels(s, vg)
	return !slices.ContainsFunc(found, func(l Label) bool { return !slices.Contains(r.Devices, l.UUID) })
}

// labelsRestored returns true if LVM finds all physical volumes of the approved plan. They must have been checked, too
// (unverified).
func (r *Recovery) labelsRestored(vg *lvm.VG) bool {
	return vg != nil && !slices.ContainsFunc(r.Devices, func(uuid string) bool {
		return !slices.ContainsFunc(vg.PVs, func(pv lvm.PV) bool { return pv.UUID == uuid && !pv.Missing })
	})
}

// labelStatus is RecoveryStatus for the restore of labels.
func (o Outcome) labelStatus(w Desired, r *v1alpha1.LVMRecovery, volumes []v1alpha1.RecoveryVolume,
	status v1alpha1.LVMRecoveryStatus, now metav1.Time) v1alpha1.LVMRecoveryStatus {
	vg := GroupOf(w, o.Node)
	switch approved := w.Recovery; {
	case approved != nil && len(unverified(w, o.Node, vg)) == 0 && approved.labelsRestored(vg):
		status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &now
		status.Message = fmt.Sprintf("volume group %s on node %s: the labels of %d devices were restored; find out "+
			"what overwrote them; if it also overwrote data, check the file systems", w.Name, w.Node,
			len(approved.Devices))
		return status
	case len(unverified(w, o.Node, vg)) > 0, allowsLabels(w, o.Node, vg):
		setRunning(&status, o.progress(vg), now)
		return status
	}
	w.Recovery = nil
	renewPlan(&status, r.Spec.ApprovedPlan, now, func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
		return NewLabelPlan(w, o.Node, volumes, created)
	}, func(p *v1alpha1.RecoveryPlan) string { return labelConsequence(o.Node, vg, p) })
	return status
}

// labelConsequence describes the plan of a restore of labels.
func labelConsequence(s NodeState, vg *lvm.VG, p *v1alpha1.RecoveryPlan) string {
	var names []string
	for _, d := range p.Devices {
		names = append(names, d.Name)
	}
	text := fmt.Sprintf("LVM's label and metadata are written again at the beginning of %s; source of the metadata: "+
		"%s; volumes that the metadata does not have: %d", joined(names), p.MetadataSource, p.LostVolumeCount)
	if _, away := lostLabels(s, vg); len(away) > 0 {
		text += "; physical volumes that stay missing, because their devices are not attached: " + joined(away)
	}
	return text
}

// labelHint says how to restore the labels of attached devices, or is empty.
func labelHint(w Desired, s NodeState, vg *lvm.VG) string {
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
		joined(names), w.Node, w.Name, v1alpha1.RecoveryRestoreLabels)
}
