// Package paging reads long lists from the API server in pages.
package paging

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// size is the number of objects on a page, unless an option limits it (client.Limit).
const size = 500

// Each reads all objects of the kind of an empty list, and calls each for every page.
func Each[L client.ObjectList](ctx context.Context, reader client.Reader, empty L, each func(L),
	options ...client.ListOption) error {
	return Until(ctx, reader, empty, func(page L) bool { each(page); return false }, options...)
}

// Until reads the objects of the kind of an empty list in pages until done returns true. Each page is a new object,
// because decoding into the previous one would keep fields that the next one omits. The reader must not be a cache:
// caches do not support pages.
func Until[L client.ObjectList](ctx context.Context, reader client.Reader, empty L, done func(L) bool,
	options ...client.ListOption) error {
	next := ""
	for {
		page, ok := empty.DeepCopyObject().(L)
		if !ok {
			return fmt.Errorf("DeepCopyObject of %T returns another type", empty)
		}
		all := append([]client.ListOption{client.Limit(size)}, options...)
		if err := reader.List(ctx, page, append(all, client.Continue(next))...); err != nil {
			return fmt.Errorf("list %T: %w", page, err)
		}
		if next = page.GetContinue(); done(page) || next == "" {
			return nil
		}
	}
}
