package engine

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// dial serves an engine on a socket, and returns a connection like that of TopoLVM's node service.
func dial(t *testing.T, e *Engine) *grpc.ClientConn {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "lvmd.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	must(t, err)
	server := grpc.NewServer()
	e.Serve(server)
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

func TestCheckNamesWhatIsNotThere(t *testing.T) {
	e, fake := newEngine(t)
	must(t, e.Check(t.Context()))
	must(t, e.Publish(thinClass("other", 2)))
	if err := e.Check(t.Context()); err == nil {
		t.Error("a class without its volume group was not noticed")
	}
	must(t, e.Withdraw("other"))
	fake.Fail("Report", lvm.ErrNotInstalled)
	if err := e.Check(t.Context()); err == nil {
		t.Error("a read that failed was taken for good")
	}
}
