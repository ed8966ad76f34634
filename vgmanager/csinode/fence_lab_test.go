//go:build lab

package csinode

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// reconcileFence reconciles with the mapped devices of the node.
func (b *fenceBench) reconcileFence() {
	b.Helper()
	_, err := NewFenceReconciler(b.server, b.api, devicemapper.New()).Reconcile(b.Context(),
		ctrl.Request{NamespacedName: client.ObjectKey{Name: "pvc-1"}})
	b.wantCode(err, codes.OK)
}

// awaitFence reconciles until the volume is fenced: udev opens a device for a moment after it was written.
func (b *fenceBench) awaitFence() {
	b.Helper()
	for range 30 {
		if b.reconcileFence(); b.object().Annotations[wellknown.FencedAnnotation] == "m1" {
			return
		}
		time.Sleep(time.Second)
	}
	b.Fatalf("not fenced: %s", b.object().Annotations[wellknown.FenceErrorAnnotation])
}

// TestLabAVolumeIsFencedWhenNothingUsesIt: a mounted volume, a published block volume, and one that a program has open
// are not fenced. A fenced one is not staged or published, and has its data after the fence.
func TestLabAVolumeIsFencedWhenNothingUsesIt(t *testing.T) {
	for name, kind := range map[string]string{"file system": "ext4", "block": ""} {
		t.Run(name, func(t *testing.T) {
			b := &fenceBench{newVolume(t), nil}
			use := func() error {
				if kind != "" {
					if err := b.stage(kind, writer); err != nil {
						return err
					}
				}
				return b.publishAs(kind, b.target)
			}
			end := func() {
				b.Helper()
				b.unpublish(b.target)
				_, err := b.server.NodeUnstageVolume(t.Context(),
					&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging})
				b.wantCode(err, codes.OK)
			}
			b.wantCode(use(), codes.OK)
			b.write(contentAt(kind, b.target), "data of the Pod")
			b.set(wellknown.FenceAnnotation, "m1")
			b.reconcileFence()
			b.see("published", "", "", "is in use: it is mounted at")
			end()
			open, err := os.Open(b.volumes.lv.Path)
			if err != nil {
				t.Fatal(err)
			}
			b.reconcileFence()
			b.see("open", "", "", "is in use: its device")
			if err := open.Close(); err != nil {
				t.Fatal(err)
			}
			b.awaitFence()
			b.see("fenced", "m1", "m1", "")
			b.wantCode(use(), codes.FailedPrecondition, "is being moved to another node")
			if open, err = os.Open(b.volumes.lv.Path); err != nil {
				t.Fatal(err)
			}
			b.reconcileFence()
			b.see("fenced, and read", "m1", "m1", "")
			if err := open.Close(); err != nil {
				t.Fatal(err)
			}
			b.set(wellknown.FenceAnnotation, "")
			b.reconcileFence()
			b.see("ended", "", "", "")
			b.wantCode(use(), codes.OK)
			content, err := os.ReadFile(contentAt(kind, b.target))
			if err != nil || !strings.HasPrefix(string(content), "data of the Pod") {
				t.Errorf("%d bytes, %v", len(content), err)
			}
			end()
		})
	}
}
