// Package publication decides which class the engine gets for a volume group, and when.
package publication

import (
	"fmt"
	"reflect"

	"github.com/topolvm/topolvm/pkg/lvmd/types"

	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/doubt"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/placement"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/redundancy"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// Action publishes the class if the engine does not have it, or has a different one.
func Action(w state.Desired, s state.NodeState, vg *lvm.VG) state.Action {
	class := ClassOf(w, s.Class, vg.UUID)
	if why := doubt.Of(w, s, vg); why != "" {
		// New volumes could overwrite those that the metadata does not have, and so could the erasure of a volume.
		class.Closed, class.NoRemoval = why, why
	}
	if s.Class != nil && reflect.DeepEqual(*s.Class, class) {
		return state.Action{}
	}
	return state.Action{Kind: state.PublishClass, Target: state.Publication{Class: class}}
}

// ClassOf returns the desired class for the volume group with this UUID. Without thickConfig, it keeps additional
// settings of a present class (stripes, lvcreate options), which nodes that ran another version have.
func ClassOf(w state.Desired, present *deviceclass.Class, uuid string) deviceclass.Class {
	class := deviceclass.Class{}
	if present != nil {
		class = *present
	}
	class.VolumeGroupUUID = uuid
	class.Name = w.Name
	class.VolumeGroup = w.Group()
	class.ExistingVolumeGroup = w.UsesExisting()
	class.Default = w.Spec.Default && !w.Leaving
	class.Closed, class.NoRemoval = "", ""
	class.EraseOnDelete = string(w.Spec.EraseOnDelete)
	class.NamespaceLimits = namespaceLimits(w.Spec.NamespaceLimits)
	switch {
	case w.Leaving:
		class.Closed = fmt.Sprintf("the device class no longer selects node %s", w.Node)
	case w.Deleting:
		class.Closed = fmt.Sprintf("device class %s is being deleted", w.Name)
	}
	if pool := w.Spec.ThinPoolConfig; pool != nil {
		class.Type = types.TypeThin
		class.ThinPoolConfig = &deviceclass.ThinPool{Name: pool.Name,
			OverprovisionRatio: float64(pool.OverprovisionRatio)}
		// The default mark is omitted, so that other versions and TopoLVM's lvmd can read the file.
		if pool.HighWaterMarkPercent != deviceclass.DefaultHighWaterMark {
			class.ThinPoolConfig.HighWaterMarkPercent = pool.HighWaterMarkPercent
		}
		return class
	}
	var none uint64
	class.Type = types.TypeThick
	class.ThinPoolConfig = nil
	class.SpareGB = &none
	placement.SetPlacement(&class, w.Spec.ThickConfig)
	if raid := w.Spec.RAIDConfig; raid != nil {
		class.LVCreateOptions = redundancy.Options(raid)
	}
	return class
}
