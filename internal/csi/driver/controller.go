// Package driver is the CSI controller service of the driver topolvm.io. It runs no programs: it writes LogicalVolumes,
// which the agents of the nodes fulfill. The node service is vgmanager/csinode.
package driver

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/groupsnapshot"
	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/csi/placement"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/csi/volumespec"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
)

// ControllerServer is the CSI controller service (CSI specification v1.12, "Controller Service RPC"). It creates a
// LogicalVolume for each request, and the node agent creates the logical volume. Calls for different volumes run in
// parallel. A second call for the same volume returns Aborted, and the caller retries.
type ControllerServer struct {
	csi.UnimplementedControllerServer
	volumes *objects.Volumes
	placer  *placement.Placer
	locks   service.Locks
}

// NewControllerServer returns the controller service.
func NewControllerServer(o objects.Options) *ControllerServer {
	volumes := objects.New(o)
	return &ControllerServer{volumes: volumes, placer: &placement.Placer{Volumes: volumes}}
}

// NewGroupServer returns the group controller service, which has the volumes and the locks of a controller service.
func NewGroupServer(s *ControllerServer) *groupsnapshot.Server {
	return groupsnapshot.New(s.volumes, &s.locks)
}

// Watch adds the event handler that wakes waiting calls. Call it before the cache starts.
func (s *ControllerServer) Watch(ctx context.Context, c cache.Cache) error {
	return s.volumes.Watch(ctx, c)
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch

// ControllerGetCapabilities returns the capabilities of this service.
func (s *ControllerServer) ControllerGetCapabilities(context.Context,
	*csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH,
		csi.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}},
		})
	}
	return response, nil
}

// CreateVolume creates an empty volume, or a copy of a snapshot or volume. If an earlier call created the volume but
// its response was lost, CreateVolume returns that volume with its node.
func (s *ControllerServer) CreateVolume(ctx context.Context,
	request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	desired, source, err := s.desiredVolume(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := s.locks.Enter(desired.Name); err != nil {
		return nil, err
	}
	defer s.locks.Leave(desired.Name)
	defer s.placer.Forget(desired.Name)
	claim, err := s.placer.ClaimOf(ctx, request)
	if err != nil {
		return nil, err
	}
	deleted := claim == nil && service.ClaimOf(request.GetParameters()) != ""
	if deleted && source != nil {
		if err := s.endCopy(ctx, desired, source); err != nil {
			return nil, err
		}
	}
	invalid := placement.SetSpread(desired, claim)
	lv, err := s.volumes.Ensure(ctx, desired, func(present *topolvmv1.LogicalVolume) error {
		if present == nil && invalid != nil {
			return invalid
		}
		if err := s.placer.Place(ctx, desired, present, source, request, claim); err != nil {
			return err
		}
		if deleted && source.IsElsewhere(desired) {
			return claimDeleted(source, desired)
		}
		return s.prepareCopy(ctx, desired, source)
	})
	if err != nil {
		return nil, err
	}
	s.dropPreparation(ctx, lv)
	if err := s.updateLimits(ctx, desired, lv); err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: lv.Status.VolumeID, CapacityBytes: volumespec.SizeOf(lv),
		ContentSource: request.GetVolumeContentSource(),
		VolumeContext: contextOf(request.GetParameters()), AccessibleTopology: []*csi.Topology{topologyOf(lv)},
	}}, nil
}

// updateLimits requests the limits of the class of the claim, which may have changed since an earlier call created the
// volume.
func (s *ControllerServer) updateLimits(ctx context.Context, desired, lv *topolvmv1.LogicalVolume) error {
	requested := volumespec.LimitsRequested(desired)
	if requested == volumespec.LimitsRequested(lv) {
		return nil
	}
	return limits{s.volumes}.request(ctx, lv, requested)
}

// nodeParameters are the parameters of a StorageClass that the node needs.
var nodeParameters = []string{wellknown.MkfsOptionsParameter, wellknown.EncryptionParameter,
	wellknown.EncryptionDiscardsParameter}

