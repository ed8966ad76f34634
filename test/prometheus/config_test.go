package prometheus

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// shipped maps the files in the ServiceMonitor to their content.
var shipped = files{
	"/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt": "ca",
	"/etc/prometheus/secrets/metrics-client-certs/tls.crt":              "crt",
	"/etc/prometheus/secrets/metrics-client-certs/tls.key":              "key",
}

func TestTheShippedServiceMonitorIsPlayed(t *testing.T) {
	monitor, err := readMonitor("../..")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := config(monitor, "targets", shipped, "rules")
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
	if _, err := config(monitor, "targets", files{}, "rules"); err == nil {
		t.Error("a file that OpenShift's Prometheus does not have is no error")
	}
}

func TestAFieldThatIsNotPlayedIsAnError(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("../..", monitorFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"scrapeTimeout: 5s", "noSuchField: 1"} {
		root := t.TempDir()
		file := filepath.Join(root, monitorFile)
		changed := strings.Replace(string(data), "interval: 30s", "interval: 30s\n    "+field, 1)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(field, ":")
		if _, err := readMonitor(root); err == nil ||
			!strings.Contains(strings.ToLower(err.Error()), strings.ToLower(name)) {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestTheShippedRulesAreAFileOfPrometheus(t *testing.T) {
	got, err := rules("../..")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../monitoring/tests/rules.yaml")
	if err != nil || string(got) != string(want) {
		t.Errorf("%v: differs from monitoring/tests/rules.yaml", err)
	}
}
