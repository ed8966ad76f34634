package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
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

// RemoveLV removes a volume. It returns NotFound if the volume does not exist, which callers treat as success.
// Therefore it returns Unavailable if the volume group is not available, and FailedPrecondition if the class is not
// known, because the volume may exist.
//
// Concurrent requests share a command.
func (e *Engine) RemoveLV(ctx context.Context, in *proto.RemoveLVRequest) (*proto.Empty, error) {
	if err := checkName(in.GetName()); err != nil {
		return nil, err
	}
	one := &removal{class: in.GetDeviceClass(), name: in.GetName(), answer: make(chan error, 1)}
	e.removals.add(one)
	leave, err := e.enter(ctx, one.class)
	if err != nil {
		if e.removals.drop(one) {
			return nil, err
		}
		return answered(<-one.answer)
	}
	// The previous turn may have processed this request too.
	if together := e.removals.take(one); together != nil {
		e.remove(ctx, together)
	}
	leave()
	return answered(<-one.answer)
}

func answered(err error) (*proto.Empty, error) {
	if err != nil {
		return nil, err
	}
	return &proto.Empty{}, nil
}

// remove removes volumes of one class and sets the result of each request. If one caller gives up, the other requests
// still get their results.
func (e *Engine) remove(ctx context.Context, together []*removal) {
	ctx = context.WithoutCancel(ctx)
	if len(together) > 1 {
		names := make([]string, 0, len(together))
		for _, one := range together {
			if !slices.Contains(names, one.name) {
				names = append(names, one.name)
			}
		}
		err := e.attempt(ctx, together[0].class, e.view, func(l classView) error { return e.removeFrom(ctx, l, names) })
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
		err := e.withFreshRetry(ctx, one.class, func(l classView) error {
			return e.removeFrom(ctx, l, []string{one.name})
		})
		if _, known := e.classes.Load().find(one.class); !known {
			err = status.Errorf(codes.FailedPrecondition,
				"device class %q is not set up on this node, so it is unknown whether logical volume %s exists",
				one.class, one.name)
		}
		one.answer <- err
	}
}

func (e *Engine) removeFrom(ctx context.Context, l classView, names []string) error {
	for _, name := range names {
		if err := l.removable(name); err != nil {
			return err
		}
	}
	if err := l.poolActive(); err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	if err := e.lvm.Apply(ctx, lvm.LVRemove{VG: l.vg.Name, Names: names}); err != nil {
		return statusOf(e.withUsers(ctx, l.vg.Name, names, err))
	}
	log.FromContext(ctx).Info("removed logical volumes", "deviceClass", l.class.Name, "lvs", names)
	e.watchers.notify()
	return nil
}

// UsersWith sets the function that describes what uses a device, as the end of a sentence. number is MAJOR:MINOR.
func (e *Engine) UsersWith(users func(ctx context.Context, number string) string) { e.users = users }

func (e *Engine) usersOf(ctx context.Context, number string) string {
	if e.users == nil {
		return "device " + number
	}
	return e.users(ctx, number)
}

// withUsers adds what uses the first volume that is in use to LVM's error for it.
func (e *Engine) withUsers(ctx context.Context, vg string, names []string, err error) error {
	if !errors.Is(err, lvm.ErrInUse) || e.kernel == nil {
		return err
	}
	for _, name := range names {
		device, kernelErr := e.kernel.Volume(ctx, vg, name)
		if kernelErr == nil && device.Open > 0 {
			return fmt.Errorf("%w: %s", err, e.usersOf(ctx, device.Number))
		}
	}
	return err
}

// removable returns an error if the class removes no volumes, and for volumes with which lvremove --yes removes other
// volumes. It also returns an error for logical volumes of others in a
// volume group of an administrator.
func (l classView) removable(name string) error {
	lv := l.vg.LV(name)
	if lv == nil {
		return status.Errorf(codes.NotFound, "logical volume %s/%s not found", l.vg.Name, name)
	}
	if why := l.class.NoRemoval; why != "" {
		return status.Errorf(codes.Unavailable, "logical volume %s/%s is not removed: %s", l.vg.Name, name, why)
	}
	if !l.mayUse(lv) {
		return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s was not created for a LogicalVolume, and "+
			"an administrator created its volume group: it is not removed", l.vg.Name, name)
	}
	if lv.Attr.IsThinPool() {
		return status.Errorf(codes.InvalidArgument, "logical volume %s/%s is a thin pool, not a volume",
			l.vg.Name, name)
	}
	if dependents := l.vg.Dependents(lv); len(dependents) > 0 {
		return status.Errorf(codes.FailedPrecondition, "logical volume %s/%s is needed by %s, which would be lost",
			l.vg.Name, name, strings.Join(dependents, ", "))
	}
	return nil
}
