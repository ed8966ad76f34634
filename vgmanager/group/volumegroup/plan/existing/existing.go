// Package existing decides about device classes on volume groups that an administrator created (existingVolumeGroup).
package existing

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/members"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/publication"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/thinpool"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// This file is about device classes on volume groups that an administrator created (existingVolumeGroup). The only
// actions of their plans publish and withdraw the class: the node agent changes neither the volume group nor its
// devices, its thin pools and the logical volumes of others. The engine changes logical volumes of claims.

// Plan is New for a volume group that an administrator created.
//
// A class is published when the volume group can be used. Later it stays published, because requests must find its
// volumes; while the volume group cannot be used, the class accepts no new ones.
func Plan(d state.Desired, s state.NodeState) state.Plan {
	vg := ownership.GroupOf(d, s)
	lost := vg == nil && wasUsed(s)
	ends := d.Deleting || d.Leaving && !lost
	refusal := existingRefusal(d, s, vg)
	volumes := claimedVolumes(d, vg)
	switch {
	case ends && (len(volumes) == 0 || refusal != "" && s.Class == nil) && len(s.Report.Named(d.Group())) < 2:
		return state.Withdrawn(s, state.Plan{Finished: true})
	case !ends && lostSettings(d, s.Class) != "":
		return state.Plan{State: v1alpha1.VGStatusFailed, Problems: []state.Problem{{
			Event: state.EventForeignVolumeGroup,
			Message: fmt.Sprintf("device class %s in %s on node %s has %s, which new volumes would lose: nothing is "+
				"changed: %s; or, if new volumes can be without, remove it from the file and delete the Pod of the "+
				"node agent", d.Name, classesFile, d.Node, lostSettings(d, s.Class), settingsRemedy(d))}}}
	case refusal != "" && s.Class == nil:
		return state.Plan{State: v1alpha1.VGStatusFailed, Lost: lost,
			Problems: []state.Problem{{Event: state.EventForeignVolumeGroup, Message: refusal}}}
	case vg == nil:
		p := state.DeviceProblem(v1alpha1.ReasonDeviceMissing, refusal, nil)
		p.AffectsClass = true
		return state.Plan{State: v1alpha1.VGStatusDegraded, Lost: lost, Problems: []state.Problem{p}}
	}
	return planPresent(d, s, vg, refusal)
}

// planPresent is the plan for a volume group that exists. refusal says why it cannot be used, or is "".
func planPresent(d state.Desired, s state.NodeState, vg *lvm.VG, refusal string) state.Plan {
	volumes := claimedVolumes(d, vg)
	p := state.Plan{LookedAtHealth: true, Action: existingPublication(d, s, vg, refusal),
		Problems: existingProblems(d, s, vg)}
	switch {
	case refusal != "":
		p.Problems = slices.Insert(p.Problems, 0, state.Problem{Event: state.EventForeignVolumeGroup, Message: refusal})
	case d.Deleting:
		p.Problems = append(p.Problems, state.Problem{Event: state.EventManualCleanup, Message: fmt.Sprintf(
			"device class %s is not removed from node %s while volume group %s has logical volumes of it: %s; delete "+
				"their PersistentVolumeClaims, PersistentVolumes and VolumeSnapshots, or run on the node: lvremove",
			d.Name, d.Node, d.Group(), state.Joined(volumes))})
	}
	if p.State = state.StateOf(p); p.State == v1alpha1.VGStatusReady && d.Leaving {
		p.Note = fmt.Sprintf("the device class no longer selects node %s: its volumes stay (%s), and no new ones are "+
			"created", d.Node, state.Joined(volumes))
	}
	return p
}

