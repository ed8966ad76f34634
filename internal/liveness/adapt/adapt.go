// Package adapt makes reconciles and calls of gRPC servers units of work of liveness, and requests to the API server
// what they wait for.
package adapt

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/pprof"
	"strings"

	"google.golang.org/grpc"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// NewMonitor returns a Monitor that logs what is stuck, writes all goroutines to stderr, and ends the process.
func NewMonitor() *liveness.Monitor {
	logger := ctrl.Log.WithName("liveness")
	return liveness.New(func(err error) {
		logger.Error(err, "the usage of the process cannot be read: stuck work is not noticed")
	}, func(stuck []string) {
		logger.Error(errors.New(strings.Join(stuck, "; ")), "a part of the process is stuck: the process ends, so "+
			"that the kubelet starts it again. All goroutines follow")
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		os.Exit(1)
	})
}

// Reconciler returns a reconciler each of whose reconciles is a unit of work.
func Reconciler(inner reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		ctx, end := liveness.Begin(ctx, fmt.Sprintf("reconcile of %s by %T", request, inner))
		defer end()
		return inner.Reconcile(ctx, request)
	})
}

// Interceptor makes each call of a gRPC server a unit of work.
func Interceptor(m *liveness.Monitor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, end := liveness.Begin(m.Context(ctx), info.FullMethod)
		defer end()
		return handler(ctx, request)
	}
}

// Transport returns what wraps the transport of a client of the API server: a request is something that a unit of work
// waits for. The transport below has the time limits.
func Transport(m *liveness.Monitor) func(inner http.RoundTripper) http.RoundTripper {
	return func(inner http.RoundTripper) http.RoundTripper { return transport{m, inner} }
}

type transport struct {
	monitor *liveness.Monitor
	inner   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	defer liveness.Busy(request.Context())()
	end := t.monitor.Request()
	response, err := t.inner.RoundTrip(request)
	end(err)
	return response, err
}