// contextOf returns the parameters of a StorageClass that the node needs.
func contextOf(parameters map[string]string) map[string]string {
	kept := map[string]string{}
	for _, name := range nodeParameters {
		if value := parameters[name]; value != "" {
			kept[name] = value
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

func topologyOf(lv *topolvmv1.LogicalVolume) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{wellknown.TopologyNodeKey: lv.Spec.NodeName}}
}

// desiredVolume returns the LogicalVolume for a request, without a node, and the source of a copy.
func (s *ControllerServer) desiredVolume(ctx context.Context,
	request *csi.CreateVolumeRequest) (*topolvmv1.LogicalVolume, *volumespec.Source, error) {
	desired, err := volumespec.FromRequest(request)
	if err != nil {
		return nil, nil, err
	}
	source, err := s.sourceOf(ctx, request.GetVolumeContentSource())
	if err != nil {
		return nil, nil, err
	}
	if source == nil {
		view.SetFileSystem(desired, volumespec.NewFileSystem(request))
		return desired, nil, s.nameClass(ctx, desired)
	}
	thick, err := s.isThick(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	origin, err := volumespec.SetSource(desired, source, thick, request.GetParameters())
	if err != nil {
		return nil, nil, err
	}
	if err := s.recallRequest(ctx, source); err != nil {
		return nil, nil, err
	}
	if err := volumespec.SetFileSystemOfCopy(desired, source, request); err != nil {
		return nil, nil, err
	}
	return desired, origin, volumespec.SetSizeOfCopy(desired, source, request.GetCapacityRange().GetLimitBytes())
}

// nameClass sets the default device class if the StorageClass names none. The LogicalVolume keeps it, so a change of
// the default affects neither the volume nor a retry of the call. If only nodes have a default device class, as on
// MicroShift, it remains empty, and the node agent sets that of its node.
func (s *ControllerServer) nameClass(ctx context.Context, desired *topolvmv1.LogicalVolume) error {
	if desired.Spec.DeviceClass != "" {
		return nil
	}
	present, err := s.volumes.Read(ctx, desired.Name)
	if err != nil {
		return err
	}
	if present != nil {
		// An older version set no device class. The node agent sets it.
		desired.Spec.DeviceClass = present.Spec.DeviceClass
		return nil
	}
	class, err := supply.DefaultClass(ctx, s.volumes.Client)
	if err != nil {
		return err
	}
	if class == "" {
		if found, err := s.nodesHaveDefault(ctx); err != nil || found {
			return err
		}
		return status.Errorf(codes.InvalidArgument,
			"the StorageClass has no device class (parameter %s), and the LVMCluster "+
				"has no default device class: set the parameter, or set default: true for a device class",
			wellknown.DeviceClassParameter)
	}
	desired.Spec.DeviceClass = class
	return nil
}

// nodesHaveDefault reports whether a node offers a default device class.
func (s *ControllerServer) nodesHaveDefault(ctx context.Context) (bool, error) {
	nodes := &corev1.NodeList{}
	if err := s.volumes.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return false, status.Errorf(codes.Unavailable, "list Nodes: %v", err)
	}
	return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return supply.Offers(&n, "") }), nil
}

// ClaimOf returns the claim of a volume by its ID. It knows only volumes that are not settled.
func (s *ControllerServer) ClaimOf(ctx context.Context, volumeID string) string {
	lv := &topolvmv1.LogicalVolume{}
	name := s.volumes.NameOf(volumeID)
	if name == "" || s.volumes.Active.Get(ctx, client.ObjectKey{Name: name}, lv) != nil {
		return ""
	}
	return view.Claim(lv)
}

// DeleteVolume deletes a volume. It succeeds if the volume does not exist.
func (s *ControllerServer) DeleteVolume(ctx context.Context,
	request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if err := s.delete(ctx, request.GetVolumeId(), "volume_id"); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (s *ControllerServer) delete(ctx context.Context, id, name string) error {
	if id == "" {
		return status.Errorf(codes.InvalidArgument, "%s is required", name)
	}
	if err := s.locks.Enter(id); err != nil {
		return err
	}
	defer s.locks.Leave(id)
	lv, err := s.volumes.Find(ctx, id)
	if err != nil || lv == nil {
		return err
	}
	waiting, cancel := objects.WithResponseMargin(ctx)
	defer cancel()
	return s.volumes.Remove(waiting, lv)
}

// ValidateVolumeCapabilities confirms the capabilities that every volume has.
func (s *ControllerServer) ValidateVolumeCapabilities(ctx context.Context,
	request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is required")
	}
	if len(request.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume_capabilities are required")
	}
	lv, err := s.volumes.Find(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if lv == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", request.GetVolumeId())
	}
	if err := volumespec.CheckCapabilities(request.GetVolumeCapabilities()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: request.GetVolumeContext(), VolumeCapabilities: request.GetVolumeCapabilities(),
		Parameters: request.GetParameters(),
	}}, nil
}