// lostSettings returns the settings of a device class of TopoLVM's lvmd.yaml that new volumes would lose, for example
// their redundancy, or "". Settings of the LVMCluster replace those of the file.
func lostSettings(d state.Desired, class *deviceclass.Class) string {
	var lost []string
	// TopoLVM does not write the UUID: this agent has written a class with one.
	if class == nil || class.VolumeGroupUUID != "" {
		return ""
	}
	config := existingConfig(d)
	if class.Stripe != nil && config.Stripes == nil {
		lost = append(lost, fmt.Sprintf("stripe %d", *class.Stripe))
	}
	if class.StripeSize != "" && config.StripeSize == nil {
		lost = append(lost, "stripe-size "+class.StripeSize)
	}
	if len(class.LVCreateOptions) > 0 && len(config.LVCreateOptions) == 0 {
		lost = append(lost, fmt.Sprintf("lvcreate-options %s", class.LVCreateOptions))
	}
	return strings.Join(lost, ", ")
}

// settingsRemedy says how a device class keeps the settings of TopoLVM's lvmd.yaml.
func settingsRemedy(d state.Desired) string {
	if d.Spec.ThinPoolConfig != nil {
		return "thin volumes cannot have it"
	}
	return "set it in existingVolumeGroupConfig of the device class (stripes, stripeSize, lvcreateOptions)"
}

// existingConfig returns the settings of the device class, which are empty if it has none.
func existingConfig(d state.Desired) v1alpha1.ExistingVolumeGroupConfig {
	if d.Spec.ExistingVolumeGroupConfig == nil {
		return v1alpha1.ExistingVolumeGroupConfig{}
	}
	return *d.Spec.ExistingVolumeGroupConfig
}

// existingClass returns the class for a volume group of an administrator. Only the LVMCluster has its settings.
func existingClass(d state.Desired, uuid string) deviceclass.Class {
	class, config := publication.ClassOf(d, nil, uuid), existingConfig(d)
	if config.SpareGiB > 0 {
		spare := uint64(config.SpareGiB)
		class.SpareGB = &spare
	}
	if config.Allocation == v1alpha1.AllocationSingleDevice {
		class.Allocation = deviceclass.AllocationSingleDevice
	}
	if config.Stripes != nil {
		stripes := uint(*config.Stripes)
		class.Stripe = &stripes
	}
	if config.StripeSize != nil {
		class.StripeSize = fmt.Sprintf("%dk", config.StripeSize.Value()>>10)
	}
	class.LVCreateOptions = slices.Clone(config.LVCreateOptions)
	return class
}

// wasUsed returns true if the device class has used its volume group on this node before.
func wasUsed(s state.NodeState) bool { return s.Class != nil || s.Before.UUID != "" }

// existingPublication publishes the class if the engine does not have it, or has a different one. refusal is why the
// class accepts no new volumes, or "".
func existingPublication(d state.Desired, s state.NodeState, vg *lvm.VG, refusal string) state.Action {
	class := existingClass(d, vg.UUID)
	if refusal != "" {
		class.Closed = refusal
	}
	if s.Class != nil && reflect.DeepEqual(*s.Class, class) {
		return state.Action{}
	}
	return state.Action{Kind: state.PublishClass, Target: state.Publication{Class: class}}
}

