// Package driver has the pieces of the CSI driver topolvm.io that are our own.
//
// The node service stands in for TopoLVM's, with the same driver name, volume handles and topology key.
// docs/explanation/topolvm.md says what is different and why.
package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/topolvm/topolvm"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Volumes are the logical volumes of this node.
type Volumes interface {
	// FindLV returns a volume with its device number, if it is active; NotFound if there is none.
	FindLV(ctx context.Context, class, name string) (*proto.LogicalVolume, error)
	ActivateLV(ctx context.Context, class, name string) error
	TagLV(ctx context.Context, class, name string, add, remove []string) error
	// Condition is what is wrong with a volume, in words; "" if nothing is. It starts no process.
	Condition(ctx context.Context, class, name string) (string, error)
}

// NodeOptions are what a NodeServer needs.
type NodeOptions struct {
	// Node is the name of this node.
	Node string
	// Client reads LogicalVolumes from a cache.
	Client client.Reader
	// Volumes are those of the node.
	Volumes Volumes
	// FileSystems are those that are mounted on the node; nil for those that this process sees.
	FileSystems *FileSystems
}

// NodeServer is the CSI node service (CSI specification v1.12, "Node Service RPC"). Calls for different volumes do not
// wait for each other; a second one for the same volume gets Aborted, and comes again.
type NodeServer struct {
	csi.UnimplementedNodeServer
	NodeOptions
	host hostDisks
	busy busy
}

// NewNodeServer returns the node service of this node.
func NewNodeServer(o NodeOptions) *NodeServer {
	if o.FileSystems == nil {
		o.FileSystems = NewFileSystems(o.Node)
	}
	return &NodeServer{NodeOptions: o, host: newHost()}
}

// NodeGetInfo tells where volumes of this node can be used.
func (s *NodeServer) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId:             s.Node,
		AccessibleTopology: &csi.Topology{Segments: map[string]string{v1alpha1.TopologyNodeKey: s.Node}},
	}, nil
}

// NodeGetCapabilities tells what this service can do.
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

// volume is a logical volume with the object that asks for it.
type volume struct {
	id, class string
	lv        *proto.LogicalVolume
}

func (v volume) tagged(prefix string) (string, bool) {
	for _, tag := range v.lv.GetTags() {
		if value, ok := strings.CutPrefix(tag, prefix); ok {
			return value, true
		}
	}
	return "", false
}

