package thinpool

import (
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// creation creates the pool. Before its first attempt, it tags the group, if no volume could be taken for a step of it.
func creation(config *v1alpha1.ThinPoolConfig, s state.NodeState, vg *lvm.VG) state.Action {
	switch {
	case classspec.Stripes(config.Stripes) > 1 && stripedSize(config, vg) == 0:
		return state.Action{}
	case !vg.HasTag(wellknown.NoPoolTag) && len(leftOf(config, vg)) == 0 && !creationFailed(s):
		return state.Action{Kind: state.TagVG,
			Change: lvm.VGChangeTags{VG: vg.Name, Add: []string{wellknown.NoPoolTag}}}
	}
	return state.Action{Kind: state.CreatePool, Change: Options(config, vg)}
}

// Unfinished removes what a killed lvcreate left of a pool that it was creating, so that the pool can be created. It
// removes the tag NoPoolTag when the pool is complete, and when its creation failed: LVM has removed its steps then,
// and a volume that somebody creates while the pool cannot be created is not one of them.
func Unfinished(config *v1alpha1.ThinPoolConfig, s state.NodeState, vg *lvm.VG) state.Action {
	if !vg.HasTag(wellknown.NoPoolTag) {
		return state.Action{}
	}
	if vg.ThinPool(config.Name) != nil || creationFailed(s) {
		return state.Action{Kind: state.TagVG,
			Change: lvm.VGChangeTags{VG: vg.Name, Remove: []string{wellknown.NoPoolTag}}}
	}
	if left := leftOf(config, vg); len(left) > 0 {
		return state.Action{Kind: state.RemoveUnfinished,
			Change: lvm.LVRemoveUnfinished{VG: vg.Name, Tag: wellknown.NoPoolTag, Names: left}}
	}
	return state.Action{}
}

// creationFailed returns true if the last attempt to create the pool failed in this process.
func creationFailed(s state.NodeState) bool {
	return slices.ContainsFunc(s.Records.Failures, func(f state.Failure) bool { return f.Kind == state.CreatePool })
}

// leftOf returns the names of the volumes that are steps of the creation of a pool: the spare for its metadata, which
// has a generated name until it is wiped (_alloc_pool_metadata_spare in lib/metadata/pool_manip.c), or a volume with
// the name of the pool, which becomes its metadata (create_pool there).
func leftOf(config *v1alpha1.ThinPoolConfig, vg *lvm.VG) []string {
	var names []string
	for i := range vg.LVs {
		lv := &vg.LVs[i]
		if lv.IsPlain() && (lv.Name == config.Name || lvm.IsGenerated(lv.Name)) {
			names = append(names, lv.Name)
		}
	}
	return names
}
