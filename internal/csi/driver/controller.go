// Package driver is the CSI controller service of the driver topolvm.io. It runs no programs: it writes LogicalVolumes,
// which the agents of the nodes fulfill. The node service is vgmanager/csinode.
package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// ControllerOptions configure a ControllerServer.
type ControllerOptions struct {
	// Client reads Nodes and claims from a cache. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Active is the cache itself. It has only the LogicalVolumes that are not settled.
	Active client.Reader
	// NameOf returns the name of the LogicalVolume with a volume ID, or "" if it is unknown. The name may be wrong.
	NameOf func(volumeID string) string
}

// ControllerServer is the CSI controller service (CSI specification v1.12, "Controller Service RPC"). It creates a
// LogicalVolume for each request, and the node agent creates the logical volume. Calls for different volumes run in
// parallel. A second call for the same volume returns Aborted, and the caller retries.
type ControllerServer struct {
	csi.UnimplementedControllerServer
	ControllerOptions
	waiters waiters
	locks   service.Locks
	// placing is locked while a node is selected. placed has the LogicalVolumes, by name, for which a call has selected
	// a node.
	placing sync.Mutex
	placed  sync.Map
	// groups are the spread groups for which a call selects a node.
	groups groupLocks
}

// NewControllerServer returns the controller service.
func NewControllerServer(o ControllerOptions) *ControllerServer {
	return &ControllerServer{ControllerOptions: o}
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch

// Watch adds the event handler that wakes waiting calls. Call it before the cache starts.
func (s *ControllerServer) Watch(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &topolvmv1.LogicalVolume{})
	if err != nil {
		return fmt.Errorf("watch LogicalVolumes: %w", err)
	}
	_, err = informer.AddEventHandler(s.waiters.handler())
	return err
}

// answerMargin is the time before the deadline of a call at which its wait ends, so that the caller receives the
// reason.
const answerMargin = 5 * time.Second

// longestWait is the wait of a call without a deadline.
const longestWait = time.Minute

// withResponseMargin returns a context for waiting, which ends before the deadline of the call.
func withResponseMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	if !limited {
		return context.WithTimeout(ctx, longestWait)
	}
	margin := min(answerMargin, time.Until(end)/4)
	return context.WithDeadline(ctx, end.Add(-margin))
}

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
		csi.ControllerServiceCapability_RPC_VOLUME_CONDITION,
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
	defer s.placed.Delete(desired.Name)
	claim, err := s.claimOf(ctx, request)
	if err != nil {
		return nil, err
	}
	deleted := claim == nil && service.ClaimOf(request.GetParameters()) != ""
	if deleted && source != nil {
		if err := s.endCopy(ctx, desired, source); err != nil {
			return nil, err
		}
	}
	invalid := setSpread(desired, claim)
	lv, err := s.ensureVolume(ctx, desired, func(present *topolvmv1.LogicalVolume) error {
		if present == nil && invalid != nil {
			return invalid
		}
		if err := s.place(ctx, desired, present, source, request, claim); err != nil {
			return err
		}
		if deleted && source.isElsewhere(desired) {
			return source.claimDeleted(desired)
		}
		return s.prepareCopy(ctx, desired, source)
	})
	if err != nil {
		return nil, err
	}
	s.dropPreparation(ctx, lv)
	// The class of the claim may have changed since an earlier call created the volume.
	if limits := requestedLimits(desired); limits != requestedLimits(lv) {
		if err := s.limit(ctx, lv, limits); err != nil {
			return nil, err
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: lv.Status.VolumeID, CapacityBytes: sizeOfVolume(lv), ContentSource: request.GetVolumeContentSource(),
		VolumeContext: contextOf(request.GetParameters()), AccessibleTopology: []*csi.Topology{topologyOf(lv)},
	}}, nil
}

// nodeParameters are the parameters of a StorageClass that the node needs.
var nodeParameters = []string{v1alpha1.MkfsOptionsParameter, v1alpha1.EncryptionParameter,
	v1alpha1.EncryptionDiscardsParameter}

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
	return &csi.Topology{Segments: map[string]string{v1alpha1.TopologyNodeKey: lv.Spec.NodeName}}
}

// sizeOfVolume returns the size of a volume in bytes. If an older version wrote no current size, it returns the size in
// the spec.
func sizeOfVolume(lv *topolvmv1.LogicalVolume) int64 {
	if lv.Status.CurrentSize == nil {
		return lv.Spec.Size.Value()
	}
	return lv.Status.CurrentSize.Value()
}

