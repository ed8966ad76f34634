package lvmd

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

func thickClass(name string) deviceclass.Class {
	return deviceclass.Class{Name: name, VolumeGroup: name, Type: types.TypeThick}
}

func thinClass(name string, ratio float64) deviceclass.Class {
	return deviceclass.Class{Name: name, VolumeGroup: name, Type: types.TypeThin,
		ThinPoolConfig: &deviceclass.ThinPool{Name: "pool", OverprovisionRatio: ratio}}
}

// newEngine returns an engine with the thick class "thick" of 1 GiB less metadata, and the thin class "thin" with a
// pool of 0.5 GiB and the ratio 10.
func newEngine(t *testing.T) (*engine.Engine, *lvmtest.Fake) {
	t.Helper()
	fake := lvmtest.New()
	fake.AddDisk("/dev/a", lvm.Bytes(gib+5*mib), 16)
	fake.AddDisk("/dev/b", lvm.Bytes(gib+5*mib), 32)
	ctx := t.Context()
	must(t, fake.Apply(ctx, lvm.VGCreate{Name: "thick", Devices: []string{"/dev/a"}}))
	must(t, fake.Apply(ctx, lvm.VGCreate{Name: "thin", Devices: []string{"/dev/b"}}))
	must(t, fake.Apply(ctx, lvm.LVCreateThinPool{VG: "thin", Name: "pool", PercentFree: 50}))
	e, err := engine.New(fake, nil, filepath.Join(t.TempDir(), "lvmd.yaml"))
	must(t, err)
	thin := thinClass("thin", 10)
	thin.Default = true
	must(t, e.Publish(thickClass("thick")))
	must(t, e.Publish(thin))
	return e, fake
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, code codes.Code) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

// dial serves an engine on a socket, and returns a connection like that of TopoLVM's node service.
func dial(t *testing.T, e *engine.Engine) *grpc.ClientConn {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "lvmd.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	must(t, err)
	server := grpc.NewServer()
	Register(server, e)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		must(t, <-ended)
	})
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { must(t, connection.Close()) })
	return connection
}

// useAsTopoLVM makes all calls of TopoLVM's generated clients, on a thin class with room for 100 MiB.
func useAsTopoLVM(t *testing.T, connection *grpc.ClientConn, class string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	volumes := proto.NewLVServiceClient(connection)
	groups := proto.NewVGServiceClient(connection)
	watch, err := groups.Watch(ctx, &proto.Empty{})
	must(t, err)
	first, err := watch.Recv()
	must(t, err)
	if len(first.GetItems()) == 0 {
		t.Fatalf("got %v", first)
	}
	for range 2 {
		created, err := volumes.CreateLV(ctx,
			&proto.CreateLVRequest{Name: "a", DeviceClass: class, SizeBytes: 8 * mib, Tags: []string{"t"}})
		if err != nil || created.GetVolume().GetSizeBytes() != 8*mib {
			t.Fatalf("got %v, %v", created, err)
		}
	}
	second, err := watch.Recv()
	if err != nil || room(second, class) != room(first, class)-uint64(8*mib) {
		t.Errorf("got %v after %v, %v", second, first, err)
	}
	snapshot, err := volumes.CreateLVSnapshot(ctx,
		&proto.CreateLVSnapshotRequest{Name: "b", SourceVolume: "a", DeviceClass: class, SizeBytes: 16 * mib,
			AccessType: "rw"})
	if err != nil || snapshot.GetSnapshot().GetSizeBytes() != 16*mib {
		t.Fatalf("got %v, %v", snapshot, err)
	}
	grown, err := volumes.ResizeLV(ctx, &proto.ResizeLVRequest{Name: "a", DeviceClass: class, SizeBytes: 12 * mib})
	if err != nil || grown.GetSizeBytes() != 12*mib {
		t.Fatalf("got %v, %v", grown, err)
	}
	free, err := groups.GetFreeBytes(ctx, &proto.GetFreeBytesRequest{DeviceClass: class})
	if err != nil || free.GetFreeBytes() != room(first, class)-uint64(28*mib) {
		t.Errorf("got %v, %v", free, err)
	}
	list, err := groups.GetLVList(ctx, &proto.GetLVListRequest{DeviceClass: class})
	if err != nil || len(list.GetVolumes()) != 2 || list.GetVolumes()[0].GetPath() == "" {
		t.Errorf("got %v, %v", list, err)
	}
	for _, name := range []string{"a", "b"} {
		_, err := volumes.RemoveLV(ctx, &proto.RemoveLVRequest{Name: name, DeviceClass: class})
		must(t, err)
	}
	_, err = volumes.RemoveLV(ctx, &proto.RemoveLVRequest{Name: "a", DeviceClass: class})
	wantCode(t, "removed already", err, codes.NotFound)
	state, err := healthpb.NewHealthClient(connection).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil || state.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("got %v, %v", state, err)
	}
	cancel()
	for err == nil {
		_, err = watch.Recv()
	}
	wantCode(t, "a watch that was given up", err, codes.Canceled)
}

func room(r *proto.WatchResponse, class string) uint64 {
	for _, item := range r.GetItems() {
		if item.GetDeviceClass() == class {
			return item.GetThinPool().GetOverprovisionBytes()
		}
	}
	return 0
}

func TestTopoLVMsOwnClientsAreServed(t *testing.T) {
	e, _ := newEngine(t)
	useAsTopoLVM(t, dial(t, e), "thin")
}

func TestASnapshotNeedsAnAccessType(t *testing.T) {
	e, fake := newEngine(t)
	volumes := proto.NewLVServiceClient(dial(t, e))
	_, err := volumes.CreateLV(t.Context(), &proto.CreateLVRequest{Name: "a", DeviceClass: "thin", SizeBytes: 8 * mib})
	must(t, err)
	_, err = volumes.CreateLVSnapshot(t.Context(), &proto.CreateLVSnapshotRequest{Name: "s", SourceVolume: "a",
		DeviceClass: "thin"})
	wantCode(t, "no access type", err, codes.InvalidArgument)
	if n := fake.Calls()["LVCreateSnapshot"]; n > 0 {
		t.Errorf("%d snapshots were created", n)
	}
}

func TestCheckNamesWhatIsNotThere(t *testing.T) {
	e, fake := newEngine(t)
	must(t, Check(t.Context(), e))
	must(t, e.Publish(thinClass("other", 2)))
	if err := Check(t.Context(), e); err == nil {
		t.Error("a class without its volume group was not noticed")
	}
	must(t, e.Withdraw("other"))
	fake.Fail("Report", lvm.ErrNotInstalled)
	if err := Check(t.Context(), e); err == nil {
		t.Error("a read that failed was taken for good")
	}
}
