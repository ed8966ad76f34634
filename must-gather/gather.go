package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/internal/version"
	"github.com/lvm-storage/lvm-operator/must-gather/analyze"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
	"github.com/lvm-storage/lvm-operator/must-gather/cluster"
	"github.com/lvm-storage/lvm-operator/must-gather/monitoring"
	"github.com/lvm-storage/lvm-operator/must-gather/nodes"
	"github.com/lvm-storage/lvm-operator/must-gather/redact"
)

const (
	product = "lvm-operator/must-gather"

	// objectsLimit leaves time for nodes and logs if the API server is slow.
	objectsLimit = 4 * time.Minute

	namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

type options struct {
	folder, since, sinceTime, prometheus string
	// pod is the name of the Pod in which this process runs, if it does.
	pod   string
	limit time.Duration
	bytes int64
	// allNodes includes nodes without storage of the product.
	allNodes bool
	// objectsOnly skips logs and nodes.
	objectsOnly bool
}

// gathering is one collection.
type gathering struct {
	options
	config *rest.Config
	core   kubernetes.Interface
	out    *archive.Writer
	// progress receives a line for each step. saying serializes the lines.
	progress io.Writer
	saying   sync.Mutex
	from     time.Time
}

// runGather collects the most valuable data first. It writes the summary as soon as possible and again at the end, even
// after failures. It returns an error only if it cannot write anything.
func runGather(ctx context.Context, progress io.Writer, o options) error {
	out, err := archive.New(o.folder, o.bytes, redact.Text)
	if err != nil {
		return err
	}
	if err := out.Always(archive.VersionFile, []byte(product+"\n"+version.Version+"\n")); err != nil {
		return err
	}
	if !o.objectsOnly {
		out.Failed("runbooks", writeRunbooks(out))
	}
	g := &gathering{options: o, out: out, progress: progress}
	limited, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("the time limit of %s was reached", o.limit))
	defer cancel()
	err = g.all(limited)
	out.Failed("what the API server has", err)
	var interrupted error
	if limited.Err() != nil {
		interrupted = cmp.Or(context.Cause(limited), limited.Err())
	}
	return g.finish(interrupted)
}

func (g *gathering) say(format string, args ...any) {
	g.saying.Lock()
	defer g.saying.Unlock()
	_, _ = fmt.Fprintf(g.progress, time.Now().UTC().Format("15:04:05")+" "+format+"\n", args...)
}

func (g *gathering) all(ctx context.Context) error {
	var err error
	if g.from, err = since(g.since, g.sinceTime, time.Now()); err != nil {
		g.out.Failed("the time from which on logs are wanted; all are read", err)
	}
	if g.config, err = restConfig(); err != nil {
		return err
	}
	if g.core, err = kubernetes.NewForConfig(g.config); err != nil {
		return err
	}
	collector, err := cluster.New(g.config, g.out, g.from)
	if err != nil {
		return err
	}
	g.say("objects of the API")
	objectsCtx, cancel := context.WithTimeoutCause(ctx, objectsLimit,
		fmt.Errorf("the time limit of %s for objects was reached", objectsLimit))
	defer cancel()
	seen := collector.Objects(objectsCtx)
	// From here on the causes in the objects are in the summary, whatever ends the collection.
	if err := g.finish(errors.New("only the objects have been read so far")); err != nil {
		return err
	}
	var group sync.WaitGroup
	group.Go(func() { g.monitoring(ctx) })
	if !g.objectsOnly {
		group.Go(func() { g.nodes(ctx, seen) })
		group.Go(func() {
			g.say("logs of %d Pods", len(seen.Pods))
			collector.Logs(ctx, seen.Pods, notReady(seen.Nodes))
		})
	}
	group.Wait()
	return nil
}

// since returns the start time of the logs; zero for all.
func since(duration, moment string, now time.Time) (time.Time, error) {
	switch {
	case moment != "":
		from, err := time.Parse(time.RFC3339, moment)
		if err != nil {
			return time.Time{}, fmt.Errorf("MUST_GATHER_SINCE_TIME: %w", err)
		}
		return from, nil
	case duration != "":
		ago, err := time.ParseDuration(duration)
		if err != nil || ago <= 0 {
			return time.Time{}, fmt.Errorf("MUST_GATHER_SINCE=%q: must be a duration such as 2h", duration)
		}
		return now.Add(-ago), nil
	}
	return time.Time{}, nil
}

// finish writes the failures, the timings and the summary.
func (g *gathering) finish(interrupted error) error {
	if err := g.out.Account(interrupted); err != nil {
		return err
	}
	facts, err := analyze.Load(os.DirFS(g.folder), time.Now())
	if err != nil {
		// Nothing could be read: the summary reports that.
		facts = &analyze.Facts{Now: time.Now(), Failures: g.out.Failures()}
	}
	summary := analyze.Summarize(facts)
	content, err := summary.JSON()
	if err != nil {
		return err
	}
	g.say("%s: %d critical, %d warnings: see %s", summary.Verdict, summary.Critical, summary.Warnings,
		archive.SummaryFile)
	return errors.Join(g.out.Always(archive.SummaryFile, []byte(summary.Markdown())),
		g.out.Always(archive.FindingsFile, content))
}

