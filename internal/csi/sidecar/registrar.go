package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/wait"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// csiVersion is the version of CSI that the kubelet is told.
const csiVersion = "1.0.0"

// RegistrarOptions are what the kubelet is told, and where.
type RegistrarOptions struct {
	// Driver is the name of the CSI driver.
	Driver string
	// Socket is where the kubelet looks for plug-ins, as this process sees it.
	Socket string
	// Endpoint is the socket of the CSI node service, as the kubelet sees it.
	Endpoint string
	// CSISocket is the same socket, as this process sees it.
	CSISocket string
}

// Registrar makes the kubelet of this node know the CSI driver. The kubelet finds the socket, asks what it is, and
// tells how the registration ended; when the socket goes away it forgets the driver.
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

// NeedLeaderElection is false: each node registers for itself.
func (r *Registrar) NeedLeaderElection() bool { return false }

// Start offers the driver to the kubelet until the context ends. It returns an error when the kubelet refuses it:
// the kubelet does not ask twice, only a new socket makes it try again.
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

// awaitSocket waits until something listens on a socket: the kubelet refuses a driver that does not answer.
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

// GetInfo tells the kubelet what the socket is for.
func (r *Registrar) GetInfo(ctx context.Context, _ *registration.InfoRequest) (*registration.PluginInfo, error) {
	log.FromContext(ctx).V(1).Info("The kubelet asks for the driver", "driver", r.options.Driver)
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              r.options.Driver,
		Endpoint:          r.options.Endpoint,
		SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus hears from the kubelet how the registration ended.
func (r *Registrar) NotifyRegistrationStatus(ctx context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	r.registered.Store(status.GetPluginRegistered())
	if status.GetPluginRegistered() {
		log.FromContext(ctx).Info("The kubelet has registered the driver", "driver", r.options.Driver)
		return &registration.RegistrationStatusResponse{}, nil
	}
	select {
	case r.refused <- fmt.Errorf("the kubelet refused CSI driver %s at %s: %s",
		r.options.Driver, r.options.Endpoint, status.GetError()):
	default: // the first refusal ends the process already
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// Ready is a health check: nil when the kubelet has registered the driver.
func (r *Registrar) Ready(*http.Request) error {
	if r.registered.Load() {
		return nil
	}
	return fmt.Errorf("the kubelet has not registered CSI driver %s yet: it watches for %s", r.options.Driver,
		r.options.Socket)
}
