package csinode

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// annotate sets annotations of the LogicalVolume. An empty value removes one, and "-" sets an empty one.
func (b *bench) annotate(annotations map[string]string) {
	b.Helper()
	lv := &topolvmv1.LogicalVolume{}
	if err := b.api.Get(b.Context(), client.ObjectKey{Name: "pvc-1"}, lv); err != nil {
		b.Fatal(err)
	}
	if lv.Annotations == nil {
		lv.Annotations = map[string]string{}
	}
	for key, value := range annotations {
		switch value {
		case "":
			delete(lv.Annotations, key)
		case "-":
			lv.Annotations[key] = ""
		default:
			lv.Annotations[key] = value
		}
	}
	if err := b.api.Update(b.Context(), lv); err != nil {
		b.Fatal(err)
	}
}

func TestNewPodsDoNotGetASuspendedVolume(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		devices     []string
		says        []string
	}{
		"with a reason": {map[string]string{wellknown.SuspendedAnnotation: "by admin at 08:15: backup",
			wellknown.ClaimAnnotation: "shop/data"}, nil, []string{"the volume of claim shop/data on node node1",
			"(by admin at 08:15: backup)", "kubectl lvms resume volume -n shop data"}},
		"an empty value, and no claim is known": {map[string]string{wellknown.SuspendedAnnotation: "-"}, nil, []string{
			"LogicalVolume pvc-1 on node node1", "kubectl annotate logicalvolumes.topolvm.io pvc-1 " +
				"lvm.topolvm.io/suspended-"}},
		"a value that reads like a no": {map[string]string{wellknown.SuspendedAnnotation: "false"}, nil,
			[]string{"it is suspended (false)"}},
		"on a suspended device": {map[string]string{wellknown.ClaimAnnotation: "shop/data"},
			[]string{"/dev/sdb", "/dev/sdc"}, []string{"the volume of claim shop/data on node node1", "/dev/sdb, /dev/sdc",
				"device class vg1", "kubectl lvms resume device node1 /dev/sdb"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.annotate(test.annotations)
			b.volumes.suspended = test.devices
			for range 2 {
				b.wantCode(b.stage("ext4", writer), codes.FailedPrecondition, test.says...)
				b.wantDid()
				b.wantCode(b.publish(false, false), codes.FailedPrecondition, test.says...)
				b.wantDid()
				b.wantCode(b.publish(true, false), codes.FailedPrecondition, test.says...)
				b.wantDid()
			}
			if _, err := os.Stat(b.target); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a Pod has a folder or file of the node: %v", err)
			}
			b.annotate(map[string]string{wellknown.SuspendedAnnotation: ""})
			b.volumes.suspended = nil
			b.wantCode(b.stage("ext4", writer), codes.OK)
			b.wantCode(b.publish(false, false), codes.OK)
		})
	}
}

// TestAPodThatRunsKeepsASuspendedVolume repeats the calls of a kubelet that was restarted.
func TestAPodThatRunsKeepsASuspendedVolume(t *testing.T) {
	for _, block := range []bool{false, true} {
		b := newBench(t)
		b.wantCode(b.stage("ext4", writer), codes.OK)
		b.wantCode(b.publish(block, false), codes.OK)
		b.annotate(map[string]string{wellknown.SuspendedAnnotation: "by admin"})
		first := b.target
		for range 2 {
			b.wantCode(b.stage("ext4", writer), codes.OK)
			b.wantCode(b.publish(block, false), codes.OK)
			b.wantDid()
		}
		b.target += "-second"
		b.wantCode(b.publish(block, false), codes.FailedPrecondition, "is suspended (by admin)")
		b.wantDid()
		for range 2 {
			_, err := b.server.NodeUnpublishVolume(t.Context(),
				&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: first})
			b.wantCode(err, codes.OK)
		}
		b.target = first
		b.wantCode(b.publish(block, false), codes.FailedPrecondition, "is suspended (by admin)")
		b.unstage()
		b.wantCode(b.stage("ext4", writer), codes.FailedPrecondition, "is suspended (by admin)")
	}
}

// TestAPodOfTopoLVMKeepsASuspendedVolume checks a volume that TopoLVM mounted for a Pod without staging it.
func TestAPodOfTopoLVMKeepsASuspendedVolume(t *testing.T) {
	b := newBench(t)
	b.host.found = contentOf("ext4")
	b.host.mounts[b.target] = b.host.device
	b.annotate(map[string]string{wellknown.SuspendedAnnotation: "by admin"})
	b.wantCode(b.publish(false, false), codes.OK)
	b.target += "-second"
	b.wantCode(b.publish(false, false), codes.FailedPrecondition, "is suspended (by admin)")
}

// TestASuspensionThatCannotBeReadPublishesNothing has a cache that knows the volume.
func TestASuspensionThatCannotBeReadPublishesNothing(t *testing.T) {
	refuse := func(b *bench, code codes.Code, says string) {
		b.Helper()
		b.wantCode(b.stage("ext4", writer), code, says)
		b.wantDid()
		b.wantCode(b.publish(true, false), code, says)
		b.wantDid()
	}
	b := newBench(t)
	failure := errors.New("connection refused")
	watched, ok := b.api.(client.WithWatch)
	if !ok {
		t.Fatal("the fake client cannot be intercepted")
	}
	b.server.Live = interceptor.NewClient(watched, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption) error {
			if failure != nil {
				return failure
			}
			return c.Get(ctx, key, object, options...)
		}})
	refuse(b, codes.Unavailable, "connection refused")
	failure = nil
	b.volumes.suspendedErr = errors.New("lvm does not answer")
	refuse(b, codes.Unknown, "lvm does not answer")
	b.volumes.suspendedErr = nil
	b.host.errors["isMountPoint"] = errors.New("input/output error")
	refuse(b, codes.Internal, "input/output error")
	b.host.errors["isMountPoint"] = nil
	b.wantCode(b.stage("ext4", writer), codes.OK)
	b.wantCode(b.publish(true, false), codes.OK)
}

// TestTheSuspensionIsReadFromTheAPIServer has a cache that is older than the suspension.
func TestTheSuspensionIsReadFromTheAPIServer(t *testing.T) {
	b := newBench(t)
	b.server.volumes.Client = newBench(t).api
	b.annotate(map[string]string{wellknown.SuspendedAnnotation: "by admin"})
	b.wantCode(b.stage("ext4", writer), codes.FailedPrecondition, "is suspended (by admin)")
	lv := &topolvmv1.LogicalVolume{}
	lv.Name = "pvc-1"
	if err := b.api.Delete(t.Context(), lv); err != nil {
		t.Fatal(err)
	}
	b.wantCode(b.stage("ext4", writer), codes.NotFound, "pvc-1")
}

// TestAVolumeWhoseRemovalBeganIsNotUsed: a part of it is erased.
func TestAVolumeWhoseRemovalBeganIsNotUsed(t *testing.T) {
	b := newBench(t)
	b.volumes.lv.Tags = append(b.volumes.lv.Tags, wellknown.ErasedTagPrefix+"4096")
	for range 2 {
		b.wantCode(b.stage("ext4", writer), codes.DataLoss, "at least its first 4096 bytes are erased")
		b.wantCode(b.publish(true, false), codes.DataLoss, "its removal began")
	}
	b.wantDid()
}
