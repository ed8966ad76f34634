//go:build lab

package sanity

import (
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmcontroller "github.com/topolvm/topolvm/pkg/controller"
	topolvmdriver "github.com/topolvm/topolvm/pkg/driver"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"github.com/topolvm/topolvm/pkg/runners"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/lvmd"
)

// startTopoLVM starts TopoLVM's own controller service, node service, reconciler of LogicalVolumes and exporter of the
// capacity, all from its module, on the product's engine: they call it with the protocol of TopoLVM's lvmd, on a
// socket, as they call `lvms lvmd`. Like startDriver, it returns when the capacity of all classes is known.
func startTopoLVM(t *testing.T, cluster *env.Env, storage *lvmexec.LVM, dir string) sockets {
	t.Helper()
	createNode(t, cluster)
	s := sockets{controller: filepath.Join(dir, "controller.sock"), node: filepath.Join(dir, "node.sock")}
	agent := newManager(t, cluster, cache.Options{})
	connection := serveLVMd(t, agent, newEngine(t, storage, dir), filepath.Join(dir, "lvmd.socket"))
	must(t, addTopoLVMNode(agent, connection, s.node))
	operator := newManager(t, cluster, cache.Options{})
	service, err := topolvmdriver.NewControllerServer(operator, topolvmdriver.ControllerServerSettings{})
	must(t, err)
	must(t, serveTopoLVM(operator, s.controller, func(g *grpc.Server) { csi.RegisterControllerServer(g, service) }))
	start(t, agent)
	start(t, operator)
	waitForCapacity(t, cluster.Client)
	return s
}

// serveLVMd serves an engine as `lvms lvmd` does, and returns a connection with it.
func serveLVMd(t *testing.T, manager ctrl.Manager, e *engine.Engine, socket string) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer()
	lvmd.Register(server, e)
	must(t, manager.Add(e))
	must(t, manager.Add(sidecar.NewGRPCServer(server, socket)))
	return dial(t, socket)
}

// dial connects with a socket until the test ends. A call waits until something listens.
func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	must(t, err)
	t.Cleanup(func() { must(t, connection.Close()) })
	return connection
}

// addTopoLVMNode adds what topolvm-node runs.
func addTopoLVMNode(manager ctrl.Manager, connection *grpc.ClientConn, socket string) error {
	groups, volumes := proto.NewVGServiceClient(connection), proto.NewLVServiceClient(connection)
	if err := topolvmcontroller.SetupLogicalVolumeReconcilerWithServices(manager, manager.GetClient(), nodeName, groups,
		volumes); err != nil {
		return err
	}
	if err := manager.Add(runners.NewMetricsExporter(groups, manager.GetClient(), nodeName)); err != nil {
		return err
	}
	service, err := topolvmdriver.NewNodeServer(nodeName, groups, volumes, manager)
	if err != nil {
		return err
	}
	return serveTopoLVM(manager, socket, func(g *grpc.Server) { csi.RegisterNodeServer(g, service) })
}

// serveTopoLVM adds a gRPC server with a service and TopoLVM's identity.
func serveTopoLVM(manager ctrl.Manager, socket string, register func(*grpc.Server)) error {
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server,
		topolvmdriver.NewIdentityServer(func() (bool, error) { return true, nil }))
	register(server)
	return manager.Add(sidecar.NewGRPCServer(server, socket))
}

// newEngine returns the engine of the node with all device classes.
func newEngine(t *testing.T, storage *lvmexec.LVM, dir string) *engine.Engine {
	t.Helper()
	e, err := engine.New(storage, devicemapper.New(), filepath.Join(dir, "lvmd.yaml"))
	must(t, err)
	for _, class := range deviceClasses() {
		must(t, e.Publish(class))
	}
	return e
}
