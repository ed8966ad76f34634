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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// ControllerOptions are what a ControllerServer needs.
type ControllerOptions struct {
	// Client reads from a cache, with LogicalVolumes indexed by VolumeIDField, and Live from the API server.
	Client client.Client
	Live   client.Reader
}

// ControllerServer is the CSI controller service (CSI specification v1.12, "Controller Service RPC"): it writes down what is asked for
// as a LogicalVolume, and the agent of the node makes it. Calls for different volumes do not wait for each other; a second one for the
// same volume gets Aborted, and comes again.
type ControllerServer struct {
	csi.UnimplementedControllerServer
	ControllerOptions
	waiters waiters
	busy    busy
	// placing is held while a node is chosen; placed are the volumes, by name, that a call has chosen one for.
	placing sync.Mutex
	placed  sync.Map
}

// VolumeIDField is the index of LogicalVolumes by their volume ID.
const VolumeIDField = "lvms:volumeID"

// NewControllerServer returns the controller service.
func NewControllerServer(o ControllerOptions) *ControllerServer {
	return &ControllerServer{ControllerOptions: o}
}

// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=nodes;persistentvolumeclaims,verbs=get;list;watch

// Watch prepares the cache: the index by volume ID, and the watch that wakes calls. Call it before the cache starts.
func (s *ControllerServer) Watch(ctx context.Context, c cache.Cache) error {
	if err := c.IndexField(ctx, &topolvmv1.LogicalVolume{}, VolumeIDField, VolumeIDOf); err != nil {
		return fmt.Errorf("index of LogicalVolumes: %w", err)
	}
	informer, err := c.GetInformer(ctx, &topolvmv1.LogicalVolume{})
	if err != nil {
		return fmt.Errorf("watch of LogicalVolumes: %w", err)
	}
	_, err = informer.AddEventHandler(s.waiters.handler())
	return err
}

