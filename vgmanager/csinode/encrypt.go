package csinode

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/luks"
)

// contentLUKS is libblkid's name of a LUKS container.
const contentLUKS = "crypto_LUKS"

// containers are the operations on LUKS2 containers. *luks.Containers implements it. Tests replace it.
type containers interface {
	Mapping(ctx context.Context, name string) (luks.Mapping, error)
	Slots(ctx context.Context, device string) (int, error)
	Format(ctx context.Context, device string, key []byte) error
	Open(ctx context.Context, device, name string, key []byte, discards bool) error
	Fits(ctx context.Context, device string, key []byte) (bool, error)
	AddKey(ctx context.Context, device string, present, added []byte) error
	RemoveKey(ctx context.Context, device string, key []byte) error
	Resize(ctx context.Context, name string) error
	Close(ctx context.Context, name string) error
}

// mappedDevice is the mapped device of an open encrypted volume, with the decrypted data.
type mappedDevice struct {
	path   string
	number deviceNumber
}

func mappingName(id string) string { return v1alpha1.MappingPrefix + id }

// isEncrypted reports whether a logical volume is marked as encrypted.
func (v volume) isEncrypted() bool {
	_, marked := v.tagged(v1alpha1.EncryptionTagPrefix)
	return marked
}

// path returns the path of the device with the data of a volume.
func (v volume) path() string {
	if v.mapping.path != "" {
		return v.mapping.path
	}
	return v.lv.GetPath()
}

// mappingOf returns the mapped device of an encrypted volume. It has no path if the volume is not open.
func (s *NodeServer) mappingOf(ctx context.Context, v volume) (mappedDevice, error) {
	name := mappingName(v.id)
	found, err := s.containers.Mapping(ctx, name)
	if err != nil {
		return mappedDevice{}, status.Errorf(codes.Internal, "check whether encrypted volume %s is open on node %s: %v",
			v.id, s.Node, err)
	}
	if found.Path == "" {
		return mappedDevice{}, nil
	}
	if lv := (deviceNumber{v.lv.GetDevMajor(), v.lv.GetDevMinor()}); found.Below != lv.String() {
		return mappedDevice{}, status.Errorf(codes.Internal, "mapped device %s on node %s decrypts device %s, but "+
			"volume %s is device %s: if nothing uses the mapped device, run on the node: dmsetup remove %s", name,
			s.Node, found.Below, v.id, lv, name)
	}
	m := mappedDevice{path: found.Path}
	if _, err := fmt.Sscanf(found.Number, "%d:%d", &m.number.major, &m.number.minor); err != nil {
		return mappedDevice{}, status.Errorf(codes.Internal, "mapped device %s on node %s has the number %q: %v", name,
			s.Node, found.Number, err)
	}
	return m, nil
}

// encryptionOf returns how a volume is encrypted. The context of a PersistentVolume can be lost, for example if the
// PersistentVolume is restored by hand: then the mark of the logical volume counts.
func encryptionOf(v volume, volumeContext map[string]string) (service.Encryption, error) {
	e, err := service.EncryptionOf(volumeContext)
	if err != nil {
		return e, err
	}
	method, marked := v.tagged(v1alpha1.EncryptionTagPrefix)
	if marked && method != v1alpha1.EncryptionLUKS2 {
		return e, status.Errorf(codes.FailedPrecondition, "volume %s is encrypted with %q, which this version does "+
			"not support: update LVM Storage", v.id, method)
	}
	if marked {
		e.Method = method
	}
	return e, nil
}

// requireOpen returns an error if a volume is encrypted and not open. Its logical volume must not be used instead. It
// cannot be opened either, because only NodeStageVolume has the key: after a restart of the node, the kubelet publishes
// a volume without staging it if an earlier Pod that used it has not ended.
func (s *NodeServer) requireOpen(v volume, volumeContext map[string]string) error {
	e, err := encryptionOf(v, volumeContext)
	if err != nil || e.Method == "" || v.mapping.path != "" {
		return err
	}
	return status.Errorf(codes.FailedPrecondition, "encrypted volume %s (%s) is not open on node %s, for example "+
		"after a restart of the node, and the kubelet passes its key only when it stages the volume: delete the Pods "+
		"that use it on this node; their data stays, and the kubelet stages the volume for the next Pod", v.id,
		v.lv.GetPath(), s.Node)
}

// header is what an encrypted volume has instead of a file system.
type header struct {
	content
	// slots is the number of key slots of a LUKS header.
	slots int
}

