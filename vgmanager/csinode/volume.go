package csinode

import (
	"context"
	"fmt"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// volume is a logical volume and its LogicalVolume object.
type volume struct {
	id, class string
	lv        *proto.LogicalVolume
	// mapping is the mapped device of an encrypted volume that is open.
	mapping mappedDevice
	// isNewContainer: this call wrote the LUKS header, so the decrypted data is random.
	isNewContainer bool
	// recorded: a file on the node records that the formatting of the volume has begun.
	recorded bool
}

func (v volume) tagged(prefix string) (string, bool) {
	for _, tag := range v.lv.GetTags() {
		if value, ok := strings.CutPrefix(tag, prefix); ok {
			return value, true
		}
	}
	return "", false
}

// unusedTags returns the tags that mark a volume as unused.
func (v volume) unusedTags() []string {
	var tags []string
	for _, tag := range v.lv.GetTags() {
		if tag == v1alpha1.NewTag || strings.HasPrefix(tag, v1alpha1.FormattingTagPrefix) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// find returns a volume of this node. It returns NotFound if the LogicalVolume or the logical volume does not exist.
func (s *NodeServer) find(ctx context.Context, id string) (volume, error) {
	object, err := s.objectOf(ctx, id)
	if err != nil {
		return volume{}, err
	}
	class := object.Spec.DeviceClass
	lv, err := s.Volumes.FindLV(ctx, class, id)
	if err != nil {
		return volume{}, fmt.Errorf("find volume %s on node %s: %w", id, s.Node, err)
	}
	v := volume{id: id, class: class, lv: lv}
	if err := s.readRecord(ctx, &v); err != nil {
		return volume{}, err
	}
	if erased, begun := v.tagged(v1alpha1.ErasedTagPrefix); begun {
		return volume{}, status.Errorf(codes.DataLoss, "volume %s on node %s is not used, because its removal began: "+
			"at least its first %s bytes are erased: restore it from a backup", id, s.Node, erased)
	}
	if v.isEncrypted() && isActive(lv) {
		v.mapping, err = s.mappingOf(ctx, v)
	}
	return v, err
}

// objectOf returns the LogicalVolume of a volume from the cache; it must not be changed. The volume ID is the UID of
// the LogicalVolume, so objectOf finds it even if the status in the cache does not have the ID yet.
func (s *NodeServer) objectOf(ctx context.Context, id string) (*topolvmv1.LogicalVolume, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	for i := range list.Items {
		if lv := &list.Items[i]; lv.Spec.NodeName == s.Node && (lv.Status.VolumeID == id || string(lv.UID) == id) {
			return lv, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "no LogicalVolume has the volume ID %s on node %s", id, s.Node)
}

// attrState is the index of the fifth character of lv_attr, the state of the device: "a" is active (lvs(8)).
const attrState = 4

// device returns an active volume. It checks that the path leads to the volume's device.
func (s *NodeServer) device(ctx context.Context, id string) (volume, error) {
	v, err := s.find(ctx, id)
	if err != nil {
		return v, err
	}
	if reason := movedReason(v.lv.GetTags()); reason != "" {
		return v, status.Errorf(codes.FailedPrecondition, "volume %s (claim %s) on node %s is not used: %s", id,
			s.ClaimOf(ctx, id), s.Node, reason)
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
				"logical volume %s on node %s was activated but is inactive: see activation/volume_list in lvm.conf, "+
					"and run on the node: lvchange --activate y %s", id, s.Node, v.lv.GetPath())
		}
	}
	number, err := s.disks.number(v.lv.GetPath())
	if err != nil {
		return v, status.Errorf(codes.Internal, "read the device of volume %s on node %s: %v", id, s.Node, err)
	}
	if want := (deviceNumber{v.lv.GetDevMajor(), v.lv.GetDevMinor()}); number != want {
		return v, status.Errorf(codes.Internal,
			"%s on node %s leads to device %s, but volume %s is device %s: run on the node: udevadm trigger",
			v.lv.GetPath(), s.Node, number, id, want)
	}
	return v, nil
}

func isActive(lv *proto.LogicalVolume) bool {
	return len(lv.GetAttr()) > attrState && lv.GetAttr()[attrState] == 'a'
}

// numberOf returns the number of the device with the data of a volume.
func numberOf(v volume) deviceNumber {
	if v.mapping.path != "" {
		return v.mapping.number
	}
	return deviceNumber{v.lv.GetDevMajor(), v.lv.GetDevMinor()}
}
