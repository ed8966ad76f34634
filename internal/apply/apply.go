// Package apply writes operands: server-side apply under one field owner, and deletion that waits until objects are
// gone. It is the only writer of operands, and it knows nothing of what they are.
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

// Applier applies and deletes objects as one field owner.
type Applier struct {
	client       client.Client
	owner        client.FieldOwner
	predecessors []string

	mu      sync.Mutex
	applied map[reference]state
}

// reference names an object.
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

// state is what was applied, and the version of the object that came of it.
type state struct {
	wanted  [sha256.Size]byte
	version string
}

// versionOf changes with everything that an apply could be about. The resource version of an object changes with its
// status too, which others write: where the object counts the changes of its spec, that is taken, with the metadata.
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

// New returns an Applier. The client may read from a cache. Predecessors are field managers that wrote the same objects
// before, by updates; what they set below spec is taken over.
func New(c client.Client, owner string, predecessors ...string) *Applier {
	return &Applier{client: c, owner: client.FieldOwner(owner), predecessors: predecessors,
		applied: map[reference]state{}}
}

// Apply makes an object have the given fields and takes them from whoever else had set them. Fields that an earlier
// call gave and this one does not are removed.
//
// Nothing is sent while the object still is what the last call made of it: the same wish and the same version. Any
// change of spec or metadata by anyone brings a new version, and so the wish is sent again.
func (a *Applier) Apply(ctx context.Context, wanted runtime.ApplyConfiguration) error {
	object, digest, err := encode(wanted)
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
		if err := a.succeed(ctx, ref, present); err != nil {
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

// encode returns an apply configuration as it goes over the wire, and its digest.
func encode(wanted runtime.ApplyConfiguration) (*unstructured.Unstructured, [sha256.Size]byte, error) {
	data, err := json.Marshal(wanted)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("encode %T: %w", wanted, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("encode %T: %w", wanted, err)
	}
	return object, sha256.Sum256(data), nil
}

// present returns an object as it is, or nil if there is none.
func (a *Applier) present(ctx context.Context, ref reference) (client.Object, error) {
	object := a.empty(ref.GroupVersionKind)
	err := a.client.Get(ctx, ref.ObjectKey, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// empty returns an object to read into: of the typed kind if the scheme has it, because then the read shares the
// informer of the watches; else its metadata only.
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

// refer names an object that knows its kind.
func refer(object client.Object) reference {
	return reference{object.GetObjectKind().GroupVersionKind(), client.ObjectKeyFromObject(object)}
}
