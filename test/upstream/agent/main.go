// Command agent simulates upstream LVMS' vg-manager on a node after its volume groups are created: TopoLVM's own node
// service, LogicalVolume controller and embedded lvmd, with the sockets, the tag and the lvmd.yaml of upstream. A
// cluster that is taken over has the mounts of this program.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	topolvmcontroller "github.com/topolvm/topolvm/pkg/controller"
	"github.com/topolvm/topolvm/pkg/driver"
	topolvmlvmd "github.com/topolvm/topolvm/pkg/lvmd"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
)

const (
	config    = "/etc/topolvm/lvmd.yaml"
	csiSocket = "/run/topolvm/csi-topolvm.sock"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), os.Getenv("NODE_NAME")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, node string) error {
	data, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	var classes struct {
		DeviceClasses []*types.DeviceClass `json:"device-classes"`
	}
	if err := yaml.Unmarshal(data, &classes); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), topolvmv1.AddToScheme(scheme)); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme: scheme, HealthProbeBindAddress: ":8081", Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	topolvmlvmd.SetLVMCommandPrefix([]string{"/usr/bin/nsenter", "-m", "-u", "-i", "-n", "-t", "1"})
	volumes, groups := topolvmlvmd.NewEmbeddedServiceClients(ctx, classes.DeviceClasses, nil)
	if err := topolvmcontroller.SetupLogicalVolumeReconcilerWithServices(mgr, mgr.GetClient(), node, groups,
		volumes); err != nil {
		return err
	}
	service, err := driver.NewNodeServer(node, groups, volumes, mgr)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, driver.NewIdentityServer(func() (bool, error) { return true, nil }))
	csi.RegisterNodeServer(server, service)
	registrar := sidecar.NewRegistrar(sidecar.RegistrarOptions{
		Driver: "topolvm.io", Socket: "/registration/topolvm.io-reg.sock",
		Endpoint: "/var/lib/kubelet/plugins/topolvm.io/node/csi-topolvm.sock", CSISocket: csiSocket,
	})
	if err := errors.Join(mgr.Add(sidecar.NewGRPCServer(server, csiSocket)), mgr.Add(registrar),
		mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("registered", registrar.Ready)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
