package csinode

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// recorder refuses with an error, and notes what it is told.
type recorder struct {
	err error
	did []string
}

func (r *recorder) BeforeStaging(_ context.Context, volume, path string) error {
	r.did = append(r.did, "stage "+volume+" "+filepath.Base(path))
	return r.err
}

func (r *recorder) Unstaged(_ context.Context, volume, path string) error {
	r.did = append(r.did, "unstage "+volume+" "+filepath.Base(path))
	return r.err
}

// TestTheRecorderKnowsWhatIsStaged: also if a volume is staged because it is published.
func TestTheRecorderKnowsWhatIsStaged(t *testing.T) {
	b := newBench(t)
	r := &recorder{err: status.Error(codes.Unavailable, "it is being migrated")}
	b.server.Staging = r
	b.host.found = contentOf("xfs")
	mode := csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	stage := &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging,
		VolumeCapability: capability("xfs", mode)}
	if _, err := b.server.NodeStageVolume(t.Context(), stage); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	publish := &csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: b.staging, TargetPath: b.target,
		VolumeCapability: capability("xfs", mode)}
	if _, err := b.server.NodePublishVolume(t.Context(), publish); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
	if len(b.host.mounts) > 0 {
		t.Errorf("mounted: %v", b.host.mounts)
	}
	r.err = nil
	_, err := b.server.NodePublishVolume(t.Context(), publish)
	if err != nil {
		t.Error(err)
	}
	if _, err = b.server.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: id,
		StagingTargetPath: b.staging}); err != nil {
		t.Error(err)
	}
	want := "stage 8a6e staging, stage 8a6e staging, stage 8a6e staging, unstage 8a6e staging"
	if got := strings.Join(r.did, ", "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestAStagedVolumeOfTheDriverIsExpanded: while a Pod uses it, and whatever the recorder says of new Pods.
func TestAStagedVolumeOfTheDriverIsExpanded(t *testing.T) {
	b := newBench(t)
	r := &recorder{}
	b.server.Staging, b.server.NodeID = r, "node1"+wellknown.EarlierNodeIDSuffix
	b.wantCode(b.stage("ext4", writer), codes.OK)
	r.err = status.Error(codes.Unavailable, "it is being migrated")
	b.host.did = nil
	_, err := b.server.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: b.staging})
	b.wantCode(err, codes.OK)
	b.wantDid("grow true")
}
