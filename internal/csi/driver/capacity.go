package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
)

// GetCapacity returns the free capacity for new volumes of a class, on one node or on all, and the maximum size of one
// volume.
func (s *ControllerServer) GetCapacity(ctx context.Context,
	request *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	class := request.GetParameters()[wellknown.DeviceClassParameter]
	if class == "" {
		var err error
		if class, err = supply.DefaultClass(ctx, s.volumes.Client); err != nil {
			return nil, err
		}
	}
	pending, err := s.placer.Pending(ctx, class)
	if err != nil {
		return nil, err
	}
	nodes := &corev1.NodeList{}
	if topology := request.GetAccessibleTopology(); topology != nil {
		node := &corev1.Node{}
		err := s.volumes.Client.Get(ctx, client.ObjectKey{Name: topology.GetSegments()[wellknown.TopologyNodeKey]},
			node)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsInvalid(err) {
			return nil, status.Errorf(codes.Unavailable, "read the Node: %v", err)
		}
		if err == nil {
			nodes.Items = append(nodes.Items, *node)
		}
	} else if err := s.volumes.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list Nodes: %v", err)
	}
	registered, err := supply.RegisteredNodes(ctx, s.volumes.Client)
	if err != nil {
		return nil, err
	}
	var sum, most int64
	for i := range nodes.Items {
		if !registered[nodes.Items[i].Name] {
			continue
		}
		room := pending.Room(&nodes.Items[i], class)
		sum = volumespec.Sum(sum, room)
		most = max(most, room)
	}
	return &csi.GetCapacityResponse{AvailableCapacity: sum, MaximumVolumeSize: wrapperspb.Int64(most)}, nil
}
