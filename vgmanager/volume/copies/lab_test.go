//go:build lab

package copies

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/blockdevice"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/lvtag"
)

const labAddress = "127.0.0.1:18446"

func runCommand(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command.Args, " "), err, out)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func runLVM(t *testing.T, args ...string) string {
	t.Helper()
	return runCommand(t, nodelvm.Command("/usr/sbin/lvm", args...))
}

func dd(t *testing.T, from, to string, args ...string) {
	t.Helper()
	all := append([]string{"if=" + from, "of=" + to, "conv=notrunc,fsync"}, args...)
	runCommand(t, exec.Command("/usr/bin/dd", all...))
}

// newGroups creates the volume group "copyfrom" with the snapshot "snap", and "copyto", whose free space has random
// data: what a copy does not write is not zero by itself.
func newGroups(t *testing.T) {
	t.Helper()
	disks := strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")
	if len(disks) < 2 {
		t.Fatal("LVMS_TEST_DISKS must name two blank disks of a lab node")
	}
	for i, group := range []string{"copyfrom", "copyto"} {
		runLVM(t, "vgcreate", "-qq", group, disks[i])
		t.Cleanup(func() { runLVM(t, "vgremove", "-qq", "--force", "--yes", group) })
	}
	runLVM(t, "lvcreate", "-qq", "-L", "128M", "--chunksize", "64k", "--poolmetadatasize", "4M", "-T", "copyfrom/pool")
	runLVM(t, "lvcreate", "-qq", "-V", "96M", "-T", "copyfrom/pool", "-n", "origin")
	for _, block := range []string{"0", "5", "6", "7", "100", "900", "1535"} {
		dd(t, "/dev/urandom", "/dev/copyfrom/origin", "bs=64k", "count=1", "seek="+block, "oflag=direct")
	}
	dd(t, "/dev/urandom", "/dev/copyfrom/origin", "bs=1M", "count=24", "seek=30", "oflag=direct")
	dd(t, "/dev/zero", "/dev/copyfrom/origin", "bs=64k", "count=3", "seek=6", "oflag=direct")
	runLVM(t, "lvcreate", "-qq", "--snapshot", "--permission", "r", "--setactivationskip", "n", "--addtag",
		"lvms.formatted=xfs", "--addtag", "lvms.uid=1", "-n", "snap", "copyfrom/origin")
	dd(t, "/dev/urandom", "/dev/copyfrom/origin", "bs=1M", "count=8", "seek=28", "oflag=direct")
	runLVM(t, "lvcreate", "-qq", "--wipesignatures", "n", "-l", "100%FREE", "-n", "garbage", "copyto")
	dd(t, "/dev/urandom", "/dev/copyto/garbage", "bs=4M", "count=70", "oflag=direct")
	runLVM(t, "lvremove", "-qq", "--yes", "copyto/garbage")
	runLVM(t, "lvcreate", "-qq", "-L", "128M", "--chunksize", "256k", "--zero", "n", "--poolmetadatasize", "4M", "-T",
		"copyto/pool")
}

