// Package encryption creates, opens, expands and closes the LUKS2 containers of encrypted volumes, and replaces their
// keys.
package encryption

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/luks"
)

// contentLUKS is libblkid's name of a LUKS container.
const contentLUKS = "crypto_LUKS"

// Containers are the LUKS2 containers of this node. *luks.Containers implements it.
type Containers interface {
	Mapping(ctx context.Context, name string) (luks.Mapping, error)
	Format(ctx context.Context, device string, key []byte) error
	Open(ctx context.Context, device, name string, key []byte, discards bool) error
	Resize(ctx context.Context, name string) error
	Close(ctx context.Context, name string) error
}

// Keyslots are the key slots of LUKS2 containers. *luks.Containers implements it.
type Keyslots interface {
	Slots(ctx context.Context, device string) (int, error)
	Fits(ctx context.Context, device string, key []byte) (bool, error)
	AddKey(ctx context.Context, device string, present, added []byte) error
	RemoveKey(ctx context.Context, device string, key []byte) error
}

// Devices reads the content of devices. mounter.Mounter implements it.
type Devices interface {
	// Probe reads a device and returns its content. After an error the content is unknown.
	Probe(ctx context.Context, path string) (mounter.Content, error)
}

// Encryption opens and closes the encrypted volumes of a node.
type Encryption struct {
	Node       string
	Volumes    *volume.Finder
	Locks      *service.Locks
	Devices    Devices
	Containers Containers
	Keyslots   Keyslots
	Keys       Keys
}

// header is what an encrypted volume has instead of a file system.
type header struct {
	mounter.Content
	// slots is the number of key slots of a LUKS header.
	slots int
}

// decideHeader returns whether an encrypted volume gets a LUKS header. It implements the rule that protects data: only
// a volume that was read, that nobody has used and that has no key slot gets one.
func decideHeader(v volume.Volume, found header, readOnly bool) (format bool, err error) {
	unused := len(v.UnusedTags()) > 0
	switch {
	case found.Kind == contentLUKS && found.slots > 0:
		return false, nil
	case found.Kind != "" && found.Kind != contentLUKS:
		return false, status.Errorf(codes.FailedPrecondition, "the PersistentVolume of volume %s has %s, but %s "+
			"contains %s, which is not encrypted: nothing is formatted; copy its data to a new volume with a Pod, "+
			"with a PersistentVolume that does not have it", v.ID, wellknown.EncryptionParameter, v.LV.Path, found.Kind)
	case !unused && found.Kind == contentLUKS:
		return false, status.Errorf(codes.DataLoss, "volume %s is encrypted, but the LUKS header of %s has no key "+
			"slots: nothing is formatted; restore the header from a backup (cryptsetup luksHeaderRestore), or the "+
			"volume from a snapshot or a backup", v.ID, v.LV.Path)
	case !unused:
		return false, status.Errorf(codes.DataLoss, "volume %s is encrypted, but %s has no LUKS header, and may have "+
			"been used: nothing is formatted; check its disks, and restore it from a snapshot or a backup; if it is "+
			"a copy of a volume that no Pod had used, delete its claim", v.ID, v.LV.Path)
	case readOnly:
		return false, status.Errorf(codes.FailedPrecondition, "encrypted volume %s has no LUKS header yet, and is "+
			"requested read-only: use it read-write first", v.ID)
	}
	return true, nil
}

// Open opens a volume if it is encrypted, and creates its LUKS header if nobody has used the volume. A volume that is
// open needs no key: it gets the size of its logical volume.
func (e *Encryption) Open(ctx context.Context, v *volume.Volume, request *csi.NodeStageVolumeRequest) error {
	want, err := v.Encryption(request.GetVolumeContext())
	if err != nil || want.Method == "" {
		return err
	}
	if v.Mapping.Path != "" {
		return e.Resize(ctx, *v)
	}
	found, err := e.headerOf(ctx, *v)
	if err != nil {
		return err
	}
	format, err := decideHeader(*v, found, volume.ReadsOnly(request.GetVolumeCapability()))
	if err != nil {
		return err
	}
	keys, err := e.keysOf(ctx, *v, request.GetSecrets())
	if err != nil {
		return err
	}
	if err := e.markEncrypted(ctx, v, want.Method); err != nil {
		return err
	}
	if format {
		err = e.formatContainer(ctx, v, keys)
	}
	if err == nil {
		err = e.openContainer(ctx, *v, keys, want.Discards)
	}
	if err != nil {
		return err
	}
	if v.Mapping, err = e.Volumes.MappingOf(ctx, *v); err == nil && v.Mapping.Path == "" {
		err = status.Errorf(codes.Internal, "volume %s was opened on node %s, but mapped device %s does not exist",
			v.ID, e.Node, volume.MappingName(v.ID))
	}
	return err
}

