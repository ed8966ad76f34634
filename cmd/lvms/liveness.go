package main

import (
	"context"
	"errors"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// addLiveness adds the checks of the process itself, and reports on /healthz whether they run.
func addLiveness(mgr ctrl.Manager, monitor *liveness.Monitor) error {
	return errors.Join(mgr.Add(monitor),
		mgr.AddHealthzCheck("liveness", func(*http.Request) error { return monitor.Check() }))
}

// baseContext returns the function for the context of controllers and other parts of a manager. It has the Monitor of
// ctx. It does not end with ctx: the manager ends its parts in order.
func baseContext(ctx context.Context) manager.BaseContextFunc {
	return func() context.Context { return context.WithoutCancel(ctx) }
}