// existingRefusal returns why the volume group cannot be used, or "".
func existingRefusal(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	named := s.Report.Named(d.Group())
	where := fmt.Sprintf("volume group %s of device class %s", d.Group(), d.Name)
	switch {
	case len(named) > 1:
		var list []string
		for _, g := range named {
			list = append(list, ownership.Described(g))
		}
		return fmt.Sprintf("node %s has %d volume groups with the name %s, so LVM cannot change any of them: %s: "+
			"detach the disks of the one that does not belong here, or rename it on the node: vgrename UUID NEWNAME",
			d.Node, len(named), d.Group(), strings.Join(list, "; "))
	case len(named) == 1 && vg == nil:
		return fmt.Sprintf("%s is missing on node %s (%s), which has another one of this name: %s: attach the disks "+
			"of the missing one again; or, to use the other one, delete the volumes and the device class, and create "+
			"the device class again", where, d.Node, ownership.RecordedUUID(s), ownership.Described(named[0]))
	case vg == nil && wasUsed(s):
		return fmt.Sprintf("%s is missing on node %s (%s): attach its disks again, and see its devices file "+
			"(lvmdevices) and the filter in lvm.conf", where, d.Node, ownership.RecordedUUID(s))
	case vg == nil:
		return fmt.Sprintf("%s does not exist on node %s: create it there: vgcreate %s DEVICE; or exclude the node "+
			"with nodeSelector. If it exists, LVM does not list it: see its devices file (lvmdevices), the filter in "+
			"lvm.conf, and its system ID (lvmsystemid(7))", where, d.Node, d.Group())
	}
	if problem := managedElsewhere(d, vg); problem != "" {
		return problem
	}
	if problem := ownership.Frozen(d, vg); problem != "" {
		return problem
	}
	if vg.MissingPVs > 0 && s.Class == nil {
		return fmt.Sprintf("%s on node %s is partial, physical volumes are missing: %d. Attach them, or remove them "+
			"on the node: vgreduce --removemissing %s", where, d.Node, vg.MissingPVs, d.Group())
	}
	if problem := targetRefusal(d, s, vg); problem != "" {
		return problem
	}
	return layoutRefusal(d, vg)
}

// layoutRefusal returns why no volume with the settings of the device class can be created in the volume group, or "".
func layoutRefusal(d state.Desired, vg *lvm.VG) string {
	if d.Spec.ThinPoolConfig != nil {
		return ""
	}
	class := existingClass(d, vg.UUID)
	layout, err := lvm.NewLayout(class.CreateOptions())
	if err != nil {
		return fmt.Sprintf("existingVolumeGroupConfig of device class %s: %v", d.Name, err)
	}
	if layout.Images <= len(vg.PVs) {
		return ""
	}
	return fmt.Sprintf("volume group %s on node %s has %d physical volumes, and a volume of device class %s requires "+
		"%d (%s): add devices on the node: vgextend %s DEVICE; or change existingVolumeGroupConfig", vg.Name, d.Node,
		len(vg.PVs), d.Name, layout.Images, layout.Type, vg.Name)
}

// managedElsewhere returns why the volume group belongs to a device class without existingVolumeGroup, or "".
func managedElsewhere(d state.Desired, vg *lvm.VG) string {
	where := fmt.Sprintf("volume group %s (%s) on node %s", vg.Name, vg.UUID, d.Node)
	remedy := fmt.Sprintf("name another volume group in existingVolumeGroup of device class %s", d.Name)
	cluster := ownership.TagValue(vg, wellknown.ClusterTagPrefix)
	manager := slices.IndexFunc(d.Others, func(o state.Other) bool { return o.Name == vg.Name })
	switch {
	case cluster != "" && !d.IsThisCluster(cluster):
		return fmt.Sprintf("OtherClusterVG: %s belongs to the cluster %s, not to this cluster (%s): detach its disks, "+
			"or %s; or, if no other cluster uses the disks, to use it with its volumes, create a device class without "+
			"existingVolumeGroup and with adopt: [{node: %s, volumeGroupUUID: %s}]", where, cluster, d.Cluster.ID,
			remedy, d.Node, vg.UUID)
	case manager >= 0:
		return fmt.Sprintf("%s is the volume group of device class %s, which creates and extends it: %s, or use "+
			"device class %s", where, d.Others[manager].Name, remedy, d.Others[manager].Name)
	case state.IsOfProduct(vg.Tags):
		return fmt.Sprintf("%s is managed by LVMS (tags %s), so it is not one of an administrator: %s, or use a "+
			"device class without existingVolumeGroup and with adopt: [{node: %s, volumeGroupUUID: %s}]", where,
			strings.Join(vg.Tags, ", "), remedy, d.Node, vg.UUID)
	}
	return ""
}

