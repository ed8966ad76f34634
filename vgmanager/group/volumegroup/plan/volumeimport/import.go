// Package volumeimport decides about the recovery ImportVolumes: for which logical volumes the operator creates
// objects.
package volumeimport

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/recovery"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Open adds the import that an LVMRecovery requests.
func Open(d *state.Desired, r *v1alpha1.LVMRecovery) {
	d.Open.Import = &state.Import{Volumes: r.Spec.Volumes, Claims: map[string]string{}}
	for _, c := range r.Spec.Claims {
		d.Open.Import.Claims[c.Volume] = c.Namespace + "/" + c.Name
	}
}

// NewPlan returns which volumes are imported. It returns in problem why there is nothing to import, or why a
// volume cannot be imported. It reads no objects other than those in s.Owners.
func NewPlan(d state.Desired, s state.NodeState, created metav1.Time) (p *v1alpha1.RecoveryPlan, problem string) {
	vg := ownership.GroupOf(d, s)
	if problem := doubt.DeletionProblem(d, s, vg); problem != "" {
		return nil, problem
	}
	p = &v1alpha1.RecoveryPlan{Devices: []v1alpha1.RecoveryDevice{}, CreationTime: created, VolumeGroupUUID: vg.UUID}
	if p.ImportedVolumes, problem = importedVolumes(d, s, vg); problem != "" {
		return nil, problem
	}
	if problem := importConflict(d, s, p.ImportedVolumes); problem != "" {
		return nil, problem
	}
	p.ImportedVolumes = p.ImportedVolumes[:min(len(p.ImportedVolumes), v1alpha1.MaxLostVolumes)]
	p.KeptVolumeCount = int32(recovery.CountKept(vg, nil))
	p.ID = recoveryplan.ID(v1alpha1.RecoveryImportVolumes, d.Node, d.Name, p)
	return p, ""
}

// importedVolumes returns the volumes to import, sorted by name.
func importedVolumes(d state.Desired, s state.NodeState, vg *lvm.VG) ([]v1alpha1.RecoveryVolume, string) {
	where := fmt.Sprintf("volume group %s on node %s", d.Name, d.Node)
	if len(d.Open.Import.Volumes) > 0 {
		return namedVolumes(d, s, vg)
	}
	for name := range d.Open.Import.Claims {
		if vg.LV(name) == nil {
			return nil, fmt.Sprintf("%s has no logical volume %s, which claims names", where, name)
		}
	}
	var list []v1alpha1.RecoveryVolume
	skipped := 0
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if lv.Attr.IsThinPool() || isComplete(d, s.Owners.Volumes[lv.Name]) || moveOf(lv) != "" {
			continue
		}
		volume, problem := importedVolume(d, s, lv)
		if problem != "" {
			skipped++
			continue
		}
		list = append(list, volume)
	}
	if len(list) == 0 && skipped > 0 {
		return nil, fmt.Sprintf("%s: no claim is known for the logical volumes without objects: %d. Name each in "+
			"volumes, and its claim in claims, in another LVMRecovery", where, skipped)
	}
	if len(list) == 0 {
		return nil, where + ": all logical volumes have their objects, so there is nothing to import"
	}
	slices.SortFunc(list, func(a, b v1alpha1.RecoveryVolume) int { return strings.Compare(a.Name, b.Name) })
	return list, ""
}

// namedVolumes returns the volumes that the LVMRecovery names.
func namedVolumes(d state.Desired, s state.NodeState, vg *lvm.VG) ([]v1alpha1.RecoveryVolume, string) {
	for name := range d.Open.Import.Claims {
		if !slices.Contains(d.Open.Import.Volumes, name) {
			return nil, fmt.Sprintf(
				"claims names logical volume %s, which volumes does not: create another LVMRecovery",
				name)
		}
	}
	var list []v1alpha1.RecoveryVolume
	for _, name := range slices.Sorted(slices.Values(d.Open.Import.Volumes)) {
		lv := vg.LV(name)
		where := fmt.Sprintf("logical volume %s/%s on node %s", d.Name, name, d.Node)
		switch owner := s.Owners.Volumes[name]; {
		case lv == nil:
			return nil, fmt.Sprintf("volume group %s on node %s has no logical volume %s: create another LVMRecovery "+
				"without it", d.Name, d.Node, name)
		case lv.Attr.IsThinPool():
			return nil, where + " is a thin pool, not a volume"
		case owner.Earlier != "":
			return nil, fmt.Sprintf("%s belongs to %s, so it is not imported: use kubectl lvms migrate", where,
				owner.Earlier)
		case owner.LogicalVolume != "" && owner.Node == d.Node && owner.VolumeNode == d.Node:
			return nil, fmt.Sprintf("%s has its objects already: LogicalVolume %s, PersistentVolume %s", where,
				owner.LogicalVolume, owner.PersistentVolume)
		}
		volume, problem := importedVolume(d, s, lv)
		if problem != "" {
			return nil, where + " " + problem
		}
		list = append(list, volume)
	}
	return list, ""
}

