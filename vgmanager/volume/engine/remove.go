package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/view"
)

// maxTogether is the maximum number of volumes to remove with one command. The command commits the metadata of the
// group once for each volume, and must end within its time limit.
const maxTogether = 32

// removal is a request to remove a volume, and its result.
type removal struct {
	class, name string
	answer      chan error
}

// removals are the requests that wait. One command removes all waiting volumes of a class, up to maxTogether.
type removals struct {
	mu      sync.Mutex
	waiting []*removal
}

func (r *removals) add(one *removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, one)
}

// drop removes a request that its caller canceled. It returns false if the request is already being processed.
func (r *removals) drop(one *removal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.waiting)
	r.waiting = slices.DeleteFunc(r.waiting, func(other *removal) bool { return other == one })
	return len(r.waiting) < before
}

// take returns waiting requests for the class of one, including one itself.
func (r *removals) take(one *removal) []*removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.waiting, one) {
		return nil
	}
	together := []*removal{one}
	for _, other := range r.waiting {
		if other != one && other.class == one.class && len(together) < maxTogether {
			together = append(together, other)
		}
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(other *removal) bool { return slices.Contains(together, other) })
	return together
}

// Remover removes volumes. If their class requires that, it erases them first.
type Remover struct {
	*node
	removals removals
	// users describes what uses a device, or is nil (UsersWith).
	users func(ctx context.Context, number string) string
}

// RemoveLV removes a volume. It returns NotFound if the volume does not exist, which callers treat as success.
// Therefore it returns Unavailable if the volume group is not available, and FailedPrecondition if the class is not
// known, because the volume may exist.
//
// Concurrent requests share a command.
func (r *Remover) RemoveLV(ctx context.Context, class, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	one := &removal{class: class, name: name, answer: make(chan error, 1)}
	r.removals.add(one)
	leave, err := r.enter(ctx, one.class)
	if err != nil {
		if r.removals.drop(one) {
			return err
		}
		return <-one.answer
	}
	// The previous turn may have processed this request too.
	if together := r.removals.take(one); together != nil {
		r.remove(ctx, together)
	}
	leave()
	return <-one.answer
}

// remove removes volumes of one class and sets the result of each request. If one caller gives up, the other requests
// still get their results.
func (r *Remover) remove(ctx context.Context, together []*removal) {
	ctx = context.WithoutCancel(ctx)
	if len(together) > 1 {
		names := make([]string, 0, len(together))
		for _, one := range together {
			if !slices.Contains(names, one.name) {
				names = append(names, one.name)
			}
		}
		err := r.attempt(ctx, together[0].class, r.view, func(v view.Class) error {
			return r.removeFrom(ctx, v, names)
		})
		if err == nil {
			for _, one := range together {
				one.answer <- nil
			}
			return
		}
		log.FromContext(ctx).Info("removing logical volumes one by one", "deviceClass", together[0].class, "lvs",
			names, "cause", err.Error())
	}
	for _, one := range together {
		err := r.withFreshRetry(ctx, one.class, func(v view.Class) error {
			return r.removeFrom(ctx, v, []string{one.name})
		})
		if _, known := r.classes.Current().Find(one.class); !known {
			err = fault.New(fault.FailedPrecondition,
				"device class %q is not set up on this node, so it is unknown whether logical volume %s exists",
				one.class, one.name)
		}
		one.answer <- err
	}
}

func (r *Remover) removeFrom(ctx context.Context, v view.Class, names []string) error {
	for _, name := range names {
		if err := removable(v, name); err != nil {
			return err
		}
	}
	if err := v.PoolActive(); err != nil {
		return fault.New(fault.Unavailable, "%v", err)
	}
	if err := r.lvm.Apply(ctx, lvm.LVRemove{VG: v.VG.Name, Names: names}); err != nil {
		return fault.Of(r.withUsers(ctx, v.VG.Name, names, err))
	}
	log.FromContext(ctx).Info("removed logical volumes", "deviceClass", v.Config.Name, "lvs", names)
	r.watchers.Changed()
	return nil
}

// UsersWith sets the function that describes what uses a device, as the end of a sentence. number is MAJOR:MINOR.
func (r *Remover) UsersWith(users func(ctx context.Context, number string) string) { r.users = users }

func (r *Remover) usersOf(ctx context.Context, number string) string {
	if r.users == nil {
		return "device " + number
	}
	return r.users(ctx, number)
}

// withUsers adds what uses the first volume that is in use to LVM's error for it.
func (r *Remover) withUsers(ctx context.Context, vg string, names []string, err error) error {
	if !errors.Is(err, lvm.ErrInUse) || r.kernel == nil {
		return err
	}
	for _, name := range names {
		device, kernelErr := r.kernel.Volume(ctx, vg, name)
		if kernelErr == nil && device.Open > 0 {
			return fmt.Errorf("%w: %s", err, r.usersOf(ctx, device.Number))
		}
	}
	return err
}

// removable returns an error if the class removes no volumes, and for volumes with which lvremove --yes removes other
// volumes. It also returns an error for logical volumes of others in a
// volume group of an administrator.
func removable(v view.Class, name string) error {
	lv := v.VG.LV(name)
	if lv == nil {
		return fault.New(fault.NotFound, "logical volume %s/%s not found", v.VG.Name, name)
	}
	if why := v.Config.NoRemoval; why != "" {
		return fault.New(fault.Unavailable, "logical volume %s/%s is not removed: %s", v.VG.Name, name, why)
	}
	if !v.MayUse(lv) {
		return fault.New(fault.FailedPrecondition, "logical volume %s/%s was not created for a LogicalVolume, and "+
			"an administrator created its volume group: it is not removed", v.VG.Name, name)
	}
	if lv.Attr.IsThinPool() {
		return fault.New(fault.InvalidArgument, "logical volume %s/%s is a thin pool, not a volume",
			v.VG.Name, name)
	}
	if dependents := v.VG.Dependents(lv); len(dependents) > 0 {
		return fault.New(fault.FailedPrecondition, "logical volume %s/%s is needed by %s, which would be lost",
			v.VG.Name, name, strings.Join(dependents, ", "))
	}
	return nil
}

// AbandonTarget records that the logical volume of a target is removed, if its class erases volumes: from then on,
// Adopt refuses it. It returns NotFound or ErrNotTarget if there is nothing to remove.
func (r *Remover) AbandonTarget(ctx context.Context, class, name, uid string) error {
	return r.exclusively(ctx, class, name, func(v view.Class) error {
		lv, err := findTarget(v, name, uid)
		if err != nil {
			return err
		}
		if v.Config.Erase() == deviceclass.EraseNone || lvtag.Value(lv.Tags, wellknown.ErasedTagPrefix) != "" {
			return nil
		}
		return r.retag(ctx, v, lv, name, []string{wellknown.ErasedTagPrefix + "0"}, func(string) bool { return false })
	})
}

// RemoveTarget removes the logical volume of a target. It returns NotFound if it does not exist, and ErrNotTarget if
// there is another one with its name, for example because it was adopted.
func (r *Remover) RemoveTarget(ctx context.Context, class, name, uid string) error {
	return r.exclusively(ctx, class, name, func(v view.Class) error {
		if _, err := findTarget(v, name, uid); err != nil {
			return err
		}
		return r.removeFrom(ctx, v, []string{name})
	})
}