func (g *gathering) monitoring(ctx context.Context) {
	prometheus, err := monitoring.Find(g.config, g.prometheus)
	if err != nil {
		g.out.Failed("the cluster's Prometheus", err)
		return
	}
	monitoring.Collect(ctx, prometheus, g.out)
}

func (g *gathering) nodes(ctx context.Context, seen cluster.Inventory) {
	agents := agentsOf(seen.Pods)
	helper, err := g.helper(ctx, seen)
	g.out.Failed("Pods for nodes without an agent", err)
	source, err := nodes.NewCluster(g.config, agents, helper, g.from)
	if err != nil {
		g.out.Failed("nodes", err)
		return
	}
	wanted, away := g.wanted(seen, agents)
	for _, node := range away {
		g.out.Failed("node "+node, errors.New("it is not ready, so its kubelet was skipped"))
	}
	g.say("%d nodes, %d of them through their agents", len(wanted), len(agents))
	nodes.Collect(ctx, source, wanted, g.out, nodes.Limit)
}

// agentsOf returns the running node agents, by node.
func agentsOf(pods []corev1.Pod) map[string]nodes.Agent {
	agents := map[string]nodes.Agent{}
	for i := range pods {
		pod := &pods[i]
		for _, s := range pod.Status.ContainerStatuses {
			if pod.Labels[cluster.NameLabel] == cluster.AgentName && s.Name == cluster.AgentName &&
				s.State.Running != nil && pod.DeletionTimestamp == nil {
				agents[pod.Spec.NodeName] = nodes.Agent{Namespace: pod.Namespace, Pod: pod.Name, Container: s.Name}
			}
		}
	}
	return agents
}

// wanted returns the nodes to read, those with problems first, and the nodes that cannot be read because they are not
// ready.
func (g *gathering) wanted(seen cluster.Inventory, agents map[string]nodes.Agent) (wanted, away []string) {
	storage := sets.KeySet(agents)
	troubled := sets.New[string]()
	for i := range seen.NodeStatuses {
		status := &seen.NodeStatuses[i]
		storage.Insert(status.Name)
		if slices.ContainsFunc(status.Status.NodeStatus, func(g v1alpha1.VGStatus) bool {
			return g.Status != v1alpha1.VGStatusReady
		}) {
			troubled.Insert(status.Name)
		}
	}
	for i := range seen.LogicalVolumes {
		storage.Insert(seen.LogicalVolumes[i].Spec.NodeName)
	}
	unready := notReady(seen.Nodes)
	for i := range seen.Nodes {
		name := seen.Nodes[i].Name
		switch {
		case !g.allNodes && !storage.Has(name):
		case unready.Has(name):
			away = append(away, name)
		default:
			wanted = append(wanted, name)
		}
	}
	slices.Sort(wanted)
	first := slices.DeleteFunc(slices.Clone(wanted), func(n string) bool { return !troubled.Has(n) })
	return append(first, slices.DeleteFunc(wanted, troubled.Has)...), away
}

// notReady returns the names of the nodes that are not ready.
func notReady(all []corev1.Node) sets.Set[string] {
	away := sets.New[string]()
	for i := range all {
		if !slices.ContainsFunc(all[i].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			away.Insert(all[i].Name)
		}
	}
	return away
}

// helper returns how to create a Pod for a node without an agent. Inside the cluster, the Pod has the image of this
// process and is in the namespace of `oc adm must-gather`. Outside of the cluster, it has the operator's image and is
// in the operator's namespace. Both namespaces allow privileged Pods.
func (g *gathering) helper(ctx context.Context, seen cluster.Inventory) (*nodes.Helper, error) {
	layout, err := layoutOf(seen.Pods)
	if err != nil {
		return nil, err
	}
	if g.pod != "" {
		namespace, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, err
		}
		pod, err := g.core.CoreV1().Pods(string(namespace)).Get(ctx, g.pod, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("the image of this Pod: %w", err)
		}
		return &nodes.Helper{Namespace: pod.Namespace, Image: pod.Spec.Containers[0].Image,
			Command: []string{"/usr/bin/gather", "collect"}, Layout: layout}, nil
	}
	for i := range seen.Pods {
		if pod := &seen.Pods[i]; isOurs(pod) && len(pod.Spec.Containers) > 0 && pod.Spec.Containers[0].Image != "" {
			return &nodes.Helper{Namespace: pod.Namespace, Image: pod.Spec.Containers[0].Image,
				Command: []string{"/lvms", "collect"}, Layout: layout}, nil
		}
	}
	return nil, errors.New("the image is unknown, because no Pod of LVM Storage was found: nodes without a node " +
		"agent are not read")
}

// layoutOf returns the layout of the nodes with which the node agents or the operator were configured, or the default
// if there are none. A flag of the operator is not read: its agents have the variables.
func layoutOf(pods []corev1.Pod) (hostpaths.Layout, error) {
	values := map[string]string{}
	for i := range pods {
		if !isOurs(&pods[i]) {
			continue
		}
		for _, container := range pods[i].Spec.Containers {
			for _, variable := range container.Env {
				values[variable.Name] = variable.Value
			}
		}
	}
	return hostpaths.FromEnvironment(func(name string) string { return values[name] })
}

// isOurs returns true for Pods of the operator and of node agents.
func isOurs(pod *corev1.Pod) bool {
	name := pod.Labels[cluster.NameLabel]
	return name == cluster.OperatorName || name == cluster.AgentName
}
