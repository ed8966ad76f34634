package sidecar

import (
	"context"

	"k8s.io/client-go/informers"
)

// synced waits until all informers of a factory have their objects, and reports false if the context ended before.
func synced(ctx context.Context, factory informers.SharedInformerFactory) bool {
	for _, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return false
		}
	}
	return true
}
