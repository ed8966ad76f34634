// Package csinode is the CSI node service of the driver topolvm.io. It formats volumes once, mounts them, expands their
// file systems, and reports their usage and condition. The programs that do so are in the agent's image.
//
// It replaces TopoLVM's node service, with the same driver name, volume handles and topology key.
// docs/explanation/topolvm.md explains the differences.
package csinode

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/cgroup"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/luks"
)

// Volumes accesses the logical volumes of this node.
type Volumes interface {
	// FindLV returns a volume, with its device number if it is active. It returns NotFound if there is none.
	FindLV(ctx context.Context, class, name string) (*proto.LogicalVolume, error)
	// UUID returns the UUID of a logical volume. It returns NotFound if there is none.
	UUID(ctx context.Context, class, name string) (string, error)
	ActivateLV(ctx context.Context, class, name string) error
	TagLV(ctx context.Context, class, name string, add, remove []string) error
	// SuspendedDevices returns the suspended devices that hold data of a volume, or none.
	SuspendedDevices(ctx context.Context, class, name string) ([]string, error)
	// Condition describes the problem of a volume, or returns "" if there is none. It starts no process.
	Condition(ctx context.Context, class, name string) (string, error)
}

// NodeOptions configure a NodeServer.
type NodeOptions struct {
	// Node is the name of this node.
	Node string
	// Client reads LogicalVolumes from a cache.
	Client client.Reader
	// Live reads a LogicalVolume from the API server, to know whether it is suspended.
	Live client.Reader
	// Volumes accesses the logical volumes of the node.
	Volumes Volumes
	// FileSystems are the mounted file systems of the node; nil for those that this process can access.
	FileSystems *FileSystems
	// Programs runs mkfs, e2fsck, mount, cryptsetup and so on.
	Programs NodePrograms
	// Locks are the volumes with work in progress; nil for those of this service alone.
	Locks *service.Locks
	// NodeID and TopologyKey are what NodeGetInfo returns; "" for the name of the node, and the key of topolvm.io.
	NodeID, TopologyKey string
	// Staging is told which volumes are staged; nil if nobody has to know.
	Staging StagingRecorder
	// Pods limits the I/O of Pods; nil for those of the cgroup file system of the node.
	Pods PodLimiter
	// Keys provides the keys of encrypted volumes; nil for SecretKeys.
	Keys Keys
	// StateDir is the folder of the node with the records of this service. It survives a restart of the node.
	StateDir string
}

// NodePrograms runs the programs of the agent's image. *host.Local implements it.
type NodePrograms interface {
	Programs
	luks.Programs
}

// StagingRecorder records which volumes are staged.
type StagingRecorder interface {
	// BeforeStaging is called before a volume is staged at a path. An error prevents it.
	BeforeStaging(ctx context.Context, volumeID, path string) error
	// Unstaged is called when a volume is no longer staged at a path.
	Unstaged(ctx context.Context, volumeID, path string) error
}

// NodeServer is the CSI node service (CSI specification v1.12, "Node Service RPC"). Calls for different volumes run in
// parallel. A second call for the same volume returns Aborted, and the caller retries.
type NodeServer struct {
	csi.UnimplementedNodeServer
	NodeOptions
	disks      disks
	containers containers
	locks      *service.Locks
	// limiting is locked while limits are read and applied.
	limiting sync.Mutex
	// unstaged has LogicalVolumes with the IDs of volumes that were unstaged. It is full if nobody receives them.
	unstaged chan event.GenericEvent
}

// maxUnstaged is the maximum number of volumes that were unstaged since the last one was received.
const maxUnstaged = 64

// NewNodeServer returns the node service of this node.
func NewNodeServer(o NodeOptions) *NodeServer {
	if o.FileSystems == nil {
		o.FileSystems = NewFileSystems(o.Node)
	}
	if o.Locks == nil {
		o.Locks = &service.Locks{}
	}
	if o.Pods == nil {
		o.Pods = cgroup.New(cgroup.HostRoot)
	}
	o.NodeID = cmp.Or(o.NodeID, o.Node)
	o.TopologyKey = cmp.Or(o.TopologyKey, v1alpha1.TopologyNodeKey)
	if o.Keys == nil {
		o.Keys = SecretKeys{}
	}
	return &NodeServer{NodeOptions: o, disks: nodeDisks{programs: o.Programs, stateDir: o.StateDir},
		containers: luks.New(o.Programs, devicemapper.New()), locks: o.Locks,
		unstaged: make(chan event.GenericEvent, maxUnstaged)}
}

