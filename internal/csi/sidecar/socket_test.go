package sidecar

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/lvm-storage/lvm-operator/test/limit"
)

// identity is a CSI identity service.
type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (identity) GetPluginCapabilities(context.Context,
	*csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{
		Capabilities: []*csi.PluginCapability{{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}}}}}, nil
}

// controllerService is a CSI controller that can expand volumes.
type controllerService struct {
	csi.UnimplementedControllerServer
}

func (controllerService) ControllerGetCapabilities(context.Context,
	*csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{
		Capabilities: []*csi.ControllerServiceCapability{{Type: &csi.ControllerServiceCapability_Rpc{
			Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_EXPAND_VOLUME}}}}}, nil
}

func (controllerService) ControllerExpandVolume(_ context.Context,
	r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
		NodeExpansionRequired: true}, nil
}

func newCSIServer() *grpc.Server {
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, identity{})
	csi.RegisterControllerServer(server, controllerService{})
	return server
}

// start runs a Runnable and returns a function that ends it and waits.
func start(t *testing.T, run func(context.Context) error) func() error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(limit.Hang):
			t.Fatal("does not end")
			return nil
		}
	}
}

func TestServerTakesOverAStaleSocketAndRemovesItsOwn(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "csi.sock")
	stale, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = stale.Close()
	end := start(t, NewGRPCServer(newCSIServer(), socket).Start)
	s := &Sidecars{Options: Options{Socket: socket, Driver: "d"}}
	if s.connection, err = dial(socket, "d", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.awaitDriver(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("socket is left: %v", err)
	}
}

func TestServerDoesNotRemoveWhatIsNoSocket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "csi.sock")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := NewGRPCServer(newCSIServer(), file).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Error(err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestConnectionSurvivesTheServerAndCallsWaitForTheNextOne(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "csi.sock")
	registry := prometheus.NewRegistry()
	connection, err := dial(socket, "topolvm.io", registry)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	client := &driverClient{connection: connection}
	for range 2 {
		end := start(t, NewGRPCServer(newCSIServer(), socket).Start)
		ctx, cancel := context.WithTimeout(t.Context(), limit.Hang)
		size, nodeToo, err := client.Expand(ctx, "id", 1<<30, nil, nil)
		if err != nil || size != 1<<30 || !nodeToo {
			t.Errorf("size %d, node %v, error %v", size, nodeToo, err)
		}
		if can, err := client.SupportsControllerResize(ctx); err != nil || !can {
			t.Errorf("resize %v, %v", can, err)
		}
		if can, err := client.SupportsControllerModify(ctx); err != nil || can {
			t.Errorf("modify %v, %v", can, err)
		}
		cancel()
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "csi_sidecar_operations_seconds" {
		t.Errorf("metrics %v, %v", families, err)
	}
	if _, err := dial(socket, "topolvm.io", registry); err != nil {
		t.Errorf("metrics are registered twice: %v", err)
	}
}

func TestAwaitDriverEndsWithTheContext(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "csi.sock")
	s := &Sidecars{Options: Options{Socket: socket}}
	s.connection, _ = dial(socket, "d", nil)
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.awaitDriver(ctx); err == nil || !strings.Contains(err.Error(), socket) {
		t.Error(err)
	}
}

// kubelet calls a registrar as the kubelet does: it gets the info, and then reports the status.
func kubelet(t *testing.T, socket string, status *registration.RegistrationStatus) *registration.PluginInfo {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), limit.Hang)
	defer cancel()
	client := registration.NewRegistrationClient(connection)
	info, err := client.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.NotifyRegistrationStatus(ctx, status); err != nil {
		t.Fatal(err)
	}
	return info
}

func newTestRegistrar(t *testing.T) *Registrar {
	t.Helper()
	dir := t.TempDir()
	return NewRegistrar(RegistrarOptions{Driver: "topolvm.io", Socket: filepath.Join(dir, "reg.sock"),
		Endpoint:  "/var/lib/kubelet/plugins/topolvm.io/node/csi-topolvm.sock",
		CSISocket: filepath.Join(dir, "csi.sock")})
}

func TestRegistrarWaitsForTheNodeServiceAndIsReadyOnceRegistered(t *testing.T) {
	registrar := newTestRegistrar(t)
	end := start(t, registrar.Start)
	time.Sleep(50 * time.Millisecond)
	if _, err := os.Lstat(registrar.options.Socket); !os.IsNotExist(err) {
		t.Errorf("the kubelet is called before the CSI socket answers: %v", err)
	}
	endCSI := start(t, NewGRPCServer(newCSIServer(), registrar.options.CSISocket).Start)
	defer func() { _ = endCSI() }()
	if registrar.Ready(nil) == nil {
		t.Error("ready before the kubelet has answered")
	}
	info := kubelet(t, registrar.options.Socket, &registration.RegistrationStatus{PluginRegistered: true})
	if info.GetType() != "CSIPlugin" || info.GetName() != "topolvm.io" ||
		info.GetEndpoint() != registrar.options.Endpoint || len(info.GetSupportedVersions()) != 1 {
		t.Errorf("info %v", info)
	}
	if err := registrar.Ready(nil); err != nil {
		t.Error(err)
	}
	if err := os.Remove(registrar.options.CSISocket); err != nil {
		t.Fatal(err)
	}
	if err := registrar.Ready(nil); err == nil || !strings.Contains(err.Error(), registrar.options.CSISocket) {
		t.Errorf("without the socket of the driver: %v", err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(registrar.options.Socket); !os.IsNotExist(err) {
		t.Errorf("socket is left: %v", err)
	}
	if registrar.Ready(nil) == nil {
		t.Error("ready after the end")
	}
}

func TestRefusalByTheKubeletEndsTheRegistrar(t *testing.T) {
	registrar := newTestRegistrar(t)
	endCSI := start(t, NewGRPCServer(newCSIServer(), registrar.options.CSISocket).Start)
	defer func() { _ = endCSI() }()
	ended := make(chan error, 1)
	go func() { ended <- registrar.Start(t.Context()) }()
	kubelet(t, registrar.options.Socket, &registration.RegistrationStatus{Error: "version not supported"})
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "the kubelet refused CSI driver topolvm.io") ||
			!strings.Contains(err.Error(), "version not supported") {
			t.Error(err)
		}
	case <-time.After(limit.Hang):
		t.Error("goes on after a refusal")
	}
}
