// Package apply writes operands: with server-side apply under one field owner, and with deletion that waits until
// objects no longer exist. It is the only writer of operands, and is independent of their kinds.
package apply

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Applier applies and deletes objects with one field owner.
type Applier struct {
	client       client.Client
	owner        client.FieldOwner
	predecessors []string

	mu      sync.Mutex
	applied map[reference]state
}

// reference identifies an object.
type reference struct {
	schema.GroupVersionKind
	client.ObjectKey
}

func (r reference) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// state is the digest of an applied configuration and the resulting version of the object.
type state struct {
	desired [sha256.Size]byte
	version string
}

// versionOf returns a value that changes with everything that Apply may have to correct. The resource version also
// changes with the status, which others write. If the object has a generation, versionOf uses the generation and the
// metadata instead.
func versionOf(object client.Object) string {
	if object.GetGeneration() == 0 {
		return object.GetResourceVersion()
	}
	data, err := json.Marshal([]any{
		object.GetUID(), object.GetGeneration(), object.GetLabels(), object.GetAnnotations(), object.GetFinalizers(),
		object.GetOwnerReferences(), object.GetDeletionTimestamp(),
	})
	if err != nil {
		return object.GetResourceVersion()
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// New returns an Applier. The client may read from a cache. predecessors are field managers that wrote the same objects
// before, with updates; the Applier takes over their fields below spec.
func New(c client.Client, owner string, predecessors ...string) *Applier {
	return &Applier{client: c, owner: client.FieldOwner(owner), predecessors: predecessors,
		applied: map[reference]state{}}
}

// Apply sets the given fields of an object and takes over their ownership. It removes fields that an earlier call set
// and this one does not.
//
// Apply sends nothing if the object is unchanged since the last call with the same configuration. Every change of spec
// or metadata changes the version, so Apply then sends the configuration again.
func (a *Applier) Apply(ctx context.Context, desired runtime.ApplyConfiguration) error {
	object, digest, err := encode(desired)
	if err != nil {
		return err
	}
	ref := refer(object)
	present, err := a.present(ctx, ref)
	if err != nil {
		return fmt.Errorf("%s: read before apply: %w", ref, err)
	}
	if present != nil {
		if a.recall(ref) == (state{digest, versionOf(present)}) {
			return nil
		}
		if err := a.adoptFields(ctx, ref, present); err != nil {
			return err
		}
	}
	configuration := client.ApplyConfigurationFromUnstructured(object)
	if err := a.client.Apply(ctx, configuration, a.owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("%s: apply: %w", ref, err)
	}
	a.remember(ref, state{digest, versionOf(object)})
	return nil
}

// encode returns the JSON of an apply configuration as an object, and its digest.
func encode(desired runtime.ApplyConfiguration) (*unstructured.Unstructured, [sha256.Size]byte, error) {
	data, err := json.Marshal(desired)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("encode %T: %w", desired, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("encode %T: %w", desired, err)
	}
	return object, sha256.Sum256(data), nil
}

// present returns the existing object, or nil if there is none.
func (a *Applier) present(ctx context.Context, ref reference) (client.Object, error) {
	object := a.empty(ref.GroupVersionKind)
	err := a.client.Get(ctx, ref.ObjectKey, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// empty returns an object to read into. It has the Go type if the scheme has one, so that the read shares the informer
// with watches. Otherwise it has only the metadata.
func (a *Applier) empty(gvk schema.GroupVersionKind) client.Object {
	if typed, err := a.client.Scheme().New(gvk); err == nil {
		if object, ok := typed.(client.Object); ok {
			return object
		}
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	return object
}

func (a *Applier) recall(ref reference) state {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.applied[ref]
}

func (a *Applier) remember(ref reference, s state) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.applied[ref] = s
}

func (a *Applier) forget(ref reference) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.applied, ref)
}

// refer returns the reference of an object that has its kind set.
func refer(object client.Object) reference {
	return reference{object.GetObjectKind().GroupVersionKind(), client.ObjectKeyFromObject(object)}
}
