package copies

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/mutualtls"
	"github.com/lvm-storage/lvm-operator/vgmanager/peer"
)

// Agents finds the agents of other nodes.
type Agents struct {
	// Live reads from the API server.
	Live client.Reader
	// Namespace is that of the agents.
	Namespace string
	// Credentials are those of this agent.
	Credentials mutualtls.Source
}

// Of returns the agent of a node. Its address is in the status of the node. It needs no trust: the agent there must
// have the certificate of the node.
func (a *Agents) Of(ctx context.Context, node string) (Source, error) {
	status := &v1alpha1.LVMVolumeGroupNodeStatus{}
	if err := a.Live.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: node}, status); err != nil {
		return nil, fmt.Errorf("read the address of the node agent of %s: %w", node, err)
	}
	if status.Status.AgentCertificate == nil || status.Status.AgentCertificate.Address == "" {
		return nil, fmt.Errorf("the node agent of %s has no address in status.agentCertificate of its "+
			"LVMVolumeGroupNodeStatus: check that its vg-manager Pod is running, and is not of an older version", node)
	}
	return &peer.Client{Node: node, Address: status.Status.AgentCertificate.Address, Credentials: a.Credentials}, nil
}
