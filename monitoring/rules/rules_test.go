package rules

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// metricsPage is generated from the code and has every metric.
const metricsPage = "../../docs/reference/metrics.md"

var (
	camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]+$`)
	recorded  = regexp.MustCompile(`^lvms:[a-z_]+:[a-z]+[0-9]*m?$`) // level:metric:operation
	series    = regexp.MustCompile(`\b((?:lvms|topolvm|csi)_[a-z_]+|lvms:[a-z_:]+(?:[0-9]+m)?)\b`)
)

// The conventions are those that OpenShift's conformance tests check (openshift/origin, test/extended/prometheus).
func TestAlertsFollowTheConventions(t *testing.T) {
	names := map[string]bool{}
	for _, a := range allAlerts() {
		if names[a.Name] {
			t.Errorf("%s twice", a.Name)
		}
		names[a.Name] = true
		if !camelCase.MatchString(a.Name) {
			t.Errorf("%s is not in CamelCase", a.Name)
		}
		if !slices.Contains([]string{Critical, Warning, Info}, a.Severity) {
			t.Errorf("%s: severity %q", a.Name, a.Severity)
		}
		for what, text := range map[string]string{"summary": a.Summary, "description": a.Description} {
			if !strings.HasSuffix(text, ".") || strings.Contains(text, "\n") {
				t.Errorf("%s: the %s is not a sentence: %q", a.Name, what, text)
			}
			for _, label := range []string{"node", "device_class"} {
				// Recorded series have both.
				if strings.Contains(text, "$labels."+label+" ") && !strings.Contains(a.Expr, label) &&
					!strings.Contains(a.Expr, "lvms:") {
					t.Errorf("%s: the %s names %s, which the expression has not", a.Name, what, label)
				}
			}
		}
		if a.Severity != Info && len(a.Description) < 80 {
			t.Errorf("%s: the description says too little", a.Name)
		}
		if strings.HasPrefix(a.Expr, "absent(") != a.Static {
			t.Errorf("%s: the label namespace has to come from the expression, or be static", a.Name)
		}
	}
}

func TestRulesUseOnlyWhatThereIs(t *testing.T) {
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	records := map[string]bool{}
	check := func(where, expr string) {
		found := series.FindAllString(expr, -1)
		for _, name := range found {
			known := func(name string) bool { return strings.Contains(string(page), "| `"+name+"` |") }
			if !records[name] && !known(name) && !known(strings.TrimSuffix(name, "_count")) {
				t.Errorf("%s uses %s, which is neither recorded before nor in %s", where, name, metricsPage)
			}
		}
		if len(found) == 0 && !strings.Contains(expr, "up{") {
			t.Errorf("%s uses no metric of the product: %s", where, expr)
		}
	}
	for _, g := range Groups() {
		for _, r := range g.Records {
			if !recorded.MatchString(r.Name) {
				t.Errorf("%s is not level:metric:operation", r.Name)
			}
			check(r.Name, r.Expr)
			records[r.Name] = true
		}
		for _, a := range g.Alerts {
			check(a.Name, a.Expr)
		}
	}
}

// Prometheus itself parses expressions and templates, and detects duplicate rules.
func TestPrometheusTakesTheRules(t *testing.T) {
	see(t, written)
	out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", "--lint=all", "--lint-fatal",
		written).CombinedOutput()
	if err != nil {
		t.Errorf("promtool (make packages installs it): %v\n%s", err, out)
	}
}

// Every alert of upstream exists with its name, so that silences and routes remain valid.
func TestUpstreamsAlertsKeepTheirNames(t *testing.T) {
	for _, name := range []string{
		"VolumeGroupUsageAtThresholdNearFull", "VolumeGroupUsageAtThresholdCritical",
		"ThinPoolDataUsageAtThresholdNearFull", "ThinPoolDataUsageAtThresholdCritical",
		"ThinPoolMetaDataUsageAtThresholdNearFull", "ThinPoolMetaDataUsageAtThresholdCritical", "LVMSRAIDDegraded",
		"LVMSRAIDFailed", "LVMSRAIDSyncSlow",
	} {
		if !slices.ContainsFunc(allAlerts(), func(a Alert) bool { return a.Name == name }) {
			t.Errorf("no alert %s", name)
		}
	}
}
