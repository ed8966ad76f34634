package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// RemainingError lists objects that are being deleted and still exist. It is not a failure: try again later.
type RemainingError struct {
	// Objects are the objects with the finalizers that block their deletion, sorted.
	Objects []string
}

func (e *RemainingError) Error() string {
	return "still being deleted: " + strings.Join(e.Objects, "; ")
}

// Waits returns what the deletion waits for.
func (e *RemainingError) Waits() []string { return []string{e.Error()} }

// IgnoreRemaining returns nil for a *RemainingError, for callers that do not wait until the objects no longer exist.
func IgnoreRemaining(err error) error {
	var remaining *RemainingError
	if errors.As(err, &remaining) {
		return nil
	}
	return err
}

// Delete deletes an object, given by type, name and namespace. It returns nil if the object does not exist, and a
// *RemainingError as long as it exists. from should not be a cache, which may not have the object yet.
func (a *Applier) Delete(ctx context.Context, from client.Reader, object client.Object) error {
	ref, err := a.referTo(object)
	if err != nil {
		return err
	}
	if gone, err := a.get(ctx, from, object); gone || err != nil {
		return err
	}
	if object.GetDeletionTimestamp().IsZero() {
		if err := a.delete(ctx, object); err != nil {
			return fmt.Errorf("%s: delete: %w", ref, err)
		}
		if gone, err := a.get(ctx, from, object); gone || err != nil {
			return err
		}
	}
	return &RemainingError{Objects: []string{describe(ref, object)}}
}

// get reads an object and reports whether it does not exist.
func (a *Applier) get(ctx context.Context, from client.Reader, object client.Object) (bool, error) {
	ref, err := a.referTo(object)
	if err != nil {
		return false, err
	}
	err = from.Get(ctx, ref.ObjectKey, object)
	if apierrors.IsNotFound(err) {
		a.forget(ref)
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: read before deletion: %w", ref, err)
	}
	return false, nil
}

// delete deletes an object with its UID, so that it does not delete a later one with the same name.
func (a *Applier) delete(ctx context.Context, object client.Object) error {
	uid := object.GetUID()
	err := a.client.Delete(ctx, object, client.Preconditions{UID: &uid},
		client.PropagationPolicy("Background"))
	return client.IgnoreNotFound(err)
}

// Prune deletes the objects of a list for which keep returns false. It returns a *RemainingError as long as some of
// them exist. The options select the objects that the caller owns.
func (a *Applier) Prune(ctx context.Context, from client.Reader, list client.ObjectList, keep func(client.Object) bool,
	options ...client.ListOption,
) error {
	if err := from.List(ctx, list, options...); err != nil {
		return fmt.Errorf("list %T to delete obsolete objects: %w", list, err)
	}
	var errs []error
	remaining := &RemainingError{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok || keep(object) {
			return nil
		}
		errs = append(errs, remaining.collect(a.Delete(ctx, from, object)))
		return nil
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	if len(remaining.Objects) == 0 {
		return nil
	}
	slices.Sort(remaining.Objects)
	return remaining
}

// collect adds the objects of a *RemainingError, and returns any other error.
func (e *RemainingError) collect(err error) error {
	var remaining *RemainingError
	if errors.As(err, &remaining) {
		e.Objects = append(e.Objects, remaining.Objects...)
		return nil
	}
	return err
}

// Release removes the finalizers of an object for which release returns true, and reports whether there were any.
func (a *Applier) Release(ctx context.Context, object client.Object,
	release func(finalizer string) bool) (bool, error) {
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("remove finalizers: %T is not an API object", object)
	}
	kept := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), release)
	if len(kept) == len(object.GetFinalizers()) {
		return false, nil
	}
	object.SetFinalizers(kept)
	// The optimistic lock is necessary because a merge patch replaces the whole list, which another writer may have
	// changed.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := a.client.Patch(ctx, object, patch, a.owner); client.IgnoreNotFound(err) != nil {
		ref, refErr := a.referTo(object)
		return false, errors.Join(fmt.Errorf("%s: remove finalizers: %w", ref, err), refErr)
	}
	return true, nil
}

// referTo returns the reference of an object, whether or not it has its kind set.
func (a *Applier) referTo(object client.Object) (reference, error) {
	gvk, err := apiutil.GVKForObject(object, a.client.Scheme())
	if err != nil {
		return reference{}, fmt.Errorf("kind of %T: %w", object, err)
	}
	return reference{gvk, client.ObjectKeyFromObject(object)}, nil
}

// describe returns the name of an object and its finalizers.
func describe(ref reference, object client.Object) string {
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
		return fmt.Sprintf("%s (held by %s)", ref, strings.Join(finalizers, ", "))
	}
	return ref.String()
}
