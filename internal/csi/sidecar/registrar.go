package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/wait"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// csiVersion is the CSI version that the kubelet receives.
const csiVersion = "1.0.0"

// RegistrarOptions configure the registration.
type RegistrarOptions struct {
	// Driver is the name of the CSI driver.
	Driver string
	// Socket is the registration socket of the kubelet's plugin directory, as a path of this process.
	Socket string
	// Endpoint is the socket of the CSI node service, as a path of the kubelet.
	Endpoint string
	// CSISocket is the same socket, as a path of this process.
	CSISocket string
}

// Registrar registers the CSI driver with the kubelet of this node. The kubelet finds the socket, calls GetInfo, and
// reports the result with NotifyRegistrationStatus. It unregisters the driver when the socket is removed.
type Registrar struct {
	registration.UnimplementedRegistrationServer
	options RegistrarOptions

	registered atomic.Bool
	refused    chan error
}

// NewRegistrar returns a Registrar.
func NewRegistrar(options RegistrarOptions) *Registrar {
	return &Registrar{options: options, refused: make(chan error, 1)}
}

// NeedLeaderElection returns false: each node registers its own driver.
func (r *Registrar) NeedLeaderElection() bool { return false }

// Start serves the registration until the context ends. It returns an error if the kubelet refuses the driver: the
// kubelet does not retry with the same socket, only with a new one.
func (r *Registrar) Start(ctx context.Context) error {
	if err := awaitSocket(ctx, r.options.CSISocket); err != nil {
		return endedOr(ctx, err)
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- NewGRPCServer(server, r.options.Socket).Start(ctx) }()
	defer r.registered.Store(false)
	select {
	case err := <-ended:
		return err
	case refused := <-r.refused:
		cancel()
		return errors.Join(refused, <-ended)
	}
}

// awaitSocket waits until a server listens on a socket: the kubelet refuses a driver that does not answer.
func awaitSocket(ctx context.Context, socket string) error {
	delay := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Steps: 8, Cap: time.Second}.DelayFunc()
	err := delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return false, nil
		}
		return true, connection.Close()
	})
	if err != nil {
		return fmt.Errorf("wait for the CSI node service on %s: %w", socket, err)
	}
	return nil
}

// GetInfo returns the name and the endpoint of the driver to the kubelet.
func (r *Registrar) GetInfo(ctx context.Context, _ *registration.InfoRequest) (*registration.PluginInfo, error) {
	log.FromContext(ctx).V(1).Info("kubelet requests the driver's information", "driver", r.options.Driver)
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              r.options.Driver,
		Endpoint:          r.options.Endpoint,
		SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus receives the result of the registration from the kubelet.
func (r *Registrar) NotifyRegistrationStatus(ctx context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	r.registered.Store(status.GetPluginRegistered())
	if status.GetPluginRegistered() {
		log.FromContext(ctx).Info("kubelet registered the driver", "driver", r.options.Driver)
		return &registration.RegistrationStatusResponse{}, nil
	}
	select {
	case r.refused <- fmt.Errorf("the kubelet refused CSI driver %s at %s: %s",
		r.options.Driver, r.options.Endpoint, status.GetError()):
	default: // the first refusal already ends the process
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// Ready is a health check. It returns nil if the kubelet has registered the driver, and finds its sockets.
func (r *Registrar) Ready(*http.Request) error {
	if !r.registered.Load() {
		return fmt.Errorf("the kubelet has not registered CSI driver %s yet: it watches for %s", r.options.Driver,
			r.options.Socket)
	}
	for _, socket := range []string{r.options.Socket, r.options.CSISocket} {
		if _, err := os.Lstat(socket); err != nil {
			return fmt.Errorf("the kubelet does not find CSI driver %s: %w", r.options.Driver, err)
		}
	}
	return nil
}