// NodeGetInfo returns the topology segment in which volumes of this node are accessible.
func (s *NodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId:             s.NodeID,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{s.TopologyKey: s.Node}},
	}, nil
}

// NodeGetCapabilities returns the capabilities of this service.
func (s *NodeServer) NodeGetCapabilities(context.Context,
	*csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_VOLUME_CONDITION,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}},
		})
	}
	return response, nil
}

// NodePublishVolume makes a staged volume available to a Pod: as a bind mount of the file system, or of the device
// file.
func (s *NodeServer) NodePublishVolume(ctx context.Context,
	request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	target := request.GetTargetPath()
	capability := request.GetVolumeCapability()
	if err := service.CheckRequest(request.GetVolumeId(), target, "target_path", capability); err != nil {
		return nil, err
	}
	if request.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.FailedPrecondition,
			"staging_target_path is required: stage the volume first")
	}
	if err := s.refuseNewTarget(ctx, request.GetVolumeId(), target); err != nil {
		return nil, err
	}
	if err := s.stageIfNotMounted(ctx, request); err != nil {
		return nil, err
	}
	if err := s.locks.Enter(request.GetVolumeId()); err != nil {
		return nil, err
	}
	defer s.locks.Leave(request.GetVolumeId())
	v, err := s.device(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := s.requireOpen(v, request.GetVolumeContext()); err != nil {
		return nil, err
	}
	if capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		if err := s.checkAlone(v, target, request.GetStagingTargetPath()); err != nil {
			return nil, err
		}
	}
	limits, err := s.limitPod(ctx, v, target, "")
	if err != nil {
		return nil, err
	}
	options := []string{"bind"}
	if request.GetReadonly() || readsOnly(capability) {
		options = append(options, "ro")
	}
	if capability.GetBlock() != nil {
		err = s.publishBlock(ctx, v, target, options)
	} else {
		err = s.publishMount(ctx, v, request.GetStagingTargetPath(), target, options)
	}
	if err == nil {
		_, err = s.limitPod(ctx, v, target, limits)
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// stageIfNotMounted stages a file system that is not mounted at the staging path. TopoLVM's node service mounts a
// volume for each Pod and does not stage it. The kubelet nevertheless records that the volume is staged, until no Pod
// on the node uses it: it does not call NodeStageVolume for a Pod that starts before the last Pod of TopoLVM has ended.
func (s *NodeServer) stageIfNotMounted(ctx context.Context, request *csi.NodePublishVolumeRequest) error {
	if request.GetVolumeCapability().GetMount() == nil {
		return nil
	}
	mounted, err := s.disks.mounted(request.GetStagingTargetPath())
	if err != nil {
		return status.Errorf(codes.Internal, "check the mount of volume %s: %v", request.GetVolumeId(), err)
	}
	if mounted != (deviceNumber{}) {
		return nil
	}
	return s.stageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: request.GetVolumeId(),
		PublishContext: request.GetPublishContext(), StagingTargetPath: request.GetStagingTargetPath(),
		VolumeCapability: request.GetVolumeCapability(), VolumeContext: request.GetVolumeContext()}, s.stageOpen)
}

// stageOpen stages a volume without its key.
func (s *NodeServer) stageOpen(ctx context.Context, v volume, staging string,
	request *csi.NodeStageVolumeRequest) error {
	if err := s.requireOpen(v, request.GetVolumeContext()); err != nil {
		return err
	}
	return s.stage(ctx, v, staging, request)
}