// targetRefusal returns why the device class cannot use the thin pool, or the space of the volume group, or "".
func targetRefusal(d state.Desired, s state.NodeState, vg *lvm.VG) string {
	pool := state.PoolName(d)
	taken := slices.IndexFunc(d.Sharers, func(o state.Sharer) bool { return o.Group == vg.Name && o.Pool == pool })
	switch {
	case taken >= 0 && s.Class == nil && pool == "":
		return fmt.Sprintf("volume group %s on node %s already has device class %s for thick volumes: a volume group "+
			"can have one device class for thick volumes, and one for each thin pool: remove one of device classes %s "+
			"and %s, or exclude the node from one of them", vg.Name, d.Node, d.Sharers[taken].Name, d.Name,
			d.Sharers[taken].Name)
	case taken >= 0 && s.Class == nil:
		return fmt.Sprintf("thin pool %s/%s on node %s already has device class %s: remove one of device classes %s "+
			"and %s, or exclude the node from one of them", vg.Name, pool, d.Node, d.Sharers[taken].Name, d.Name,
			d.Sharers[taken].Name)
	case s.Class != nil && s.Class.VolumeGroup != vg.Name:
		return fmt.Sprintf("device class %s on node %s used volume group %s before, as %s says, and its volumes are "+
			"there: name this volume group in existingVolumeGroup, or move the file away if no volume of the device "+
			"class is left", d.Name, d.Node, s.Class.VolumeGroup, classesFile)
	case pool != "" && vg.LV(pool) == nil:
		return fmt.Sprintf("volume group %s on node %s has no thin pool %s, and none is created in a volume group of "+
			"an administrator: run on the node: lvcreate --type thin-pool -l 90%%FREE -n %s %s", vg.Name, d.Node, pool,
			pool, vg.Name)
	case pool != "" && vg.ThinPool(pool) == nil:
		return fmt.Sprintf("logical volume %s/%s on node %s is not a thin pool: name a thin pool in thinPoolConfig, "+
			"or remove or rename the logical volume", vg.Name, pool, d.Node)
	}
	return ""
}

// classesFile has the published device classes, on the node and in the container of the node agent.
const classesFile = "lvmd.yaml (in /etc/topolvm, on MicroShift in /var/lib/microshift/lvms)"

// NoRecovery returns why a recovery of the device class has no effect.
func NoRecovery(d state.Desired) string {
	return fmt.Sprintf("volume group %s of device class %s was created by an administrator (existingVolumeGroup), and "+
		"LVMS does not repair it: use the commands of LVM on node %s", d.Group(), d.Name, d.Node)
}

// claimedVolumes returns the sorted logical volumes of claims in the volume group that belong to the device class.
func claimedVolumes(d state.Desired, vg *lvm.VG) []string {
	var names []string
	if vg == nil {
		return nil
	}
	for i := range vg.LVs {
		if lv := &vg.LVs[i]; isClaimed(d, lv) {
			names = append(names, lv.Name)
		}
	}
	slices.Sort(names)
	return names
}

// isClaimed returns true if a logical volume of the volume group is one of a claim of the device class.
func isClaimed(d state.Desired, lv *lvm.LV) bool {
	cluster := ownership.TagValue(&lvm.VG{Tags: lv.Tags}, wellknown.ClusterTagPrefix)
	return !lv.Attr.IsThinPool() && lv.PoolName == state.PoolName(d) && deviceclass.IsClaimed(lv.Name, lv.Tags) &&
		(cluster == "" || d.IsThisCluster(cluster))
}

