package csinode

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// topolvmTarget is where TopoLVM mounted the volume for a Pod.
const topolvmTarget = "/pods/1/mount"

// publishBesideTopoLVM publishes the volume for a second Pod beside one of TopoLVM. The kubelet does not stage it.
func (b *bench) publishBesideTopoLVM() {
	b.Helper()
	b.staging = filepath.Join(filepath.Dir(b.staging), "1a2b", stagingName)
	b.host.found = contentOf("ext4")
	b.host.mounts[topolvmTarget] = b.host.device
	b.wantCode(b.publish(false, false), codes.OK)
	if len(b.host.mounts) != 3 {
		b.Fatalf("got the mounts %v", b.host.mounts)
	}
}

func (b *bench) unpublishFrom(target string) error {
	_, err := b.server.NodeUnpublishVolume(b.Context(),
		&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target})
	return err
}

// unstaging is a StagingRecorder. unstaged are the paths of its calls.
type unstaging struct {
	unstaged []string
	err      error
}

func (r *unstaging) BeforeStaging(context.Context, string, string) error { return nil }

func (r *unstaging) Unstaged(_ context.Context, _, path string) error {
	r.unstaged = append(r.unstaged, path)
	return r.err
}

// TestTheLastPodUnstagesWhatTopoLVMMountedFirst: the kubelet does not. A repeated call succeeds.
func TestTheLastPodUnstagesWhatTopoLVMMountedFirst(t *testing.T) {
	for name, inOrder := range map[string]func(*bench) []string{
		"the Pod of TopoLVM ends first": func(b *bench) []string { return []string{topolvmTarget, b.target} },
		"it ends last":                  func(b *bench) []string { return []string{b.target, topolvmTarget} },
	} {
		b := newBench(t)
		staging := &unstaging{}
		b.server.Staging = staging
		b.publishBesideTopoLVM()
		targets := inOrder(b)
		b.wantCode(b.unpublishFrom(targets[0]), codes.OK)
		if len(staging.unstaged) > 0 || b.host.mounts[b.staging] != b.host.device {
			t.Errorf("%s: unstaged %v while a Pod uses the volume", name, staging.unstaged)
		}
		for range 2 {
			b.wantCode(b.unpublishFrom(targets[1]), codes.OK)
		}
		if !slices.Equal(staging.unstaged, []string{b.staging}) || len(b.host.mounts) > 0 {
			t.Errorf("%s: unstaged %v, and the mounts %v are left", name, staging.unstaged, b.host.mounts)
		}
	}
}

// TestAVolumeThatTheKubeletStagedIsUnstagedByIt: it has the file that NodeUnstageVolume needs.
func TestAVolumeThatTheKubeletStagedIsUnstagedByIt(t *testing.T) {
	b := newBench(t)
	staging := &unstaging{}
	b.server.Staging = staging
	b.publishBesideTopoLVM()
	data := filepath.Join(filepath.Dir(b.staging), stagingDataName)
	if err := os.WriteFile(data, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.wantCode(b.unpublishFrom(topolvmTarget), codes.OK)
	b.wantCode(b.unpublishFrom(b.target), codes.OK)
	if b.host.mounts[b.staging] != b.host.device || len(staging.unstaged) > 0 {
		t.Errorf("got the mounts %v, unstaged %v", b.host.mounts, staging.unstaged)
	}
}

// TestNothingIsUnstagedAfterAFailedRead: the kubelet repeats the call, which then succeeds.
func TestNothingIsUnstagedAfterAFailedRead(t *testing.T) {
	b := newBench(t)
	b.publishBesideTopoLVM()
	delete(b.host.mounts, topolvmTarget)
	b.host.errors["sameFileSystem"] = errors.New("too many open files")
	b.wantCode(b.unpublishFrom(b.target), codes.Internal, "too many open files")
	delete(b.host.errors, "sameFileSystem")

	folder := filepath.Dir(b.staging)
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // A file in the file that is looked for cannot be read.
		t.Fatal(err)
	}
	b.wantCode(b.unpublishFrom(b.target), codes.Internal, "check whether the kubelet of node node1 unstages volume")
	if len(b.host.mounts) != 2 {
		t.Errorf("got the mounts %v", b.host.mounts)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	staging := &unstaging{err: errors.New("no answer")}
	b.server.Staging = staging
	b.wantCode(b.unpublishFrom(b.target), codes.Unknown, "no answer")
	staging.err = nil
	b.wantCode(b.unpublishFrom(b.target), codes.OK)
	if len(b.host.mounts) > 0 {
		t.Errorf("got the mounts %v", b.host.mounts)
	}
}
