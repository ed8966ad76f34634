// Command agent simulates upstream LVMS' vg-manager on a node after its volume groups are created: TopoLVM's node
// program with its embedded lvmd, with the sockets, the tag and the lvmd.yaml of upstream. A cluster that is taken
// over has the mounts of this program.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
)

const (
	// program is TopoLVM's, which the image of the test has.
	program   = "/topolvm-node"
	csiSocket = "/run/topolvm/csi-topolvm.sock"
	// endTimeout is how long TopoLVM's program gets to end.
	endTimeout = 20 * time.Second
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		HealthProbeBindAddress: ":8081", Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	registrar := sidecar.NewRegistrar(sidecar.RegistrarOptions{
		Driver: "topolvm.io", Socket: "/registration/topolvm.io-reg.sock",
		Endpoint: "/var/lib/kubelet/plugins/topolvm.io/node/csi-topolvm.sock", CSISocket: csiSocket,
	})
	if err := errors.Join(mgr.Add(manager.RunnableFunc(runTopoLVM)), mgr.Add(registrar),
		mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("registered", registrar.Ready)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// runTopoLVM runs TopoLVM's program until ctx ends. The program reads /etc/topolvm/lvmd.yaml, and runs the LVM of
// the host.
func runTopoLVM(ctx context.Context) error {
	command := exec.CommandContext(ctx, program, "--embed-lvmd", "--csi-socket", csiSocket,
		"--metrics-bind-address", "0")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = endTimeout
	if err := command.Run(); ctx.Err() == nil {
		return fmt.Errorf("%s ended: %w", program, err)
	}
	return nil
}
