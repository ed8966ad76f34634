package main

import (
	"context"
	"errors"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
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

// running returns the function that counts the processes of all counters together.
func running(counters ...*host.Counter) func() (started, running uint64) {
	return func() (started, running uint64) {
		for _, counter := range counters {
			s, r := counter.Running()
			started, running = started+s, running+r
		}
		return started, running
	}
}
