package platform

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// optional are the APIs that a cluster may get later, and where a Platform says that they are there.
var optional = []struct {
	name  string
	kinds []resource
	in    func(*Platform) *bool
}{
	{"VolumeSnapshot API", []resource{snapshots}, func(p *Platform) *bool { return &p.Snapshots }},
	{"API of OpenShift's console", []resource{consolePlugins, quickStarts},
		func(p *Platform) *bool { return &p.Console }},
	{"API of the Prometheus Operator", []resource{serviceMonitors, prometheusRules},
		func(p *Platform) *bool { return &p.ServiceMonitors }},
}

// AppearedError ends a process that was started without an optional API, so that it starts again with it.
type AppearedError struct{ API string }

func (e *AppearedError) Error() string {
	return fmt.Sprintf("the %s has been installed: restarting to use it", e.API)
}

// appearInterval is how long a newly installed API waits to be noticed.
const appearInterval = time.Minute

type apiWatch struct {
	apis     discovery.DiscoveryInterface
	found    Platform
	interval time.Duration
}

// RestartWhenAPIsAppear returns a runnable for a process that did not find all optional APIs. It looks for the others
// once a minute and returns an *AppearedError when one is there: informers and watches of a kind are made at start
// only.
func RestartWhenAPIsAppear(apis discovery.DiscoveryInterface, found Platform) manager.Runnable {
	return &apiWatch{apis: apis, found: found, interval: appearInterval}
}

// NeedLeaderElection is false: a process that waits to be the leader must know the API too.
func (w *apiWatch) NeedLeaderElection() bool { return false }

// Start looks until an API is there that was not, or the context ends. A failed look says nothing: it is logged and
// repeated.
func (w *apiWatch) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("apis")
	for _, o := range optional {
		if !*o.in(&w.found) {
			logger.Info("The cluster lacks an optional API: what needs it is off until it is there", "api", o.name,
				"groupVersion", o.kinds[0].groupVersion)
		}
	}
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, o := range optional {
			if *o.in(&w.found) {
				continue
			}
			served, err := hasAll(w.apis, o.kinds)
			if err != nil {
				logger.Error(err, "Cannot tell whether an optional API is there", "api", o.name)
			}
			if served {
				return &AppearedError{API: o.name}
			}
		}
	}
}
