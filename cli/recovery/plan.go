package recovery

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/output"
	"github.com/lvm-storage/lvm-operator/internal/volume/recoveryplan"
)

// noErrors is the begin of the finding of a check that found no errors.
const noErrors = "no errors"

// risk returns why an approval of a plan can lose data, or "". --yes alone does not approve such a plan.
func risk(action v1alpha1.RecoveryAction, plan *v1alpha1.RecoveryPlan) string {
	lost := max(int(plan.LostVolumeCount), len(plan.LostVolumes))
	switch damaged := len(plan.DamagedVolumes); {
	case lost > 0 && damaged > 0:
		return output.CountOf(lost, "volume is lost", "volumes are lost") + ", and " +
			output.CountOf(damaged, "volume loses some of its data", "volumes lose some of their data")
	case lost > 0:
		return output.CountOf(lost, "volume is lost", "volumes are lost")
	case damaged > 0:
		return output.CountOf(damaged, "volume loses some of its data", "volumes lose some of their data")
	}
	switch {
	case action == v1alpha1.RecoveryDeleteOrphans:
		return "logical volumes are deleted"
	case action == v1alpha1.RecoveryAcceptMetadata:
		return "what only later metadata of the volume group has is lost"
	case action == v1alpha1.RecoveryCheckFileSystems:
		return "the repair of a file system can remove damaged files"
	case plan.Repair == v1alpha1.RepairRebuild:
		return "the metadata of the thin pool is written again, which can lose more than the plan lists"
	case plan.Repair != "" && repairEffects[plan.Repair] == "":
		return "this version of the plugin does not know the repair " + string(plan.Repair)
	case plan.ReplacesMetadata:
		return "the metadata of a volume group that exists is replaced"
	}
	return ""
}

// repairEffects are what the repairs of a thin pool do.
var repairEffects = map[v1alpha1.ThinPoolRepair]string{
	v1alpha1.RepairClearCheck: "The metadata of the thin pool is valid. The flag that requires a check is cleared.",
	v1alpha1.RepairRebuild: "The metadata of the thin pool is damaged. What can be read is written again, and the " +
		"previous metadata is kept.",
	v1alpha1.RepairExtend: "The metadata of the thin pool is full. It is extended from the free space of the volume " +
		"group.",
}

// deviceEffects are what the actions do with the devices of a plan.
var deviceEffects = map[v1alpha1.RecoveryAction]string{
	v1alpha1.RecoveryRemoveLostDevices: "The missing devices below are removed from the volume group.",
	v1alpha1.RecoveryRestoreLabels:     "The LVM labels of the devices below are written again.",
	v1alpha1.RecoveryRestoreMetadata:   "The volume group is on the devices below.",
}

// planText returns the plan of a recovery as a person reads it.
func planText(r *v1alpha1.LVMRecovery) (string, error) {
	// Only the operator acts on a plan that another process wrote: that of an import.
	if r.Spec.Action == v1alpha1.RecoveryImportVolumes && !recoveryplan.IsGenuine(r) {
		return "", fmt.Errorf("%s cannot be approved: its plan %s has another content than its ID says. The node "+
			"agent of %s wrote it: check that this command has the version of the operator, and if it has, who can "+
			"use the token of this agent. Then delete the LVMRecovery, and create it again", recoveryName(r),
			r.Status.Plan.ID, r.Spec.NodeName)
	}
	var text strings.Builder
	plan := r.Status.Plan
	fmt.Fprintf(&text, "\nPlan %s of %s: %s, device class %s on the node %s\n", plan.ID, recoveryName(r), r.Spec.Action,
		r.Spec.DeviceClassName, r.Spec.NodeName)
	for _, sentence := range planSentences(r) {
		fmt.Fprintln(&text, "-", sentence)
	}
	for _, table := range []*metav1.Table{planDevices(plan), planVolumes(r.Spec.Action, plan)} {
		if len(table.Rows) == 0 {
			continue
		}
		fmt.Fprintln(&text)
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, &text); err != nil {
			return "", err
		}
	}
	fmt.Fprintln(&text)
	return text.String(), nil
}

// planSentences returns what a plan loses, what it keeps, and what else it does.
func planSentences(r *v1alpha1.LVMRecovery) []string {
	plan := r.Status.Plan
	sentences := append(lossSentences(plan), actionSentences(r.Spec.Action, plan)...)
	if why := risk(r.Spec.Action, plan); why == "" {
		sentences = append(sentences, "No volume is lost.")
	}
	return append(sentences, "The approval is for this plan only. If more would be lost, the node agent stops, and "+
		"makes a new plan.")
}

func lossSentences(plan *v1alpha1.RecoveryPlan) []string {
	var sentences []string
	if lost := max(int(plan.LostVolumeCount), len(plan.LostVolumes)); lost > 0 {
		sentences = append(sentences, output.CountOf(lost, "volume is LOST, with all its data.",
			"volumes are LOST, with all their data."))
		if more := lost - len(plan.LostVolumes); more > 0 {
			sentences = append(sentences, output.CountOf(more,
				"lost volume is not listed, because the plan would be too long.",
				"lost volumes are not listed, because the plan would be too long."))
		}
	}
	if damaged := len(plan.DamagedVolumes); damaged > 0 {
		sentences = append(sentences, output.CountOf(damaged, "volume is DAMAGED: it is kept, and loses some of its "+
			"data. Check its file system afterwards, or restore it from a backup.", "volumes are DAMAGED: they are "+
			"kept, and lose some of their data. Check their file systems afterwards, or restore them from a backup."))
	}
	if plan.KeptVolumeCount > 0 {
		sentences = append(sentences, output.CountOf(int(plan.KeptVolumeCount), "volume of the volume group is kept.",
			"volumes of the volume group are kept."))
	}
	return sentences
}

