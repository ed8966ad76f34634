package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
	"github.com/lvm-storage/lvm-operator/test/limit"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode"
)

func connect(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// newEarlierService returns a service whose sockets are in a temporary directory.
func newEarlierService(t *testing.T) *earlierService {
	t.Helper()
	measure, err := sidecar.MeasureServer(wellknown.EarlierDriverName, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	node := csinode.NodeOptions{Node: "worker-1", Client: memory.Builder().Build()}
	return &earlierService{around: []grpc.UnaryServerInterceptor{measure}, node: newEarlierNode(node, nil),
		registrar: sidecar.RegistrarOptions{
			Driver: wellknown.EarlierDriverName, Socket: filepath.Join(dir, earlierRegistration),
			Endpoint: "/kubelet/" + earlierSocket, CSISocket: filepath.Join(dir, earlierSocket)}}
}

// TestTheEarlierDriverIsRegisteredUnderItsName: twice, because a volume may need it again.
func TestTheEarlierDriverIsRegisteredUnderItsName(t *testing.T) {
	e := newEarlierService(t)
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.serve(ctx) }()
		call, done := context.WithTimeout(t.Context(), limit.Hang)
		info, err := registration.NewRegistrationClient(connect(t, e.registrar.Socket)).GetInfo(call,
			&registration.InfoRequest{})
		if err != nil || info.GetName() != wellknown.EarlierDriverName || info.GetType() != registration.CSIPlugin ||
			info.GetEndpoint() != e.registrar.Endpoint {
			t.Errorf("got %v, %v", info, err)
		}
		connection := connect(t, e.registrar.CSISocket)
		plugin, err := csi.NewIdentityClient(connection).GetPluginInfo(call, &csi.GetPluginInfoRequest{})
		if err != nil || plugin.GetName() != wellknown.EarlierDriverName {
			t.Errorf("got %v, %v", plugin, err)
		}
		node, err := csi.NewNodeClient(connection).NodeGetInfo(call, &csi.NodeGetInfoRequest{})
		if err != nil || node.GetNodeId() != "worker-1/lvms" ||
			node.GetAccessibleTopology().GetSegments()[wellknown.EarlierTopologyNodeKey] != "worker-1" {
			t.Errorf("got %v, %v", node, err)
		}
		can, err := csi.NewNodeClient(connection).NodeGetCapabilities(call, &csi.NodeGetCapabilitiesRequest{})
		if err != nil || !strings.Contains(can.String(), "EXPAND_VOLUME") {
			t.Errorf("the kubelet does not expand file systems: %v, %v", can, err)
		}
		done()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, socket := range []string{e.registrar.Socket, e.registrar.CSISocket} {
			if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is left: %v", socket, err)
			}
		}
	}
}

// TestARefusedRegistrationEndsTheEarlierDriver: both sockets are removed, so that it can be tried again.
func TestARefusedRegistrationEndsTheEarlierDriver(t *testing.T) {
	e := newEarlierService(t)
	ended := make(chan error, 1)
	go func() { ended <- e.serve(t.Context()) }()
	_, err := registration.NewRegistrationClient(connect(t, e.registrar.Socket)).NotifyRegistrationStatus(t.Context(),
		&registration.RegistrationStatus{Error: "another driver has the name"})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the refusal is not reported")
	}
	if _, err := os.Lstat(e.registrar.CSISocket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// TestCallsOfBothDriversAreMeasured: the two servers of an agent share the metric.
func TestCallsOfBothDriversAreMeasured(t *testing.T) {
	registry := prometheus.NewRegistry()
	for _, name := range []string{wellknown.DriverName, wellknown.EarlierDriverName} {
		measure, err := sidecar.MeasureServer(name, registry)
		if err != nil {
			t.Fatal(err)
		}
		handle := func(context.Context, any) (any, error) { return nil, nil }
		if _, err := measure(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/x"}, handle); err != nil {
			t.Error(err)
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 2 {
		t.Errorf("got %v, %v", families, err)
	}
}
