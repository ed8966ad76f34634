// Package volume finds the volumes of this node: the logical volume, its LogicalVolume object, and what its tags and
// the records of the node say about its content.
package volume

import (
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Volume is a logical volume and its LogicalVolume object.
type Volume struct {
	ID, Class string
	LV        *lvm.LV
	// Mapping is the mapped device of an encrypted volume that is open.
	Mapping Mapping
	// IsNewContainer: this call wrote the LUKS header, so the decrypted data is random.
	IsNewContainer bool
	// Recorded: a file on the node records that the formatting of the volume has begun.
	Recorded bool
}

// Mapping is the mapped device of an open encrypted volume, with the decrypted data.
type Mapping struct {
	Path   string
	Number mounter.Number
}

// MappingName returns the name of the mapped device of an encrypted volume.
func MappingName(id string) string { return wellknown.MappingPrefix + id }

// Tagged returns the rest of the tag with a prefix, and whether there is one.
func (v Volume) Tagged(prefix string) (string, bool) {
	for _, tag := range v.LV.Tags {
		if value, ok := strings.CutPrefix(tag, prefix); ok {
			return value, true
		}
	}
	return "", false
}

// UnusedTags returns the tags that mark a volume as unused.
func (v Volume) UnusedTags() []string {
	var tags []string
	for _, tag := range v.LV.Tags {
		if tag == wellknown.NewTag || strings.HasPrefix(tag, wellknown.FormattingTagPrefix) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// IsNew reports whether a volume has the tag of a new one.
func (v Volume) IsNew() bool { return slices.Contains(v.LV.Tags, wellknown.NewTag) }

// IsEncrypted reports whether a logical volume is marked as encrypted.
func (v Volume) IsEncrypted() bool {
	_, marked := v.Tagged(wellknown.EncryptionTagPrefix)
	return marked
}

// Encryption returns how a volume is encrypted. The context of a PersistentVolume can be lost, for example if the
// PersistentVolume is restored by hand: then the mark of the logical volume counts.
func (v Volume) Encryption(volumeContext map[string]string) (service.Encryption, error) {
	e, err := service.EncryptionOf(volumeContext)
	if err != nil {
		return e, err
	}
	method, marked := v.Tagged(wellknown.EncryptionTagPrefix)
	if marked && method != wellknown.EncryptionLUKS2 {
		return e, status.Errorf(codes.FailedPrecondition, "volume %s is encrypted with %q, which this version does "+
			"not support: update LVM Storage", v.ID, method)
	}
	if marked {
		e.Method = method
	}
	return e, nil
}

// RequireOpen returns an error if a volume is encrypted and not open. Its logical volume must not be used instead. It
// cannot be opened either, because only NodeStageVolume has the key: after a restart of the node, the kubelet publishes
// a volume without staging it if an earlier Pod that used it has not ended.
func (v Volume) RequireOpen(node string, volumeContext map[string]string) error {
	e, err := v.Encryption(volumeContext)
	if err != nil || e.Method == "" || v.Mapping.Path != "" {
		return err
	}
	return status.Errorf(codes.FailedPrecondition, "encrypted volume %s (%s) is not open on node %s, for example "+
		"after a restart of the node, and the kubelet passes its key only when it stages the volume: delete the Pods "+
		"that use it on this node; their data stays, and the kubelet stages the volume for the next Pod", v.ID,
		v.LV.Path, node)
}

// ReadsOnly reports whether a volume is requested for reading only.
func ReadsOnly(capability *csi.VolumeCapability) bool {
	return capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
}

// attrState is the index of the fifth character of lv_attr, the state of the device: "a" is active (lvs(8)).
const attrState = 4

// IsActive reports whether the logical volume has a device.
func (v Volume) IsActive() bool {
	return len(v.LV.Attr) > attrState && v.LV.Attr[attrState] == 'a'
}

// Path returns the path of the device with the data of a volume.
func (v Volume) Path() string {
	if v.Mapping.Path != "" {
		return v.Mapping.Path
	}
	return v.LV.Path
}

// Number returns the number of the device with the data of a volume.
func (v Volume) Number() mounter.Number {
	if v.Mapping.Path != "" {
		return v.Mapping.Number
	}
	return v.lvNumber()
}

func (v Volume) lvNumber() mounter.Number {
	return mounter.Number{Major: v.LV.Major, Minor: v.LV.Minor}
}
