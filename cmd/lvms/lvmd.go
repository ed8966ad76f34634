package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/classes"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/lvmd"
)

func lvmdCommand() *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:   "lvmd",
		Short: "Serve device classes on a socket for TopoLVM's node service",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return runLVMd(ctrl.SetupSignalHandler(), path) },
	}
	command.PersistentFlags().StringVar(&path, "config", filepath.Join(hostpaths.DefaultStateDir, lvmdFile),
		"configuration file in TopoLVM's format")
	command.AddCommand(&cobra.Command{
		Use:   "health",
		Short: "Check whether the lvmd in the configuration file serves",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return askLVMd(command.Context(), path) },
	})
	return command
}

// runLVMd serves until ctx ends. It returns an error at once if the volume group of a device class does not exist.
func runLVMd(ctx context.Context, path string) error {
	config, err := classes.ReadConfig(path)
	if err != nil {
		return err
	}
	layout, err := hostpaths.FromEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	var runner host.Runner = host.NewNamespace(layout.HostPath())
	if len(config.CommandPrefix) > 0 {
		if runner, err = host.NewPrefixed(config.CommandPrefix); err != nil {
			return fmt.Errorf("%s: lvm-command-prefix: %w", path, err)
		}
	}
	volumes, kernel := lvmexec.New(runner), devicemapper.New()
	if len(config.CommandPrefix) == 0 { // With a prefix, the devices may belong to another host.
		devices := device.New(runner)
		volumes.FlushWith(devices.Flush)
		volumes.ReadGroupsWith(devices.ReadPhysicalVolumes)
		volumes.PoolsWith(engine.PoolsOf(kernel))
	}
	engine, err := engine.New(volumes, kernel, path)
	if err != nil {
		return err
	}
	if err := lvmd.Check(ctx, engine); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	server := grpc.NewServer()
	lvmd.Register(server, engine)
	ended := make(chan error, 1)
	go func() { ended <- engine.Start(ctx) }()
	err = sidecar.NewGRPCServer(server, config.SocketName).Start(ctx)
	return errors.Join(err, <-ended)
}

// healthTimeout is the timeout of a health check.
const healthTimeout = 10 * time.Second

func askLVMd(ctx context.Context, path string) error {
	config, err := classes.ReadConfig(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	connection, err := grpc.NewClient("passthrough:///"+config.SocketName,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, socket string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	response, err := healthpb.NewHealthClient(connection).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return fmt.Errorf("lvmd on %s: check health: %w", config.SocketName, err)
	}
	if response.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("lvmd on %s is not serving: its health status is %s", config.SocketName, response.GetStatus())
	}
	_, err = fmt.Fprintln(os.Stdout, "lvmd serves on", config.SocketName)
	return err
}
