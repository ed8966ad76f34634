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
	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// maxEntries is the number of volumes on a page if the request sets no limit.
const maxEntries = 500

// ListVolumes returns the volumes, without snapshots, in the order of their names. A token is the name of the last
// volume on the previous page, so volumes that are created or deleted between two calls do not shift the others.
func (s *ControllerServer) ListVolumes(ctx context.Context,
	request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	response := &csi.ListVolumesResponse{}
	var err error
	response.NextToken, err = s.listPage(ctx, request, func(lv *topolvmv1.LogicalVolume) bool {
		return lv.Spec.AccessType != volumespec.AccessSnapshot
	}, func(lv *topolvmv1.LogicalVolume) {
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: lv.Status.VolumeID, CapacityBytes: volumespec.SizeOf(lv),
				AccessibleTopology: []*csi.Topology{topologyOf(lv)}},
		})
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// ControllerListVolumeHealth returns what is wrong with the volumes that are not healthy, in the order of their
// names, as their node agents have reported it.
func (s *ControllerServer) ControllerListVolumeHealth(ctx context.Context,
	request *csi.ControllerListVolumeHealthRequest) (*csi.ControllerListVolumeHealthResponse, error) {
	response := &csi.ControllerListVolumeHealthResponse{}
	var err error
	response.NextToken, err = s.listPage(ctx, request, func(lv *topolvmv1.LogicalVolume) bool {
		return lv.Spec.AccessType != volumespec.AccessSnapshot && len(view.Health(lv)) > 0
	}, func(lv *topolvmv1.LogicalVolume) {
		response.Entries = append(response.Entries, health.CSI(lv.Status.VolumeID, view.Health(lv)))
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// ControllerGetVolumeHealth returns what is wrong with a volume, as its node agent has reported it.
func (s *ControllerServer) ControllerGetVolumeHealth(ctx context.Context,
	request *csi.ControllerGetVolumeHealthRequest) (*csi.ControllerGetVolumeHealthResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is required")
	}
	lv, err := s.volumes.Find(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if lv == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", request.GetVolumeId())
	}
	return &csi.ControllerGetVolumeHealthResponse{
		VolumeHealth: health.CSI(request.GetVolumeId(), view.Health(lv))}, nil
}

// pageRequest is a request for a page of a list.
type pageRequest interface {
	GetMaxEntries() int32
	GetStartingToken() string
}

// listPage adds the next LogicalVolumes that are wanted and have a volume, and returns the token of the next page.
func (s *ControllerServer) listPage(ctx context.Context, request pageRequest,
	wanted func(*topolvmv1.LogicalVolume) bool, add func(*topolvmv1.LogicalVolume)) (next string, err error) {
	if request.GetMaxEntries() < 0 {
		return "", status.Errorf(codes.InvalidArgument, "max_entries must not be negative: %d", request.GetMaxEntries())
	}
	after, err := tokenName(request.GetStartingToken())
	if err != nil {
		return "", err
	}
	limit := int(request.GetMaxEntries())
	if limit == 0 {
		limit = maxEntries
	}
	count := 0
	// The API server returns objects in the order of their names.
	all := &topolvmv1.LogicalVolumeList{}
	err = paging.Until(ctx, s.volumes.Live, all, func(list *topolvmv1.LogicalVolumeList) bool {
		for i := range list.Items {
			lv := &list.Items[i]
			if lv.Status.VolumeID == "" || lv.Name <= after || !wanted(lv) {
				continue
			}
			if count == limit {
				next = tokenPrefix + after
				return true
			}
			count++
			add(lv)
			after = lv.Name
		}
		return false
	})
	if err != nil {
		return "", status.Error(codes.Unavailable, err.Error())
	}
	return next, nil
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