// desiredVolume returns the LogicalVolume for a request, without a node, and the source of a copy.
func (s *ControllerServer) desiredVolume(ctx context.Context,
	request *csi.CreateVolumeRequest) (*topolvmv1.LogicalVolume, *copySource, error) {
	desired, err := newVolumeOf(request)
	if err != nil {
		return nil, nil, err
	}
	source, err := s.sourceOf(ctx, request.GetVolumeContentSource())
	if err != nil {
		return nil, nil, err
	}
	if source == nil {
		setFileSystem(desired, newFileSystem(request))
		return desired, nil, s.nameClass(ctx, desired)
	}
	thick, err := s.isThick(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	origin, err := setSource(desired, source, thick, request.GetParameters())
	if err != nil {
		return nil, nil, err
	}
	if err := s.recallRequest(ctx, source); err != nil {
		return nil, nil, err
	}
	if err := setFileSystemOfCopy(desired, source, request); err != nil {
		return nil, nil, err
	}
	return desired, origin, setSizeOfCopy(desired, source, request.GetCapacityRange().GetLimitBytes())
}

// newVolumeOf returns the LogicalVolume for a request, without a source.
func newVolumeOf(request *csi.CreateVolumeRequest) (*topolvmv1.LogicalVolume, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "name is required")
	}
	if err := checkCapabilities(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	parameters := request.GetParameters()
	encryption, err := service.EncryptionOf(parameters)
	if err != nil {
		return nil, err
	}
	size, err := requestedSize(request.GetCapacityRange(), request.GetVolumeCapabilities(), encryption.Method)
	if err != nil {
		return nil, err
	}
	for _, c := range request.GetVolumeCapabilities() {
		kind := cmp.Or(c.GetMount().GetFsType(), service.DefaultFileSystem)
		if _, err := service.MkfsOptions(kind, parameters[v1alpha1.MkfsOptionsParameter]); err != nil {
			return nil, err
		}
	}
	if err := checkSourcePlacement(parameters); err != nil {
		return nil, err
	}
	limits, err := limitsOf(request.GetMutableParameters())
	if err != nil {
		return nil, err
	}
	desired := newDesiredVolume(strings.ToLower(request.GetName()), size, service.ClaimOf(parameters))
	if limits != v1alpha1.NoIOLimits {
		metav1.SetMetaDataAnnotation(&desired.ObjectMeta, v1alpha1.IOLimitsAnnotation, limits)
	}
	setEncryption(desired, encryption.Method)
	setRequested(desired, request.GetCapacityRange().GetRequiredBytes())
	desired.Spec.DeviceClass = parameters[v1alpha1.DeviceClassParameter]
	desired.Spec.LvcreateOptionClass = parameters[v1alpha1.OptionClassParameter]
	return desired, nil
}

// nameClass sets the default device class if the StorageClass names none. The LogicalVolume keeps it, so a change of
// the default affects neither the volume nor a retry of the call. If only nodes have a default device class, as on
// MicroShift, it remains empty, and the node agent sets that of its node.
func (s *ControllerServer) nameClass(ctx context.Context, desired *topolvmv1.LogicalVolume) error {
	if desired.Spec.DeviceClass != "" {
		return nil
	}
	present, err := s.live(ctx, desired.Name)
	if err != nil {
		return err
	}
	if present != nil {
		// An older version set no device class. The node agent sets it.
		desired.Spec.DeviceClass = present.Spec.DeviceClass
		return nil
	}
	class, err := DefaultClass(ctx, s.Client)
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
			v1alpha1.DeviceClassParameter)
	}
	desired.Spec.DeviceClass = class
	return nil
}

// nodesHaveDefault reports whether a node offers a default device class.
func (s *ControllerServer) nodesHaveDefault(ctx context.Context) (bool, error) {
	nodes := &corev1.NodeList{}
	if err := s.Client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return false, status.Errorf(codes.Unavailable, "list Nodes: %v", err)
	}
	return slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return Offers(&n, "") }), nil
}

// DefaultClass returns the default device class of the LVMCluster, or "" if there is none.
func DefaultClass(ctx context.Context, reader client.Reader) (string, error) {
	clusters := &v1alpha1.LVMClusterList{}
	if err := reader.List(ctx, clusters); err != nil {
		return "", status.Errorf(codes.Unavailable, "list LVMClusters: %v", err)
	}
	for i := range clusters.Items {
		if class := clusters.Items[i].Spec.Storage.DefaultDeviceClass(); class != "" {
			return class, nil
		}
	}
	return "", nil
}

func newDesiredVolume(name string, size int64, claim string) *topolvmv1.LogicalVolume {
	desired := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       topolvmv1.LogicalVolumeSpec{Name: name, Size: *resource.NewQuantity(size, resource.BinarySI)},
	}
	if claim != "" {
		desired.Annotations = map[string]string{v1alpha1.ClaimAnnotation: claim}
	}
	return desired
}

// ClaimOf returns the claim of a volume by its ID. It knows only volumes that are not settled.
func (s *ControllerServer) ClaimOf(ctx context.Context, volumeID string) string {
	lv := &topolvmv1.LogicalVolume{}
	if name := s.NameOf(volumeID); name == "" || s.Active.Get(ctx, client.ObjectKey{Name: name}, lv) != nil {
		return ""
	}
	return lv.Annotations[v1alpha1.ClaimAnnotation]
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
	lv, err := s.find(ctx, id)
	if err != nil || lv == nil {
		return err
	}
	waiting, cancel := withResponseMargin(ctx)
	defer cancel()
	return s.remove(waiting, lv)
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
	lv, err := s.find(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if lv == nil {
		return nil, status.Errorf(codes.NotFound, "volume %s does not exist", request.GetVolumeId())
	}
	if err := checkCapabilities(request.GetVolumeCapabilities()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: request.GetVolumeContext(), VolumeCapabilities: request.GetVolumeCapabilities(),
		Parameters: request.GetParameters(),
	}}, nil
}

// checkCapabilities returns an error for capabilities that a volume on one node cannot have.
func checkCapabilities(list []*csi.VolumeCapability) error {
	if len(list) == 0 {
		return status.Error(codes.InvalidArgument, "volume_capabilities are required")
	}
	var errs []error
	for _, capability := range list {
		errs = append(errs, service.CheckRequest("-", "-", "", capability))
		kind := capability.GetMount().GetFsType()
		if _, known := service.FileSystems[kind]; kind != "" && !known {
			errs = append(errs, status.Errorf(codes.InvalidArgument, "file system %s is not supported: use %s",
				kind, service.Supported()))
		}
	}
	at := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if at < 0 {
		return nil
	}
	return errs[at]
}
