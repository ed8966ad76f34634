package nodes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
)

const (
	// podLife is the maximum lifetime of a Pod for one read. The Pod ends by itself if nothing can delete it.
	podLife = 3 * time.Minute
	// podStart is the time in which such a Pod must be running.
	podStart = 45 * time.Second
	// pollEvery is the interval at which the state of the Pod is read.
	pollEvery = time.Second
	// deleteLimit is the timeout of the deletion of a Pod.
	deleteLimit = 15 * time.Second

	container = "collect"
)

// Agent is a running node agent.
type Agent struct {
	Namespace, Pod, Container string
}

// Helper configures a Pod that reads a node without an agent.
type Helper struct {
	// Namespace is a namespace that allows privileged Pods.
	Namespace string
	// Image has the program and nsenter. Command is the program.
	Image   string
	Command []string
	// Layout is the layout of the nodes.
	Layout hostpaths.Layout
}

// Cluster reads nodes through their agents. If a node has no agent, or the agent does not answer, it creates a Pod for
// one read.
type Cluster struct {
	config *rest.Config
	core   kubernetes.Interface
	agents map[string]Agent
	// helper is nil if no image is known.
	helper *Helper
	since  time.Time
}

// NewCluster returns a Cluster. agents has the agents by node.
func NewCluster(config *rest.Config, agents map[string]Agent, helper *Helper, since time.Time) (*Cluster, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{config: config, core: core, agents: agents, helper: helper, since: since}, nil
}

// Ways implements Source: the node's agent, and a Pod for one read.
func (c *Cluster) Ways(node string) []Way {
	var ways []Way
	if agent, found := c.agents[node]; found {
		ways = append(ways, Way{"its agent", func(ctx context.Context, out io.Writer) error {
			return c.exec(ctx, agent.Namespace, agent.Pod, agent.Container, []string{"/lvms", "collect"}, out)
		}})
	}
	if c.helper != nil {
		ways = append(ways, Way{"a Pod for the read",
			func(ctx context.Context, out io.Writer) error { return c.byPod(ctx, node, out) }})
	}
	return ways
}

func (c *Cluster) exec(ctx context.Context, namespace, pod, container string, command []string, out io.Writer) error {
	if !c.since.IsZero() {
		command = append(command[:len(command):len(command)], "--since="+c.since.UTC().Format(time.RFC3339))
	}
	request := c.core.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdout: true, Stderr: true},
			clientgoscheme.ParameterCodec)
	executor, err := c.executor(request.URL())
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: &limited{&stderr, 4 << 10}})
	if err != nil && stderr.Len() > 0 {
		return fmt.Errorf("%w: %s", err, strings.Join(strings.Fields(stderr.String()), " "))
	}
	return err
}

// executor uses WebSocket. It falls back to SPDY for API servers before Kubernetes 1.31 and for proxies without
// WebSocket.
func (c *Cluster) executor(at *url.URL) (remotecommand.Executor, error) {
	socket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", at.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", at)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// limited keeps only the beginning of what is written to it.
type limited struct {
	to   *bytes.Buffer
	room int
}

func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.room)]
	l.room -= len(kept)
	l.to.Write(kept)
	return len(p), nil
}

// byPod creates a Pod on the node, reads the node with it, and deletes it.
func (c *Cluster) byPod(ctx context.Context, node string, out io.Writer) error {
	pods := c.core.CoreV1().Pods(c.helper.Namespace)
	pod, err := pods.Create(ctx, c.helper.pod(node), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// Also after the timeout or a signal.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteLimit)
		defer cancel()
		_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}()
	if err := c.started(ctx, pod.Name); err != nil {
		return err
	}
	return c.exec(ctx, c.helper.Namespace, pod.Name, container, c.helper.Command, out)
}

func (c *Cluster) started(ctx context.Context, name string) error {
	var last string
	err := wait.PollUntilContextTimeout(ctx, pollEvery, podStart, true, func(ctx context.Context) (bool, error) {
		pod, err := c.core.CoreV1().Pods(c.helper.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, err
		case err != nil:
			last = err.Error()
		case pod.Status.Phase == corev1.PodRunning:
			return true, nil
		case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
			return false, fmt.Errorf("pod %s ended before it was used: %s %s", name, pod.Status.Reason,
				pod.Status.Message)
		default:
			last = stateOf(pod)
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("pod %s does not run: %s: %w", name, last, err)
	}
	return err
}

func stateOf(pod *corev1.Pod) string {
	state := string(pod.Status.Phase)
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			state += ", " + strings.TrimSpace(w.Reason+" "+w.Message)
		}
	}
	return state
}

// pod returns a Pod that bypasses the scheduler and tolerates all taints. It has no token. Its first process is the
// program itself, which waits: exec enters the namespaces of that process, so it must not already be in the namespaces
// of the node.
func (h *Helper) pod(node string) *corev1.Pod {
	yes := true
	no := false
	life := int64(podLife.Seconds())
	root := int64(0)
	var env []corev1.EnvVar
	for _, variable := range h.Layout.Environment() {
		env = append(env, corev1.EnvVar{Name: variable.Name, Value: variable.Value})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "lvms-collect-",
			Labels: map[string]string{"app.kubernetes.io/name": "lvms-collect",
				"app.kubernetes.io/part-of": "lvms"},
			Annotations: map[string]string{
				"target.workload.openshift.io/management": `{"effect": "PreferredDuringScheduling"}`,
				"openshift.io/required-scc":               "privileged"}},
		Spec: corev1.PodSpec{
			NodeName: node, HostPID: true, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no,
			ActiveDeadlineSeconds: &life, TerminationGracePeriodSeconds: new(int64), EnableServiceLinks: &no,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: container, Image: h.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command: append(slices.Clone(h.Command), "--hold="+podLife.String()), Env: env,
				SecurityContext: &corev1.SecurityContext{Privileged: &yes, RunAsUser: &root,
					ReadOnlyRootFilesystem: &yes},
			}},
		},
	}
}