// beginnings are the tags that say that nobody has had the volume yet.
func (v volume) beginnings() []string {
	var tags []string
	for _, tag := range v.lv.GetTags() {
		if tag == v1alpha1.NewTag || strings.HasPrefix(tag, v1alpha1.FormattingTagPrefix) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// find returns a volume of this node. NotFound: there is none, in the API or in LVM.
func (s *NodeServer) find(ctx context.Context, id string) (volume, error) {
	class, err := s.classOf(ctx, id)
	if err != nil {
		return volume{}, err
	}
	lv, err := s.Volumes.FindLV(ctx, class, id)
	if err != nil {
		return volume{}, fmt.Errorf("volume %s on node %s: %w", id, s.Node, err)
	}
	return volume{id: id, class: class, lv: lv}, nil
}

// classOf returns the device class of a volume. Its ID is the UID of its object: so it is known also while the cache
// has not seen yet that the status says so.
func (s *NodeServer) classOf(ctx context.Context, id string) (string, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "", status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	for i := range list.Items {
		if lv := &list.Items[i]; lv.Spec.NodeName == s.Node && (lv.Status.VolumeID == id || string(lv.UID) == id) {
			return lv.Spec.DeviceClass, nil
		}
	}
	return "", status.Errorf(codes.NotFound, "no LogicalVolume has the volume ID %s on node %s", id, s.Node)
}

// The fifth letter of lv_attr is the state of the device: "a" is active (lvs(8)).
const attrState = 4

// device returns a volume whose device is there, under the path that leads to it and to nothing else.
func (s *NodeServer) device(ctx context.Context, id string) (volume, error) {
	v, err := s.find(ctx, id)
	if err != nil {
		return v, err
	}
	if !isActive(v.lv) {
		if err := s.Volumes.ActivateLV(ctx, v.class, id); err != nil {
			return v, fmt.Errorf("activate volume %s on node %s: %w", id, s.Node, err)
		}
		if v, err = s.find(ctx, id); err != nil {
			return v, err
		}
		if !isActive(v.lv) {
			return v, status.Errorf(codes.FailedPrecondition,
				"logical volume %s on node %s stays inactive: see activation/volume_list in lvm.conf, and run on the "+
					"node: lvchange --activate y %s", id, s.Node, v.lv.GetPath())
		}
	}
	number, err := s.host.number(v.lv.GetPath())
	if err != nil {
		return v, status.Errorf(codes.Internal, "device of volume %s on node %s: %v", id, s.Node, err)
	}
	if want := (deviceNumber{v.lv.GetDevMajor(), v.lv.GetDevMinor()}); number != want {
		return v, status.Errorf(codes.Internal,
			"%s on node %s leads to device %s, and volume %s is device %s: run on the node: udevadm trigger",
			v.lv.GetPath(), s.Node, number, id, want)
	}
	return v, nil
}

func isActive(lv *proto.LogicalVolume) bool {
	return len(lv.GetAttr()) > attrState && lv.GetAttr()[attrState] == 'a'
}

// NodePublishVolume gives a Pod what is staged: a bind mount of the file system, or the device itself.
func (s *NodeServer) NodePublishVolume(ctx context.Context,
	request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	target := request.GetTargetPath()
	capability := request.GetVolumeCapability()
	if err := checkRequest(request.GetVolumeId(), target, "target_path", capability); err != nil {
		return nil, err
	}
	if request.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.FailedPrecondition,
			"no staging_target_path is given: the volume has to be staged first")
	}
	if err := s.busy.enter(request.GetVolumeId()); err != nil {
		return nil, err
	}
	defer s.busy.leave(request.GetVolumeId())
	v, err := s.device(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		if err := s.checkAlone(v, target, request.GetStagingTargetPath()); err != nil {
			return nil, err
		}
	}
	options := []string{"bind"}
	if request.GetReadonly() || readsOnly(capability) {
		options = append(options, "ro")
	}
	if capability.GetBlock() != nil {
		err = s.publishBlock(ctx, v, target, options)
	} else {
		err = s.publishMount(v, request.GetStagingTargetPath(), target, options)
	}
	if err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// checkAlone refuses to give a volume for one writer to a second one. The first may ask again.
func (s *NodeServer) checkAlone(v volume, target, staging string) error {
	points, err := s.host.mountPoints(numberOf(v))
	if err != nil {
		return status.Errorf(codes.Internal, "mounts of volume %s: %v", v.id, err)
	}
	if slices.Contains(points, target) {
		return nil
	}
	if at := slices.IndexFunc(points, func(p string) bool { return p != staging }); at >= 0 {
		return status.Errorf(codes.FailedPrecondition, "volume %s is for a single writer, and is in use at %s",
			v.id, points[at])
	}
	return nil
}

// markUsed takes off the tags that say that nobody has had the volume: from here on what is on it is somebody's.
func (s *NodeServer) markUsed(ctx context.Context, v volume) error {
	old := v.beginnings()
	if len(old) == 0 {
		return nil
	}
	if err := s.Volumes.TagLV(ctx, v.class, v.id, nil, old); err != nil {
		return fmt.Errorf("note that volume %s on node %s is used: %w", v.id, s.Node, err)
	}
	return nil
}

func (s *NodeServer) publishBlock(ctx context.Context, v volume, target string, options []string) error {
	if err := s.markUsed(ctx, v); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return status.Errorf(codes.Internal, "folder of %s: %v", target, err)
	}
	file, err := os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o640)
	if err != nil {
		return status.Errorf(codes.Internal, "mount point %s: %v", target, err)
	}
	_ = file.Close()
	return s.bind(v, v.lv.GetPath(), target, options)
}

