package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/monitoring/rules"
)

// The scenes are in files for promtool: Prometheus' own code evaluates the rules.
func TestAlertsOfTheServiceFireWhenTheyShould(t *testing.T) {
	scenes := []string{"tests/service_test.yaml", "tests/orphans_test.yaml", "tests/volumes_test.yaml"}
	text := read(t, scenes[0]) + read(t, scenes[1])
	for _, g := range rules.Groups() {
		for _, a := range g.Alerts {
			if g.Name == "lvms-service" && !strings.Contains(text, `alertname="`+a.Name+`"`) {
				t.Errorf("%s has no scene", a.Name)
			}
		}
	}
	for _, file := range append([]string{"tests/rules.yaml"}, scenes...) {
		_ = read(t, file) // so that go test's cache sees what promtool reads
	}
	if out, err := exec.Command(promtool, append([]string{"test", "rules"},
		scenes...)...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