func labEngine(t *testing.T, volumes *lvmexec.LVM) *engine.Engine {
	t.Helper()
	e, err := engine.New(volumes, devicemapper.New(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range []deviceclass.Class{
		{Name: "from", VolumeGroup: "copyfrom", Type: types.TypeThin,
			ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 10}},
		{Name: "thin", VolumeGroup: "copyto", Type: types.TypeThin,
			ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: 10}},
		{Name: "thick", VolumeGroup: "copyto", Type: types.TypeThick},
	} {
		if err := e.Publish(class); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// serve serves the snapshots of node1, and returns the client of node2.
func serve(t *testing.T, e *engine.Engine, reader *changedblocks.Reader) Source {
	t.Helper()
	snapshot := logicalVolume("snap", "node1", "origin", "ro", "snap")
	snapshot.Spec.DeviceClass = "from"
	api := memory.Builder().WithObjects(snapshot,
		logicalVolume("thick", "node2", "snap", "rw", ""), logicalVolume("thin", "node2", "snap", "rw", "")).Build()
	return serveOf(t, &Sender{Live: api, Node: "node1", Volumes: e, Allocations: reader})
}

// serveOf serves the snapshots of a Sender of node1, and returns the client of node2.
func serveOf(t *testing.T, sender *Sender) Source {
	t.Helper()
	cluster := newSite(t)
	server := NewServer(Options{Address: labAddress, Credentials: cluster.agent(t, "node1"),
		Configure: func(*tls.Config) {}}, sender)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &agent{node: "node1", address: labAddress, credentials: cluster.agent(t, "node2")}
}

// copyTo copies the snapshot to a new volume of a class, which has its name. It ends the work again and again while it
// runs, as a killed agent does.
func copyTo(t *testing.T, e *engine.Engine, source Source, class string) Progress {
	t.Helper()
	if err := e.EnsureTarget(t.Context(), engine.CopyTarget{Class: class, Name: class, UID: "1", Size: 104 << 20,
		Tags: []string{"lvms.uid=1", wellknown.NewTag}, Source: "snap"}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(3 * time.Minute)
	for attempt := 1; ; attempt++ {
		d, err := e.Device(t.Context(), class, class)
		if err != nil {
			t.Fatal(err)
		}
		round, err := lvtag.RoundOf(d.Tags)
		if err != nil {
			t.Fatal(err)
		}
		process, kill := context.WithTimeout(t.Context(), time.Duration(attempt*attempt)*30*time.Millisecond)
		copier := New(process)
		copier.recordEvery = 8 << 20
		got, err := copier.Copy(t.Context(), source, Target{Key: class, Name: class, Object: class,
			Device: blockdevice.Identity{Path: d.Path, Number: d.Number, Size: uint64(d.Size)}, Chunk: uint64(d.Chunk),
			Done: uint64(round.Copied), Round: Round{Only: true, Sparse: round.Sparse}},
			func(ctx context.Context, done uint64) error {
				return e.CopiedInRound(ctx, class, class, "1", int64(done))
			})
		kill()
		if err == nil && got.Finished {
			t.Logf("%s: complete after %d attempts, the last from %d MiB", class, attempt, round.Copied>>20)
			return got
		}
		if process.Err() == nil || time.Now().After(deadline) {
			t.Fatalf("attempt %d, from %d: %+v, %v", attempt, round.Copied, got, err)
		}
	}
}

// TestLabASnapshotIsCopied copies a thin snapshot to a thick volume, and to a thin one in a pool that does not set new
// chunks to zero, over TLS, with interruptions. Both must have its data, and zeros elsewhere.
func TestLabASnapshotIsCopied(t *testing.T) {
	newGroups(t)
	volumes := lvmexec.New(nodelvm.New())
	e := labEngine(t, volumes)
	client := serve(t, e, changedblocks.New(volumes, devicemapper.New(), changedblocks.OpenSnapshot))
	for _, class := range []string{"thick", "thin"} {
		got := copyTo(t, e, client, class)
		if len(got.Content) != 1 || got.Content[0] != "lvms.formatted=xfs" || got.Size != 96<<20 {
			t.Errorf("%s: %+v", class, got)
		}
		runCommand(t, exec.Command("/usr/bin/cmp", "--bytes", fmt.Sprint(96<<20), "/dev/copyfrom/snap", "/dev/copyto/"+class))
		if err := e.CompleteCopy(t.Context(), class, class, "1", got.Content); err != nil {
			t.Error(err)
		}
		tags := strings.TrimSpace(runLVM(t, "lvs", "--noheadings", "-o", "lv_tags", "copyto/"+class))
		if tags != "lvms.formatted=xfs,lvms.uid=1" {
			t.Errorf("%s: tags %q", class, tags)
		}
	}
	used := strings.TrimSpace(runLVM(t, "lvs", "--noheadings", "--nosuffix", "-o", "data_percent", "copyto/thin"))
	if used >= "35" || len(used) != len("33.33") {
		t.Errorf("the thin copy has %s %% of its chunks, want about 27 %%: only allocated blocks are copied", used)
	}
}

// TestLabACopyNeverFillsAPool: it stops while there is room for the volume of another tenant, and continues when that
// is gone.
func TestLabACopyNeverFillsAPool(t *testing.T) {
	newGroups(t)
	volumes := lvmexec.New(nodelvm.New())
	e := labEngine(t, volumes)
	client := serve(t, e, changedblocks.New(volumes, devicemapper.New(), changedblocks.OpenSnapshot))
	runLVM(t, "lvcreate", "-qq", "-V", "112M", "-T", "copyto/pool", "-n", "bystander")
	dd(t, "/dev/urandom", "/dev/copyto/bystander", "bs=1M", "count=100", "oflag=direct")
	must(t, e.EnsureTarget(t.Context(), engine.CopyTarget{Class: "thin", Name: "thin", UID: "1", Size: 104 << 20,
		Tags: []string{"lvms.uid=1"}, Source: "snap"}))
	receive := func() (Progress, error) {
		d, err := e.Device(t.Context(), "thin", "thin")
		must(t, err)
		round, err := lvtag.RoundOf(d.Tags)
		must(t, err)
		return New(t.Context()).Copy(t.Context(), client, Target{Key: "thin", Name: "thin", Object: "thin",
			Device: blockdevice.Identity{Path: d.Path, Number: d.Number, Size: uint64(d.Size)}, Chunk: uint64(d.Chunk),
			Done: uint64(round.Copied), Allocated: uint64(d.Allocated), Round: Round{Only: true, Sparse: round.Sparse},
			Room: func(ctx context.Context, bytes uint64) error { return e.CopyRoom(ctx, "thin", bytes) },
		}, func(ctx context.Context, done uint64) error {
			return e.CopiedInRound(ctx, "thin", "thin", "1", int64(done))
		})
	}
	for range 2 {
		got, err := receive()
		if status.Code(err) != codes.Aborted {
			t.Fatalf("%+v, %v, want Aborted", got, err)
		}
		t.Log(err)
	}
	dd(t, "/dev/urandom", "/dev/copyto/bystander", "bs=1M", "count=4", "seek=100", "oflag=direct")
	runLVM(t, "lvremove", "-qq", "--yes", "copyto/bystander")
	got, err := receive()
	if err != nil || !got.Finished {
		t.Fatalf("%+v, %v", got, err)
	}
	runCommand(t, exec.Command("/usr/bin/cmp", "--bytes", fmt.Sprint(96<<20), "/dev/copyfrom/snap", "/dev/copyto/thin"))
}
