//go:build lab

package sanity

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/topolvm/topolvm"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/lvmd"
)

// startTopoLVM starts TopoLVM's released programs, topolvm-controller and topolvm-node, on the product's engine: they
// call it with the protocol of TopoLVM's lvmd, on a socket, as they call `lvms lvmd`. Like startDriver, it returns when
// the capacity of all classes is known.
func startTopoLVM(t *testing.T, cluster *env.Env, storage *lvmexec.LVM, dir string) sockets {
	t.Helper()
	createNode(t, cluster)
	must(t, cluster.Client.Create(t.Context(),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: topolvm.GetPluginName()}}))
	s := sockets{controller: filepath.Join(dir, "controller.sock"), node: filepath.Join(dir, "node.sock")}
	lvmdSocket := filepath.Join(dir, "lvmd.socket")
	engine := newManager(t, cluster, cache.Options{})
	serveLVMd(t, engine, newEngine(t, storage, dir), lvmdSocket)
	start(t, engine)
	kubeconfig := writeKubeconfig(t, cluster, dir)
	startProgram(t, kubeconfig, "topolvm-node", "--nodename", nodeName, "--csi-socket", s.node,
		"--lvmd-socket", lvmdSocket, "--metrics-bind-address", "0")
	startProgram(t, kubeconfig, "topolvm-controller", "--csi-socket", s.controller, "--enable-webhooks=false",
		"--leader-election=false", "--metrics-bind-address", "0", "--health-probe-bind-address", "0")
	waitForCapacity(t, cluster.Client)
	waitUntilReady(t, s.controller, s.node)
	return s
}

// writeKubeconfig writes a kubeconfig file of an administrator.
func writeKubeconfig(t *testing.T, cluster *env.Env, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "kubeconfig")
	must(t, os.WriteFile(path, cluster.Kubeconfig(), 0o600))
	return path
}

// startProgram runs one of TopoLVM's programs until the test ends. Its log is that of the test.
func startProgram(t *testing.T, kubeconfig, name string, args ...string) {
	t.Helper()
	programs := os.Getenv("LVMS_TEST_TOPOLVM")
	if programs == "" {
		t.Fatal("LVMS_TEST_TOPOLVM is not set: run `make test-long ITEMS=bare/topolvm/debian12`, which builds TopoLVM")
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	command := exec.CommandContext(ctx, filepath.Join(programs, name), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	must(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		stop()
		t.Logf("%s ended: %v", name, <-ended)
	})
}

// waitUntilReady waits until the drivers at the sockets are ready: TopoLVM's look for the CSIDriver once a minute.
func waitUntilReady(t *testing.T, sockets ...string) {
	t.Helper()
	for _, socket := range sockets {
		identity := csi.NewIdentityClient(dial(t, socket))
		must(t, wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, env.Patience, true,
			func(ctx context.Context) (bool, error) {
				answer, err := identity.Probe(ctx, &csi.ProbeRequest{})
				return answer.GetReady().GetValue(), err
			}))
	}
}

// serveLVMd serves an engine as `lvms lvmd` does.
func serveLVMd(t *testing.T, manager ctrl.Manager, e *engine.Engine, socket string) {
	t.Helper()
	server := grpc.NewServer()
	lvmd.Register(server, e)
	must(t, manager.Add(e))
	must(t, manager.Add(sidecar.NewGRPCServer(server, socket)))
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
