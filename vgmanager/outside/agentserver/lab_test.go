//go:build lab

package agentserver

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

const (
	group = "agentserver"
	chunk = 64 << 10
)

func run(t *testing.T, command *exec.Cmd) {
	t.Helper()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command.Args, " "), err, out)
	}
}

func runLVM(t *testing.T, args ...string) {
	t.Helper()
	run(t, nodelvm.Command("/usr/sbin/lvm", args...))
}

// newGroup creates a thin pool with a volume, and two snapshots that differ in chunk 3. The metadata snapshot of the
// pool is reserved, as an agent that was killed leaves it.
func newGroup(t *testing.T) {
	t.Helper()
	disk, _, _ := strings.Cut(os.Getenv("LVMS_TEST_DISKS"), ",")
	if disk == "" {
		t.Fatal("LVMS_TEST_DISKS must name a blank disk of a lab node")
	}
	runLVM(t, "vgcreate", "-qq", group, disk)
	t.Cleanup(func() { runLVM(t, "vgremove", "-qq", "--force", "--yes", group) })
	runLVM(t, "lvcreate", "-qq", "-L", "128M", "--chunksize", "64k", "--poolmetadatasize", "4M", "-T", group+"/pool")
	runLVM(t, "lvcreate", "-qq", "-V", "64M", "-T", group+"/pool", "-n", "origin")
	write := func(seek, count string) {
		run(t, exec.Command("/usr/bin/dd", "if=/dev/urandom", "of=/dev/"+group+"/origin", "bs=64k", "seek="+seek,
			"count="+count, "oflag=direct", "conv=notrunc"))
	}
	snapshot := func(name string) {
		runLVM(t, "lvcreate", "-qq", "--snapshot", "--permission", "r", "--setactivationskip", "n", "-n", name,
			group+"/origin")
	}
	write("0", "10")
	snapshot("first")
	write("3", "1")
	snapshot("second")
	run(t, nodelvm.Command("/usr/sbin/dmsetup", "message", group+"-pool-tpool", "0", "reserve_metadata_snap"))
	if !isReserved(t) {
		t.Fatal("the metadata snapshot is not reserved")
	}
}

func isReserved(t *testing.T) bool {
	t.Helper()
	state, err := devicemapper.New().ThinPool(t.Context(), group, "pool")
	if err != nil {
		t.Fatal(err)
	}
	return state.HeldRoot != 0
}

// newEngine returns the engine with the device class thin.
func newEngine(t *testing.T, volumes *lvmexec.LVM, existing bool) *engine.Engine {
	t.Helper()
	engine, err := engine.New(volumes, devicemapper.New(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Publish(deviceclass.Class{Name: "thin", VolumeGroup: group, Type: types.TypeThin,
		ExistingVolumeGroup: existing,
		ThinPoolConfig:      &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 10}}); err != nil {
		t.Fatal(err)
	}
	return engine
}

// TestLabTheOperatorReadsChangedBlocks: with real LVM, through TLS, after the agent has released what the one before
// left.
func TestLabTheOperatorReadsChangedBlocks(t *testing.T) {
	newGroup(t)
	volumes := lvmexec.New(nodelvm.New())
	reader := changedblocks.New(volumes, devicemapper.New(), changedblocks.OpenSnapshot)
	if err := ReleaseAll(t.Context(), newEngine(t, volumes, true), reader.Release); err != nil || !isReserved(t) {
		t.Errorf("in a volume group of an administrator: %v", err)
	}
	engine := newEngine(t, volumes, false)
	here := objects{list: []topolvmv1.LogicalVolume{snapshot("s1", "first", nil), snapshot("s2", "second", nil),
		snapshot("s3", "foreign", func(lv *topolvmv1.LogicalVolume) { lv.Spec.Source = "pvc-2" })}}
	ca := newAuthority(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan error, 1)
	server := New(Options{Credentials: issue(t, ca, mutualtls.Node("a"), "a"), Configure: tlsprofile.New().Configure,
		Snapshots: changedblocks.NewServer(reader, Locate(here, "a", engine)),
		Prepare: func(ctx context.Context) error {
			err := ReleaseAll(ctx, engine, reader.Release)
			released <- err
			return err
		}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.serve(ctx, listener) }()
	if err := <-released; err != nil || isReserved(t) {
		t.Errorf("the metadata snapshot was not released: %v", err)
	}
	operator := dialAs(t, listener.Addr().String(), issue(t, ca, mutualtls.Operator, "x"))
	delta := func(base, target string) ([]*csi.BlockMetadata, error) {
		stream, err := operator.GetMetadataDelta(t.Context(), &csi.GetMetadataDeltaRequest{BaseSnapshotId: base,
			TargetSnapshotId: target})
		if err != nil {
			return nil, err
		}
		var all []*csi.BlockMetadata
		for {
			message, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return all, nil
			}
			if err != nil {
				return nil, err
			}
			all = append(all, message.GetBlockMetadata()...)
		}
	}
	got, err := delta("first", "second")
	if err != nil || len(got) != 1 || got[0].GetByteOffset() != 3*chunk || got[0].GetSizeBytes() != chunk {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := delta("foreign", "second"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a base of another volume: got %v, %v", got, err)
	}
	if isReserved(t) {
		t.Error("the metadata snapshot is still reserved")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
