package volume

import (
	"context"
	"fmt"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/luks"
)

// LVM accesses the logical volumes of this node.
type LVM interface {
	// FindLV returns a volume, with its device number if it is active. It returns NotFound if there is none.
	FindLV(ctx context.Context, class, name string) (*lvm.LV, error)
	// UUID returns the UUID of a logical volume. It returns NotFound if there is none.
	UUID(ctx context.Context, class, name string) (string, error)
	ActivateLV(ctx context.Context, class, name string) error
	TagLV(ctx context.Context, class, name string, add, remove []string) error
}

// Devices reads the numbers of devices. mounter.Mounter implements it.
type Devices interface {
	Number(path string) (mounter.Number, error)
}

// Mappings finds the mapped devices of encrypted volumes. *luks.Containers implements it.
type Mappings interface {
	Mapping(ctx context.Context, name string) (luks.Mapping, error)
}

// Finder finds the volumes of a node, and records their use.
type Finder struct {
	// Node is the name of this node.
	Node string
	// Client reads LogicalVolumes from a cache.
	Client   client.Reader
	LVM      LVM
	Devices  Devices
	Mappings Mappings
	Records  Records
}

// Find returns a volume of this node. It returns NotFound if the LogicalVolume or the logical volume does not exist.
func (f *Finder) Find(ctx context.Context, id string) (Volume, error) {
	object, err := f.Object(ctx, id)
	if err != nil {
		return Volume{}, err
	}
	class := object.Spec.DeviceClass
	lv, err := f.LVM.FindLV(ctx, class, id)
	if err != nil {
		return Volume{}, fmt.Errorf("find volume %s on node %s: %w", id, f.Node, err)
	}
	v := Volume{ID: id, Class: class, LV: lv}
	if err := f.readRecord(ctx, &v); err != nil {
		return Volume{}, err
	}
	if erased, begun := v.Tagged(wellknown.ErasedTagPrefix); begun {
		return Volume{}, status.Errorf(codes.DataLoss, "volume %s on node %s is not used, because its removal began: "+
			"at least its first %s bytes are erased: restore it from a backup", id, f.Node, erased)
	}
	if v.IsEncrypted() && v.IsActive() {
		v.Mapping, err = f.MappingOf(ctx, v)
	}
	return v, err
}

// Object returns the LogicalVolume of a volume from the cache; it must not be changed. The volume ID is the UID of
// the LogicalVolume, so Object finds it even if the status in the cache does not have the ID yet.
func (f *Finder) Object(ctx context.Context, id string) (*topolvmv1.LogicalVolume, error) {
	list := &topolvmv1.LogicalVolumeList{}
	if err := f.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	for i := range list.Items {
		if lv := &list.Items[i]; lv.Spec.NodeName == f.Node && (lv.Status.VolumeID == id || string(lv.UID) == id) {
			return lv, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "no LogicalVolume has the volume ID %s on node %s", id, f.Node)
}

// ClaimOf returns the claim of a volume by its ID, from the cache.
func (f *Finder) ClaimOf(ctx context.Context, volumeID string) string {
	list := &topolvmv1.LogicalVolumeList{}
	if err := f.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "" // The call itself reports the problem.
	}
	for i := range list.Items {
		if lv := &list.Items[i]; lv.Status.VolumeID == volumeID || string(lv.UID) == volumeID {
			return view.Claim(lv)
		}
	}
	return ""
}

// Active returns a volume with its device, and activates it if necessary. It checks that the path leads to the volume's
// device.
func (f *Finder) Active(ctx context.Context, id string) (Volume, error) {
	v, err := f.Find(ctx, id)
	if err != nil {
		return v, err
	}
	if reason := MovedReason(v.LV.Tags); reason != "" {
		return v, status.Errorf(codes.FailedPrecondition, "volume %s (claim %s) on node %s is not used: %s", id,
			f.ClaimOf(ctx, id), f.Node, reason)
	}
	if !v.IsActive() {
		if err := f.LVM.ActivateLV(ctx, v.Class, id); err != nil {
			return v, fmt.Errorf("activate volume %s on node %s: %w", id, f.Node, err)
		}
		if v, err = f.Find(ctx, id); err != nil {
			return v, err
		}
		if !v.IsActive() {
			return v, status.Errorf(codes.FailedPrecondition,
				"logical volume %s on node %s was activated but is inactive: see activation/volume_list in lvm.conf, "+
					"and run on the node: lvchange --activate y %s", id, f.Node, v.LV.Path)
		}
	}
	number, err := f.Devices.Number(v.LV.Path)
	if err != nil {
		return v, status.Errorf(codes.Internal, "read the device of volume %s on node %s: %v", id, f.Node, err)
	}
	if want := v.lvNumber(); number != want {
		return v, status.Errorf(codes.Internal,
			"%s on node %s leads to device %s, but volume %s is device %s: run on the node: udevadm trigger",
			v.LV.Path, f.Node, number, id, want)
	}
	return v, nil
}

// MappingOf returns the mapped device of an encrypted volume. It has no path if the volume is not open.
func (f *Finder) MappingOf(ctx context.Context, v Volume) (Mapping, error) {
	name := MappingName(v.ID)
	found, err := f.Mappings.Mapping(ctx, name)
	if err != nil {
		return Mapping{}, status.Errorf(codes.Internal, "check whether encrypted volume %s is open on node %s: %v",
			v.ID, f.Node, err)
	}
	if found.Path == "" {
		return Mapping{}, nil
	}
	if lv := v.lvNumber(); found.Below != lv.String() {
		return Mapping{}, status.Errorf(codes.Internal, "mapped device %s on node %s decrypts device %s, but "+
			"volume %s is device %s: if nothing uses the mapped device, run on the node: dmsetup remove %s", name,
			f.Node, found.Below, v.ID, lv, name)
	}
	m := Mapping{Path: found.Path}
	if _, err := fmt.Sscanf(found.Number, "%d:%d", &m.Number.Major, &m.Number.Minor); err != nil {
		return Mapping{}, status.Errorf(codes.Internal, "mapped device %s on node %s has the number %q: %v", name,
			f.Node, found.Number, err)
	}
	return m, nil
}

// MarkUsed removes the tags that mark a volume as unused: from now on it may contain user data.
func (f *Finder) MarkUsed(ctx context.Context, v Volume) error {
	old := v.UnusedTags()
	if len(old) == 0 {
		return nil
	}
	if err := f.LVM.TagLV(ctx, v.Class, v.ID, nil, old); err != nil {
		return fmt.Errorf("tag volume %s on node %s as used: %w", v.ID, f.Node, err)
	}
	return nil
}