// checkAlone refuses to publish a volume for a single writer at a second target. A repeated call for the first target
// succeeds.
func (s *NodeServer) checkAlone(v volume, target, staging string) error {
	points, err := s.disks.mountPoints(numberOf(v))
	if err != nil {
		return status.Errorf(codes.Internal, "read the mounts of volume %s: %v", v.id, err)
	}
	if slices.Contains(points, target) {
		return nil
	}
	if at := slices.IndexFunc(points, func(p string) bool { return p != staging }); at >= 0 {
		return status.Errorf(codes.FailedPrecondition, "volume %s allows a single writer, and is already "+
			"published at %s", v.id, points[at])
	}
	return nil
}

// markUsed removes the tags that mark a volume as unused: from now on it may contain user data.
func (s *NodeServer) markUsed(ctx context.Context, v volume) error {
	old := v.unusedTags()
	if len(old) == 0 {
		return nil
	}
	if err := s.Volumes.TagLV(ctx, v.class, v.id, nil, old); err != nil {
		return fmt.Errorf("tag volume %s on node %s as used: %w", v.id, s.Node, err)
	}
	return nil
}

func (s *NodeServer) publishBlock(ctx context.Context, v volume, target string, options []string) error {
	err := s.markUsed(ctx, v)
	if err == nil {
		err = s.forget(v.id)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return status.Errorf(codes.Internal, "create the directory of %s: %v", target, err)
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o640)
	if err != nil {
		return status.Errorf(codes.Internal, "create mount point %s: %v", target, err)
	}
	_ = file.Close()
	return s.bind(ctx, v, v.path(), target, options)
}

// publishMount creates a bind mount of the staged file system. If the file system is not mounted, it returns an error:
// otherwise the Pod would write to a disk of the node.
func (s *NodeServer) publishMount(ctx context.Context, v volume, staging, target string, options []string) error {
	mounted, err := s.disks.mounted(staging)
	if err != nil {
		return status.Errorf(codes.Internal, "check the mount of volume %s: %v", v.id, err)
	}
	if mounted != numberOf(v) {
		return status.Errorf(codes.FailedPrecondition, "volume %s is not mounted at %s", v.id, staging)
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return status.Errorf(codes.Internal, "create mount point %s: %v", target, err)
	}
	return s.bind(ctx, v, staging, target, options)
}

// bind creates a bind mount, unless it exists: the kubelet repeats a call whose response was lost. A mount of an agent
// that ended before it made it read-only is completed.
func (s *NodeServer) bind(ctx context.Context, v volume, source, target string, options []string) error {
	there, err := s.disks.isMountPoint(target)
	if err != nil {
		return status.Errorf(codes.Internal, "check mount point %s: %v", target, err)
	}
	if there {
		number, err := s.disks.backingDevice(target)
		if err == nil && number == numberOf(v) {
			return s.complete(ctx, v, source, target, options)
		}
		return status.Errorf(codes.Internal, "%s is a mount point, but not of volume %s (device %s, %v)", target,
			v.id, number, err)
	}
	if err := s.disks.mount(ctx, source, target, "", options); err != nil {
		return status.Errorf(codes.Internal, "mount volume %s at %s: %v", v.id, target, err)
	}
	return nil
}

func (s *NodeServer) complete(ctx context.Context, v volume, source, target string, options []string) error {
	if !slices.Contains(options, "ro") {
		return nil
	}
	if err := s.disks.setReadOnly(ctx, source, target); err != nil {
		return status.Errorf(codes.Internal, "remount volume %s at %s read-only: %v", v.id, target, err)
	}
	return nil
}

// ClaimOf returns the claim of a volume on this node by its ID, from the cache.
func (s *NodeServer) ClaimOf(ctx context.Context, volumeID string) string {
	list := &topolvmv1.LogicalVolumeList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "" // The call itself reports the problem.
	}
	for i := range list.Items {
		if lv := &list.Items[i]; lv.Status.VolumeID == volumeID || string(lv.UID) == volumeID {
			return lv.Annotations[v1alpha1.ClaimAnnotation]
		}
	}
	return ""
}

// readsOnly reports whether a volume is requested for reading only.
func readsOnly(capability *csi.VolumeCapability) bool {
	return capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
}
