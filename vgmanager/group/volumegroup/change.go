package volumegroup

import (
	"context"
	"errors"
	"slices"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/orphanremoval"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/orphans"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/selection"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
)

// additions are the changes that remove nothing.
var additions = []state.Kind{state.CreateVG, state.CreatePool, state.PublishClass}

// change performs the next change, and stops erasures of volumes that are not removed now.
func (r *Reconciler) change(ctx context.Context, d state.Desired, before v1alpha1.VGStatus) outcome {
	o := r.nextChange(ctx, d, before)
	if len(r.orphans.Erasing[d.Name]) == 0 {
		return o
	}
	var removing []string
	if !o.ObserveFailed {
		removing = orphans.Removing(d, o.Node)
	}
	if err := r.orphans.StopErasing(ctx, d.Name, removing); err != nil {
		o.Err, o.acted = errors.Join(o.Err, err), false
	}
	return o
}

// nextChange observes, plans and acts. An observation that can be up to a minute old never leads to a change: if a
// change is due, or a device seems to have changed since it was approved, nextChange observes the node again and reads
// these devices. Publishing a class does not change the node, so the next action does not need another observation.
func (r *Reconciler) nextChange(ctx context.Context, d state.Desired, before v1alpha1.VGStatus) outcome {
	seen, p, err := r.observeAndPlan(ctx, d, before)
	if err != nil {
		return outcome{Outcome: state.Outcome{ObserveFailed: true, Err: err}}
	}
	if p, err = r.refine(ctx, d, &seen, p); err != nil {
		return outcome{Outcome: state.Outcome{Node: seen, Plan: p, Err: err}}
	}
	r.unsettled[d.Name] = p.Action.Kind != state.Nothing
	if p.Action.Kind == state.Nothing {
		if len(seen.Records.Adding) > 0 && !plan.HasUnfinished(seen) {
			err = r.group.additions.Forget(d.Name)
		}
		return outcome{Outcome: state.Outcome{Node: seen, Plan: p, Err: err}}
	}
	err = r.try(ctx, d, seen, p.Action)
	if waits := (*orphanremoval.Erasing)(nil); errors.As(err, &waits) {
		// An erasure can take hours. Meanwhile, the other actions are performed.
		seen.Orphans.Erasing, seen.Orphans.Waits = r.orphans.Erasing[d.Name], waits.Text
		p = plan.New(d, seen)
		if p.Action.Kind == state.Nothing {
			return outcome{Outcome: state.Outcome{Node: seen, Plan: p}}
		}
		err = r.try(ctx, d, seen, p.Action)
	}
	r.changed()
	return outcome{Outcome: state.Outcome{Node: seen, Plan: p, Err: err}, acted: err == nil}
}

// observeAndPlan observes the node, again if the first observation was too old for the action that it leads to.
func (r *Reconciler) observeAndPlan(ctx context.Context, d state.Desired,
	before v1alpha1.VGStatus) (state.NodeState, state.Plan, error) {
	age := min(maxAge, r.wake.age(r.now()))
	switch {
	case before.ObservedGeneration != d.Generation:
		// The object has just changed, perhaps for a disk that was attached a moment ago, so observe the node again.
		age = 0
	case r.unsettled[d.Name]:
		age = min(age, maxAgeOfAdditions)
	}
	seen, err := r.observe(ctx, d, before, age)
	if err != nil {
		return state.NodeState{}, state.Plan{}, err
	}
	p := plan.New(d, seen)
	enough := age <= maxAgeOfAdditions && slices.Contains(additions, p.Action.Kind)
	if age == 0 || enough || p.Action.Kind == state.Nothing && !p.Finished && len(p.Doubtful) == 0 {
		return seen, p, nil
	}
	if seen, err = r.observe(ctx, d, before, 0); err != nil {
		return state.NodeState{}, state.Plan{}, err
	}
	return seen, plan.New(d, seen), nil
}

// refine reads what only this plan needs, the devices and the other nodes that share them, publishes the class if it
// has changed, and plans again.
func (r *Reconciler) refine(ctx context.Context, d state.Desired, seen *state.NodeState,
	p state.Plan) (state.Plan, error) {
	if unread := slices.Concat(p.Action.Devices(), p.Doubtful); len(unread) > 0 {
		probe(ctx, r.Devices, seen, unread)
		p = plan.New(d, *seen)
	}
	if selection.NeedsPeers(*seen, p.Action) {
		var err error
		if seen.Disks.Peers, err = r.Peers(ctx, seen.Devices); err != nil {
			return p, err
		}
		if p = plan.New(d, *seen); p.AwaitsListing {
			r.changed() // the list of devices is then written soon
		}
	}
	published, is := p.Action.Target.(state.Publication)
	if !is {
		return p, nil
	}
	if err := r.try(ctx, d, *seen, p.Action); err != nil {
		return p, err
	}
	seen.Class = &published.Class
	r.changed()
	return plan.New(d, *seen), nil
}

// try performs an action, and records whether it failed: the next reconcile then tries the others first.
func (r *Reconciler) try(ctx context.Context, d state.Desired, seen state.NodeState, a state.Action) error {
	err := r.act(ctx, d, seen, a)
	failure := err
	if waits := (*orphanremoval.Erasing)(nil); errors.As(err, &waits) {
		failure = nil
	}
	r.failures[d.Name] = state.WithFailure(r.failures[d.Name], a, failure)
	return err
}
