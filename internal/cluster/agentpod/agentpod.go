// Package agentpod finds the Pods of node agents.
package agentpod

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNone says that a node has no node agent.
var ErrNone = errors.New("no node agent is running on the node: check its vg-manager Pod")

// labels select the Pods of the DaemonSet of node agents.
var labels = client.MatchingLabels{"app.kubernetes.io/name": "vg-manager",
	"app.kubernetes.io/part-of": "lvms-provisioner"}

// Address returns the address (HOST:PORT) of a port of the agent of a node. It is the address that the kubelet has
// reported for the Pod, not one that an agent has written. An agent that is not ready can still answer, for example if
// only the kubelet has stopped. The error wraps ErrNone if there is no agent. live reads without a cache: an agent that
// was restarted has another address.
func Address(ctx context.Context, live client.Reader, namespace, node string, port int) (string, error) {
	pods := &corev1.PodList{}
	err := live.List(ctx, pods, client.InNamespace(namespace), labels, client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		return "", fmt.Errorf("list the Pods of node agents on node %s: %w", node, err)
	}
	var found *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !pod.DeletionTimestamp.IsZero() || pod.Status.PodIP == "" {
			continue
		}
		if found == nil || isReady(pod) {
			found = pod
		}
	}
	if found == nil {
		return "", ErrNone
	}
	return net.JoinHostPort(found.Status.PodIP, strconv.Itoa(port)), nil
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
