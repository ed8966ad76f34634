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
func Action(d state.Desired, s state.NodeState, vg *lvm.VG) state.Action {
	class := ClassOf(d, s.Class, vg.UUID)
	if why := doubt.Of(d, s, vg); why != "" {
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
func ClassOf(d state.Desired, present *deviceclass.Class, uuid string) deviceclass.Class {
	class := deviceclass.Class{}
	if present != nil {
		class = *present
	}
	class.VolumeGroupUUID = uuid
	class.Name = d.Name
	class.VolumeGroup = d.Group()
	class.ExistingVolumeGroup = d.UsesExisting()
	class.Default = d.Spec.Default && !d.Leaving
	class.Closed, class.NoRemoval = "", ""
	class.EraseOnDelete = string(d.Spec.EraseOnDelete)
	class.NamespaceLimits = namespaceLimits(d.Spec.NamespaceLimits)
	switch {
	case d.Leaving:
		class.Closed = fmt.Sprintf("the device class no longer selects node %s", d.Node)
	case d.Deleting:
		class.Closed = fmt.Sprintf("device class %s is being deleted", d.Name)
	}
	if pool := d.Spec.ThinPoolConfig; pool != nil {
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
	placement.SetPlacement(&class, d.Spec.ThickConfig)
	if raid := d.Spec.RAIDConfig; raid != nil {
		class.LVCreateOptions = redundancy.Options(raid)
	}
	return class
}