// headerOf reads the header of an encrypted volume. After an error it is unknown whether the volume is blank.
func (e *Encryption) headerOf(ctx context.Context, v volume.Volume) (header, error) {
	path := v.LV.Path
	found, err := e.Devices.Probe(ctx, path)
	h := header{Content: found}
	if err == nil && found.Kind == contentLUKS {
		h.slots, err = e.Keyslots.Slots(ctx, path)
	}
	if err != nil {
		return header{}, status.Errorf(codes.Internal, "encrypted volume %s (%s) on node %s cannot be read: %v", v.ID,
			path, e.Node, err)
	}
	return h, nil
}

// markEncrypted tags a logical volume as encrypted. Its agent did so when it created the volume, unless that was an
// agent of an older version.
func (e *Encryption) markEncrypted(ctx context.Context, v *volume.Volume, method string) error {
	if v.IsEncrypted() {
		return nil
	}
	tag := wellknown.EncryptionTagPrefix + method
	if err := e.Volumes.LVM.TagLV(ctx, v.Class, v.ID, []string{tag}, nil); err != nil {
		return fmt.Errorf("tag volume %s on node %s as encrypted: %w", v.ID, e.Node, err)
	}
	v.LV.Tags = append(v.LV.Tags, tag)
	return nil
}

// formatContainer writes a LUKS header. If the agent ends meanwhile, the volume still has the tag of an unused one, and
// no header or one without key slots.
func (e *Encryption) formatContainer(ctx context.Context, v *volume.Volume, keys volumeKeys) error {
	e.Locks.Running(v.ID, "cryptsetup luksFormat "+v.LV.Path)
	defer e.Locks.Running(v.ID, "")
	if err := e.Containers.Format(ctx, v.LV.Path, keys.key); err != nil {
		return status.Errorf(codes.Internal, "write the LUKS header of volume %s (%s) on node %s: %v", v.ID,
			v.LV.Path, e.Node, err)
	}
	v.IsNewContainer = true
	return nil
}

// openContainer opens a container with its key. It replaces the previous key first, because a volume that is open is
// not opened again.
func (e *Encryption) openContainer(ctx context.Context, v volume.Volume, keys volumeKeys, discards bool) error {
	path := v.LV.Path
	var err error
	if keys.previous != nil {
		err = keys.replacePrevious(ctx, e.Keyslots, v)
	}
	if err == nil {
		err = e.Containers.Open(ctx, path, volume.MappingName(v.ID), keys.key, discards)
	}
	if errors.Is(err, luks.ErrWrongKey) {
		return status.Errorf(codes.FailedPrecondition, "encrypted volume %s (%s) on node %s cannot be opened: %s of "+
			"the Secret that its PersistentVolume names (nodeStageSecretRef): restore the key in the Secret; without "+
			"its key, the data of the volume is lost; nothing is formatted", v.ID, path, e.Node, keys.refused())
	}
	if err != nil {
		return status.Errorf(codes.Internal, "open encrypted volume %s (%s) on node %s: %v", v.ID, path, e.Node, err)
	}
	return nil
}

// Resize gives the mapped device of an open encrypted volume the size of its logical volume. Other volumes have none.
func (e *Encryption) Resize(ctx context.Context, v volume.Volume) error {
	if v.Mapping.Path == "" {
		return nil
	}
	if err := e.Containers.Resize(ctx, volume.MappingName(v.ID)); err != nil {
		return status.Errorf(codes.Internal, "expand mapped device %s of encrypted volume %s on node %s: %v",
			v.Mapping.Path, v.ID, e.Node, err)
	}
	return nil
}

// Close closes a volume if it is encrypted and open. It needs neither the LogicalVolume nor the logical volume.
func (e *Encryption) Close(ctx context.Context, id string) error {
	name := volume.MappingName(id)
	found, err := e.Containers.Mapping(ctx, name)
	if err == nil && found != (luks.Mapping{}) {
		err = e.Containers.Close(ctx, name)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "close encrypted volume %s (mapped device %s) on node %s: %v", id, name,
			e.Node, err)
	}
	return nil
}