// decideHeader returns whether an encrypted volume gets a LUKS header. It implements the rule that protects data: only
// a volume that was read, that nobody has used and that has no key slot gets one.
func decideHeader(v volume, found header, readOnly bool) (format bool, err error) {
	unused := len(v.unusedTags()) > 0
	switch {
	case found.kind == contentLUKS && found.slots > 0:
		return false, nil
	case found.kind != "" && found.kind != contentLUKS:
		return false, status.Errorf(codes.FailedPrecondition, "the PersistentVolume of volume %s has %s, but %s "+
			"contains %s, which is not encrypted: nothing is formatted; copy its data to a new volume with a Pod, "+
			"with a PersistentVolume that does not have it", v.id, v1alpha1.EncryptionParameter, v.lv.GetPath(),
			found.kind)
	case !unused && found.kind == contentLUKS:
		return false, status.Errorf(codes.DataLoss, "volume %s is encrypted, but the LUKS header of %s has no key "+
			"slots: nothing is formatted; restore the header from a backup (cryptsetup luksHeaderRestore), or the "+
			"volume from a snapshot or a backup", v.id, v.lv.GetPath())
	case !unused:
		return false, status.Errorf(codes.DataLoss, "volume %s is encrypted, but %s has no LUKS header, and may have "+
			"been used: nothing is formatted; check its disks, and restore it from a snapshot or a backup; if it is "+
			"a copy of a volume that no Pod had used, delete its claim", v.id, v.lv.GetPath())
	case readOnly:
		return false, status.Errorf(codes.FailedPrecondition, "encrypted volume %s has no LUKS header yet, and is "+
			"requested read-only: use it read-write first", v.id)
	}
	return true, nil
}

// stageBlock opens an encrypted block volume.
func (s *NodeServer) stageBlock(ctx context.Context, v volume, _ string, request *csi.NodeStageVolumeRequest) error {
	return s.openVolume(ctx, &v, request)
}

// openVolume opens a volume if it is encrypted, and creates its LUKS header if nobody has used the volume. A volume
// that is open needs no key: it gets the size of its logical volume.
func (s *NodeServer) openVolume(ctx context.Context, v *volume, request *csi.NodeStageVolumeRequest) error {
	e, err := encryptionOf(*v, request.GetVolumeContext())
	if err != nil || e.Method == "" {
		return err
	}
	if v.mapping.path != "" {
		return s.resizeVolume(ctx, *v)
	}
	found, err := s.headerOf(ctx, *v)
	if err != nil {
		return err
	}
	format, err := decideHeader(*v, found, readsOnly(request.GetVolumeCapability()))
	if err != nil {
		return err
	}
	keys, err := s.keysOf(ctx, *v, request.GetSecrets())
	if err != nil {
		return err
	}
	if err := s.markEncrypted(ctx, v, e.Method); err != nil {
		return err
	}
	if format {
		err = s.formatContainer(ctx, v, keys)
	}
	if err == nil {
		err = s.openContainer(ctx, *v, keys, e.Discards)
	}
	if err != nil {
		return err
	}
	if v.mapping, err = s.mappingOf(ctx, *v); err == nil && v.mapping.path == "" {
		err = status.Errorf(codes.Internal, "volume %s was opened on node %s, but mapped device %s does not exist",
			v.id, s.Node, mappingName(v.id))
	}
	return err
}

// headerOf reads the header of an encrypted volume. After an error it is unknown whether the volume is blank.
func (s *NodeServer) headerOf(ctx context.Context, v volume) (header, error) {
	path := v.lv.GetPath()
	found, err := s.disks.probe(ctx, path)
	h := header{content: found}
	if err == nil && found.kind == contentLUKS {
		h.slots, err = s.containers.Slots(ctx, path)
	}
	if err != nil {
		return header{}, status.Errorf(codes.Internal, "encrypted volume %s (%s) on node %s cannot be read: %v", v.id,
			path, s.Node, err)
	}
	return h, nil
}

// markEncrypted tags a logical volume as encrypted. Its agent did so when it created the volume, unless that was an
// agent of an older version.
func (s *NodeServer) markEncrypted(ctx context.Context, v *volume, method string) error {
	if v.isEncrypted() {
		return nil
	}
	tag := v1alpha1.EncryptionTagPrefix + method
	if err := s.Volumes.TagLV(ctx, v.class, v.id, []string{tag}, nil); err != nil {
		return fmt.Errorf("tag volume %s on node %s as encrypted: %w", v.id, s.Node, err)
	}
	v.lv.Tags = append(v.lv.Tags, tag)
	return nil
}

// formatContainer writes a LUKS header. If the agent ends meanwhile, the volume still has the tag of an unused one, and
// no header or one without key slots.
func (s *NodeServer) formatContainer(ctx context.Context, v *volume, keys volumeKeys) error {
	s.locks.Running(v.id, "cryptsetup luksFormat "+v.lv.GetPath())
	defer s.locks.Running(v.id, "")
	if err := s.containers.Format(ctx, v.lv.GetPath(), keys.key); err != nil {
		return status.Errorf(codes.Internal, "write the LUKS header of volume %s (%s) on node %s: %v", v.id,
			v.lv.GetPath(), s.Node, err)
	}
	v.isNewContainer = true
	return nil
}

