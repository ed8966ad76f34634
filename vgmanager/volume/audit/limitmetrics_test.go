package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/iolimits"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// limited is a LogicalVolume with annotations for its I/O limits: requested, in force, and an error.
func limited(name, requested, inForce, failed string) topolvmv1.LogicalVolume {
	return topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			wellknown.IOLimitsAnnotation: requested, wellknown.IOLimitsInForceAnnotation: inForce,
			wellknown.IOLimitsErrorAnnotation: failed,
		}},
		Status: topolvmv1.LogicalVolumeStatus{VolumeID: name},
	}
}

func TestOnlyVolumesWithLimitsHaveMetricsOfLimits(t *testing.T) {
	objects := []topolvmv1.LogicalVolume{
		limited("read", "readIOPS=500 readBytesPerSecond=4096", "readIOPS=500 readBytesPerSecond=4096", ""),
		limited("pending", "writeIOPS=9", "writeIOPS=5", ""),
		limited("refused", "readIOPS=9", "readIOPS=5", "readIOPS=9: EIO"),
		limited("lost", "readIOPS=9", "", "readIOPS=9: cgroup v1"),
		limited("earlier error", "readIOPS=9", "readIOPS=9", "readIOPS=7: EIO"),
		limited("removed", "none", "none", ""), limited("none", "", "", ""),
		limited("not valid", "", "iops=5", ""), limited("no logical volume", "readIOPS=5", "readIOPS=5", ""),
		{ObjectMeta: limited("no id", "readIOPS=5", "readIOPS=5", "").ObjectMeta},
	}
	volumes := []engine.VolumeState{{Name: "no object", Size: 9}, {}}
	for i, lv := range objects[:8] {
		volumes = append(volumes, engine.VolumeState{Name: lv.Name, Class: "thick", Size: int64(100 - i)})
	}
	all := []string{"read: readIOPS=500 readBytesPerSecond=4096 false", "pending: writeIOPS=5 false",
		"refused: readIOPS=5 true", "lost: none true", "earlier error: readIOPS=9 false"}
	for most, want := range map[int][]string{0: {}, 2: all[:2], 10: all} {
		for range 2 {
			got := []string{}
			for _, l := range newLimitMetrics(volumes, objects, most) {
				got = append(got, fmt.Sprintf("%s: %s %v", l.name, l.inForce, l.failed))
			}
			if !slices.Equal(got, want) {
				t.Errorf("at most %d: got %q, want %q", most, got, want)
			}
		}
	}
}

func TestTheMetricsShowTheLimitsInForceUntilTheVolumesCannotBeRead(t *testing.T) {
	w := newWorld(t)
	a, _, _ := w.auditor()
	a.MaxVolumes = 10
	for _, name := range []string{"a", "b", "unlimited"} {
		w.ask(name, thin(8))
		w.must(w.run(name))
	}
	for name, limits := range map[string]topolvmv1.LogicalVolume{
		"a": limited("", "readIOPS=500 writeIOPS=100 readBytesPerSecond=4096 writeBytesPerSecond=8192",
			"readIOPS=500 writeIOPS=100 readBytesPerSecond=4096 writeBytesPerSecond=8192", ""),
		"b": limited("", "readIOPS=9", "writeIOPS=7", "readIOPS=9: EIO"),
	} {
		object := w.get(name)
		for key, text := range limits.Annotations {
			object.Annotations[key] = text
		}
		w.must(w.api.Update(t.Context(), object))
	}
	names := []string{iopsLimitFamily.Name, bytesLimitFamily.Name, limitsFailedFamily.Name}
	line := func(family, volume, claim, direction, value string) string {
		if direction != "" {
			direction = `direction="` + direction + `",`
		}
		return fmt.Sprintf("%s{device_class=\"thin\",%snamespace=\"ns\",node=\"node1\",persistentvolumeclaim=%q,"+
			"volume=%q} %s\n", family, direction, claim, w.get(volume).Status.VolumeID, value)
	}
	var want strings.Builder
	for _, f := range Families {
		if slices.Contains(names, f.Name) {
			fmt.Fprintf(&want, "# HELP %s %s\n# TYPE %[1]s gauge\n", f.Name, f.Help)
		}
	}
	for _, l := range []string{
		line(names[0], "a", "a", "read", "500"), line(names[0], "a", "a", "write", "100"),
		line(names[0], "b", "b", "write", "7"),
		line(names[1], "a", "a", "read", "4096"), line(names[1], "a", "a", "write", "8192"),
		line(names[2], "b", "b", "", "1"),
	} {
		want.WriteString(l)
	}
	for range 2 {
		w.must(a.Audit(t.Context()))
		if err := testutil.CollectAndCompare(a, strings.NewReader(want.String()), names...); err != nil {
			t.Error(err)
		}
	}
	if problems, err := testutil.CollectAndLint(a, names...); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	w.fake.Fail("Report", errors.New("exit status 5"))
	for i, want := range []int{6, 6, 0} {
		if err := a.Audit(t.Context()); err == nil {
			t.Fatal("no error")
		}
		if n := testutil.CollectAndCount(a, names...); n != want {
			t.Errorf("%d series after %d audits that failed, want %d", n, i+1, want)
		}
	}
	w.fake.Fail("Report", nil)
	object := w.get("a")
	object.Annotations[wellknown.IOLimitsInForceAnnotation] = iolimits.None
	w.must(w.api.Update(t.Context(), object))
	w.must(a.Audit(t.Context()))
	if n := testutil.CollectAndCount(a, names...); n != 2 {
		t.Errorf("%d series when the limits of a volume were removed, want 2", n)
	}
}