// isComplete returns true if nothing has to be imported for a volume that is not named. A LogicalVolume of this node
// without a PersistentVolume may be one that is being created. A volume of TopoLVM before 0.15 is migrated instead.
func isComplete(d state.Desired, o state.VolumeOwner) bool {
	return o.Earlier != "" ||
		o.LogicalVolume != "" && o.Node == d.Node && (o.VolumeNode == d.Node || o.PersistentVolume == "")
}

// importedVolume returns the objects to create or move for a volume, or why that is not possible.
func importedVolume(d state.Desired, s state.NodeState, lv *lvm.LV) (v1alpha1.RecoveryVolume, string) {
	owner := s.Owners.Volumes[lv.Name]
	object := state.TagOf(lv, wellknown.VolumeNameTagPrefix)
	v := v1alpha1.RecoveryVolume{
		Name: lv.Name, UUID: lv.UUID, Size: int64(lv.Size), FromNode: movedFrom(d, owner),
		PersistentVolume: cmp.Or(owner.PersistentVolume, owner.LogicalVolume, object, importName(lv.Name)),
		Claim:            cmp.Or(owner.Claim, d.Open.Import.Claims[lv.Name], recovery.ClaimOf(lv)),
		FSType:           fileSystemOf(s, lv),
		Created:          timeOf(lv.Created), LastMountTime: timeOf(s.FileSystems.LastMounts[lv.Name]),
	}
	switch claim := d.Open.Import.Claims[lv.Name]; {
	case moveOf(lv) != "":
		return v, moveOf(lv)
	case claim != "" && owner.Claim != "" && claim != owner.Claim:
		return v, fmt.Sprintf(
			"belongs to claim %s (PersistentVolume %s), so it cannot be given to claim %s", owner.Claim,
			owner.PersistentVolume, claim)
	case v.FromNode != "" && owner.LogicalVolume != "":
		return v, "" // a snapshot too: only its LogicalVolume is moved
	case strings.HasPrefix(object, wellknown.SnapshotPrefix):
		return v, "is a VolumeSnapshot, which cannot be imported: import its source"
	case v.Claim == "":
		return v, "has no tag with its claim: add the volume to claims, in another LVMRecovery"
	}
	return v, ""
}

// moveOf returns why a logical volume of a move to another node, or of a copy, is not imported, or "".
func moveOf(lv *lvm.LV) string {
	move := state.TagOf(lv, wellknown.FencedTagPrefix)
	if clone, is := strings.CutPrefix(move, wellknown.CloneFencePrefix); is {
		return fmt.Sprintf("is being copied to the clone with the UID %s, or was: if no clone of it is being created, "+
			"remove the tag with lvchange --deltag %s%s", clone, wellknown.FencedTagPrefix, move)
	}
	if move != "" {
		return "is moved to another node, or was, by the VolumeMove with the UID " + move
	}
	if slices.Contains(lv.Tags, wellknown.CopyingTag) {
		return "does not have all data of the volume or snapshot that is copied to it"
	}
	return ""
}

// movedFrom returns the node of a volume's objects if it is not this one, or "".
func movedFrom(d state.Desired, o state.VolumeOwner) string {
	switch {
	case o.LogicalVolume != "" && o.Node != d.Node:
		return o.Node
	case o.VolumeNode != "" && o.VolumeNode != d.Node:
		return o.VolumeNode
	}
	return ""
}

// importName returns the name of the objects of a volume whose tags name none.
func importName(volume string) string {
	if name := "import-" + volume; len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(volume))
	return "import-" + hex.EncodeToString(sum[:8])
}

func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.Truncate(time.Second)}
}

