package snapshotmetadata

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/mutualtls"
)

// Dialer connects to node agents.
type Dialer struct {
	// Live reads the Pods of the agents without a cache.
	Live client.Reader
	// Namespace is that of the agents.
	Namespace string
	// Credentials are those of the operator.
	Credentials mutualtls.Source
}

var errNoAgent = errors.New("no node agent is ready on the node")

// Dial returns a connection to the agent of a node, with credentials of now. Another program at the address of the Pod
// is not accepted: the agent must have the certificate of the node. The connection is opened by the first call.
func (d *Dialer) Dial(ctx context.Context, node string) (*grpc.ClientConn, error) {
	address, err := d.address(ctx, node)
	if err != nil {
		return nil, err
	}
	config, err := mutualtls.ClientOfNode(d.Credentials, node)
	if err != nil {
		return nil, err
	}
	// passthrough: the address needs no DNS.
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
}

// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=pods,verbs=list

// address returns the address of the agent of a node.
func (d *Dialer) address(ctx context.Context, node string) (string, error) {
	pods := &corev1.PodList{}
	err := d.Live.List(ctx, pods, client.InNamespace(d.Namespace), client.MatchingLabels(agentLabels),
		client.MatchingFields{"spec.nodeName": node})
	if err != nil {
		return "", fmt.Errorf("list the Pods of node agents on node %s: %w", node, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp.IsZero() && pod.Status.PodIP != "" && isReady(pod) {
			return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(lvmv1alpha1.AgentPort)), nil
		}
	}
	return "", errNoAgent
}

// agentLabels select the Pods of the DaemonSet of node agents.
var agentLabels = map[string]string{"app.kubernetes.io/name": "vg-manager",
	"app.kubernetes.io/part-of": "lvms-provisioner"}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
