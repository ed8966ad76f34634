// Command sidecars stands for two programs of Kubernetes CSI in the Pods of TopoLVM's chart, whose modules are not
// used otherwise: csi-node-driver-registrar and livenessprobe. The name of the program selects one of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lvm-storage/lvm-operator/internal/csi/sidecar"
)

const (
	registrationDir = "/registration"
	probeTimeout    = 2 * time.Second
	// driverTimeout is how long the node service may take to start.
	driverTimeout = time.Minute
)

func main() {
	ctrl.SetLogger(zap.New())
	csiSocket := flag.String("csi-address", "", "socket of the CSI driver")
	endpoint := flag.String("kubelet-registration-path", "", "the same socket, as a path of the kubelet")
	health := flag.String("http-endpoint", "", "address of the health check")
	flag.Parse()
	if err := run(ctrl.SetupSignalHandler(), filepath.Base(os.Args[0]), *csiSocket, *endpoint, *health); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, csiSocket, endpoint, health string) error {
	switch program {
	case "csi-node-driver-registrar":
		driver, err := driverName(ctx, csiSocket)
		if err != nil {
			return err
		}
		registrar := sidecar.NewRegistrar(sidecar.RegistrarOptions{Driver: driver,
			Socket: filepath.Join(registrationDir, driver+"-reg.sock"), Endpoint: endpoint, CSISocket: csiSocket})
		return both(ctx, registrar.Start, serve(health, registrar.Ready))
	case "livenessprobe":
		return serve(health, func(r *http.Request) error { return probe(r.Context(), csiSocket) })(ctx)
	}
	return fmt.Errorf("%s is neither csi-node-driver-registrar nor livenessprobe", program)
}

// both runs two functions until ctx ends or one of them returns.
func both(ctx context.Context, first, second func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	for _, start := range []func(context.Context) error{first, second} {
		go func() { ended <- start(ctx) }()
	}
	err := <-ended
	cancel()
	return errors.Join(err, <-ended)
}

// serve returns a function that answers /healthz with the result of a check, until its context ends.
func serve(address string, check func(*http.Request) error) func(context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: probeTimeout}
	return func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}
}

func connect(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// driverName returns the name of the driver. It waits until the driver answers.
func driverName(ctx context.Context, socket string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	connection, err := connect(socket)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	answer, err := csi.NewIdentityClient(connection).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{},
		grpc.WaitForReady(true))
	if err != nil {
		return "", fmt.Errorf("ask for the name of the driver at %s: %w", socket, err)
	}
	return answer.GetName(), nil
}

// probe calls the CSI method Probe of the driver.
func probe(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	connection, err := connect(socket)
	if err != nil {
		return err
	}
	defer connection.Close()
	answer, err := csi.NewIdentityClient(connection).Probe(ctx, &csi.ProbeRequest{})
	if err != nil {
		return err
	}
	if ready := answer.GetReady(); ready != nil && !ready.GetValue() {
		return errors.New("the driver is not ready")
	}
	return nil
}
