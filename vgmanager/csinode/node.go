// Package csinode is the CSI node service of the driver topolvm.io. It formats volumes once, mounts them, expands their
// file systems, and reports their usage and condition. The programs that do so are in the agent's image.
//
// It replaces TopoLVM's node service, with the same driver name, volume handles and topology key.
// docs/explanation/topolvm.md explains the differences.
package csinode

import (
	"cmp"
	"context"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/encryption"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/fencing"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/limits"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mountedfs"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/cgroup"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/luks"
)

// Volumes accesses the logical volumes of this node.
type Volumes interface {
	volume.LVM
	// SuspendedDevices returns the suspended devices that hold data of a volume, or none.
	SuspendedDevices(ctx context.Context, class, name string) ([]string, error)
	// Problems returns what is wrong with a volume. It starts no process.
	Problems(ctx context.Context, class, name string) ([]health.Condition, error)
	// ClassProblems returns what is wrong with the device classes. It starts no process.
	ClassProblems(ctx context.Context) ([]health.Condition, error)
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
	FileSystems *mountedfs.FileSystems
	// Programs runs mkfs, e2fsck, mount, cryptsetup and so on.
	Programs NodePrograms
	// Locks are the volumes with work in progress; nil for those of this service alone.
	Locks *service.Locks
	// NodeID and TopologyKey are what NodeGetInfo returns; "" for the name of the node, and the key of topolvm.io.
	NodeID, TopologyKey string
	// Staging is told which volumes are staged; nil if nobody has to know.
	Staging StagingRecorder
	// Pods limits the I/O of Pods; nil for those of the cgroup file system of the node.
	Pods limits.PodLimiter
	// Keys provides the keys of encrypted volumes; nil for encryption.SecretKeys.
	Keys encryption.Keys
	// StateDir is the folder of the node with the records of this service. It survives a restart of the node.
	StateDir string
}

// NodePrograms runs the programs of the agent's image. *host.Local implements it.
type NodePrograms interface {
	mounter.Programs
	luks.Programs
}

// StagingRecorder records which volumes are staged.
type StagingRecorder interface {
	// BeforeStaging is called before a volume is staged at a path. An error prevents it.
	BeforeStaging(ctx context.Context, volumeID, path string) error
	// Unstaged is called when a volume is no longer staged at a path.
	Unstaged(ctx context.Context, volumeID, path string) error
}

// mountTable reads the mounts of the node.
type mountTable interface {
	IsMountPoint(path string) (bool, error)
	// Mounted returns the device whose file system is mounted at a directory, or zero if the directory is not a mount
	// point.
	Mounted(path string) (mounter.Number, error)
	// BackingDevice returns the device of a device file, or of the file system that contains a directory.
	BackingDevice(path string) (mounter.Number, error)
	// MountPoints returns the mount points of a device and of the file system on it.
	MountPoints(number mounter.Number) ([]string, error)
	// SameFileSystem returns the mount points of the file system that is mounted at a path, with the path itself, or
	// none if nothing is mounted there. It does not access the file system, which may be broken.
	SameFileSystem(path string) ([]string, error)
}

// mounts changes the mounts of the node. Mount and Unmount do not end with their context: a mount that was ended
// halfway would lack its options.
type mounts interface {
	Mount(ctx context.Context, source, target, fileSystem string, options []string) error
	// SetReadOnly makes a bind mount of source read-only, unless it is.
	SetReadOnly(ctx context.Context, source, target string) error
	// Unmount unmounts a path. It succeeds if the path does not exist or is not a mount point.
	Unmount(ctx context.Context, path string) error
	// RemoveMountPoint removes a directory or file on which nothing is mounted. It succeeds if the path does not exist.
	RemoveMountPoint(path string) error
	SetMode(path string, mode os.FileMode) error
}

// system is what the parts of the node service do on the node. mounter.Mounter implements it.
type system interface {
	mountTable
	mounts
	fileSystemTools
	volume.Devices
	fencing.Mounts
}

// containers are the LUKS2 containers of the node. *luks.Containers implements it.
type containers interface {
	encryption.Containers
	encryption.Keyslots
}

// NodeServer is the CSI node service (CSI specification v1.12, "Node Service RPC"). Calls for different volumes run in
// parallel. A second call for the same volume returns Aborted, and the caller retries.
type NodeServer struct {
	csi.UnimplementedNodeServer
	NodeOptions
	// Limits limits the I/O of Pods.
	Limits     *limits.Limiter
	volumes    *volume.Finder
	system     system
	encryption *encryption.Encryption
	stager     *stager
	publisher  *publisher
	// unstaged has LogicalVolumes with the IDs of volumes that were unstaged. It is full if nobody receives them.
	unstaged chan event.GenericEvent
}

// maxUnstaged is the maximum number of volumes that were unstaged since the last one was received.
const maxUnstaged = 64

// NewNodeServer returns the node service of this node.
func NewNodeServer(o NodeOptions) *NodeServer {
	return newNodeServer(o, mounter.Mounter{Programs: o.Programs}, luks.New(o.Programs, devicemapper.New()),
		volume.Directory(o.StateDir))
}

