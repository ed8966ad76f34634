package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/monitoring/rules"
)

// promtool is from the Debian package prometheus.
const promtool = "/usr/bin/promtool"

// scraped lists the labels that Prometheus adds to scraped series. Series of agents also get the label node.
var scraped = []string{"namespace", "job", "instance", "pod", "service", "endpoint", "container"}

// foreign maps metrics from other code to their labels: from Prometheus, Go and controller-runtime.
var foreign = map[string][]string{
	"up":                                 {"node"},
	"ALERTS":                             {"alertname", "alertstate", "severity", "node", "device_class"},
	"process_resident_memory_bytes":      {"node"},
	"controller_runtime_reconcile_total": {"controller", "result"},
	"controller_runtime_reconcile_errors_total": {"controller"},
}

// knownMetrics returns every metric in the code and in the recording rules, with its labels.
func knownMetrics(t *testing.T) map[string][]string {
	t.Helper()
	known := maps.Clone(foreign)
	for _, folder := range []string{"cmd", "controllers", "internal", "vgmanager"} {
		err := filepath.WalkDir(filepath.Join("..", folder), func(file string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				return err
			}
			found := map[string][]string{}
			collectMetrics(parsed, found)
			for name, labels := range found {
				if folder == "vgmanager" || strings.HasPrefix(name, "csi_plugin_") {
					labels = append(slices.Clone(labels), "node")
				}
				known[name] = labels
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range rules.Groups() {
		for _, r := range g.Records {
			known[r.Name] = []string{"namespace", "node", "device_class"} // those of volumes have no namespace
		}
	}
	for name, labels := range known {
		known[name] = append(slices.Clone(labels), scraped...)
	}
	if known["lvms_device_state"] == nil || known["csi_sidecar_operations_seconds_count"] == nil {
		t.Fatal("the metrics of the code were not found: it describes them in another way")
	}
	return known
}

// collectMetrics finds calls of metric.NewGauge and metric.NewCounter, and histograms of client_golang.
func collectMetrics(file *ast.File, known map[string][]string) {
	// vgmanager/volume/audit has it in another file.
	lists := map[string][]string{"volumeLabels": {"node", "device_class", "volume", "namespace",
		"persistentvolumeclaim"}}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, value := range spec.Values {
				if list, ok := value.(*ast.CompositeLit); ok {
					lists[spec.Names[i].Name] = literals(list.Elts)
				}
			}
		}
		return true
	})
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch function.Sel.Name {
		case "NewGauge", "NewCounter":
			labels := literals(call.Args[2:])
			if last, ok := call.Args[len(call.Args)-1].(*ast.Ident); ok {
				labels = lists[last.Name]
			}
			name := literals(call.Args[:1])
			known[name[0]] = labels
			// A summary has these series.
			if strings.HasSuffix(name[0], "_duration_seconds") {
				known[name[0]+"_sum"] = labels
				known[name[0]+"_count"] = labels
			}
		case "NewHistogramVec":
			fields := map[string]string{}
			for _, e := range call.Args[0].(*ast.CompositeLit).Elts {
				if pair := e.(*ast.KeyValueExpr); len(literals([]ast.Expr{pair.Value})) == 1 {
					fields[pair.Key.(*ast.Ident).Name] = literals([]ast.Expr{pair.Value})[0]
				}
			}
			name := strings.Join([]string{fields["Namespace"], fields["Subsystem"], fields["Name"]}, "_")
			for _, end := range []string{"_bucket", "_sum", "_count"} {
				known[name+end] = append([]string{"le"}, lists[call.Args[1].(*ast.Ident).Name]...)
			}
		}
		return true
	})
}

func literals(list []ast.Expr) []string {
	var all []string
	for _, e := range list {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if text, err := strconv.Unquote(l.Value); err == nil {
				all = append(all, text)
			}
		}
	}
	return all
}

var (
	grouping  = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	inner     = regexp.MustCompile(`\[[^]]*\]|\boffset\s+\w+`)
	selector  = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?(\s*\()?`)
	label     = regexp.MustCompile(`([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"[^"]*"`)
	operators = []string{"and", "or", "unless", "bool", "inf", "nan"}
)

// unknown returns the metrics of an expression that do not exist, and the labels that their metric lacks.
func unknown(expr string, known map[string][]string) []string {
	var wrong []string
	groups := grouping.FindAllStringSubmatch(expr, -1)
	rest := inner.ReplaceAllString(grouping.ReplaceAllString(expr, " "), " ")
	var all []string
	for _, m := range selector.FindAllStringSubmatch(rest, -1) {
		name := m[1]
		matchers := m[2]
		call := m[3] != ""
		if call || slices.Contains(operators, strings.ToLower(name)) || strings.HasPrefix(name, "$") ||
			(matchers == "" && isLiteral(rest, name)) {
			continue
		}
		labels, ok := known[name]
		if !ok {
			wrong = append(wrong, "metric "+name)
			continue
		}
		all = append(all, labels...)
		for _, l := range label.FindAllStringSubmatch(matchers, -1) {
			if !slices.Contains(labels, l[1]) {
				wrong = append(wrong, fmt.Sprintf("label %s of %s", l[1], name))
			}
		}
	}
	for _, g := range groups {
		for _, l := range strings.FieldsFunc(g[2], func(r rune) bool { return r == ',' || r == ' ' }) {
			if !slices.Contains(all, l) && !strings.Contains(expr, `"`+l+`"`) {
				wrong = append(wrong, "label "+l)
			}
		}
	}
	return wrong
}

// isLiteral reports whether a word is only in quotes, like the arguments of label_replace.
func isLiteral(expr, word string) bool {
	quoted := regexp.MustCompile(`"[^"]*\b` + regexp.QuoteMeta(word) + `\b[^"]*"`)
	return !regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `\b`).MatchString(quoted.ReplaceAllString(expr, ""))
}

// mustParse fails if Prometheus refuses an expression. Each is checked as a recording rule with its name.
func mustParse(t *testing.T, expressions map[string]string) {
	t.Helper()
	if len(expressions) == 0 {
		t.Fatal("no expression")
	}
	var list []any
	names := slices.Sorted(maps.Keys(expressions))
	for i, name := range names {
		list = append(list, map[string]any{"record": fmt.Sprintf("checked:expression:%d", i), "expr": expressions[name],
			"labels": map[string]string{"at": name}})
	}
	data, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "checked", "rules": list}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v (Debian's package prometheus has promtool)\n%s\n%s", err, out, strings.Join(names, "\n"))
	}
}

func TestUnknownMetricsAreFound(t *testing.T) {
	known := map[string][]string{"a_bytes": {"node", "class"}, "b:c:d": {"node"}}
	for expr, want := range map[string]string{
		`sum by (node) (rate(a_bytes{class="x"}[5m])) / on (node) b:c:d offset 1d`: "",
		`a_bites > 0`:                                        "metric a_bites",
		`max by (nod) (a_bytes)`:                             "label nod",
		`b:c:d{class="x"} unless b:c`:                        "label class of b:c:d, metric b:c",
		`label_replace(a_bytes, "to", "$1", "node", "(.*)")`: "",
	} {
		if got := strings.Join(unknown(expr, known), ", "); got != want {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}
