//go:build lab

package sanity

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refusesSnapshots replaces the specs of snapshots in notForThick: a snapshot of a thick volume is refused with the
// correct code, and leaves nothing.
func refusesSnapshots(config *sanity.TestConfig) {
	ginkgo.It("should answer Unimplemented to a snapshot", func(ctx ginkgo.SpecContext) {
		controller := csi.NewControllerClient(connect(config))
		volume, err := controller.CreateVolume(ctx, volumeRequest(config, "thick-source"))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		id := volume.GetVolume().GetVolumeId()
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error {
			_, err := controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			return err
		})

		_, err = controller.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{SourceVolumeId: id, Name: "thick-snapshot"})
		gomega.Expect(status.Code(err)).To(gomega.Equal(codes.Unimplemented), "a snapshot: %v", err)
	})
}

// volumeRequest requests an empty volume with a file system.
func volumeRequest(config *sanity.TestConfig, name string) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name:          name,
		CapacityRange: &csi.CapacityRange{RequiredBytes: config.TestVolumeSize},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
		Parameters: config.TestVolumeParameters,
	}
}
