//go:build lab

package sanity

import (
	"context"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/kubernetes-csi/csi-test/v5/utils"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// takesGroupSnapshots adds what the specs of csi-sanity omit, which only send invalid requests: a group snapshot of two
// volumes. Each call is repeated.
func takesGroupSnapshots(config *sanity.TestConfig) {
	ginkgo.It("should take, return and delete a group snapshot", func(ctx ginkgo.SpecContext) {
		connection := connect(config)
		groups := csi.NewGroupControllerClient(connection)
		request := &csi.CreateVolumeGroupSnapshotRequest{Name: "sanity-group",
			SourceVolumeIds: createSources(ctx, connection, config)}
		created, err := groups.CreateVolumeGroupSnapshot(ctx, request)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		group := created.GetGroupSnapshot()
		remove := &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId(),
			SnapshotIds: snapshotIDs(group)}
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error {
			_, err := groups.DeleteVolumeGroupSnapshot(ctx, remove)
			return err
		})
		gomega.Expect(group.GetReadyToUse()).To(gomega.BeTrue(), "%v", group)
		gomega.Expect(sourcesOf(group)).To(gomega.ConsistOf(request.GetSourceVolumeIds()))

		again, err := groups.CreateVolumeGroupSnapshot(ctx, request)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(snapshotIDs(again.GetGroupSnapshot())).To(gomega.Equal(snapshotIDs(group)))
		read := &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: group.GetGroupSnapshotId(),
			SnapshotIds: snapshotIDs(group)}
		found, err := groups.GetVolumeGroupSnapshot(ctx, read)
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		gomega.Expect(snapshotIDs(found.GetGroupSnapshot())).To(gomega.Equal(snapshotIDs(group)))

		for range repetitions {
			_, err = groups.DeleteVolumeGroupSnapshot(ctx, remove)
			gomega.Expect(err).NotTo(gomega.HaveOccurred())
		}
		_, err = groups.GetVolumeGroupSnapshot(ctx, read)
		gomega.Expect(status.Code(err)).To(gomega.Equal(codes.NotFound), "a deleted group snapshot: %v", err)
	})
}

// refusesGroupSnapshots checks that a group snapshot of thick volumes is refused with the correct code, and leaves
// nothing.
func refusesGroupSnapshots(config *sanity.TestConfig) {
	ginkgo.It("should answer InvalidArgument to a group snapshot", func(ctx ginkgo.SpecContext) {
		connection := connect(config)
		_, err := csi.NewGroupControllerClient(connection).CreateVolumeGroupSnapshot(ctx,
			&csi.CreateVolumeGroupSnapshotRequest{Name: "thick-group",
				SourceVolumeIds: createSources(ctx, connection, config)})
		gomega.Expect(status.Code(err)).To(gomega.Equal(codes.InvalidArgument), "a group snapshot: %v", err)
	})
}

// connect connects with the controller until the end of the spec.
func connect(config *sanity.TestConfig) *grpc.ClientConn {
	connection, err := utils.Connect(config.ControllerAddress, config.ControllerDialOptions...)
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	ginkgo.DeferCleanup(connection.Close)
	return connection
}

// createSources creates two volumes until the end of the spec, and returns their IDs.
func createSources(ctx context.Context, connection *grpc.ClientConn, config *sanity.TestConfig) []string {
	controller := csi.NewControllerClient(connection)
	var ids []string
	for i := range 2 {
		volume, err := controller.CreateVolume(ctx, volumeRequest(config, fmt.Sprintf("group-source-%d", i)))
		gomega.Expect(err).NotTo(gomega.HaveOccurred())
		id := volume.GetVolume().GetVolumeId()
		ids = append(ids, id)
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error {
			_, err := controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
			return err
		})
	}
	return ids
}

// snapshotIDs returns the IDs of the snapshots of a group, sorted.
func snapshotIDs(group *csi.VolumeGroupSnapshot) []string {
	var ids []string
	for _, s := range group.GetSnapshots() {
		ids = append(ids, s.GetSnapshotId())
	}
	slices.Sort(ids)
	return ids
}

// sourcesOf returns the IDs of the volumes of which a group has snapshots.
func sourcesOf(group *csi.VolumeGroupSnapshot) []string {
	var ids []string
	for _, s := range group.GetSnapshots() {
		ids = append(ids, s.GetSourceVolumeId())
	}
	return ids
}