// openContainer opens a container with its key. It replaces the previous key first, because a volume that is open is
// not opened again.
func (s *NodeServer) openContainer(ctx context.Context, v volume, keys volumeKeys, discards bool) error {
	path := v.lv.GetPath()
	var err error
	if keys.previous != nil {
		err = s.replacePrevious(ctx, v, keys)
	}
	if err == nil {
		err = s.containers.Open(ctx, path, mappingName(v.id), keys.key, discards)
	}
	if errors.Is(err, luks.ErrWrongKey) {
		return status.Errorf(codes.FailedPrecondition, "encrypted volume %s (%s) on node %s cannot be opened: %s of "+
			"the Secret that its PersistentVolume names (nodeStageSecretRef): restore the key in the Secret; without "+
			"its key, the data of the volume is lost; nothing is formatted", v.id, path, s.Node, keys.refused())
	}
	if err != nil {
		return status.Errorf(codes.Internal, "open encrypted volume %s (%s) on node %s: %v", v.id, path, s.Node, err)
	}
	return nil
}

// replacePrevious replaces the previous key of a container by the present one. It adds the present key first, and
// removes the previous one last: if the agent ends in between, both open the container, and the next call removes the
// previous one. It returns luks.ErrWrongKey if neither opens it. If only the removal fails, this is only logged,
// because a user waits for the data.
func (s *NodeServer) replacePrevious(ctx context.Context, v volume, keys volumeKeys) error {
	path := v.lv.GetPath()
	fits, err := s.containers.Fits(ctx, path, keys.key)
	if err == nil && !fits {
		fits, err = s.addKey(ctx, path, keys)
	}
	if err != nil {
		return fmt.Errorf("replace its previous key: %w", err)
	}
	if !fits {
		return luks.ErrWrongKey
	}
	logger := log.FromContext(ctx).WithValues("volume", v.id, "device", path)
	switch removed, err := s.removePrevious(ctx, path, keys); {
	case err != nil:
		logger.Info("cannot remove the previous key of an encrypted volume", "cause", err.Error())
	case removed:
		logger.Info("removed the previous key of an encrypted volume")
	}
	return nil
}

// removePrevious removes the key slot of the previous key, and returns whether there was one. It never removes the only
// key slot: two keys that differ only by zero bytes at the end are the same for PBKDF2, because HMAC pads a key with
// zeros (RFC 2104, section 2).
func (s *NodeServer) removePrevious(ctx context.Context, path string, keys volumeKeys) (bool, error) {
	slots, err := s.containers.Slots(ctx, path)
	if err != nil || slots < 2 {
		return false, err
	}
	err = s.containers.RemoveKey(ctx, path, keys.previous)
	if errors.Is(err, luks.ErrWrongKey) {
		return false, nil // It was removed before.
	}
	return err == nil, err
}

// addKey adds the present key to a container if the previous key opens it, and returns whether the present key then
// opens it.
func (s *NodeServer) addKey(ctx context.Context, path string, keys volumeKeys) (bool, error) {
	fits, err := s.containers.Fits(ctx, path, keys.previous)
	if err != nil || !fits {
		return false, err
	}
	if err := s.containers.AddKey(ctx, path, keys.previous, keys.key); err != nil {
		return false, err
	}
	return s.containers.Fits(ctx, path, keys.key)
}

// resizeVolume gives the mapped device of an open encrypted volume the size of its logical volume. Other volumes have
// none.
func (s *NodeServer) resizeVolume(ctx context.Context, v volume) error {
	if v.mapping.path == "" {
		return nil
	}
	if err := s.containers.Resize(ctx, mappingName(v.id)); err != nil {
		return status.Errorf(codes.Internal, "expand mapped device %s of encrypted volume %s on node %s: %v",
			v.mapping.path, v.id, s.Node, err)
	}
	return nil
}

// closeVolume closes a volume if it is encrypted and open. It needs neither the LogicalVolume nor the logical volume.
func (s *NodeServer) closeVolume(ctx context.Context, id string) error {
	name := mappingName(id)
	found, err := s.containers.Mapping(ctx, name)
	if err == nil && found != (luks.Mapping{}) {
		err = s.containers.Close(ctx, name)
	}
	if err != nil {
		return status.Errorf(codes.Internal, "close encrypted volume %s (mapped device %s) on node %s: %v", id, name,
			s.Node, err)
	}
	return nil
}
