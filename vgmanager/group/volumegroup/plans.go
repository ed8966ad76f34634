package volumegroup

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/noderecord"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// madePlans has the last plans that this node made for the LVMRecoveries of a device class that have not ended, by the
// UID of the LVMRecovery.
type madePlans map[types.UID][]string

// add adds the ID of a plan. It changes no list that another map has.
func (m madePlans) add(recovery types.UID, id string) {
	if ids := append(slices.Clone(m[recovery]), id); !slices.Contains(m[recovery], id) {
		m[recovery] = ids[max(0, len(ids)-maxMadePlans):]
	}
}

// maxMadePlans is the number of plans to remember for each LVMRecovery: after a conflict, an earlier one is current.
const maxMadePlans = 8

// recoveryPlans remember the plans that the node made, in a file for each device class.
type recoveryPlans struct {
	records noderecord.Records[madePlans]
	// made has the content of the files that were read or written, by device class.
	made map[string]madePlans
	// awaited are the last plans that this process made, or has seen before their approval.
	awaited madePlans
}

func newRecoveryPlans(dir string) recoveryPlans {
	return recoveryPlans{noderecord.New[madePlans](dir, "plans", "the plans of recoveries of device class"),
		map[string]madePlans{}, madePlans{}}
}

// next returns the LVMRecovery that is carried out, with what its approved plan allows, or nil. It omits a plan that
// this node did not make, or made for a recovery that has ended or was deleted since: the plan is from a backup of
// etcd, and what it allows was approved for another state of the node. It marks an approval that was given while this
// process did not run.
func (p recoveryPlans) next(ctx context.Context, class string, open []v1alpha1.LVMRecovery) (*v1alpha1.LVMRecovery,
	*state.Recovery, error) {
	if _, known := p.made[class]; !known {
		made, err := p.records.Read(class)
		if err != nil {
			// Without the file, no plan is this node's, and each one must be approved again.
			log.FromContext(ctx).Error(err, "cannot read the plans of recoveries", "deviceClass", class)
		}
		p.made[class] = made
	}
	kept := maps.Clone(p.made[class])
	maps.DeleteFunc(kept, func(uid types.UID, _ []string) bool {
		ended := !slices.ContainsFunc(open, func(o v1alpha1.LVMRecovery) bool { return o.UID == uid })
		if ended {
			delete(p.awaited, uid)
		}
		return ended
	})
	if len(kept) != len(p.made[class]) {
		if err := p.set(class, kept); err != nil {
			return nil, nil, err
		}
	}
	if len(open) == 0 {
		return nil, nil, nil
	}
	first := open[0].DeepCopy()
	if current := first.Status.Plan; current != nil && !slices.Contains(kept[first.UID], current.ID) {
		first.Status.Plan, first.Status.StartTime = nil, nil
	}
	approved := plan.ApprovedRecovery(first)
	if approved != nil {
		approved.Unattended = !slices.Contains(p.awaited[first.UID], approved.PlanID)
	} else if first.Status.Plan != nil {
		p.awaited.add(first.UID, first.Status.Plan.ID)
	}
	return first, approved, nil
}

func (p recoveryPlans) set(class string, made madePlans) error {
	if err := p.records.Write(class, made); err != nil {
		return err
	}
	p.made[class] = made
	return nil
}

// add records a plan before it is reported. Only then it can be approved.
func (p recoveryPlans) add(class string, recovery types.UID, current *v1alpha1.RecoveryPlan) error {
	if current == nil || slices.Contains(p.made[class][recovery], current.ID) {
		return nil
	}
	made := madePlans{}
	maps.Copy(made, p.made[class])
	made.add(recovery, current.ID)
	p.awaited.add(recovery, current.ID)
	return p.set(class, made)
}

// forget removes the record of a device class.
func (p recoveryPlans) forget(class string) error {
	delete(p.made, class)
	return p.records.Forget(class)
}
