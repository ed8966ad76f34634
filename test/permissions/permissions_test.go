package permissions

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/cite"
	"github.com/lvm-storage/lvm-operator/test/lab"
)

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestEachPermissionIsUsed: an unused permission helps only an intruder.
func TestEachPermissionIsUsed(t *testing.T) {
	u, all := must[users](t)(readUsed()), must[[]string](t)(granted())
	if len(all) <= 300 {
		t.Fatalf("only %d permissions were read", len(all))
	}
	for _, permission := range all {
		if u[permission] == "" {
			t.Errorf("%s (config/rbac), and nothing uses that: remove it, or name the test that uses it in %s, or run the "+
				"end-to-end suite that does with %s=%s, which adds it", permission, usedFile, Mode, update)
		}
	}
	for _, permission := range slices.Sorted(maps.Keys(u)) {
		if !slices.Contains(all, permission) {
			t.Errorf("%s: %q is not in config/rbac: remove the line", usedFile, permission)
		}
	}
}

// TestWhatUsesAPermissionExists: suites that record what they use, and tests.
func TestWhatUsesAPermissionExists(t *testing.T) {
	recording := recordingSuites(t)
	u := must[users](t)(readUsed())
	found := map[string]bool{}
	for _, permission := range slices.Sorted(maps.Keys(u)) {
		user := u[permission]
		if found[user] || reasons[user] != "" {
			found[user] = true
			continue
		}
		found[user] = true
		suites := u.suites(permission)
		for _, suite := range suites {
			if !strings.Contains(recording, `"`+suite+`"`) {
				t.Errorf("%s: no suite in test/e2e calls UpAndRecord or RecordPermissions for a cluster %q", permission, suite)
			}
		}
		if len(suites) > 0 {
			continue
		}
		folder, test, _ := strings.Cut(user, " ")
		if err := cite.Find(folder, test); err != nil || !strings.HasPrefix(test, "Test") {
			t.Errorf("%s: %q is no test: %v", permission, user, err)
		}
	}
	for reason := range reasons {
		if !found[reason] {
			t.Errorf("the reason %q is not needed", reason)
		}
	}
}

// recordingSuites returns the source of the end-to-end suites that record the permissions that they use.
func recordingSuites(t *testing.T) string {
	t.Helper()
	root := must[string](t)(lab.Root())
	var all strings.Builder
	for _, pattern := range []string{"*_test.go", "*/*_test.go"} {
		for _, file := range must[[]string](t)(filepath.Glob(filepath.Join(root, "test/e2e", pattern))) {
			text := string(must[[]byte](t)(os.ReadFile(file)))
			if strings.Contains(text, "UpAndRecord(") || strings.Contains(text, "RecordPermissions(") {
				all.WriteString(text)
			}
		}
	}
	return all.String()
}

const sample = "a may get x\te2e\n" +
	"a may get y\te2e or e2e-olm\n" +
	"a may list y\te2e or e2e-olm\n" +
	"a may list z\tcontrollers/node TestIt\n" +
	"a may patch z\trepeated events\n" +
	"b may get x\te2e-olm\n"

func TestASuiteReportsWhatItNoLongerUses(t *testing.T) {
	u := must[users](t)(parse(sample))
	for suite, want := range map[string]string{"e2e": "a may get x", "e2e-olm": "b may get x", "e2e-other": ""} {
		if got := strings.Join(u.unused(suite, nil), "; "); got != want {
			t.Errorf("%s: got %q, want %q", suite, got, want)
		}
	}
	used := map[string]bool{"a may get x": true}
	if err := failure("e2e", u.unused("e2e", used)); err != nil {
		t.Error(err)
	}
	if err := failure("e2e", u.unused("e2e", nil)); err == nil || !strings.Contains(err.Error(), "a may get x") {
		t.Errorf("got %v", err)
	}
}

// TestARunMakesTheRecordPrecise: a suite keeps the permissions that it has used, and loses the others.
func TestARunMakesTheRecordPrecise(t *testing.T) {
	u := must[users](t)(parse(sample))
	all := append(slices.Collect(maps.Keys(u)), "a may watch new", "a may watch unused")
	slices.Sort(all)
	all = slices.DeleteFunc(all, func(p string) bool { return p == "b may get x" }) // It was removed from config/rbac.
	used := map[string]bool{"a may get y": true, "a may watch new": true, "a may list z": true, "b may get x": true,
		"b may delete what it was not granted": true}
	u.update("e2e", used, all)
	const want = "a may get y\te2e\n" +
		"a may list y\te2e-olm\n" +
		"a may list z\tcontrollers/node TestIt\n" +
		"a may patch z\trepeated events\n" +
		"a may watch new\te2e\n"
	if got := u.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	again := must[users](t)(parse(want))
	again.update("e2e", used, all)
	if got := again.String(); got != want {
		t.Errorf("the second time: got\n%s", got)
	}
}

func TestLinesOutOfOrderAreRefused(t *testing.T) {
	for _, text := range []string{"b\te2e\na\te2e\n", "a\te2e\na\te2e\n", "a\n", "a\t\n", "\n"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestRequestsNeedPermissions: server-side apply needs two, and a watch may need list too. Requests of others and those
// that were forbidden need none.
func TestRequestsNeedPermissions(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	lines := []string{
		`{"verb":"patch","user":{"username":"system:serviceaccount:openshift-storage:lvms-operator"},"objectRef":` +
			`{"resource":"configmaps","namespace":"openshift-storage","name":"c"},"responseStatus":{"code":201}}`,
		`{"verb":"watch","user":{"username":"system:serviceaccount:openshift-lvm-storage:vg-manager"},"objectRef":` +
			`{"resource":"lvmclusters","apiGroup":"lvm.topolvm.io","subresource":"status"},"responseStatus":{"code":200}}`,
		`{"verb":"get","user":{"username":"system:serviceaccount:openshift-lvm-storage:vg-manager"},"objectRef":` +
			`{"resource":"secrets"},"responseStatus":{"code":403}}`,
		`{"verb":"delete","user":{"username":"system:serviceaccount:other:vg-manager"},"objectRef":` +
			`{"resource":"secrets"},"responseStatus":{"code":200}}`,
	}
	if err := os.WriteFile(log, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"lvms-operator may create configmaps c in all namespaces",
		"lvms-operator may create configmaps c in openshift-lvm-storage",
		"lvms-operator may create configmaps in all namespaces",
		"lvms-operator may create configmaps in openshift-lvm-storage",
		"lvms-operator may patch configmaps c in all namespaces",
		"lvms-operator may patch configmaps c in openshift-lvm-storage",
		"lvms-operator may patch configmaps in all namespaces",
		"lvms-operator may patch configmaps in openshift-lvm-storage",
		"vg-manager may list lvmclusters/status.lvm.topolvm.io in all namespaces",
		"vg-manager may watch lvmclusters/status.lvm.topolvm.io in all namespaces",
	}
	if got := slices.Sorted(maps.Keys(must[map[string]bool](t)(requested(log)))); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