// publishMount binds the staged file system. Without it, what the Pod writes would go to the disk of the node.
func (s *NodeServer) publishMount(v volume, staging, target string, options []string) error {
	mounted, err := s.host.mounted(staging)
	if err != nil {
		return status.Errorf(codes.Internal, "volume %s: %v", v.id, err)
	}
	if mounted != numberOf(v) {
		return status.Errorf(codes.FailedPrecondition, "volume %s is not mounted at %s", v.id, staging)
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return status.Errorf(codes.Internal, "mount point %s: %v", target, err)
	}
	return s.bind(v, staging, target, options)
}

func numberOf(v volume) deviceNumber {
	return deviceNumber{v.lv.GetDevMajor(), v.lv.GetDevMinor()}
}

// bind mounts once: kubelet repeats a call whose answer it did not get.
func (s *NodeServer) bind(v volume, source, target string, options []string) error {
	there, err := s.host.isMountPoint(target)
	if err != nil {
		return status.Errorf(codes.Internal, "mount point %s: %v", target, err)
	}
	if there {
		number, err := s.host.shows(target)
		if err == nil && number == numberOf(v) {
			return nil
		}
		return status.Errorf(codes.Internal, "%s is a mount point of something else than volume %s (%s, %v)", target,
			v.id, number, err)
	}
	if err := s.host.mount(source, target, "", options); err != nil {
		return status.Errorf(codes.Internal, "mount volume %s at %s: %v", v.id, target, err)
	}
	return nil
}

// NodeUnpublishVolume takes a volume away from a Pod. What is gone already is no error; the volume need not exist any
// more.
func (s *NodeServer) NodeUnpublishVolume(_ context.Context,
	request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := s.unmount(request.GetVolumeId(), request.GetTargetPath(), "target_path"); err != nil {
		return nil, err
	}
	// TopoLVM before 0.24 made a device file of its own.
	if err := os.Remove(filepath.Join(topolvm.LegacyDeviceDirectory,
		filepath.Base(request.GetVolumeId()))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, status.Errorf(codes.Internal, "old device file of volume %s: %v", request.GetVolumeId(), err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (s *NodeServer) unmount(id, path, name string) error {
	if id == "" {
		return status.Error(codes.InvalidArgument, "no volume_id is given")
	}
	if path == "" {
		return status.Errorf(codes.InvalidArgument, "no %s is given", name)
	}
	if err := s.busy.enter(id); err != nil {
		return err
	}
	defer s.busy.leave(id)
	if err := s.host.unmount(path); err != nil {
		return status.Errorf(codes.Internal, "unmount volume %s from %s: %v", id, path, err)
	}
	return nil
}

// checkRequest refuses a call that is incomplete, or that asks for what a disk of one node cannot be.
func checkRequest(id, path, pathName string, capability *csi.VolumeCapability) error {
	switch {
	case id == "":
		return status.Error(codes.InvalidArgument, "no volume_id is given")
	case path == "":
		return status.Errorf(codes.InvalidArgument, "no %s is given", pathName)
	case capability == nil:
		return status.Error(codes.InvalidArgument, "no volume_capability is given")
	case capability.GetBlock() == nil && capability.GetMount() == nil:
		return status.Error(codes.InvalidArgument, "volume_capability is neither block nor mount")
	case !slices.Contains(accessModes, capability.GetAccessMode().GetMode()):
		return status.Errorf(codes.InvalidArgument,
			"access mode %s: a volume is on one node, so only modes of a single node are possible",
			capability.GetAccessMode().GetMode())
	}
	return nil
}

var accessModes = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
}

func readsOnly(capability *csi.VolumeCapability) bool {
	return capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
}
