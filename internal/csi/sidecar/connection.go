package sidecar

import (
	"context"
	"errors"
	"fmt"
	"time"

	csirpc "github.com/kubernetes-csi/csi-lib-utils/rpc"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The metrics of calls have the names and labels of csi-lib-utils (metrics).
var (
	operationBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300}
	operationLabels  = []string{"driver_name", "method_name", "grpc_status_code"}
)

// dial returns a connection to a CSI socket. It connects at the first call and reconnects when the connection is lost;
// a call waits for the connection until its deadline. The connection of csi-lib-utils, which the sidecar libraries use
// by default, ends the process when it is lost. That is wrong here, because the server is in the same process.
func dial(socket, driver string, metrics prometheus.Registerer) (*grpc.ClientConn, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "csi",
		Subsystem: "sidecar",
		Name:      "operations_seconds",
		Help:      "Duration of CSI calls by method and gRPC code.",
		Buckets:   operationBuckets,
	}, operationLabels)
	if err := register(metrics, seconds); err != nil {
		return nil, fmt.Errorf("register the metrics of the CSI connection: %w", err)
	}
	retry := backoff.DefaultConfig
	retry.MaxDelay = time.Second
	connection, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry}),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithUnaryInterceptor(measure(driver, seconds)),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to the CSI socket %s: %w", socket, err)
	}
	return connection, nil
}

// MeasureServer returns an interceptor that records the duration of each call to a server of the CSI driver. Servers of
// several drivers share the metric, which has the driver as a label.
func MeasureServer(driver string, metrics prometheus.Registerer) (grpc.UnaryServerInterceptor, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "csi",
		Subsystem: "plugin",
		Name:      "operations_seconds",
		Help:      "Duration of CSI calls by method and gRPC code.",
		Buckets:   operationBuckets,
	}, operationLabels)
	err := metrics.Register(seconds)
	already := prometheus.AlreadyRegisteredError{}
	if errors.As(err, &already) {
		if present, is := already.ExistingCollector.(*prometheus.HistogramVec); is {
			seconds, err = present, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("register the metrics of the CSI server: %w", err)
	}
	return func(ctx context.Context, request any, call *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		start := time.Now()
		response, err := handle(ctx, request)
		seconds.WithLabelValues(driver, call.FullMethod, status.Code(err).String()).Observe(time.Since(start).Seconds())
		return response, err
	}, nil
}

// measure records the duration of each call.
func measure(driver string, seconds *prometheus.HistogramVec) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		start := time.Now()
		err := invoke(ctx, method, req, reply, cc, options...)
		seconds.WithLabelValues(driver, method, status.Code(err).String()).Observe(time.Since(start).Seconds())
		return err
	}
}

// capabilities are those of a CSI controller.
type capabilities struct {
	plugin     csirpc.PluginCapabilitySet
	controller csirpc.ControllerCapabilitySet
}

// awaitDriver waits until the CSI controller is ready and returns its capabilities.
func (s *Sidecars) awaitDriver(ctx context.Context) (capabilities, error) {
	delay := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 7, Cap: 10 * time.Second}.DelayFunc()
	err := delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, operationTimeout)
		defer cancel()
		ready, err := csirpc.Probe(ctx, s.connection)
		if err != nil {
			log.FromContext(ctx).Info("CSI controller is not ready yet", "socket", s.Socket, "cause", err.Error())
		}
		return ready && err == nil, nil
	})
	if err != nil {
		return capabilities{}, fmt.Errorf("wait for the CSI controller on %s: %w", s.Socket, err)
	}
	return s.askCapabilities(ctx)
}

func (s *Sidecars) askCapabilities(ctx context.Context) (capabilities, error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	plugin, err := csirpc.GetPluginCapabilities(ctx, s.connection)
	if err != nil {
		return capabilities{}, fmt.Errorf("ask the CSI driver on %s for its capabilities: %w", s.Socket, err)
	}
	controller, err := csirpc.GetControllerCapabilities(ctx, s.connection)
	if err != nil {
		return capabilities{}, fmt.Errorf("ask the CSI controller on %s for its capabilities: %w", s.Socket, err)
	}
	return capabilities{plugin, controller}, nil
}