// actionSentences returns what a plan does beside keeping and losing volumes.
func actionSentences(action v1alpha1.RecoveryAction, plan *v1alpha1.RecoveryPlan) []string {
	var sentences []string
	if effect := deviceEffects[action]; effect != "" && len(plan.Devices) > 0 {
		sentences = append(sentences, effect)
	}
	for _, d := range plan.FailingDevices {
		sentences = append(sentences, "The device "+output.OneLine(d.Name)+" is FAILING, and stays in the volume "+
			"group: request its removal afterwards, which moves its data to other devices.")
	}
	if effect := repairEffects[plan.Repair]; effect != "" {
		sentences = append(sentences, effect)
	}
	if plan.MetadataSource != "" {
		sentences = append(sentences, "The metadata of the volume group is from: "+output.OneLine(plan.MetadataSource))
	}
	if why := risk(action, plan); why != "" && len(plan.LostVolumes)+len(plan.DamagedVolumes) == 0 &&
		plan.LostVolumeCount == 0 {
		sentences = append(sentences, "Data can be lost: "+why+".")
	}
	if action == v1alpha1.RecoveryRemoveLostDevices {
		for _, pool := range plan.ThinPools {
			sentences = append(sentences, "The thin pool "+pool.Name+" is lost, and is created again.")
		}
	}
	if action == v1alpha1.RecoveryFreePoolSpace {
		sentences = append(sentences, trimSentences(plan)...)
	}
	return sentences
}

func trimSentences(plan *v1alpha1.RecoveryPlan) []string {
	sentences := []string{"The difference between what a volume uses in the pool and in its file system is about " +
		"what trimming frees."}
	if more := int(plan.MountedVolumeCount) - len(plan.MountedVolumes); more > 0 {
		sentences = append(sentences, output.CountOf(more, "volume is not listed.", "volumes are not listed."))
	}
	if plan.ExtensibleBytes > 0 {
		sentences = append(sentences, "The thin pool can also be extended by "+output.BytesText(plan.ExtensibleBytes)+
			" from the free space of the volume group: set autoExtend.")
	}
	return sentences
}

func planDevices(plan *v1alpha1.RecoveryPlan) *metav1.Table {
	table := output.NewTable([]string{"Device", "ID", "Physical volume"}, nil)
	for _, d := range plan.Devices {
		output.AddRow(table, d.Name, d.DeviceID, d.UUID)
	}
	return table
}

// planVolumes returns the volumes of a plan: the lost ones first.
func planVolumes(action v1alpha1.RecoveryAction, plan *v1alpha1.RecoveryPlan) *metav1.Table {
	table := output.NewTable([]string{"Effect", "Claim", "Volume", "Size", "Details"}, nil)
	add := func(effect func(v1alpha1.RecoveryVolume) (string, string), volumes []v1alpha1.RecoveryVolume) {
		for _, v := range volumes {
			word, details := effect(v)
			output.AddRow(table, word, v.Claim, v.Name, output.BytesText(v.Size), details)
		}
	}
	lost := "Lost"
	if action == v1alpha1.RecoveryDeleteOrphans {
		lost = "Deleted"
	}
	add(func(v1alpha1.RecoveryVolume) (string, string) { return lost, "" }, plan.LostVolumes)
	add(damageOf, plan.DamagedVolumes)
	add(importOf, plan.ImportedVolumes)
	add(trimOf, plan.MountedVolumes)
	add(checkOf, plan.CheckedVolumes)
	return table
}

func damageOf(v v1alpha1.RecoveryVolume) (effect, details string) {
	if v.LostBytes > 0 {
		details = output.BytesText(v.LostBytes) + " lost"
	}
	return "Damaged", joinNonEmpty(details, output.OneLine(v.Finding))
}

func importOf(v v1alpha1.RecoveryVolume) (effect, details string) {
	effect = "Imported"
	from := ""
	if v.FromNode != "" {
		effect = "Moved"
		from = "from node " + v.FromNode
	}
	return effect, joinNonEmpty(from, cmp.Or(v.FSType, "block volume"), labeled("PersistentVolume "+
		"", v.PersistentVolume),
		labeled("created ", output.TimeText(v.Created)), labeled("last mounted ", output.TimeText(v.LastMountTime)))
}

func trimOf(v v1alpha1.RecoveryVolume) (effect, details string) {
	inFileSystem := "the file system does not respond"
	if v.UsedBytes > 0 {
		inFileSystem = output.BytesText(v.UsedBytes) + " in the file system"
	}
	return "Trimmed", cmp.Or(output.BytesText(v.AllocatedBytes), "nothing") + " in the pool, " + inFileSystem
}

func checkOf(v v1alpha1.RecoveryVolume) (effect, details string) {
	effect = "Repaired"
	if strings.HasPrefix(v.Finding, noErrors) {
		effect = "None"
	}
	return effect, joinNonEmpty(v.FSType, output.OneLine(v.Finding))
}

func joinNonEmpty(parts ...string) string {
	var some []string
	for _, part := range parts {
		if part != "" {
			some = append(some, part)
		}
	}
	return strings.Join(some, ", ")
}

// labeled returns a value with a label before it, or "" if there is no value.
func labeled(label, value string) string {
	if value == "" {
		return ""
	}
	return label + value
}
