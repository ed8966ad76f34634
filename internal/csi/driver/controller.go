package driver

import (
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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/paging"
)

// ControllerOptions are what a ControllerServer needs.
type ControllerOptions struct {
	// Client reads Nodes and claims from a cache, and Live from the API server.
	Client client.Client
	Live   client.Reader
	// Active is the cache itself: of LogicalVolumes it has only those that are not settled.
	Active client.Reader
	// NameOf returns the name of the LogicalVolume with a volume ID, "" if it does not know. It may be wrong.
	NameOf func(volumeID string) string
}

// ControllerServer is the CSI controller service (CSI specification v1.12, "Controller Service RPC"): it writes down
// what is asked for as a LogicalVolume, and the agent of the node makes it. Calls for different volumes do not wait for
// each other; a second one for the same volume gets Aborted, and comes again.
type ControllerServer struct {
	csi.UnimplementedControllerServer
	ControllerOptions
	waiters waiters
	busy    busy
	// placing is held while a node is chosen; placed are the volumes, by name, that a call has chosen one for.
	placing sync.Mutex
	placed  sync.Map
}

// NewControllerServer returns the controller service.
func NewControllerServer(o ControllerOptions) *ControllerServer {
	return &ControllerServer{ControllerOptions: o}
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes;persistentvolumeclaims,verbs=list;watch

// Watch adds the watch that wakes calls. Call it before the cache starts.
func (s *ControllerServer) Watch(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &topolvmv1.LogicalVolume{})
	if err != nil {
		return fmt.Errorf("watch of LogicalVolumes: %w", err)
	}
	_, err = informer.AddEventHandler(s.waiters.handler())
	return err
}

// answerMargin is how long before the end of a call its wait ends, so that the caller learns the reason.
const answerMargin = 5 * time.Second

// longestWait is for a call without a time limit.
const longestWait = time.Minute

// inTime returns a context for waiting.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	if !limited {
		return context.WithTimeout(ctx, longestWait)
	}
	margin := min(answerMargin, time.Until(end)/4)
	return context.WithDeadline(ctx, end.Add(-margin))
}

// ControllerGetCapabilities tells what this service can do.
func (s *ControllerServer) ControllerGetCapabilities(context.Context,
	*csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
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

// CreateVolume makes a volume, empty or as a copy of a snapshot or another volume. A volume that was made before, by a
// call whose answer was lost, is the answer, with the node on which it is.
func (s *ControllerServer) CreateVolume(ctx context.Context,
	request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	wish, err := s.wishOf(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := s.busy.enter(wish.Name); err != nil {
		return nil, err
	}
	defer s.busy.leave(wish.Name)
	defer s.placed.Delete(wish.Name)
	lv, err := s.realize(ctx, wish, func(present *topolvmv1.LogicalVolume) error {
		return s.place(ctx, wish,
			present, request)
	})
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: lv.Status.VolumeID, CapacityBytes: sizeOfVolume(lv), ContentSource: request.GetVolumeContentSource(),
		VolumeContext: contextOf(request.GetParameters()), AccessibleTopology: []*csi.Topology{topologyOf(lv)},
	}}, nil
}

func topologyOf(lv *topolvmv1.LogicalVolume) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{v1alpha1.TopologyNodeKey: lv.Spec.NodeName}}
}

// sizeOfVolume is the size of a volume in bytes; that in the spec where an older version wrote none.
func sizeOfVolume(lv *topolvmv1.LogicalVolume) int64 {
	if lv.Status.CurrentSize == nil {
		return lv.Spec.Size.Value()
	}
	return lv.Status.CurrentSize.Value()
}

// wishOf is the LogicalVolume that a request asks for, without its node.
func (s *ControllerServer) wishOf(ctx context.Context,
	request *csi.CreateVolumeRequest) (*topolvmv1.LogicalVolume, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "no name is given")
	}
	if err := checkCapabilities(request.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	size, err := requestedSize(request.GetCapacityRange(), request.GetVolumeCapabilities())
	if err != nil {
		return nil, err
	}
	parameters := request.GetParameters()
	if _, err := mkfsOptions(parameters[v1alpha1.MkfsOptionsParameter]); err != nil {
		return nil, err
	}
	wish := newWish(strings.ToLower(request.GetName()), size, claimOf(parameters))
	wish.Spec.DeviceClass = parameters[v1alpha1.DeviceClassParameter]
	wish.Spec.LvcreateOptionClass = parameters[v1alpha1.OptionClassParameter]
	source, err := s.sourceOf(ctx, request.GetVolumeContentSource())
	if err != nil {
		return nil, err
	}
	if source == nil {
		return wish, s.nameClass(ctx, wish)
	}
	if wish.Spec.DeviceClass != "" && wish.Spec.DeviceClass != source.Spec.DeviceClass {
		return nil, status.Errorf(codes.InvalidArgument, "the source %s is in the device class %s, and the "+
			"StorageClass is for %s: a copy is made within one device class",
			source.Name, source.Spec.DeviceClass, wish.Spec.DeviceClass)
	}
	if size < sizeOfVolume(source) {
		return nil, status.Errorf(codes.OutOfRange, "%d bytes are requested, the source %s has %d", size, source.Name,
			sizeOfVolume(source))
	}
	wish.Spec.Source = source.Name
	wish.Spec.AccessType = "rw"
	wish.Spec.DeviceClass = source.Spec.DeviceClass
	wish.Spec.NodeName = source.Spec.NodeName
	wish.Spec.LvcreateOptionClass = ""
	return wish, nil
}