// fileSystemOf returns the type of the file system of a volume, from its tags or from udev. It returns "" for a block
// volume.
func fileSystemOf(s state.NodeState, lv *lvm.LV) string {
	fs := cmp.Or(state.TagOf(lv, wellknown.FormattedTagPrefix), state.TagOf(lv, wellknown.FormattingTagPrefix))
	if fs != "" {
		return fs
	}
	if d := state.DeviceOf(s, lv); d != nil &&
		(d.Signature == string(v1alpha1.FilesystemTypeXFS) || d.Signature == string(v1alpha1.FilesystemTypeExt4)) {
		return d.Signature
	}
	return ""
}

// importConflict returns why two of the volumes, or a volume and an object of the cluster, exclude each other, or "".
func importConflict(d state.Desired, s state.NodeState, volumes []v1alpha1.RecoveryVolume) string {
	claims, names := map[string]string{}, map[string]string{}
	for _, v := range volumes {
		where := fmt.Sprintf("logical volume %s/%s on node %s", d.Name, v.Name, d.Node)
		if other := claims[v.Claim]; other != "" && v.Claim != "" {
			return fmt.Sprintf(
				"%s and %s are both for claim %s: name one of them in volumes, or give one another claim "+
					"in claims, in another LVMRecovery", where, other, v.Claim)
		}
		if other := names[v.PersistentVolume]; other != "" {
			return fmt.Sprintf("%s and %s are both for PersistentVolume %s: name one of them in volumes, in another "+
				"LVMRecovery", where, other, v.PersistentVolume)
		}
		if volume, exists := s.Owners.Names[v.PersistentVolume]; exists && volume != v.Name {
			return fmt.Sprintf("%s is for PersistentVolume %s, which exists for another volume (%q)", where,
				v.PersistentVolume, volume)
		}
		claims[v.Claim], names[v.PersistentVolume] = v.Name, v.Name
	}
	return ""
}

// Status is RecoveryStatus for the import of volumes. The operator creates and moves the objects, and reports in
// the condition ObjectsCreated.
func Status(o state.Outcome, d state.Desired, r recovery.Request) v1alpha1.LVMRecoveryStatus {
	status := r.Status
	vg := ownership.GroupOf(d, o.Node)
	if d.Open.Approved == nil || vg == nil || vg.UUID != status.Plan.VolumeGroupUUID {
		recovery.RenewPlan(&status, r.Recovery.Spec.ApprovedPlan, r.Now,
			func(created metav1.Time) (*v1alpha1.RecoveryPlan, string) {
				return NewPlan(d, o.Node, created)
			}, importConsequence)
		return status
	}
	created := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionObjectsCreated)
	current := created != nil && created.ObservedGeneration == r.Recovery.Generation
	switch {
	case !current:
		recovery.SetRunning(&status, "the operator creates the objects of the volumes", r.Now)
	case created.Status != metav1.ConditionTrue:
		recovery.SetRunning(&status, created.Message, r.Now)
	case o.Node.Owners.Err != nil:
		recovery.SetRunning(&status, o.Node.Owners.Err.Error(), r.Now)
	default:
		if missing := incomplete(d, o.Node, status.Plan); missing != "" {
			recovery.SetRunning(&status, missing, r.Now)
			return status
		}
		status.Phase, status.CompletionTime = v1alpha1.RecoverySucceeded, &r.Now
		status.Message = fmt.Sprintf("volumes imported from volume group %s on node %s: %d. The reclaim policy of new "+
			"PersistentVolumes is Retain", d.Name, d.Node, len(status.Plan.ImportedVolumes))
	}
	return status
}

// incomplete returns which volume of an approved import does not have its objects on this node, or "".
func incomplete(d state.Desired, s state.NodeState, p *v1alpha1.RecoveryPlan) string {
	for _, v := range p.ImportedVolumes {
		if owner := s.Owners.Volumes[v.Name]; owner.LogicalVolume == "" || movedFrom(d, owner) != "" {
			return fmt.Sprintf("logical volume %s/%s on node %s does not have its objects yet", d.Name, v.Name, d.Node)
		}
	}
	return ""
}

// importConsequence describes the plan of an import.
func importConsequence(p *v1alpha1.RecoveryPlan) string {
	moved := 0
	for _, v := range p.ImportedVolumes {
		if v.FromNode != "" {
			moved++
		}
	}
	return fmt.Sprintf("volumes that get a LogicalVolume, a PersistentVolume and a PersistentVolumeClaim: %d, volumes "+
		"whose objects are moved to this node: %d, no volume is changed", len(p.ImportedVolumes)-moved, moved)
}
