package kill

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Client returns a client each of whose writes is a point.
func (p *Points) Client(inner client.WithWatch) client.WithWatch {
	return interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return p.Pass(func() error { return c.Create(ctx, o, options...) }, nil)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			return p.Pass(func() error { return c.Update(ctx, o, options...) }, nil)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
			options ...client.PatchOption) error {
			return p.Pass(func() error { return c.Patch(ctx, o, patch, options...) }, nil)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return p.Pass(func() error { return c.Delete(ctx, o, options...) }, nil)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			options ...client.SubResourceUpdateOption) error {
			return p.Pass(func() error { return c.SubResource(sub).Update(ctx, o, options...) }, nil)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			return p.Pass(func() error { return c.SubResource(sub).Patch(ctx, o, patch, options...) }, nil)
		},
	})
}
