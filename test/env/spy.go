package env

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

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

// errRead is the error of a read that fails.
var errRead = errors.New("no answer")

// FailEachRead runs an operation again and again. Each time, another one of the reads before its first write fails: the
// operation must return this error, and write nothing. There must be at least a number of reads. Nothing is ever
// written, so each run begins with the same objects. Reads of other objects do not fail: they are for other work that
// the operation does too.
func (s *Spy) FailEachRead(t *testing.T, least int, operation func() error, others ...any) {
	t.Helper()
	defer func() { s.Fail = nil }()
	for fails := 1; ; fails++ {
		reads, failed, written := 0, "", ""
		s.Fail = func(verb string, object any) error {
			if verb != "get" && verb != "list" {
				written = fmt.Sprintf("%s %T", verb, object)
				return errRead
			}
			if slices.ContainsFunc(others, func(o any) bool { return reflect.TypeOf(o) == reflect.TypeOf(object) }) {
				return nil
			}
			if reads++; reads == fails {
				failed = fmt.Sprintf("%s %T", verb, object)
				return errRead
			}
			return nil
		}
		err := operation()
		if failed == "" {
			if reads < least {
				t.Errorf("%d reads come before the first write, want at least %d", reads, least)
			}
			return
		}
		if !errors.Is(err, errRead) {
			t.Errorf("read %d (%s) fails: got the error %v", fails, failed, err)
		}
		if written != "" {
			t.Errorf("read %d (%s) fails, and then it writes: %s", fails, failed, written)
		}
	}
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
