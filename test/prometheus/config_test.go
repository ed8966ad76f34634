package prometheus

import (
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/monitoring/access"
)

// shippedFiles maps the files in the ServiceMonitor to their content.
var shippedFiles = files{
	"/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt": "ca",
	"/etc/prometheus/secrets/metrics-client-certs/tls.crt":              "crt",
	"/etc/prometheus/secrets/metrics-client-certs/tls.key":              "key",
}

func TestTheShippedServiceMonitorIsPlayed(t *testing.T) {
	monitor, err := parseMonitor(access.Monitor)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := config(monitor, "targets", shippedFiles, "rules", 1)
	if err != nil {
		t.Fatal(err)
	}
	written, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"job_name: serviceMonitor/openshift-lvm-storage/lvms-operator-metrics-monitor/1\n",
		"scrape_interval: 30s\n", "server_name: vg-manager-metrics-service.openshift-lvm-storage.svc\n",
		"target_label: node\n",
	} {
		if !strings.Contains(string(written), want) {
			t.Errorf("no %q in\n%s", want, written)
		}
	}
	if _, err := config(monitor, "targets", files{}, "rules", 1); err == nil {
		t.Error("a file that OpenShift's Prometheus does not have is no error")
	}
}

func TestAFieldThatIsNotPlayedIsAnError(t *testing.T) {
	for _, field := range []string{"scrapeTimeout: 5s", "noSuchField: 1"} {
		changed := strings.Replace(string(access.Monitor), "interval: 30s", "interval: 30s\n    "+field, 1)
		name, _, _ := strings.Cut(field, ":")
		if _, err := parseMonitor([]byte(changed)); err == nil ||
			!strings.Contains(strings.ToLower(err.Error()), strings.ToLower(name)) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestTheShippedRulesAreAFileOfPrometheus(t *testing.T) {
	got, err := rules("../..", 1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../monitoring/tests/rules.yaml")
	if err != nil || string(got) != string(want) {
		t.Errorf("%v: differs from monitoring/tests/rules.yaml", err)
	}
}

func TestAFasterPrometheusDividesDurationsOfAlertsAndIntervals(t *testing.T) {
	got, err := rules("../..", 5)
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := rules("../..", 1)
	if err != nil {
		t.Fatal(err)
	}
	from, to := strings.Split(string(shipped), "\n"), strings.Split(string(got), "\n")
	if len(from) != len(to) {
		t.Fatalf("%d lines, want %d", len(to), len(from))
	}
	divided := 0
	for i, line := range from {
		if line == to[i] {
			continue
		}
		before, err := time.ParseDuration(strings.TrimPrefix(strings.TrimSpace(line), "for: "))
		if err != nil {
			t.Fatalf("%q was changed", line)
		}
		after, err := time.ParseDuration(strings.TrimPrefix(strings.TrimSpace(to[i]), "for: "))
		if err != nil || after != before/5 {
			t.Errorf("%q: got %q", line, to[i])
		}
		divided++
	}
	if want := strings.Count(string(shipped), " for: "); divided != want || want == 0 {
		t.Errorf("%d alerts fire earlier, want %d", divided, want)
	}
	monitor, err := parseMonitor(access.Monitor)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := config(monitor, "targets", shippedFiles, "rules", 5)
	if err != nil {
		t.Fatal(err)
	}
	written, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"scrape_interval: 6000ms\n", "evaluation_interval: 3000ms\n"} {
		if !strings.Contains(string(written), want) {
			t.Errorf("no %q in\n%s", want, written)
		}
	}
}
