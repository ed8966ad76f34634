//go:build lab

package sanity

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
)

// compareDrivers makes the same calls to TopoLVM's services and to the product's, both on the
// product's engine and real LVM, and compares the answers, the objects, the volumes and the mounts after each call.
// Each difference must be in the table of differences, and each row of the table must be seen.
func compareDrivers(t *testing.T, storage *lvmexec.LVM) {
	ctrl.SetLogger(logr.Discard())
	judged := record(t, storage, "TopoLVM", startTopoLVM)
	ours := record(t, storage, "LVMS", startDriver)
	seen := map[string]bool{}
	for i, call := range scenario() {
		for _, d := range compare(judged[i:], ours[i:]) {
			row := rowOf(call.name, d)
			if row == nil {
				t.Errorf("%s: %s: TopoLVM %q, LVMS %q: not in the table of differences.go", call.name, d.fact, d.judged,
					d.ours)
				continue
			}
			seen[row.Text] = true
		}
	}
	for i := range Differences {
		if !seen[Differences[i].Text] {
			t.Errorf("TopoLVM and LVMS no longer differ: remove the row %q from differences.go", Differences[i].Text)
		}
	}
}

// record makes all calls of the scenario to a driver on an API server of its own, and returns the facts after each one,
// with those before the first one at its place.
func record(t *testing.T, storage *lvmexec.LVM, name string,
	startDriver func(*testing.T, *env.Env, *lvmexec.LVM, string) sockets) []facts {
	t.Helper()
	var all []facts
	t.Run(name, func(t *testing.T) {
		dir := t.TempDir()
		cluster := startCluster(t)
		d := newSubject(t, cluster, storage, dir, startDriver(t, cluster, storage, dir))
		all = append(all, facts{})
		for _, call := range scenario() {
			all = append(all, d.make(t, call))
		}
		removeWhatIsLeft(t, cluster, storage)
	})
	if len(all) <= len(scenario()) {
		t.Fatalf("%s did not answer all calls", name)
	}
	return all
}

// removeWhatIsLeft removes the objects that a driver left, because the scenario reports them, and fails if volumes are
// left, which the next driver would have.
func removeWhatIsLeft(t *testing.T, cluster *env.Env, storage *lvmexec.LVM) {
	t.Helper()
	var volumes topolvmv1.LogicalVolumeList
	must(t, cluster.Client.List(t.Context(), &volumes))
	for i := range volumes.Items {
		v := &volumes.Items[i]
		v.Finalizers = nil
		must(t, cluster.Client.Update(t.Context(), v))
		must(t, client.IgnoreNotFound(cluster.Client.Delete(t.Context(), v)))
	}
	checkNothingIsLeft(t, cluster, storage)
}

// facts are what a driver answered, and what is there after a call, as text by name.
type facts map[string]string

// difference is a fact that is about the answer, or that a call changed with one driver at least, and that differs.
type difference struct{ fact, judged, ours string }

// compare returns the differences after a call. The arguments begin with the facts before the call. If only one driver
// has an object, a volume, a mount or a successful answer, its details are no differences.
func compare(judged, ours []facts) []difference {
	names := map[string]bool{}
	for _, pair := range [][]facts{judged, ours} {
		for name := range pair[0] {
			names[name] = true
		}
		for name := range pair[1] {
			names[name] = true
		}
	}
	var all []difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		of, _, detail := strings.Cut(name, ".")
		changed := of == answer || judged[0][name] != judged[1][name] || ours[0][name] != ours[1][name]
		if changed && judged[1][name] != ours[1][name] && (!detail || judged[1][of] == ours[1][of]) {
			all = append(all, difference{name, judged[1][name], ours[1][name]})
		}
	}
	return all
}

// rowOf returns the row of the table for a difference, or nil.
func rowOf(call string, d difference) *Difference {
	for i := range Differences {
		row := &Differences[i]
		if len(row.Calls) > 0 && !slices.Contains(row.Calls, call) {
			continue
		}
		if matches(row.Fact, d.fact) && matches(row.Judged, d.judged) && matches(row.Ours, d.ours) {
			return row
		}
	}
	return nil
}

func matches(pattern, text string) bool {
	return regexp.MustCompile("^(" + pattern + ")$").MatchString(text)
}

// under returns a path below the directory of a driver.
func (d *subject) under(elements ...string) string {
	return filepath.Join(append([]string{d.dir}, elements...)...)
}