// VolumeIDOf is the key of a LogicalVolume in VolumeIDField.
func VolumeIDOf(object client.Object) []string {
	if lv, ok := object.(*topolvmv1.LogicalVolume); ok && lv.Status.VolumeID != "" {
		return []string{lv.Status.VolumeID}
	}
	return nil
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
func (s *ControllerServer) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
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

// CreateVolume makes a volume, empty or as a copy of a snapshot or another volume. A volume that was made before, by a call whose answer
// was lost, is the answer, with the node on which it is.
func (s *ControllerServer) CreateVolume(ctx context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	wish, err := s.wishOf(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := s.busy.enter(wish.Name); err != nil {
		return nil, err
	}
	defer s.busy.leave(wish.Name)
	defer s.placed.Delete(wish.Name)
	lv, err := s.realize(ctx, wish, func() error { return s.place(ctx, wish, request) })
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
func (s *ControllerServer) wishOf(ctx context.Context, request *csi.CreateVolumeRequest) (*topolvmv1.LogicalVolume, error) {
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
	wish.Spec.DeviceClass, wish.Spec.LvcreateOptionClass = parameters[v1alpha1.DeviceClassParameter], parameters[v1alpha1.OptionClassParameter]
	source, err := s.sourceOf(ctx, request.GetVolumeContentSource())
	if err != nil || source == nil {
		return wish, err
	}
	if wish.Spec.DeviceClass != "" && wish.Spec.DeviceClass != source.Spec.DeviceClass {
		return nil, status.Errorf(codes.InvalidArgument, "the source %s is in the device class %s, and the StorageClass is for %s: a copy is made within one device class",
			source.Name, source.Spec.DeviceClass, wish.Spec.DeviceClass)
	}
	if size < sizeOfVolume(source) {
		return nil, status.Errorf(codes.OutOfRange, "%d bytes are requested, the source %s has %d", size, source.Name, sizeOfVolume(source))
	}
	wish.Spec.Source, wish.Spec.AccessType = source.Name, "rw"
	wish.Spec.DeviceClass, wish.Spec.NodeName, wish.Spec.LvcreateOptionClass = source.Spec.DeviceClass, source.Spec.NodeName, ""
	return wish, nil
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
func (s *ControllerServer) sourceOf(ctx context.Context, source *csi.VolumeContentSource) (*topolvmv1.LogicalVolume, error) {
	var id, kind string
	switch {
	case source == nil:
		return nil, nil
	case source.GetSnapshot() != nil:
		id, kind = source.GetSnapshot().GetSnapshotId(), "snapshot"
	case source.GetVolume() != nil:
		id, kind = source.GetVolume().GetVolumeId(), "volume"
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
	list := &topolvmv1.LogicalVolumeList{}
	if err := s.Client.List(ctx, list, client.MatchingFields{VolumeIDField: id}); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	if len(list.Items) > 0 {
		return &list.Items[0], nil
	}
	return s.findLive(ctx, id)
}

// page is how many objects are read from the API server at a time.
const page = 500

// findLive reads all, in case the cache is behind: that something does not exist is said only if that is so.
func (s *ControllerServer) findLive(ctx context.Context, id string) (*topolvmv1.LogicalVolume, error) {
	list := &topolvmv1.LogicalVolumeList{}
	for {
		if err := s.Live.List(ctx, list, client.Limit(page), client.Continue(list.Continue)); err != nil {
			return nil, status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
		}
		for i := range list.Items {
			if list.Items[i].Status.VolumeID == id {
				return &list.Items[i], nil
			}
		}
		if list.Continue == "" {
			return nil, nil
		}
	}
}

// realize makes a wish true, or finds that it is. place completes it with a node before it is written down.
func (s *ControllerServer) realize(ctx context.Context, wish *topolvmv1.LogicalVolume, place func() error) (*topolvmv1.LogicalVolume, error) {
	waiting, cancel := inTime(ctx)
	defer cancel()
	for {
		present, err := s.writeDown(ctx, wish, place)
		if err != nil {
			return nil, err
		}
		if present == nil {
			return s.awaitCreation(ctx, waiting, wish.DeepCopy())
		}
		again, err := s.reuse(waiting, wish, present, place)
		if err != nil {
			return nil, err
		}
		if !again {
			return s.awaitCreation(ctx, waiting, present)
		}
	}
}

// writeDown makes the object of a wish. It returns the one that is there already, as the API server has it, or nil.
func (s *ControllerServer) writeDown(ctx context.Context, wish *topolvmv1.LogicalVolume, place func() error) (*topolvmv1.LogicalVolume, error) {
	cached := &topolvmv1.LogicalVolume{}
	err := s.Client.Get(ctx, client.ObjectKeyFromObject(wish), cached)
	if client.IgnoreNotFound(err) != nil {
		return nil, status.Errorf(codes.Unavailable, "LogicalVolume %s: %v", wish.Name, err)
	}
	if apierrors.IsNotFound(err) {
		if err := place(); err != nil {
			return nil, err
		}
		wish.UID, wish.ResourceVersion = "", ""
		if err := s.Client.Create(ctx, wish); err == nil {
			return nil, nil
		} else if !apierrors.IsAlreadyExists(err) {
			return nil, status.Errorf(codes.Unavailable, "write LogicalVolume %s: %v", wish.Name, err)
		}
	}
	present := &topolvmv1.LogicalVolume{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(wish), present); apierrors.IsNotFound(err) {
		return nil, status.Errorf(codes.Aborted, "LogicalVolume %s has just been deleted", wish.Name)
	} else if err != nil {
		return nil, status.Errorf(codes.Unavailable, "LogicalVolume %s: %v", wish.Name, err)
	}
	return present, nil
}

// reuse looks at an object that is there already. It returns true when the object is gone, and is to be made again.
func (s *ControllerServer) reuse(waiting context.Context, wish, present *topolvmv1.LogicalVolume, place func() error) (bool, error) {
	switch {
	case !present.DeletionTimestamp.IsZero():
		return true, s.awaitGone(waiting, present)
	case !compatible(wish, present):
		return false, status.Errorf(codes.AlreadyExists, "volume %s exists and is another one than the one asked for: %s", wish.Name, differences(wish, present))
	case present.Status.VolumeID != "":
		return false, nil
	}
	// An answer to an earlier call says nothing about this one.
	if isRefusal(present.Status.Code) {
		return true, s.withdraw(waiting, present)
	}
	if err := place(); err != nil {
		return false, err
	}
	if wish.Spec.NodeName != present.Spec.NodeName {
		return true, s.withdraw(waiting, present)
	}
	return false, nil
}

func compatible(wish, present *topolvmv1.LogicalVolume) bool { return differences(wish, present) == "" }

// differences are what tells two volumes of one name apart. The size of a snapshot is that of its source, which may have grown since.
func differences(wish, present *topolvmv1.LogicalVolume) string {
	var list []string
	add := func(what, want, have string) {
		if want != have {
			list = append(list, fmt.Sprintf("%s %q instead of %q", what, have, want))
		}
	}
	add("source", wish.Spec.Source, present.Spec.Source)
	add("device class", wish.Spec.DeviceClass, present.Spec.DeviceClass)
	add("access", wish.Spec.AccessType, present.Spec.AccessType)
	add("lvcreate option class", wish.Spec.LvcreateOptionClass, present.Spec.LvcreateOptionClass)
	if wish.Spec.AccessType != accessSnapshot {
		add("size", wish.Spec.Size.String(), present.Spec.Size.String())
	}
	return strings.Join(list, ", ")
}

// isRefusal tells whether a node has said no, and will not try again.
func isRefusal(code codes.Code) bool {
	switch code {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted, codes.Unknown:
		return false
	}
	return true
}

// awaitCreation waits for the node to make a volume. What the node refuses is withdrawn.
func (s *ControllerServer) awaitCreation(ctx, waiting context.Context, wish *topolvmv1.LogicalVolume) (*topolvmv1.LogicalVolume, error) {
	lost := s.lost(ctx, wish.Spec.NodeName)
	if lost {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(waiting, lostWait)
		defer cancel()
	}
	seen := false
	lv, err := s.await(waiting, wish.Name, func(lv *topolvmv1.LogicalVolume) (bool, error) {
		switch {
		case lv == nil && seen:
			return false, status.Errorf(codes.Aborted, "LogicalVolume %s was deleted while its volume was made", wish.Name)
		case lv == nil || lv.UID != wish.UID:
			return false, nil // The cache is behind.
		}
		seen = true
		return lv.Status.VolumeID != "" || isRefusal(lv.Status.Code), nil
	})
	switch {
	case err == nil && lv.Status.VolumeID != "":
		return lv, nil
	case err == nil:
		refusal := status.Errorf(lv.Status.Code, "node %s: %s", lv.Spec.NodeName, lv.Status.Message)
		if err := s.withdraw(waiting, lv); err != nil {
			// The next call finds the answer of this one, and withdraws it.
			log.FromContext(ctx).Info("a refused LogicalVolume stays for now", "logicalVolume", lv.Name, "cause", err.Error())
		}
		return nil, refusal
	case waiting.Err() != nil && ctx.Err() == nil && lost:
		return nil, s.giveUp(ctx, lv, wish)
	case waiting.Err() != nil:
		return nil, slow(lv, wish.Name, "made", waiting.Err())
	}
	return nil, err
}

// lostWait is how long a call waits for a node that is not ready: others wait for their turn behind it.
const lostWait = 10 * time.Second

// lost tells whether a node is gone, or its kubelet does not report: it is not likely to answer soon.
func (s *ControllerServer) lost(ctx context.Context, name string) bool {
	node := &corev1.Node{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return apierrors.IsNotFound(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue
		}
	}
	return false
}

// giveUp answers a call whose node is lost. If its agent has not even seen the object, nothing was made, and another node may do it.
func (s *ControllerServer) giveUp(ctx context.Context, lv, wish *topolvmv1.LogicalVolume) error {
	late := slow(lv, wish.Name, "made", context.DeadlineExceeded)
	if lv == nil || len(lv.Finalizers) > 0 || lv.Spec.Source != "" {
		return late
	}
	// The agent puts its finalizer on before it makes anything: with the version of the object that is not possible in between.
	exact := client.Preconditions{UID: &lv.UID, ResourceVersion: &lv.ResourceVersion}
	if err := s.Client.Delete(ctx, lv, exact); err != nil {
		return late
	}
	return status.Errorf(codes.ResourceExhausted, "node %s is not ready and does not answer", lv.Spec.NodeName)
}

// withdraw deletes an object, and waits until the node has removed what it may have made.
func (s *ControllerServer) withdraw(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	if err := s.Client.Delete(ctx, lv, client.Preconditions{UID: &lv.UID}); client.IgnoreNotFound(err) != nil {
		return status.Errorf(codes.Unavailable, "delete LogicalVolume %s: %v", lv.Name, err)
	}
	return s.awaitGone(ctx, lv)
}

// awaitGone waits until an object does not exist any more, also on the API server.
func (s *ControllerServer) awaitGone(ctx context.Context, lv *topolvmv1.LogicalVolume) error {
	seen := false
	last, err := s.await(ctx, lv.Name, func(now *topolvmv1.LogicalVolume) (bool, error) {
		is := now != nil && now.UID == lv.UID
		seen = seen || is
		return !is, nil
	})
	if ctx.Err() != nil {
		if last == nil {
			last = lv
		}
		return slow(last, lv.Name, "removed", ctx.Err())
	}
	if err != nil || seen {
		return err
	}
	// The cache has never had it: it may be behind.
	live := &topolvmv1.LogicalVolume{}
	err = s.Live.Get(ctx, client.ObjectKeyFromObject(lv), live)
	switch {
	case apierrors.IsNotFound(err) || err == nil && live.UID != lv.UID:
		return nil
	case err != nil:
		return status.Errorf(codes.Unavailable, "LogicalVolume %s: %v", lv.Name, err)
	}
	return status.Errorf(codes.Aborted, "volume %s is being removed", lv.Name)
}

// DeleteVolume removes a volume. One that does not exist is no error.
func (s *ControllerServer) DeleteVolume(ctx context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
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
func (s *ControllerServer) ValidateVolumeCapabilities(ctx context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
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
		VolumeContext: request.GetVolumeContext(), VolumeCapabilities: request.GetVolumeCapabilities(), Parameters: request.GetParameters(),
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
			errs = append(errs, status.Errorf(codes.InvalidArgument, "file system %s is not supported: use %s", kind, supported()))
		}
	}
	at := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if at < 0 {
		return nil
	}
	return errs[at]
}