func newNodeServer(o NodeOptions, node system, c containers, records volume.Records) *NodeServer {
	if o.FileSystems == nil {
		o.FileSystems = mountedfs.New(o.Node)
	}
	if o.Locks == nil {
		o.Locks = &service.Locks{}
	}
	if o.Pods == nil {
		o.Pods = cgroup.New(cgroup.HostRoot)
	}
	o.NodeID = cmp.Or(o.NodeID, o.Node)
	o.TopologyKey = cmp.Or(o.TopologyKey, wellknown.TopologyNodeKey)
	if o.Keys == nil {
		o.Keys = encryption.SecretKeys{}
	}
	volumes := &volume.Finder{Node: o.Node, Client: o.Client, LVM: o.Volumes, Devices: node, Mappings: c,
		Records: records}
	keys := &encryption.Encryption{Node: o.Node, Volumes: volumes, Locks: o.Locks, Devices: node, Containers: c,
		Keyslots: c, Keys: o.Keys}
	return &NodeServer{
		NodeOptions: o, volumes: volumes, system: node, encryption: keys,
		Limits:    &limits.Limiter{Node: o.Node, Volumes: volumes, Mounts: node, Pods: o.Pods},
		stager:    &stager{node: o.Node, volumes: volumes, encryption: keys, locks: o.Locks, system: node},
		publisher: &publisher{volumes: volumes, table: node, mounts: node},
		unstaged:  make(chan event.GenericEvent, maxUnstaged),
	}
}

// NewFenceReconciler returns the reconciler of the fences of the volumes of a node service.
func NewFenceReconciler(s *NodeServer, c client.Client, devices fencing.MappedDevices) *fencing.Reconciler {
	return fencing.New(fencing.Options{Node: s.Node, Client: c, Live: s.Live, Volumes: s.volumes, Locks: s.Locks,
		Mounts: s.system, Devices: devices, Unstaged: s.unstaged})
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
		csi.NodeServiceCapability_RPC_GET_VOLUME_HEALTH,
		csi.NodeServiceCapability_RPC_GET_STORAGE_HEALTH,
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
	if err := s.Locks.Enter(request.GetVolumeId()); err != nil {
		return nil, err
	}
	defer s.Locks.Leave(request.GetVolumeId())
	v, err := s.volumes.Active(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if err := v.RequireOpen(s.Node, request.GetVolumeContext()); err != nil {
		return nil, err
	}
	if capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		if err := s.publisher.checkAlone(v, target, request.GetStagingTargetPath()); err != nil {
			return nil, err
		}
	}
	if err := s.publish(ctx, v, request); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// publish mounts a volume at the target path. The limits of the Pod are set before and after it.
func (s *NodeServer) publish(ctx context.Context, v volume.Volume, request *csi.NodePublishVolumeRequest) error {
	target, capability := request.GetTargetPath(), request.GetVolumeCapability()
	limits, err := s.Limits.Publish(ctx, v, target, "")
	if err != nil {
		return err
	}
	options := []string{"bind"}
	if request.GetReadonly() || volume.ReadsOnly(capability) {
		options = append(options, "ro")
	}
	if capability.GetBlock() != nil {
		err = s.publisher.publishBlock(ctx, v, target, options)
	} else {
		err = s.publisher.publishMount(ctx, v, request.GetStagingTargetPath(), target, options)
	}
	if err != nil {
		return err
	}
	_, err = s.Limits.Publish(ctx, v, target, limits)
	return err
}

// stageIfNotMounted stages a file system that is not mounted at the staging path. TopoLVM's node service mounts a
// volume for each Pod and does not stage it. The kubelet nevertheless records that the volume is staged, until no Pod
// on the node uses it: it does not call NodeStageVolume for a Pod that starts before the last Pod of TopoLVM has ended.
func (s *NodeServer) stageIfNotMounted(ctx context.Context, request *csi.NodePublishVolumeRequest) error {
	if request.GetVolumeCapability().GetMount() == nil {
		return nil
	}
	mounted, err := s.system.Mounted(request.GetStagingTargetPath())
	if err != nil {
		return status.Errorf(codes.Internal, "check the mount of volume %s: %v", request.GetVolumeId(), err)
	}
	if mounted != (mounter.Number{}) {
		return nil
	}
	return s.stageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: request.GetVolumeId(),
		PublishContext: request.GetPublishContext(), StagingTargetPath: request.GetStagingTargetPath(),
		VolumeCapability: request.GetVolumeCapability(), VolumeContext: request.GetVolumeContext()}, s.stageOpen)
}

// stageOpen stages a volume without its key.
func (s *NodeServer) stageOpen(ctx context.Context, v volume.Volume, staging string,
	request *csi.NodeStageVolumeRequest) error {
	if err := v.RequireOpen(s.Node, request.GetVolumeContext()); err != nil {
		return err
	}
	return s.stager.stage(ctx, v, staging, request)
}

// HoldUnformatted keeps the formatting of a volume from beginning until release is called. It returns Aborted if the
// formatting has begun, or other work on the volume is in progress, and Unavailable if that cannot be read. uuid and
// tags are those of its logical volume.
func (s *NodeServer) HoldUnformatted(id, uuid string, tags []string) (release func(), err error) {
	if err := s.Locks.Enter(id); err != nil {
		return nil, err
	}
	found, err := s.volumes.Records.Recorded(id)
	switch {
	case err != nil:
		err = status.Errorf(codes.Unavailable, "volume %s on node %s: check whether its formatting has begun: %v", id,
			s.Node, err)
	case found.Holds(uuid, tags):
		err = status.Errorf(codes.Aborted, "volume %s on node %s has no snapshot yet, because its file system is not "+
			"complete: a Pod that uses it completes it", id, s.Node)
	default:
		return func() { s.Locks.Leave(id) }, nil
	}
	s.Locks.Leave(id)
	return nil, err
}

// Removed removes what this node has recorded about a volume that no longer exists.
func (s *NodeServer) Removed(id string) error { return s.volumes.Forget(id) }

// ClaimOf returns the claim of a volume on this node by its ID, from the cache.
func (s *NodeServer) ClaimOf(ctx context.Context, volumeID string) string {
	return s.volumes.ClaimOf(ctx, volumeID)
}