// nameClass puts the default device class into a wish whose StorageClass names none. The object keeps it: another
// default changes nothing for a volume, nor for a call that comes again.
func (s *ControllerServer) nameClass(ctx context.Context, wish *topolvmv1.LogicalVolume) error {
	if wish.Spec.DeviceClass != "" {
		return nil
	}
	present, err := s.live(ctx, wish.Name)
	if err != nil {
		return err
	}
	if present != nil {
		// An older version wrote none. The node's agent writes it.
		wish.Spec.DeviceClass = present.Spec.DeviceClass
		return nil
	}
	class, err := DefaultClass(ctx, s.Client)
	if err != nil {
		return err
	}
	if class == "" {
		return status.Errorf(codes.InvalidArgument,
			"the StorageClass names no device class (parameter %s), and no device class "+
				"of the LVMCluster is the default one: name it, or set default: true", v1alpha1.DeviceClassParameter)
	}
	wish.Spec.DeviceClass = class
	return nil
}

// DefaultClass returns the default device class, "" if there is none.
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

func newWish(name string, size int64, claim string) *topolvmv1.LogicalVolume {
	wish := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       topolvmv1.LogicalVolumeSpec{Name: name, Size: *resource.NewQuantity(size, resource.BinarySI)},
	}
	if claim != "" {
		wish.Annotations = map[string]string{v1alpha1.ClaimAnnotation: claim}
	}
	return wish
}

// What external-provisioner and external-snapshotter add to the parameters (--extra-create-metadata).
const (
	claimNamespaceKey    = "csi.storage.k8s.io/pvc/namespace"
	claimNameKey         = "csi.storage.k8s.io/pvc/name"
	snapshotNamespaceKey = "csi.storage.k8s.io/volumesnapshot/namespace"
	snapshotNameKey      = "csi.storage.k8s.io/volumesnapshot/name"
)

// claimOf is what a volume is made for, as NAMESPACE/NAME.
func claimOf(parameters map[string]string) string {
	for _, keys := range [][2]string{{claimNamespaceKey, claimNameKey}, {snapshotNamespaceKey, snapshotNameKey}} {
		if parameters[keys[0]] != "" && parameters[keys[1]] != "" {
			return parameters[keys[0]] + "/" + parameters[keys[1]]
		}
	}
	return ""
}

// sourceOf returns what a volume is to be a copy of; nil for none.
func (s *ControllerServer) sourceOf(ctx context.Context,
	source *csi.VolumeContentSource) (*topolvmv1.LogicalVolume, error) {
	var id, kind string
	switch {
	case source == nil:
		return nil, nil
	case source.GetSnapshot() != nil:
		id = source.GetSnapshot().GetSnapshotId()
		kind = "snapshot"
	case source.GetVolume() != nil:
		id = source.GetVolume().GetVolumeId()
		kind = "volume"
	default:
		return nil, status.Error(codes.InvalidArgument, "the source is neither a snapshot nor a volume")
	}
	lv, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if lv == nil {
		return nil, status.Errorf(codes.NotFound, "the source, %s %q, does not exist", kind, id)
	}
	return lv, nil
}

// find returns a volume or snapshot by its ID; nil if there is none.
func (s *ControllerServer) find(ctx context.Context, id string) (*topolvmv1.LogicalVolume, error) {
	if id == "" {
		return nil, nil
	}
	if name := s.NameOf(id); name != "" {
		lv, err := s.live(ctx, name)
		if err != nil || lv != nil && lv.Status.VolumeID == id {
			return lv, err
		}
	}
	return s.findLive(ctx, id)
}

// findLive reads all, in case the watch is behind: that something does not exist is said only if that is so.
func (s *ControllerServer) findLive(ctx context.Context, id string) (found *topolvmv1.LogicalVolume, err error) {
	err = paging.Until(ctx, s.Live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) bool {
		if at := slices.IndexFunc(list.Items,
			func(lv topolvmv1.LogicalVolume) bool { return lv.Status.VolumeID == id }); at >= 0 {
			found = list.Items[at].DeepCopy()
		}
		return found != nil
	})
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return found, nil
}

// DeleteVolume removes a volume. One that does not exist is no error.
func (s *ControllerServer) DeleteVolume(ctx context.Context,
	request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if err := s.delete(ctx, request.GetVolumeId(), "volume_id"); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func (s *ControllerServer) delete(ctx context.Context, id, name string) error {
	if id == "" {
		return status.Errorf(codes.InvalidArgument, "no %s is given", name)
	}
	if err := s.busy.enter(id); err != nil {
		return err
	}
	defer s.busy.leave(id)
	lv, err := s.find(ctx, id)
	if err != nil || lv == nil {
		return err
	}
	waiting, cancel := inTime(ctx)
	defer cancel()
	return s.withdraw(waiting, lv)
}

// ValidateVolumeCapabilities confirms what every volume can do.
func (s *ControllerServer) ValidateVolumeCapabilities(ctx context.Context,
	request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "no volume_id is given")
	}
	if len(request.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no volume_capabilities are given")
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

// checkCapabilities refuses what a disk of one node cannot be.
func checkCapabilities(list []*csi.VolumeCapability) error {
	if len(list) == 0 {
		return status.Error(codes.InvalidArgument, "no volume_capabilities are given")
	}
	var errs []error
	for _, capability := range list {
		errs = append(errs, checkRequest("-", "-", "", capability))
		kind := capability.GetMount().GetFsType()
		if _, known := fileSystems[kind]; kind != "" && !known {
			errs = append(errs, status.Errorf(codes.InvalidArgument, "file system %s is not supported: use %s",
				kind, supported()))
		}
	}
	at := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if at < 0 {
		return nil
	}
	return errs[at]
}
