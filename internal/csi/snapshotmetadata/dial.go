package snapshotmetadata

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/cluster/agentpod"
	"github.com/lvm-storage/lvm-operator/internal/tls/mutualtls"
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

// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=pods,verbs=list

// Dial returns a connection to the agent of a node, with credentials of now. Another program at the address of the Pod
// is not accepted: the agent must have the certificate of the node. The connection is opened by the first call.
func (d *Dialer) Dial(ctx context.Context, node string) (*grpc.ClientConn, error) {
	address, err := agentpod.Address(ctx, d.Live, d.Namespace, node, wellknown.AgentPort)
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
