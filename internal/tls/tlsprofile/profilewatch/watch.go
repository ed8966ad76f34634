// Package profilewatch follows the cluster's TLS profile with a watch, for programs that have a cache.
package profilewatch

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
)

// apiServer is the name of the object with the profile.
const apiServer = "cluster"

// +kubebuilder:rbac:groups=config.openshift.io,resources=apiservers,resourceNames=cluster,verbs=list;watch

// CacheByObject limits a manager's cache to the object with the profile.
func CacheByObject() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&configv1.APIServer{}: {Field: fields.OneTermEqualSelector("metadata.name", apiServer)}}
}

// Follow updates a Follower with the profile of the cluster, which must have the API. It returns before the profile is
// known.
func Follow(ctx context.Context, f *tlsprofile.Follower, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &configv1.APIServer{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { follow(ctx, f, object) },
			UpdateFunc: func(_, object any) { follow(ctx, f, object) },
			DeleteFunc: func(any) {
				follow(ctx, f,
					&configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: apiServer}})
			},
		})
	}
	if err != nil {
		return fmt.Errorf("watch the TLS profile (apiservers.config.openshift.io %s): %w", apiServer, err)
	}
	return nil
}

func follow(ctx context.Context, f *tlsprofile.Follower, object any) {
	server, ok := object.(*configv1.APIServer)
	if !ok || server.Name != apiServer {
		return
	}
	if err := f.Set(server.Spec.TLSSecurityProfile); err != nil {
		log.FromContext(ctx).Error(err, "cannot watch the TLS profile of the cluster: keeping the last one",
			"object", apiServer)
	}
}
