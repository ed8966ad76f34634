//go:build env

package copies

import (
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/cluster/agentpod"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// TestAnAgentFindsTheOthers: it may list the Pods of its namespace, and the API server selects those of a node.
func TestAnAgentFindsTheOthers(t *testing.T) {
	config, err := server.AsNodeAgent("node1")
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a := &Agents{Live: live, Namespace: env.Namespace}
		if _, err := a.Of(t.Context(), "node2"); !errors.Is(err, agentpod.ErrNone) {
			t.Errorf("got %v", err)
		}
	}
	a := &Agents{Live: live, Namespace: "default"}
	if _, err := a.Of(t.Context(), "node2"); err == nil || errors.Is(err, agentpod.ErrNone) {
		t.Errorf("another namespace: got %v", err)
	}
}
