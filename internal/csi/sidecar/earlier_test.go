package sidecar

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lvm-storage/lvm-operator/test/limit"
)

// refusingController is a CSI controller that refuses the expansion of a volume with the code that is its ID.
type refusingController struct{ controllerService }

func (c refusingController) ControllerExpandVolume(ctx context.Context,
	r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		if code.String() == r.GetVolumeId() {
			return nil, status.Errorf(code, "refused")
		}
	}
	return c.controllerService.ControllerExpandVolume(ctx, r)
}

// TestAnEarlierVolumeThatIsNotServedYetIsExpandedLater: NotFound would be final for the resizer.
func TestAnEarlierVolumeThatIsNotServedYetIsExpandedLater(t *testing.T) {
	server := grpc.NewServer()
	csi.RegisterControllerServer(server, refusingController{})
	socket := filepath.Join(t.TempDir(), "csi.sock")
	end := start(t, NewGRPCServer(server, socket).Start)
	connection, err := dial(socket, "topolvm.io", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	client := &earlierClient{&driverClient{connection: connection}}
	ctx, cancel := context.WithTimeout(t.Context(), limit.Hang)
	defer cancel()
	for volume, want := range map[string]codes.Code{"id": codes.OK, "NotFound": codes.Unavailable,
		"OutOfRange": codes.OutOfRange} {
		size, onNode, err := client.Expand(ctx, volume, 1<<30, nil, nil)
		if status.Code(err) != want || (err == nil) != (size == 1<<30 && onNode) ||
			want == codes.Unavailable && !strings.Contains(err.Error(), "see the events of the PersistentVolume") {
			t.Errorf("%s: got %d bytes, %v", volume, size, err)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestTheEarlierResizerDoesNotStartWithoutEarlierVolumes: it ends with its context, and connects to nothing.
func TestTheEarlierResizerDoesNotStartWithoutEarlierVolumes(t *testing.T) {
	s := &Sidecars{Options: Options{Earlier: make(chan struct{})}}
	end := start(t, (&earlierResizer{s}).Start)
	if err := end(); err != nil {
		t.Error(err)
	}
	if runnables := len(s.Runnables()); runnables != 3 {
		t.Errorf("got %d Runnables", runnables)
	}
	if s.Earlier = nil; len(s.Runnables()) != 2 {
		t.Error("the resizer of the earlier driver is added without volumes of the driver")
	}
}