// existingProblems returns the problems of the volume group that affect the device class.
func existingProblems(desired state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	var problems []state.Problem
	volumes := claimedVolumes(desired, vg)
	affected := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(volumes, n) })
	}
	for _, pv := range vg.PVs {
		if pv.Missing {
			problems = append(problems, state.DeviceProblem(v1alpha1.ReasonDeviceMissing,
				existingMissing(desired, s, pv), affected(vg.VolumesOn(pv.UUID))))
		}
	}
	for _, d := range s.Devices {
		if uuid, copied := ownership.CopyOf(d, vg); copied {
			problems = append(problems, state.DeviceProblem(v1alpha1.ReasonDuplicatePV, fmt.Sprintf(
				"physical volume %s of volume group %s appears twice on node %s, the second time as %s: detach the "+
					"copy", uuid, desired.Group(), desired.Node, d.Name), affected(vg.VolumesOn(uuid))))
		}
	}
	problems = append(problems, health.Failing(desired, s, vg)...)
	for i := range problems {
		problems[i].Volumes = affected(problems[i].Volumes)
	}
	problems = append(problems, existingBroken(desired, vg, volumes)...)
	problems = append(problems, existingHeld(desired, affected(health.HeldVolumes(s, vg)))...)
	problems = append(problems, existingPool(desired, s, vg)...)
	problems = append(problems, members.MetadataAreaProblems(desired, vg)...)
	return append(problems, health.UnknownHealth(desired, s)...)
}

func existingMissing(d state.Desired, s state.NodeState, pv lvm.PV) string {
	where := ""
	if last := state.LastName(s, pv); last != "" {
		where = ", last seen as " + last
	}
	return fmt.Sprintf("volume group %s on node %s is missing the physical volume %s%s: attach the disk again; until "+
		"then no volume of the group is created, deleted or formatted; if the disk is lost, so is the data on it: "+
		"remove it on the node (vgreduce --removemissing %s), which an administrator of this volume group decides",
		d.Group(), d.Node, pv.UUID, where, d.Group())
}

func existingBroken(d state.Desired, vg *lvm.VG, volumes []string) []state.Problem {
	var broken, names []string
	for _, name := range volumes {
		if lv := vg.LV(name); lv.Health != "" {
			broken = append(broken, fmt.Sprintf("%s (%s)", lv.Name, lv.Health))
			names = append(names, lv.Name)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return []state.Problem{{Event: state.EventInconsistentVolumes, Condition: v1alpha1.ConditionVolumesHealthy,
		Reason: v1alpha1.ReasonVolumesBroken, Volumes: names,
		Message: fmt.Sprintf("logical volumes of volume group %s on node %s are broken: %s", d.Group(), d.Node,
			state.Joined(broken))}}
}

func existingHeld(d state.Desired, names []string) []state.Problem {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return []state.Problem{{Event: state.EventInconsistentVolumes, Condition: v1alpha1.ConditionVolumesHealthy,
		Reason: v1alpha1.ReasonVolumesSuspended, Volumes: names,
		Message: fmt.Sprintf("logical volumes of volume group %s on node %s are suspended, so their I/O blocks: %s; "+
			"if no LVM command is working on them, run on the node: lvchange --refresh %s/NAME", d.Group(), d.Node,
			state.Joined(names), d.Group())}}
}

// existingPool returns the problems of the thin pool, with the commands for the administrator who created it.
func existingPool(d state.Desired, s state.NodeState, vg *lvm.VG) []state.Problem {
	pool := vg.ThinPool(state.PoolName(d))
	if pool == nil {
		return nil
	}
	full := d.Group() + "/" + pool.Name
	repair := "see lvmthin(7) for its repair, which loses volumes if the metadata is damaged: back up what can be " +
		"read, and run on the node while none of its volumes is active: lvconvert --repair " + full
	problems := thinpool.Broken(d, s, pool, thinpool.Remedies{
		Repair:   repair,
		Space:    "extend it on the node: lvextend -L +SIZE " + full + "; or delete snapshots and volumes",
		Metadata: "extend it on the node: lvextend --poolmetadatasize +SIZE " + full + "; if LVM refuses, " + repair,
		Resume:   "if no LVM command is working on it, run on the node: lvchange --refresh " + full,
	})
	if pool.Health == "" && !vg.IsPoolActive(pool.Name) {
		problems = append(problems, thinpool.Problem(pool, v1alpha1.ReasonThinPoolFailed, fmt.Sprintf(
			"thin pool %s on node %s is not active, so no volume of it can be used: run on the node: lvchange -ay "+
				"%s", full, d.Node, full)))
	}
	return problems
}
