package cluster

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lvm-storage/lvm-operator/must-gather/archive"
)

const (
	// minLog and maxLog are the minimum and maximum size to keep of a log, in bytes.
	minLog = 256 << 10
	maxLog = 5 << 20
	// logShare is the share of the archive's free space for logs, in percent.
	logShare = 40
)

// log is a log of a container.
type log struct {
	pod       *corev1.Pod
	container string
	previous  bool
}

// Logs collects the logs of Pods, including those of the previous container after a restart. It reads the logs of the
// operator and of restarted containers first. away are nodes that are not ready; it does not send requests to their
// kubelets.
func (c *Collector) Logs(ctx context.Context, pods []corev1.Pod, away sets.Set[string]) {
	defer c.out.Step("logs")()
	var logs []log
	for i := range pods {
		pod := &pods[i]
		if away.Has(pod.Spec.NodeName) {
			c.out.Failed(fmt.Sprintf("logs of pod %s/%s", pod.Namespace, pod.Name),
				fmt.Errorf("node %s is not ready, so its kubelet was skipped", pod.Spec.NodeName))
			continue
		}
		logs = append(logs, logsOf(pod)...)
	}
	slices.SortStableFunc(logs, func(a, b log) int { return rank(a) - rank(b) })
	limit := min(maxLog, max(minLog, int(c.out.Room()*logShare/100/int64(max(1, len(logs))))))
	inParallel(len(logs), func(i int) {
		c.out.Failed(logs[i].String(), c.log(ctx, logs[i], limit))
	})
}

func podFolder(pod metav1.Object) string {
	return path.Join("namespaces", pod.GetNamespace(), "pods", pod.GetName())
}

func logsOf(pod *corev1.Pod) []log {
	var logs []log
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.State.Running != nil || status.State.Terminated != nil ||
			status.LastTerminationState.Terminated != nil {
			logs = append(logs, log{pod, status.Name, false})
		}
		if status.LastTerminationState.Terminated != nil {
			logs = append(logs, log{pod, status.Name, true})
		}
	}
	return logs
}

// rank is lower for logs that are read earlier.
func rank(l log) int {
	switch {
	case l.pod.Labels[NameLabel] == OperatorName:
		return 0
	case l.previous:
		return 1
	}
	return 2
}

func (l log) String() string {
	which := "log"
	if l.previous {
		which = "log before the last restart"
	}
	return fmt.Sprintf("%s of container %s of pod %s/%s on node %s", which, l.container, l.pod.Namespace, l.pod.Name,
		l.pod.Spec.NodeName)
}

func (c *Collector) log(ctx context.Context, l log, limit int) error {
	options := &corev1.PodLogOptions{Container: l.container, Previous: l.previous, Timestamps: true}
	if !c.since.IsZero() {
		since := metav1.NewTime(c.since)
		options.SinceTime = &since
	}
	name := "current"
	if l.previous {
		name = "previous"
	}
	content, err := c.readLog(ctx, l.pod, options, limit)
	if err != nil && strings.Contains(err.Error(), "x509") {
		// A kubelet with an expired certificate still serves logs, and logs need no trust.
		options.InsecureSkipTLSVerifyBackend = true
		name += ".insecure"
		content, err = c.readLog(ctx, l.pod, options, limit)
	}
	if apierrors.IsBadRequest(err) && l.previous {
		// The previous container no longer exists.
		return nil
	}
	if len(content) > 0 || err == nil {
		err = errors.Join(err, c.out.Write(path.Join(podFolder(l.pod), l.container, l.container, "logs",
			name+".log"), content))
	}
	return err
}

func (c *Collector) readLog(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions,
	limit int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	stream, err := c.core.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	return archive.Tail(stream, limit)
}
