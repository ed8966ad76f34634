package activecache

import (
	"context"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client is a manager's client with a cache that lacks the settled objects of some kinds. Get reads settled objects
// from the API server, so NotFound means that the object does not exist. List returns an error for those kinds: list
// page by page from the API server, or from the cache if only objects that are not settled are necessary.
type Client struct {
	client.Client
	live client.Reader
}

// NewClient creates a Client (controller-runtime, Options.NewClient).
func NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	cached, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	options.Cache = nil
	live, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	return &Client{Client: cached, live: live}, nil
}

// Get reads an object from the cache, or from the API server if it may be settled.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption) error {
	err := c.Client.Get(ctx, key, object, options...)
	if apierrors.IsNotFound(err) && activeOnly(object) {
		return c.live.Get(ctx, key, object, options...)
	}
	return err
}

// List reads objects from the cache. It returns an error for kinds whose settled objects are not in the cache.
func (c *Client) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list.(type) {
	case *corev1.PersistentVolumeClaimList, *corev1.PersistentVolumeList, *topolvmv1.LogicalVolumeList:
		return fmt.Errorf("the cache does not contain settled objects of kind %T: list from the API server, or "+
			"from the manager's cache if only unsettled objects are needed",
			list)
	}
	return c.Client.List(ctx, list, options...)
}

// activeOnly reports whether the cache lacks settled objects of the kind.
func activeOnly(object any) bool {
	switch object.(type) {
	case *corev1.PersistentVolumeClaim, *corev1.PersistentVolume, *topolvmv1.LogicalVolume:
		return true
	}
	return false
}
