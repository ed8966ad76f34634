package csinode

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
)

// suspensionTimeout limits the read that says whether a volume is suspended.
const suspensionTimeout = 10 * time.Second

// refuseNewTarget returns an error if a volume is suspended and not published at a target yet. A repeated call for a
// Pod that runs succeeds, for example after a restart of the kubelet.
func (s *NodeServer) refuseNewTarget(ctx context.Context, id, target string) error {
	published, err := s.system.IsMountPoint(target)
	if err != nil {
		return status.Errorf(codes.Internal, "check mount point %s of volume %s: %v", target, id, err)
	}
	if published {
		return nil
	}
	return s.refuseSuspended(ctx, id)
}

// stageUnlessSuspended stages a volume, unless it is suspended and not mounted yet.
func (s *NodeServer) stageUnlessSuspended(ctx context.Context, v volume.Volume, staging string,
	request *csi.NodeStageVolumeRequest) error {
	mounted, err := s.system.IsMountPoint(staging)
	if err != nil {
		return status.Errorf(codes.Internal, "check the mount of volume %s: %v", v.ID, err)
	}
	if !mounted {
		if err := s.refuseSuspended(ctx, v.ID); err != nil {
			return err
		}
	}
	return s.stager.stage(ctx, v, staging, request)
}

// refuseSuspended returns FailedPrecondition if a volume or a device that holds its data is suspended. It reads the
// LogicalVolume from the API server: with the cache, a Pod could get a volume that was suspended before the Pod was
// created. If it is unknown whether the volume is suspended, it returns an error too. The kubelet retries.
func (s *NodeServer) refuseSuspended(ctx context.Context, id string) error {
	cached, err := s.volumes.Object(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, suspensionTimeout)
	defer cancel()
	lv := &topolvmv1.LogicalVolume{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(cached), lv); err != nil {
		code := codes.Unavailable
		if apierrors.IsNotFound(err) {
			code = codes.NotFound
		}
		return status.Errorf(code, "volume %s on node %s is not published, because LogicalVolume %s, which says "+
			"whether it is suspended, cannot be read: %v", id, s.Node, cached.Name, err)
	}
	if who, suspended := view.Suspended(lv); suspended {
		return status.Error(codes.FailedPrecondition, suspendedText(lv, s.Node, who))
	}
	devices, err := s.Volumes.SuspendedDevices(ctx, lv.Spec.DeviceClass, id)
	if err != nil {
		return fmt.Errorf("find the suspended devices of volume %s on node %s: %w", id, s.Node, err)
	}
	if len(devices) == 0 {
		return nil
	}
	return status.Errorf(codes.FailedPrecondition, "%s on node %s is not published to new Pods, because it has data "+
		"on the suspended device %s of device class %s: to resume the device: kubectl lvms resume device %s %s",
		nameOf(lv), s.Node, strings.Join(devices, ", "), lv.Spec.DeviceClass, s.Node, devices[0])
}

// suspendedText says that a volume is suspended, and how to resume it.
func suspendedText(lv *topolvmv1.LogicalVolume, node, who string) string {
	if who != "" {
		who = " (" + who + ")"
	}
	resume := "kubectl annotate logicalvolumes.topolvm.io " + lv.Name + " " + wellknown.SuspendedAnnotation + "-"
	if claim, known := view.ClaimKey(lv); known {
		resume = "kubectl lvms resume volume -n " + claim.Namespace + " " + claim.Name
	}
	return fmt.Sprintf("%s on node %s is not published to new Pods, because it is suspended%s: to resume it: %s",
		nameOf(lv), node, who, resume)
}

// nameOf names a volume by its claim, or by its LogicalVolume if the claim is not known.
func nameOf(lv *topolvmv1.LogicalVolume) string {
	if claim := view.Claim(lv); claim != "" {
		return "the volume of claim " + claim
	}
	return "the volume of LogicalVolume " + lv.Name
}
