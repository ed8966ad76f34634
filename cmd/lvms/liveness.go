package main

import (
	"errors"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/internal/liveness"
)

// addLiveness adds the checks of the process itself, and reports on /healthz whether they run.
func addLiveness(mgr ctrl.Manager, monitor *liveness.Monitor) error {
	return errors.Join(mgr.Add(monitor),
		mgr.AddHealthzCheck("liveness", func(*http.Request) error { return monitor.Check() }))
}
