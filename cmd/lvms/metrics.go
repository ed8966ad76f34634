package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"strconv"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/lvm-storage/lvm-operator/controllers/alertrules"
	"github.com/lvm-storage/lvm-operator/internal/metrics/scrape"
)

// defaultVolumeMetrics is the default for the maximum number of volumes of a node with their own metrics, which are
// nine series each, and one for each of their devices.
const defaultVolumeMetrics = 500

// Environment variables that a Subscription or the Deployment can set. Their comments are text of
// docs/reference/flags.md: `make references` writes it.
const (
	// volumeMetricsVariable is an environment variable of `lvms operator`: overrides `--volume-metrics`. An
	// integer, 0 for none.
	volumeMetricsVariable = "VOLUME_METRICS"
	// smartIntervalVariable is an environment variable of `lvms operator`: overrides `--smart-interval`. A duration
	// such as `1h` or `30m`, at least 1m; 0 for never.
	smartIntervalVariable = "SMART_INTERVAL"
	// nodeProbeVariable is an environment variable of `lvms operator`: overrides `--node-probe-interval`. A duration
	// such as `1h` or `30m`, at least 1m; 0 for never.
	nodeProbeVariable = "NODE_PROBE_INTERVAL"
	// runbooksVariable is an environment variable of `lvms operator`: overrides `--runbook-base-url`. The prefix of
	// `runbook_url` in the alerts.
	runbooksVariable = "RUNBOOK_BASE_URL"
	// podWebhookVariable is an environment variable of `lvms operator`: overrides `--pod-webhook`. `true` or `false`.
	podWebhookVariable = "POD_WEBHOOK"
)

// certificateSource returns the current certificate of a server.
type certificateSource = func() (*tls.Certificate, error)

// reportCertificate logs that the metrics certificate cannot be loaded from its directory.
func reportCertificate(err error) {
	ctrl.Log.Error(err, "cannot reload the metrics certificate: serving the last one")
}

func addProcessMetrics(component string, certificates map[string]certificateSource) error {
	return metrics.Registry.Register(scrape.Process{Component: component, Certificates: certificates})
}

// intervalFromEnvironment returns an interval from the environment or else from the flag; 0 for never.
func intervalFromEnvironment(variable, flagName string, flag, least time.Duration) (time.Duration, error) {
	interval, from := flag, "--"+flagName
	if text := os.Getenv(variable); text != "" {
		parsed, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("invalid environment variable %s=%q: must be a duration such as 1h or 30m, or 0 "+
				"for never", variable, text)
		}
		interval, from = parsed, "environment variable "+variable
	}
	if interval != 0 && interval < least {
		return 0, fmt.Errorf("invalid %s %s: must be at least %s, or 0 for never", from, interval, least)
	}
	return interval, nil
}

// runbooks returns the prefix of runbook_url in the alerts, from the environment or else from the flag.
func runbooks(flag string) (string, error) {
	address := flag
	from := "--runbook-base-url"
	if variable := os.Getenv(runbooksVariable); variable != "" {
		address = variable
		from = "environment variable " + runbooksVariable
	}
	base, err := alertrules.Runbooks(address)
	if err != nil {
		return "", fmt.Errorf("%s: %w", from, err)
	}
	return base, nil
}

// boolFromEnvironment returns the value of an environment variable, or a default if it is not set.
func boolFromEnvironment(name string, otherwise bool) (bool, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("invalid environment variable %s=%q: must be true or false", name, text)
	}
	return value, nil
}

// numberFromEnvironment returns the number in an environment variable, or a default if it is not set.
func numberFromEnvironment(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return 0, fmt.Errorf("invalid environment variable %s=%q: must be an integer, 0 or greater", name, text)
	}
	return number, nil
}
