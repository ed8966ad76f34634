//go:build e2e

// Package freeze tests that processes with a frozen part are ended and started again: in the programs of its image, a
// lock is never released, or a goroutine does not go on, at a point that the test chooses.
package freeze

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

var (
	cluster suite.Cluster
	remote  *http.Client
)

func TestFreeze(t *testing.T) { suite.Run(t, "Freeze") }

const (
	classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      fstype: xfs
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 90, overprovisionRatio: 10}
    - name: thick
      fstype: ext4
      deviceSelector: {paths: [/dev/ubdc]}
`
	// reach is how long a process may take to come to the point at which it is frozen.
	reach = 40 * time.Second
	// notice is how long it takes at most until a frozen process is ended when it has no other work, and heal how long
	// until it is ready again.
	notice = 60 * time.Second
	heal   = 90 * time.Second
)

var _ = Describe("A frozen process", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		cluster = suite.Up(ctx, lab.Options{Name: "e2e-freeze", Nodes: 2, MaxRestartPeriod: time.Second,
			Disks: []lab.DiskSpec{{Size: 2 * lab.GiB}, {Size: lab.GiB}}})
		remote = &http.Client{Timeout: suite.ResponseTimeout,
			Transport: &http.Transport{DialContext: cluster.Lab.Dial, DisableKeepAlives: true}}
		Expect(cluster.Install(ctx, suite.Archive("LVMS_FREEZE_IMAGE"))).To(Succeed())
		cluster.Configure(ctx, classes)
	}, NodeTimeout(20*time.Minute))

	It("is ended and started again", freezes, NodeTimeout(3*time.Hour))
})

var _ = JustAfterEach(func(ctx SpecContext) {
	suite.ReportFailure(ctx, cluster.Cluster, "get events -A --sort-by=.lastTimestamp")
}, NodeTimeout(30*time.Minute))

// point is a line of the product that releases a lock, in one of the programs.
type point struct{ component, name, mode string }

// row is what a process says about a point.
type row struct {
	Lock bool
	Hits uint64
}

// process is a running process of the product.
type process struct {
	component, pod, address string
	restarts                int32
	point                   point
	frozen                  time.Time
	// ended and healed are how long after it the process ended and was ready again; 0 if it has not.
	ended, healed time.Duration
	exitCode      int32
}

// record has the freezes.
type record struct {
	done   map[point]bool
	lines  []string
	faults []string
}

// freezes freezes the operator and both node agents at the same time, again and again, each at another point.
func freezes(ctx SpecContext) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("LVMS_FREEZES"), "30"))
	Expect(err).NotTo(HaveOccurred())
	r := &record{done: map[point]bool{}}
	active := &load{}
	for len(r.lines) < count {
		processes := ready(ctx)
		for _, p := range processes {
			if p.point = r.next(ctx, p); p.point.name != "" {
				ask(ctx, p.address+"/freeze?"+url.Values{"point": {p.point.name}, "mode": {p.point.mode}}.Encode(), nil)
			}
		}
		for end := time.Now().Add(reach); time.Now().Before(end) && !allFrozen(ctx, processes); {
			active.next(ctx)
			time.Sleep(time.Second)
		}
		r.watch(ctx, slices.DeleteFunc(processes, func(p *process) bool { return p.frozen.IsZero() }))
	}
	AddReportEntry("freezes", ReportEntryVisibilityAlways, strings.Join(r.lines, "\n"))
	Expect(r.faults).To(BeEmpty())
	active.clear(ctx)
}

// ready returns the processes when all of them are ready.
func ready(ctx context.Context) (processes []*process) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		processes = nil
		pods := &corev1.PodList{}
		g.Expect(cluster.List(ctx, pods, client.InNamespace(story.OperatorNamespace))).To(Succeed())
		for i := range pods.Items {
			pod := &pods.Items[i]
			component := pod.Labels["app.kubernetes.io/name"]
			if component != "lvms-operator" && component != "vg-manager" {
				continue
			}
			g.Expect(isReady(pod)).To(BeTrue(), pod.Name)
			processes = append(processes, &process{component: component, pod: pod.Name,
				address:  "http://" + pod.Status.PodIP + ":19999",
				restarts: pod.Status.ContainerStatuses[0].RestartCount})
		}
		g.Expect(len(processes)).To(BeNumerically(">=", 3))
	}).WithContext(ctx).WithTimeout(5 * time.Minute).WithPolling(time.Second).Should(Succeed())
	return processes
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func ask(ctx context.Context, address string, answer any) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := remote.Do(request)
	if err != nil {
		return false // The process has ended, or has not started.
	}
	defer func() { _ = response.Body.Close() }()
	return answer == nil || json.NewDecoder(response.Body).Decode(answer) == nil
}

// next returns a point that a process has come to and that was not frozen: locks of the product before those of
// libraries, and by turns a lock that is never released and a goroutine that stops.
func (r *record) next(ctx context.Context, p *process) point {
	rows := map[string]row{}
	ask(ctx, p.address+"/points", &rows)
	var candidates []point
	for name, found := range rows {
		for _, mode := range []string{"lock", "goroutine"} {
			c := point{p.component, name, mode}
			if (found.Lock || mode != "lock") && !r.done[c] {
				candidates = append(candidates, c)
			}
		}
	}
	turn := []string{"lock", "goroutine"}[len(r.done)%2]
	rank := func(c point) int {
		switch {
		case rows[c.name].Lock && c.mode == turn:
			return 0
		case rows[c.name].Lock:
			return 1
		}
		return 2
	}
	if len(candidates) == 0 {
		return point{}
	}
	chosen := slices.MinFunc(candidates, func(a, b point) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(order(a), order(b)))
	})
	r.done[chosen] = true
	return chosen
}

// order is the same in each run, and mixes the packages.
func order(p point) uint64 {
	hash := fnv.New64a()
	fmt.Fprint(hash, p)
	return hash.Sum64()
}

// allFrozen reports whether all processes have come to their points.
func allFrozen(ctx context.Context, processes []*process) bool {
	all := true
	for _, p := range processes {
		if p.point.name == "" || !p.frozen.IsZero() {
			continue
		}
		var event *struct{ At time.Time }
		if ask(ctx, p.address+"/frozen", &event) && event != nil {
			p.frozen = event.At
		} else {
			all = false
		}
	}
	return all
}

// watch waits until the frozen processes have ended and are ready again. If nothing happens to one, it deletes the Pod.
func (r *record) watch(ctx context.Context, processes []*process) {
	begin := time.Now()
	for len(processes) > 0 {
		time.Sleep(time.Second)
		late := time.Since(begin) > notice+heal
		processes = slices.DeleteFunc(processes, func(p *process) bool {
			if over := p.look(ctx); !over && !late {
				return false
			}
			r.report(p, begin)
			if p.healed == 0 {
				cluster.Run(ctx, "delete", "pod", "-n", story.OperatorNamespace, p.pod, "--grace-period=0", "--force")
			}
			return true
		})
	}
}

// look reads the state of a frozen process, and returns true when it is ready again.
func (p *process) look(ctx context.Context) bool {
	pod := &corev1.Pod{}
	err := cluster.Get(ctx, client.ObjectKey{Namespace: story.OperatorNamespace, Name: p.pod}, pod)
	if err != nil || pod.Status.ContainerStatuses[0].RestartCount == p.restarts {
		return false
	}
	if ended := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; ended != nil && p.ended == 0 {
		p.ended, p.exitCode = ended.FinishedAt.Sub(p.frozen), ended.ExitCode
	}
	if !isReady(pod) {
		return false
	}
	p.healed = time.Since(p.frozen)
	return true
}

// report adds a frozen process to the record. idle is when the load ended. A process that ends itself has exit code 1,
// one that the kubelet kills has another.
func (r *record) report(p *process, idle time.Time) {
	line := fmt.Sprintf("%s %s at %s: ended after %.0f s with exit code %d, ready after %.0f s", p.component,
		p.point.mode, p.point.name, p.ended.Seconds(), p.exitCode, p.healed.Seconds())
	r.lines = append(r.lines, line)
	GinkgoWriter.Println(strconv.Itoa(len(r.lines)), line)
	busy := max(0, idle.Sub(p.frozen))
	if p.healed == 0 || p.healed-busy > heal || p.ended-busy > notice {
		r.faults = append(r.faults, line)
	}
}

// load creates and deletes volumes, so that the processes come to their points.
type load struct{ calls int }

const interval = 12 // calls between two changes

func (l *load) next(ctx context.Context) {
	switch l.calls++; l.calls % (2 * interval) {
	case 1:
		_ = cluster.ApplyManifest(ctx, volumes())
		_, _ = cluster.Kubectl(ctx, nil, "annotate", "lvmcluster,lvmvolumegroup", "--all", "-n", story.OperatorNamespace,
			"--overwrite", "test="+strconv.Itoa(l.calls))
	case 1 + interval:
		_, _ = cluster.Kubectl(ctx, strings.NewReader(volumes()), "delete", "--wait=false", "-f", "-")
	}
}

// clear deletes the volumes, and checks that nothing is left.
func (l *load) clear(ctx context.Context) {
	cluster.RunWith(ctx, volumes(), "delete", "--ignore-not-found", "--timeout=5m", "-f", "-")
	Eventually(func(g Gomega) {
		g.Expect(cluster.Run(ctx, "get", "logicalvolumes,persistentvolumes", "-o", "name")).To(BeEmpty())
		for _, node := range []string{"node1", "node2"} {
			g.Expect(cluster.OnNode(ctx, node, "lvm", "lvs", "--noheadings", "-o", "lv_name")).To(Equal("thin-pool-1"))
		}
	}).WithContext(ctx).WithTimeout(5 * time.Minute).WithPolling(time.Second).Should(Succeed())
}

// volumes are a thin and a thick volume on each node, each with a Pod that mounts it.
func volumes() string {
	var b strings.Builder
	names := map[string]string{"thin": "lvms-vg1", "thick": "lvms-thick"}
	for _, node := range []string{"node1", "node2"} {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			fmt.Fprintf(&b, `---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s-%[2]s, namespace: default}
spec:
  storageClassName: %[3]s
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 320Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s-%[2]s, namespace: default}
spec:
  nodeSelector: {kubernetes.io/hostname: %[2]s}
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: %[4]s, volumeMounts: [{name: v, mountPath: /v}], command: [/bin/sh, -c, "date > /v/date; sleep 1d"]}
  volumes: [{name: v, persistentVolumeClaim: {claimName: %[1]s-%[2]s}}]
`, name, node, names[name], cluster.Lab.Registry()+"/busybox:1")
		}
	}
	return b.String()
}
