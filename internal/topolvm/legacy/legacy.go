// Package legacy reads the LogicalVolumes of TopoLVM before 0.15, in the API group topolvm.cybozu.com. Most clusters
// do not have this API: then there are none.
package legacy

import (
	"context"
	"fmt"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
)

// Each calls each for every LogicalVolume of the earlier API group. The reader must not be a cache. It returns an error
// if they cannot be read.
func Each(ctx context.Context, reader client.Reader, each func(*earlierv1.LogicalVolume)) error {
	err := paging.Each(ctx, reader, &earlierv1.LogicalVolumeList{}, func(list *earlierv1.LogicalVolumeList) {
		for i := range list.Items {
			each(&list.Items[i])
		}
	})
	if isWithoutAPI(err) {
		return nil
	}
	return err
}

// Get returns the LogicalVolume of the earlier API group with a name, or nil if it does not exist.
func Get(ctx context.Context, reader client.Reader, name string) (*earlierv1.LogicalVolume, error) {
	lv := &earlierv1.LogicalVolume{}
	err := reader.Get(ctx, client.ObjectKey{Name: name}, lv)
	if isWithoutAPI(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read LogicalVolume %s of the API group %s: %w", name, earlierv1.GroupVersion.Group, err)
	}
	return lv, nil
}

// isWithoutAPI reports whether the API server does not have the API, or not the object.
func isWithoutAPI(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
