package platform

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// optional lists the APIs that a cluster may get later, with the field of Platform for each.
var optional = []struct {
	name  string
	kinds []resource
	in    func(*Platform) *bool
}{
	{"VolumeSnapshot API", []resource{snapshots}, func(p *Platform) *bool { return &p.Snapshots }},
	{"VolumeGroupSnapshot API", []resource{groupSnapshots}, func(p *Platform) *bool { return &p.GroupSnapshots }},
	{"VolumeAttributesClass API", []resource{volumeClasses},
		func(p *Platform) *bool { return &p.VolumeAttributes }},
	{"API of OpenShift's console", []resource{consolePlugins, quickStarts},
		func(p *Platform) *bool { return &p.Console }},
	{"API of the Prometheus Operator", []resource{serviceMonitors, prometheusRules},
		func(p *Platform) *bool { return &p.ServiceMonitors }},
}

// AppearedError ends a process when an optional API was installed after its start, so that it restarts with the API.
type AppearedError struct{ API string }

func (e *AppearedError) Error() string {
	return fmt.Sprintf("the %s was installed: restarting to use it", e.API)
}

// appearInterval is the interval at which optional APIs are looked up.
const appearInterval = time.Minute

type apiWatch struct {
	apis     discovery.DiscoveryInterface
	found    Platform
	interval time.Duration
}

// RestartWhenAPIsAppear returns a runnable that looks for missing optional APIs once a minute. It returns an
// *AppearedError when one is served: informers and watches of a kind are created only at start.
func RestartWhenAPIsAppear(apis discovery.DiscoveryInterface, found Platform) manager.Runnable {
	return &apiWatch{apis: apis, found: found, interval: appearInterval}
}

// NeedLeaderElection returns false: a process that waits to become the leader also needs the API.
func (w *apiWatch) NeedLeaderElection() bool { return false }

// Start runs until a missing API is served or the context ends. It logs discovery errors and retries.
func (w *apiWatch) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("apis")
	for _, o := range optional {
		if !*o.in(&w.found) {
			logger.Info("the cluster does not serve an optional API: the features that need it are disabled",
				"api", o.name, "groupVersion", o.kinds[0].groupVersion)
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
				logger.Error(err, "cannot check whether an optional API is served", "api", o.name)
			}
			if served {
				return &AppearedError{API: o.name}
			}
		}
	}
}
