//go:build lab

package sanity

import (
	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/kubernetes-csi/csi-test/v5/utils"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refusesSnapshots replaces the specs in notForThick: snapshots and clones of a thick volume are refused with the
// correct code, and leave nothing.
func refusesSnapshots(config *sanity.TestConfig) {
	ginkgo.It("should answer Unimplemented to a snapshot and a clone", func(ctx ginkgo.SpecContext) {
		connection, err := utils.Connect(config.ControllerAddress, config.ControllerDialOptions...)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		ginkgo.DeferCleanup(connection.Close)
		controller := csi.NewControllerClient(connection)
		volume, err := controller.CreateVolume(ctx, volumeRequest(config, "thick-source", nil))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		id := volume.GetVolume().GetVolumeId()
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error {
			_, err := controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			return err
		})

		_, err = controller.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{SourceVolumeId: id, Name: "thick-snapshot"})
		gomega.Expect(status.Code(err)).To(gomega.Equal(codes.Unimplemented), "a snapshot: %v", err)
		_, err = controller.CreateVolume(ctx, volumeRequest(config, "thick-clone", cloneOf(id)))
		gomega.Expect(status.Code(err)).To(gomega.Equal(codes.Unimplemented), "a clone: %v", err)
	})
}

// volumeRequest requests a volume with a file system, from a source or empty.
func volumeRequest(config *sanity.TestConfig, name string, source *csi.VolumeContentSource) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name:          name,
		CapacityRange: &csi.CapacityRange{RequiredBytes: config.TestVolumeSize},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
		Parameters:          config.TestVolumeParameters,
		VolumeContentSource: source,
	}
}

func cloneOf(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
	}}
}
