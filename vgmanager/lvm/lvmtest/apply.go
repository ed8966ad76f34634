package lvmtest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// makers make the changes whose type they know. The fake has neither files nor a devices file, so lvm.GroupBackup and
// lvm.DevicesFileRemove change nothing.
var makers = []func(node *Node, change lvm.Change) (known bool, err error){
	on(vgCreate), on(vgExtend), on(vgRemove), on(vgActivate), on(vgChangeTags), on(vgRename), on(vgReduce),
	on(vgReduceMissing), on(groupDeactivate), on(groupRestore), on(pvResize), on(pvRemove), on(pvSetAllocatable),
	on(pvMoveStart), on(pvMoveResume), on(pvMoveAbort), on(devicesFileAdd), on(labelRestore), on(metadataDump),
	on(metadataRestore), on(lvCreateThick), on(lvCreateThin), on(lvCreateSnapshot), on(lvExtend), on(lvRemove),
	on(lvRemoveInactive), on(lvRemoveByUUID), on(lvRemoveUnreadable), on(lvRemoveLost), on(lvActivate),
	on(lvAllowActivation), on(lvDeactivate), on(lvChangeTags), on(lvRename), on(lvRepair), on(lvRefresh),
	on(lvRebuild), on(lvCreateThinPool), on(thinPoolRemove), on(thinPoolMetadataExtend), on(thinPoolSetDiscards),
	on(thinPoolActivate), on(thinPoolRepair), on(thinPoolRestore), on(thinMetadataActivate),
	on(thinMetadataDeactivate), on(nothing[lvm.GroupBackup]), on(nothing[lvm.DevicesFileRemove]),
}

func nothing[C lvm.Change](*Node, C) error { return nil }

// on returns a maker of changes of one type.
func on[C lvm.Change](apply func(*Node, C) error) func(*Node, lvm.Change) (bool, error) {
	return func(node *Node, change lvm.Change) (bool, error) {
		c, is := change.(C)
		if !is {
			return false, nil
		}
		return true, apply(node, c)
	}
}

// Apply implements lvmexec.LVM.
func (f *Fake) Apply(_ context.Context, change lvm.Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	command := change.Command()
	if len(command.Args) == 0 && !command.Steps {
		return nil
	}
	object := cmp.Or(command.VG, change.String())
	if device := reflect.ValueOf(change).FieldByName("Device"); device.IsValid() {
		object = device.String()
	}
	if err := begin(&f.Node, reflect.TypeOf(change).Name(), object); err != nil {
		return err
	}
	if err := command.Validate(); err != nil {
		return err
	}
	for _, apply := range makers {
		if known, err := apply(&f.Node, change); known {
			return err
		}
	}
	return fmt.Errorf("%s: the fake has no %T", change, change)
}
