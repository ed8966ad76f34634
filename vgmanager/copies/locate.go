package copies

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/agentpod"
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

// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=pods,verbs=list

// Of returns the agent of a node, at the address of its Pod. Another program at this address is not accepted: the agent
// must have the certificate of the node.
func (a *Agents) Of(ctx context.Context, node string) (Source, error) {
	address, err := agentpod.Address(ctx, a.Live, a.Namespace, node, v1alpha1.PeerPort)
	if err != nil {
		return nil, fmt.Errorf("find the node agent of %s: %w", node, err)
	}
	return &peer.Client{Node: node, Address: address, Credentials: a.Credentials}, nil
}
