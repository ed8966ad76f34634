// Package paging reads long lists from the API server page by page.
package paging

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// size is how many objects are read at a time.
const size = 500

// Each reads all objects of a kind, which an empty list names, and calls each for every page.
func Each[L client.ObjectList](ctx context.Context, reader client.Reader, empty L, each func(L),
	options ...client.ListOption) error {
	return Until(ctx, reader, empty, func(page L) bool { each(page); return false }, options...)
}

// Until reads the objects of a kind page by page until done says that it is enough. A page is a new object: decoding
// into the last one would leave what the next does not overwrite. The reader must not be a cache, which knows no pages.
func Until[L client.ObjectList](ctx context.Context, reader client.Reader, empty L, done func(L) bool,
	options ...client.ListOption) error {
	next := ""
	for {
		page, ok := empty.DeepCopyObject().(L)
		if !ok {
			return fmt.Errorf("%T does not copy to its own type", empty)
		}
		if err := reader.List(ctx, page, append(options[:len(options):len(options)], client.Limit(size),
			client.Continue(next))...); err != nil {
			return fmt.Errorf("list %T: %w", page, err)
		}
		if next = page.GetContinue(); done(page) || next == "" {
			return nil
		}
	}
}
