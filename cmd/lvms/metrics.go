package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/lvm-storage/lvm-operator/internal/scrape"
)

const (
	// defaultVolumeMetrics is how many volumes of a node have metrics of their own: three series each.
	defaultVolumeMetrics  = 500
	volumeMetricsVariable = "VOLUME_METRICS"
)

// certificateSource returns the certificate that a server shows at the moment.
type certificateSource = func() (*tls.Certificate, error)

func addProcessMetrics(component string, certificates map[string]certificateSource) error {
	return metrics.Registry.Register(scrape.Process{Component: component, Certificates: certificates})
}

// numberFromEnvironment returns the number in a variable, or another one where it is not set.
func numberFromEnvironment(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return 0, fmt.Errorf("the environment variable %s is %q: give a whole number, 0 or more", name, text)
	}
	return number, nil
}
