package supply

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// IsRegistered reports whether the driver is registered with the kubelet of a node. It is registered while an agent
// runs there. The capacity annotations of the Node, in contrast, remain when the agent ends.
func IsRegistered(node *storagev1.CSINode) bool {
	return slices.ContainsFunc(node.Spec.Drivers,
		func(d storagev1.CSINodeDriver) bool { return d.Name == wellknown.DriverName })
}

// +kubebuilder:rbac:groups=storage.k8s.io,resources=csinodes,verbs=list;watch

// RegisteredNodes returns the names of the nodes on which the driver is registered. The reader must be a cache.
func RegisteredNodes(ctx context.Context, reader client.Reader) (map[string]bool, error) {
	list := &storagev1.CSINodeList{}
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list CSINodes: %v", err)
	}
	registered := map[string]bool{}
	for i := range list.Items {
		registered[list.Items[i].Name] = IsRegistered(&list.Items[i])
	}
	return registered, nil
}
