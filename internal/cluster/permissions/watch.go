package permissions

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// interval is the time between two checks. Each needs two or three requests, which the API server answers from memory.
const interval = time.Minute

// Watch periodically checks which permissions are missing.
type Watch struct {
	client  client.Writer
	account string
	needed  []Right
	missing atomic.Pointer[[]Right]
	changed chan event.GenericEvent
}

// NewWatch returns a Watch for the permissions of the client's user, a ServiceAccount.
func NewWatch(c client.Writer, account string, needed []Right) *Watch {
	return &Watch{client: c, account: account, needed: needed, changed: make(chan event.GenericEvent, 1)}
}

// CanStart checks once, and returns an *Error if the operator lacks permission to watch a kind. Err returns other
// missing permissions later.
func (w *Watch) CanStart(ctx context.Context) error {
	if err := w.ask(ctx); err != nil {
		// A failed check does not prevent the start.
		log.FromContext(ctx).Error(err, "cannot check the operator's permissions")
		return nil
	}
	return w.asError(watching(*w.missing.Load()))
}

// Start checks until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := w.ask(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot check the operator's permissions again")
		}
	}
}

// Err returns an *Error with the permissions that the last check found missing, or nil.
func (w *Watch) Err() error {
	if w == nil {
		return nil
	}
	missing := w.missing.Load()
	if missing == nil {
		return nil
	}
	return w.asError(*missing)
}

// Changed returns a channel with an event after each change of Err.
func (w *Watch) Changed() <-chan event.GenericEvent { return w.changed }

func (w *Watch) asError(missing []Right) error {
	if len(missing) == 0 {
		return nil
	}
	return &Error{Account: w.account, Missing: missing}
}

func (w *Watch) ask(ctx context.Context) error {
	ctx, end := liveness.Begin(ctx, "check of the operator's permissions")
	defer end()
	missing, err := Missing(ctx, w.client, w.needed)
	if err != nil {
		return err
	}
	before := w.missing.Swap(&missing)
	if before == nil && len(missing) == 0 || before != nil && slices.Equal(*before, missing) {
		return nil
	}
	if err := w.asError(missing); err != nil {
		log.FromContext(ctx).Error(err, "the operator lacks permissions")
	} else {
		log.FromContext(ctx).Info("the operator has all its permissions again", "account", w.account)
	}
	select {
	case w.changed <- event.GenericEvent{Object: &rbacv1.ClusterRole{}}:
	default: // An event is already pending.
	}
	return nil
}
