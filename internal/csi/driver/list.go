package driver

import (
	"context"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// maxEntries is the number of volumes on a page if the request sets no limit.
const maxEntries = 500

// ListVolumes returns the volumes, without snapshots, in the order of their names. A token is the name of the last
// volume on the previous page, so volumes that are created or deleted between two calls do not shift the others.
func (s *ControllerServer) ListVolumes(ctx context.Context,
	request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if request.GetMaxEntries() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "max_entries must not be negative: %d",
			request.GetMaxEntries())
	}
	after, err := tokenName(request.GetStartingToken())
	if err != nil {
		return nil, err
	}
	limit := int(request.GetMaxEntries())
	if limit == 0 {
		limit = maxEntries
	}
	response := &csi.ListVolumesResponse{}
	// The API server returns objects in the order of their names.
	all := &topolvmv1.LogicalVolumeList{}
	err = paging.Until(ctx, s.volumes.Live, all, func(list *topolvmv1.LogicalVolumeList) bool {
		for i := range list.Items {
			lv := &list.Items[i]
			if lv.Status.VolumeID == "" || lv.Spec.AccessType == volumespec.AccessSnapshot || lv.Name <= after {
				continue
			}
			if len(response.Entries) == limit {
				response.NextToken = tokenPrefix + after
				return true
			}
			response.Entries = append(response.Entries, entryOf(lv))
			after = lv.Name
		}
		return false
	})
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return response, nil
}

func entryOf(lv *topolvmv1.LogicalVolume) *csi.ListVolumesResponse_Entry {
	return &csi.ListVolumesResponse_Entry{
		Volume: &csi.Volume{VolumeId: lv.Status.VolumeID, CapacityBytes: volumespec.SizeOf(lv),
			AccessibleTopology: []*csi.Topology{topologyOf(lv)}},
		Status: &csi.ListVolumesResponse_VolumeStatus{VolumeCondition: conditionOf(lv)},
	}
}

// tokenPrefix distinguishes the driver's tokens from other text.
const tokenPrefix = "after:"

func tokenName(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	name, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return "", status.Errorf(codes.Aborted, "invalid starting_token: %s", strconv.Quote(token))
	}
	return name, nil
}

// conditionOf returns the condition that the node agent has written on a LogicalVolume.
func conditionOf(lv *topolvmv1.LogicalVolume) *csi.VolumeCondition {
	wrong := view.Condition(lv)
	if wrong == "" {
		return &csi.VolumeCondition{Message: service.Healthy}
	}
	return &csi.VolumeCondition{Abnormal: true, Message: wrong}
}
