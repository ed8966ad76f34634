//go:build e2e

// Package monitoring tests the alerts for an administrator: a real Prometheus with the product's rules monitors disks
// that fail.
package monitoring

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	// These tests accept the flags of the other end-to-end tests.
	_ "github.com/onsi/ginkgo/v2"

	"github.com/lvm-storage/lvm-operator/monitoring/access"
	"github.com/lvm-storage/lvm-operator/monitoring/prometheusrule"
	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/prometheus"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: thin
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]}
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: pool, sizePercent: 90, overprovisionRatio: 10}
    - name: mirror
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]}
      deviceSelector: {paths: [MIRROR1, MIRROR2]}
      raidConfig: {type: raid1}
    - name: loose
      nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node2]}]}]}
      deviceSelector: {paths: [LOOSE]}
`

// The alerts of the pool in the order in which they fire while it fills.
const (
	near     = "ThinPoolDataUsageAtThresholdNearFull thin node1"
	critical = "ThinPoolDataUsageAtThresholdCritical thin node1"
	full     = "LVMSThinPoolDataFull thin node1"
)

const (
	// step is the resolution of queries for the past.
	step = time.Second
	// speed is how much earlier alerts fire than with the shipped rules. An agent that does not answer for a minute on
	// a busy machine must not be an alert.
	speed = 5
	// evaluation is the interval of Prometheus' evaluations.
	evaluation = 15 * time.Second / speed
)

// world is a cluster that Prometheus monitors.
type world struct {
	*suite.World
	prometheus *prometheus.Prometheus
}

func TestAlertsOfRealFaults(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	w := newWorld(ctx, t)
	w.Logf("%s: Prometheus scrapes all, and no alert is there", w.Since())
	w.answers(ctx, 4)
	w.expect(ctx, "nothing", time.Minute)

	// Three independent faults.
	fill(ctx, w, 80)
	w.on(ctx, "node2").remove(ctx, "disk2")
	w.on(ctx, "node1").fail(ctx, "disk3")
	w.Logf("%s: a pool is 80 %% full, a disk is pulled, a leg gives errors", w.Since())
	const (
		missing  = "LVMSDeviceMissing loose node2"
		degraded = "LVMSRAIDDegraded mirror node1"
		agent    = "LVMSAgentDown  node2"
	)
	w.fires(ctx, 4*time.Minute, missing, degraded)

	// One more fault: the agent cannot run on node2. A taint would not prevent it.
	w.MustKubectl(ctx, "taint", "node", "node2", "test=agent:NoExecute")
	w.MustKubectl(ctx, "label", "node", "node2", "type=virtual-kubelet")
	w.Logf("%s: the agent of node2 is gone", w.Since())
	w.fires(ctx, 6*time.Minute, near)
	fill(ctx, w, 90)
	w.fires(ctx, 4*time.Minute, critical)
	fill(ctx, w, 97)
	w.fires(ctx, 3*time.Minute, full, agent)

	w.history(ctx, near, critical, full, missing, degraded, agent)
}

func newWorld(ctx context.Context, t *testing.T) *world {
	t.Helper()
	w := &world{World: suite.NewWorld(ctx, t, lab.Options{Name: "e2e-monitoring", Nodes: 2, OpenShift: true,
		Disks: []lab.DiskSpec{{Size: lab.GiB}, {Kind: lab.SCSI, Size: lab.GiB}, {Kind: lab.SCSI, Size: lab.GiB}}})}
	// OpenShift creates this priority class during its installation.
	w.MustKubectl(ctx, "create", "priorityclass", "openshift-user-critical", "--value=1000000000")
	root, err := lab.Root()
	w.Must(err)
	w.MustKubectl(ctx, "apply", "-f", filepath.Join(root, "config/manager/namespace.yaml"))
	authority, err := prometheus.Trust(ctx, w.Cluster)
	w.Must(err)
	w.Must(w.Install(ctx, w.Environment("LVMS_IMAGE")))
	w.MustKubectl(ctx, "-n", story.OperatorNamespace, "set", "env", "deployment/lvms-operator", "SMART_INTERVAL=1m")
	w.MustKubectl(ctx, "-n", story.OperatorNamespace, "rollout", "status", "deployment/lvms-operator",
		story.Timeout)
	w.storage(ctx)
	// The operator creates the ServiceMonitor, and then the rules.
	for _, object := range []string{"servicemonitor/" + access.MonitorName, "prometheusrule/" + prometheusrule.Name} {
		w.MustKubectl(ctx, "wait", "--for=create", object, "-n", story.OperatorNamespace, story.Timeout)
	}
	w.prometheus, err = prometheus.StartFaster(ctx, w.Cluster, authority, speed)
	w.Must(err)
	t.Cleanup(func() {
		if t.Failed() {
			w.reportAlerts(context.WithoutCancel(ctx))
		}
		w.prometheus.Stop()
	})
	w.Must(story.Wait(suite.Limited(ctx, 6*time.Minute), "all targets are scraped",
		func(ctx context.Context) (bool, string, error) {
			down, up, err := w.prometheus.Down(ctx)
			// The targets are two agents, the operator and one on standby.
			return len(down) == 0 && up == 4, fmt.Sprintf("%d up, down: %s", up, down), err
		}))
	return w
}

// storage creates the classes, and a volume in each.
func (w *world) storage(ctx context.Context) {
	w.Helper()
	named := strings.NewReplacer(
		"MIRROR1", w.on(ctx, "node1").path(ctx, "disk2"), "MIRROR2", w.on(ctx, "node1").path(ctx, "disk3"), "LOOSE",
		w.on(ctx, "node2").path(ctx, "disk2"),
	).Replace(classes)
	w.Must(w.ApplyManifest(ctx, named))
	w.Must(w.WaitReady(suite.Limited(ctx, 6*time.Minute), "my-lvmcluster"))
	for _, v := range []story.Volume{
		{Namespace: "default", Name: "thin", Class: "lvms-thin", Size: "2Gi", Block: true},
		{Namespace: "default", Name: "mirror", Class: "lvms-mirror", Size: "64Mi"},
		{Namespace: "default", Name: "loose", Class: "lvms-loose", Size: "64Mi"},
	} {
		w.Must(w.Claim(ctx, v))
		w.Must(w.StartPod(ctx, v, v.Name))
	}
}

// answers waits until the given number of disks report good health: those of SCSI, of which each node has two. The
// others report no health, but are listed.
func (w *world) answers(ctx context.Context, well int) {
	w.Helper()
	w.Must(story.Wait(suite.Limited(ctx, 6*time.Minute), "the disks are asked for their health",
		func(ctx context.Context) (bool, string, error) {
			answers, err := w.prometheus.Query(ctx, "lvms_device_smart_healthy == 1")
			if err != nil {
				return false, "", err
			}
			silent, err := w.prometheus.Query(ctx, "lvms_device_smart_answered == 0")
			return len(answers) == well && len(silent) >= 2,
				fmt.Sprintf("%d are well, %d have no answer", len(answers), len(silent)), err
		}))
}

// written is how much of the pool has been written, in percent.
var written = 0

// fill writes until the pool has the given usage, in percent. Every write succeeds.
func fill(ctx context.Context, w *world, percent int) {
	w.Helper()
	result, err := w.on(ctx, "node1").Exec(ctx, "lvs", "--noheadings", "--nosuffix", "--units", "m", "-o",
		"lv_size", "thin/pool")
	w.Must(err)
	var size float64
	if _, err := fmt.Sscan(result.Stdout, &size); err != nil {
		w.Fatalf("size of the pool: %q: %v", result.Stdout, err)
	}
	from := int(size) * written / 100
	to := int(size) * percent / 100
	out, err := w.Shell(ctx, "default", "thin",
		fmt.Sprintf("dd if=/dev/zero of=/dev/data bs=1M seek=%d count=%d conv=notrunc,fsync 2>&1", from, to-from))
	if err != nil {
		w.Fatalf("a write failed before the pool was full: %v %s", err, out)
	}
	written = percent
}

// expect waits until exactly these alerts fire, as "NAME CLASS NODE" separated by commas, or "nothing".
func (w *world) expect(ctx context.Context, want string, within time.Duration) {
	w.Helper()
	w.Must(story.Wait(suite.Limited(ctx, within), "firing: "+want, func(ctx context.Context) (bool, string, error) {
		firing, err := w.firing(ctx)
		seen := strings.Join(firing, ", ")
		if seen == "" {
			seen = "nothing"
		}
		return seen == want, "firing: " + seen, err
	}))
}

// fires waits until all of these fire.
func (w *world) fires(ctx context.Context, within time.Duration, names ...string) {
	w.Helper()
	for _, name := range names {
		w.Must(story.Wait(suite.Limited(ctx, within), name+" fires", func(ctx context.Context) (bool, string, error) {
			firing, err := w.firing(ctx)
			return slices.Contains(firing, name), "firing: " + strings.Join(firing, ", "), err
		}))
		w.Logf("%s: %s fires", w.Since(), name)
	}
}

func (w *world) firing(ctx context.Context) ([]string, error) {
	alerts, err := w.prometheus.Alerts(ctx)
	var names []string
	for _, a := range alerts {
		if a.State == "firing" {
			names = append(names, named(a.Labels))
		}
		for _, text := range a.Annotations {
			if strings.Contains(text, "error expanding") || strings.Contains(text, "<no value>") {
				return nil, fmt.Errorf("%s says %q", named(a.Labels), text)
			}
		}
	}
	slices.Sort(names)
	return names, err
}

func named(labels map[string]string) string {
	return labels["alertname"] + " " + labels["device_class"] + " " + labels["node"]
}

// history checks the whole time: exactly these alerts fired, and those of the pool fired in their order, one at a time,
// each after it was pending.
func (w *world) history(ctx context.Context, want ...string) {
	w.Helper()
	// Both alerts of the last evaluation are in the data.
	time.Sleep(2 * evaluation)
	series, err := w.prometheus.Range(ctx, "ALERTS", w.Begin.Truncate(step), time.Now(), step)
	w.Must(err)
	firing := map[string][]time.Time{}
	pending := map[string][]time.Time{}
	for _, s := range series {
		into := map[string]map[string][]time.Time{"firing": firing, "pending": pending}[s.Labels["alertstate"]]
		into[named(s.Labels)] = s.Times
	}
	fired := slices.Sorted(maps.Keys(firing))
	slices.Sort(want)
	if !slices.Equal(fired, want) {
		w.Fatalf("fired: %q, want %q", fired, want)
	}
	order := []string{near, critical, full}
	for i, name := range order {
		if i > 0 && !firing[name][0].After(firing[order[i-1]][len(firing[order[i-1]])-1]) {
			w.Errorf("%s fired from %s, while %s did until %s", name, firing[name][0], order[i-1],
				firing[order[i-1]][len(firing[order[i-1]])-1])
		}
		if name != full && (len(pending[name]) == 0 || !pending[name][0].Before(firing[name][0])) {
			w.Errorf("%s was not pending before it fired", name)
		}
	}
}

// machine is a node.
type machine struct {
	*lab.Node
	w *world
}

func (w *world) on(_ context.Context, name string) machine {
	w.Helper()
	n, err := w.Lab.Node(name)
	w.Must(err)
	return machine{n, w}
}

func (m machine) path(ctx context.Context, disk string) string {
	m.w.Helper()
	disks, err := m.Disks(ctx)
	m.w.Must(err)
	at := slices.IndexFunc(disks, func(d lab.Disk) bool { return d.Name == disk })
	if at < 0 {
		m.w.Fatalf("%s has no %s", m.Name(), disk)
	}
	return disks[at].Device
}

func (m machine) remove(ctx context.Context, disk string) {
	m.w.Helper()
	m.w.Must(m.RemoveDisk(ctx, disk))
}

func (m machine) fail(ctx context.Context, disk string) {
	m.w.Helper()
	m.w.Must(m.FailDisk(ctx, disk))
	// A disk that nothing uses shows no errors.
	_, err := m.w.Shell(ctx, "default", "mirror", "dd if=/dev/zero of=/data/touch bs=1M count=1 conv=fsync 2>&1")
	m.w.Must(err)
}

// reportAlerts prints what Prometheus knows of the alerts.
func (w *world) reportAlerts(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, expr := range []string{"ALERTS", `{__name__=~"lvms:.*"}`, "up"} {
		samples, err := w.prometheus.Query(ctx, expr)
		w.Logf("--- %s: %v %v", expr, samples, err)
	}
}
