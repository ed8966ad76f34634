package env

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Spy is a client that records its writes, and fails on demand.
type Spy struct {
	client.WithWatch

	mu     sync.Mutex
	writes []string
	// Fail may return an error for a call, given its verb and the object or list.
	Fail func(verb string, object any) error
}

// NewSpy returns a Spy around a client of the API server.
func NewSpy(config *rest.Config) (*Spy, error) {
	inner, err := client.NewWithWatch(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, err
	}
	return Watch(inner), nil
}

// Watch returns a Spy around a client.
func Watch(inner client.WithWatch) *Spy {
	spy := &Spy{}
	spy.WithWatch = interceptor.NewClient(inner, spy.functions())
	return spy
}

// Writes returns the writes since the last call, in order: verb, kind and name.
func (s *Spy) Writes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := s.writes
	s.writes = nil
	return writes
}

func (s *Spy) note(verb string, object client.Object) error {
	if err := s.check(verb, object); err != nil {
		return err
	}
	gvk, err := s.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, fmt.Sprintf("%s %s %s", verb, gvk.Kind, object.GetName()))
	return nil
}

func (s *Spy) check(verb string, object any) error {
	if s.Fail == nil {
		return nil
	}
	return s.Fail(verb, object)
}

func (s *Spy) functions() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if err := s.check("get", object); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			if err := s.check("list", list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object,
			options ...client.CreateOption) error {
			if err := s.note("create", object); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object,
			options ...client.UpdateOption) error {
			if err := s.note("update", object); err != nil {
				return err
			}
			return c.Update(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object,
			options ...client.DeleteOption) error {
			if err := s.note("delete", object); err != nil {
				return err
			}
			return c.Delete(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			if err := s.note("patch", object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, configuration runtime.ApplyConfiguration,
			options ...client.ApplyOption) error {
			if object, ok := configuration.(client.Object); ok {
				if err := s.note("apply", object); err != nil {
					return err
				}
			}
			return c.Apply(ctx, configuration, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, subResource string, object client.Object,
			patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := s.note("patch "+subResource, object); err != nil {
				return err
			}
			return c.SubResource(subResource).Patch(ctx, object, patch, options...)
		},
	}
}
