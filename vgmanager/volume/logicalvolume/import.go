package logicalvolume

import (
	"context"
	"maps"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/identity"
)

// importer gives objects logical volumes that exist already.
type importer struct{ *objects }

// Events about imports.
var (
	// importFailed is a Warning event on the LogicalVolume: the node cannot use the existing logical volume that the
	// object was created for. Nothing is created in its place.
	// What to do: see the error in the note; the agent tries again.
	importFailed = event.Warning("ImportFailed", "Import", "node %s cannot use the existing logical volume %s: %s")
)

// take makes an existing logical volume the volume of an object that was created or restored for it. It creates
// nothing. The tags on the disk are written before the status, so that a process that is killed in between can
// continue.
func (p *importer) take(ctx context.Context, lv *topolvmv1.LogicalVolume, volume string) (ctrl.Result, error) {
	size, err := p.takeVolume(ctx, lv, volume)
	if err != nil {
		p.events.Emit(lv, importFailed, p.Node, volume, message(err))
		return p.fail(ctx, lv, err)
	}
	p.events.Clear(lv, importFailed.Reason, createFailed.Reason)
	log.FromContext(ctx).Info("imported a logical volume", "deviceClass", lv.Spec.DeviceClass, "lv", volume, "claim",
		view.Claim(lv))
	return ctrl.Result{}, p.write(ctx, lv, func(s *topolvmv1.LogicalVolumeStatus) {
		s.VolumeID = volume
		s.CurrentSize = resource.NewQuantity(size, resource.BinarySI)
		s.Code = codes.OK
		s.Message = ""
	})
}

// takeVolume replaces the tags of the logical volume, and returns its size. Its errors are not final: the agent tries
// again, for example when the disks of the volume are attached.
func (p *importer) takeVolume(ctx context.Context, lv *topolvmv1.LogicalVolume, volume string) (int64, error) {
	if err := p.untaken(ctx, lv, volume); err != nil {
		return 0, err
	}
	found, err := p.Volumes.FindLV(ctx, lv.Spec.DeviceClass, volume)
	if status.Code(err) == codes.NotFound {
		return 0, status.Errorf(codes.Unavailable, "device class %s on node %s has no logical volume %s: nothing is "+
			"created in its place", lv.Spec.DeviceClass, p.Node, volume)
	}
	if err != nil {
		return 0, status.Errorf(codes.Unavailable, "%s", message(err))
	}
	if erased := erasedBytes(found.Tags); erased != "" {
		return 0, status.Errorf(codes.Unavailable, "the removal of logical volume %s on node %s began: at least its "+
			"first %s bytes are erased, so it is not used: restore its data from a backup into a new volume", volume,
			p.Node, erased)
	}
	if lvtag.IsCopying(found.Tags) {
		return 0, status.Errorf(codes.Unavailable, "logical volume %s on node %s does not have all data of the volume "+
			"or snapshot that was copied to it, so it is not used: delete it, and restore its source again", volume,
			p.Node)
	}
	add, remove := identity.ChangedTags(found.Tags, p.ownTags(lv))
	if len(add)+len(remove) > 0 {
		if err := p.Volumes.TagLV(ctx, lv.Spec.DeviceClass, volume, add, remove); err != nil {
			return 0, status.Errorf(codes.Unavailable, "tag logical volume %s: %s", volume, message(err))
		}
	}
	return int64(found.Size), p.recordTags(ctx, lv, found.Tags)
}

// recordTags records in the object what the tags of an existing logical volume say: how it is encrypted, for copies of
// it, and how it is kept apart from others.
func (p *importer) recordTags(ctx context.Context, lv *topolvmv1.LogicalVolume, tags []string) error {
	before := lv.DeepCopy()
	setEncryption(lv, tags)
	setSpread(lv, tags)
	if maps.Equal(before.Annotations, lv.Annotations) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := p.Client.Patch(ctx, lv, patch); err != nil {
		return status.Errorf(codes.Unavailable, "set the annotations of LogicalVolume %s: %v", lv.Name, err)
	}
	return nil
}

// setEncryption sets the annotation of an object to how its existing logical volume is encrypted, if it is.
func setEncryption(lv *topolvmv1.LogicalVolume, tags []string) {
	at := slices.IndexFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, wellknown.EncryptionTagPrefix) })
	if at >= 0 {
		view.SetEncryption(lv, strings.TrimPrefix(tags[at], wellknown.EncryptionTagPrefix))
	}
}

// untaken returns an error if another object of this node has the logical volume. Two objects with one volume would
// delete each other's data.
func (p *importer) untaken(ctx context.Context, lv *topolvmv1.LogicalVolume, volume string) error {
	list := &topolvmv1.LogicalVolumeList{}
	if err := p.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return status.Errorf(codes.Unavailable, "list LogicalVolumes: %v", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if other.UID == lv.UID || other.Spec.NodeName != p.Node {
			continue
		}
		imported := view.Import(other) == volume && other.CreationTimestamp.Before(&lv.CreationTimestamp)
		if identity.Name(other) == volume || imported {
			return status.Errorf(
				codes.Unavailable, "logical volume %s belongs to LogicalVolume %s: delete this object "+
					"(%s), which deletes no data", volume, other.Name, lv.Name)
		}
	}
	return nil
}
