package scrape

import (
	"crypto/tls"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/internal/metrics/metric"
	"github.com/lvm-storage/lvm-operator/internal/version"
)

var (
	buildFamily = metric.NewGauge("lvms_build_info",
		"Always 1. The labels have the component (lvms-operator or vg-manager), its version, and the Go version "+
			"that built it.",
		"component", "version", "go_version")
	expiryFamily = metric.NewGauge("lvms_certificate_expiry_timestamp_seconds",
		"Expiry time of the serving certificate (webhook, metrics), in seconds since 1970. No series while there is "+
			"no certificate.",
		"component", "certificate")
)

// Families lists all metrics of a Process.
var Families = []metric.Family{buildFamily, expiryFamily}

// Process exports the version of the build and the expiry of its certificates. It implements prometheus.Collector.
type Process struct {
	// Component is lvms-operator or vg-manager.
	Component string
	// Certificates return the current certificates, by the name of the server.
	Certificates map[string]func() (*tls.Certificate, error)
}

// Describe implements prometheus.Collector.
func (p Process) Describe(to chan<- *prometheus.Desc) { metric.Describe(to, Families) }

// Collect implements prometheus.Collector.
func (p Process) Collect(to chan<- prometheus.Metric) {
	buildFamily.Send(to, 1, p.Component, version.Version, runtime.Version())
	for name, current := range p.Certificates {
		certificate, err := current()
		if err != nil {
			log.Log.V(1).Info("cannot read the expiry of a certificate", "certificate", name, "cause", err.Error())
			continue
		}
		expiryFamily.Send(to, float64(certificate.Leaf.NotAfter.Unix()), p.Component, name)
	}
}
