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
func (r *Reconciler) change(ctx context.Context, w state.Desired, before v1alpha1.VGStatus) outcome {
	o := r.nextChange(ctx, w, before)
	if len(r.orphans.Erasing[w.Name]) == 0 {
		return o
	}
	var removing []string
	if !o.ObserveFailed {
		removing = orphans.Removing(w, o.Node)
	}
	if err := r.orphans.StopErasing(ctx, w.Name, removing); err != nil {
		o.Err, o.acted = errors.Join(o.Err, err), false
	}
	return o
}

// nextChange observes, plans and acts. An observation that can be up to a minute old never leads to a change: if a
// change is due, or a device seems to have changed since it was approved, nextChange observes the node again and reads
// these devices. Publishing a class does not change the node, so the next action does not need another observation.
func (r *Reconciler) nextChange(ctx context.Context, w state.Desired, before v1alpha1.VGStatus) outcome {
	age := min(maxAge, r.wake.age(r.now()))
	switch {
	case before.ObservedGeneration != w.Generation:
		// The object has just changed, perhaps for a disk that was attached a moment ago, so observe the node again.
		age = 0
	case r.unsettled[w.Name]:
		age = min(age, sameLook)
	}
	seen, err := r.observe(ctx, w, before, age)
	if err != nil {
		return outcome{Outcome: state.Outcome{ObserveFailed: true, Err: err}}
	}
	p := plan.New(w, seen)
	enough := age <= sameLook && slices.Contains(additions, p.Action.Kind)
	if age != 0 && !enough && (p.Action.Kind != state.Nothing || p.Finished || len(p.Doubtful) > 0) {
		if seen, err = r.observe(ctx, w, before, 0); err != nil {
			return outcome{Outcome: state.Outcome{ObserveFailed: true, Err: err}}
		}
		p = plan.New(w, seen)
	}
	if unread := slices.Concat(p.Action.Devices(), p.Doubtful); len(unread) > 0 {
		probe(ctx, r.Devices, &seen, unread)
		p = plan.New(w, seen)
	}
	if selection.NeedsPeers(seen, p.Action) {
		if seen.Disks.Peers, err = r.Peers(ctx, seen.Devices); err != nil {
			return outcome{Outcome: state.Outcome{Node: seen, Plan: p, Err: err}}
		}
		if p = plan.New(w, seen); p.AwaitsListing {
			r.changed() // the list of devices is then written soon
		}
	}
	if published, is := p.Action.Target.(state.Publication); is {
		if err := r.try(ctx, w, seen, p.Action); err != nil {
			return outcome{Outcome: state.Outcome{Node: seen, Plan: p, Err: err}}
		}
		seen.Class = &published.Class
		p = plan.New(w, seen)
		r.changed()
	}
	r.unsettled[w.Name] = p.Action.Kind != state.Nothing
	if p.Action.Kind == state.Nothing {
		return outcome{Outcome: state.Outcome{Node: seen, Plan: p}}
	}
	err = r.try(ctx, w, seen, p.Action)
	if waits := (*orphanremoval.Erasing)(nil); errors.As(err, &waits) {
		// An erasure can take hours. Meanwhile, the other actions are performed.
		seen.Orphans.Erasing, seen.Orphans.Waits = r.orphans.Erasing[w.Name], waits.Text
		p = plan.New(w, seen)
		if p.Action.Kind == state.Nothing {
			return outcome{Outcome: state.Outcome{Node: seen, Plan: p}}
		}
		err = r.try(ctx, w, seen, p.Action)
	}
	r.changed()
	return outcome{Outcome: state.Outcome{Node: seen, Plan: p, Err: err}, acted: err == nil}
}

// try performs an action, and records whether it failed: the next reconcile then tries the others first.
func (r *Reconciler) try(ctx context.Context, w state.Desired, seen state.NodeState, a state.Action) error {
	err := r.act(ctx, w, seen, a)
	failure := err
	if waits := (*orphanremoval.Erasing)(nil); errors.As(err, &waits) {
		failure = nil
	}
	r.failures[w.Name] = state.WithFailure(r.failures[w.Name], a, failure)
	return err
}
