package driver

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// maxEntries is how many volumes a page has if the caller does not say.
const maxEntries = 500

// ListVolumes returns the volumes, snapshots not among them, in the order of their names. A token is the name of the last that was
// returned, so what comes and goes in between does not shift the others.
func (s *ControllerServer) ListVolumes(ctx context.Context, request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	if request.GetMaxEntries() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "max_entries is %d", request.GetMaxEntries())
	}
	after, err := tokenName(request.GetStartingToken())
	if err != nil {
		return nil, err
	}
	list := &topolvmv1.LogicalVolumeList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	volumes := make([]*topolvmv1.LogicalVolume, 0, len(list.Items))
	for i := range list.Items {
		if lv := &list.Items[i]; lv.Status.VolumeID != "" && lv.Spec.AccessType != accessSnapshot && lv.Name > after {
			volumes = append(volumes, lv)
		}
	}
	slices.SortFunc(volumes, func(a, b *topolvmv1.LogicalVolume) int { return strings.Compare(a.Name, b.Name) })
	limit := int(request.GetMaxEntries())
	if limit == 0 {
		limit = maxEntries
	}
	response := &csi.ListVolumesResponse{}
	if len(volumes) > limit {
		volumes = volumes[:limit]
		response.NextToken = tokenPrefix + volumes[limit-1].Name
	}
	for _, lv := range volumes {
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: &csi.Volume{VolumeId: lv.Status.VolumeID, CapacityBytes: sizeOfVolume(lv), AccessibleTopology: []*csi.Topology{topologyOf(lv)}},
			Status: &csi.ListVolumesResponse_VolumeStatus{VolumeCondition: conditionOf(lv)},
		})
	}
	return response, nil
}

// tokenPrefix tells a token of ours from any other text.
const tokenPrefix = "after:"

func tokenName(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	name, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return "", status.Errorf(codes.Aborted, "starting_token %s is not one of this list", strconv.Quote(token))
	}
	return name, nil
}

// conditionOf is what the agent of the node has written on a LogicalVolume.
func conditionOf(lv *topolvmv1.LogicalVolume) *csi.VolumeCondition {
	wrong := lv.Annotations[v1alpha1.ConditionAnnotation]
	if wrong == "" {
		return &csi.VolumeCondition{Message: healthy}
	}
	return &csi.VolumeCondition{Abnormal: true, Message: wrong}
}
