package service

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func TestFailedCallsAreLogged(t *testing.T) {
	metadata := map[string]string{ClaimNamespaceKey: "ns", ClaimNameKey: "data"}
	for name, tt := range map[string]struct {
		method  string
		request any
		err     error
		level   int
		want    []string
	}{
		"a refused stage": {
			"/csi.v1.Node/NodeStageVolume", &csi.NodeStageVolumeRequest{VolumeId: "8a6e"},
			status.Error(codes.DataLoss, "no file system"), 0,
			[]string{`"call"="NodeStageVolume"`, `"volume"="8a6e"`, `"claim"="ns/of-8a6e"`, `"code"="DataLoss"`,
				`"cause"="no file system"`},
		},
		"a volume that cannot be created": {
			"/csi.v1.Controller/CreateVolume", &csi.CreateVolumeRequest{Name: "pvc-1", Parameters: metadata},
			errors.New("no room"), 0,
			[]string{`"volume"="pvc-1"`, `"claim"="ns/data"`, `"code"="Unknown"`, `"cause"="no room"`},
		},
		"a snapshot that cannot be deleted": {
			"/csi.v1.Controller/DeleteSnapshot", &csi.DeleteSnapshotRequest{SnapshotId: "s1"},
			status.Error(codes.Unavailable, "x"), 0,
			[]string{`"volume"="s1"`, `"code"="Unavailable"`},
		},
		"success": {"/csi.v1.Node/NodeStageVolume",
			&csi.NodeStageVolumeRequest{VolumeId: "8a6e"}, nil, 0, nil},
		"success at debug level": {"/csi.v1.Node/NodeStageVolume", &csi.NodeStageVolumeRequest{VolumeId: "8a6e"}, nil,
			1, []string{"succeeded", `"volume"="8a6e"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			logger := funcr.New(func(_, args string) { lines = append(lines, args) },
				funcr.Options{Verbosity: tt.level})
			interceptor := LogCalls(func(_ context.Context, id string) string { return "ns/of-" + id })
			_, err := interceptor(log.IntoContext(t.Context(), logger), tt.request,
				&grpc.UnaryServerInfo{FullMethod: tt.method},
				func(context.Context, any) (any, error) { return nil, tt.err })
			if !errors.Is(err, tt.err) {
				t.Errorf("got %v", err)
			}
			if len(tt.want) == 0 && len(lines) != 0 || len(tt.want) > 0 && len(lines) != 1 {
				t.Fatalf("got the lines %q", lines)
			}
			for _, want := range tt.want {
				if !strings.Contains(lines[0], want) {
					t.Errorf("%s\nhas no %s", lines[0], want)
				}
			}
		})
	}
}
