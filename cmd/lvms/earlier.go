package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	lvmsdriver "github.com/lvm-storage/lvm-operator/internal/csi/driver"
	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/internal/liveness/adapt"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/legacydriver"
)

const (
	// registryDir is the kubelet's plugins_registry in the container of the agent.
	registryDir = "/registration"
	// earlierSocket is next to csiSocket.
	earlierSocket = "csi-topolvm-earlier.sock"
	// earlierRegistration differs from the socket of TopoLVM's registrar, which earlierOther is: if both had one path,
	// each would remove the other's socket.
	earlierRegistration = "topolvm.cybozu.com-lvms-reg.sock"
	earlierOther        = "topolvm.cybozu.com-reg.sock"
)

// addEarlierDriver adds the node service for volumes of TopoLVM before 0.15. It is the one of this driver under another
// name, and has the same locks. It runs only while a volume needs it.
func addEarlierDriver(mgr ctrl.Manager, node csinode.NodeOptions, layout hostpaths.Layout,
	monitor *liveness.Monitor) error {
	measure, err := sidecar.MeasureServer(wellknown.EarlierDriverName, metrics.Registry)
	if err != nil {
		return err
	}
	socket := filepath.Join(filepath.Dir(csiSocket), earlierSocket)
	e := &earlierService{around: []grpc.UnaryServerInterceptor{adapt.Interceptor(monitor), measure},
		healthy: monitor.Check, registrar: sidecar.RegistrarOptions{
			Driver: wellknown.EarlierDriverName, Socket: filepath.Join(registryDir, earlierRegistration),
			Endpoint: filepath.Join(layout.NodeSocketDir(), earlierSocket), CSISocket: socket,
		}}
	earlier := legacydriver.New(legacydriver.Options{Node: node.Node, Client: mgr.GetClient(),
		Live: mgr.GetAPIReader(), OtherSocket: filepath.Join(registryDir, earlierOther), Serve: e.serve})
	e.node = newEarlierNode(node, earlier)
	return mgr.Add(earlier)
}

// newEarlierNode returns the node service with the node ID and the topology key of the earlier driver.
func newEarlierNode(o csinode.NodeOptions, staging csinode.StagingRecorder) *csinode.NodeServer {
	o.NodeID = o.Node + wellknown.EarlierNodeIDSuffix
	o.TopologyKey = wellknown.EarlierTopologyNodeKey
	o.Staging = staging
	return csinode.NewNodeServer(o)
}

// earlierService serves the earlier driver on its socket, and registers it with the kubelet.
type earlierService struct {
	node *csinode.NodeServer
	// around are what each call passes before it is logged.
	around    []grpc.UnaryServerInterceptor
	healthy   func() error
	registrar sidecar.RegistrarOptions
}

// serve runs until the context ends or one of the two servers does. Then the sockets do not exist, and the kubelet has
// the driver no longer.
func (e *earlierService) serve(ctx context.Context) error {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(e.around...),
		grpc.ChainUnaryInterceptor(service.LogCalls(e.node.ClaimOf)))
	csi.RegisterIdentityServer(server, lvmsdriver.NewPlugin(wellknown.EarlierDriverName, e.healthy))
	csi.RegisterNodeServer(server, e.node)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- sidecar.NewGRPCServer(server, e.registrar.CSISocket).Start(ctx) }()
	go func() { ended <- sidecar.NewRegistrar(e.registrar).Start(ctx) }()
	first := <-ended
	cancel()
	return errors.Join(first, <-ended)
}
